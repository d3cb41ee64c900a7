// The paths of OpenAI's API, on this server: clients such as async-openai take the same base address. cargo add ureq -F multipart
use std::{env, error::Error};
use ureq::unversioned::multipart::Form;

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let recording = env::args().nth(1).ok_or("which file?")?;

    let text = ureq::post(format!("{url}/v1/audio/transcriptions"))
        .header("Authorization", format!("Bearer {key}"))
        .send(Form::new().text("model", "whisper-1").text("response_format", "text").file("file", &recording)?)?
        .body_mut()
        .read_to_string()?;
    println!("{text}");
    Ok(())
}
