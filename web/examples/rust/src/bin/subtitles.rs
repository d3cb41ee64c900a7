// Tell the speakers apart, and take the stored transcript as subtitles. cargo add ureq -F multipart
use std::{env, error::Error};
use ureq::unversioned::multipart::Form;

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let key = format!("Bearer {key}");
    let recording = env::args().nth(1).ok_or("which file?")?;

    let answer = ureq::post(format!("{url}/v1/transcribe"))
        .header("Authorization", &key)
        .send(Form::new().text("diarize", "true").file("file", &recording)?)?;
    let id = answer.headers().get("X-Transcript-Id").ok_or("no transcript")?.to_str()?;

    // Other formats: txt, vtt, json, csv, docx, pdf.
    let subtitles = ureq::get(format!("{url}/v1/transcripts/{id}/export/srt"))
        .header("Authorization", &key)
        .call()?
        .body_mut()
        .read_to_string()?;
    println!("{subtitles}");
    Ok(())
}
