// The words of a recording, with their times. cargo add serde_json; cargo add ureq -F json,multipart
use serde_json::Value;
use std::{env, error::Error};
use ureq::unversioned::multipart::Form;

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let recording = env::args().nth(1).ok_or("which file?")?;

    let transcript: Value = ureq::post(format!("{url}/v1/transcribe"))
        .header("Authorization", format!("Bearer {key}"))
        .send(Form::new().file("file", &recording)?)?
        .body_mut()
        .read_json()?;

    for segment in transcript["segments"].as_array().into_iter().flatten() {
        println!("{:8.2}  {}", segment["start"].as_f64().unwrap_or(0.0), segment["text"].as_str().unwrap_or(""));
    }
    Ok(())
}
