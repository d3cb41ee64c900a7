// A text, spoken. GET /v1/voices lists the voices. cargo add serde_json; cargo add ureq -F json
use serde_json::json;
use std::{env, error::Error, fs::File, io};

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);

    let answer = ureq::post(format!("{url}/v1/audio/speech"))
        .header("Authorization", format!("Bearer {key}"))
        .send_json(json!({
            "model": "tts-1",
            "voice": "af_heart",
            "input": "Good morning.",
            "response_format": "wav",
        }))?;
    io::copy(&mut answer.into_body().into_reader(), &mut File::create("speech.wav")?)?;
    Ok(())
}
