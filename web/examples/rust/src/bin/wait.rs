// A long recording: the answer comes at once, the transcript when it is ready. cargo add serde_json; cargo add ureq -F json,multipart
use serde_json::Value;
use std::{env, error::Error, thread::sleep, time::Duration};
use ureq::unversioned::multipart::Form;

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let key = format!("Bearer {key}");
    let recording = env::args().nth(1).ok_or("which file?")?;

    let accepted: Value = ureq::post(format!("{url}/v1/transcribe"))
        .header("Authorization", &key)
        .header("Prefer", "respond-async")
        .send(Form::new().file("file", &recording)?)?
        .body_mut()
        .read_json()?;
    let id = accepted["id"].as_i64().ok_or("no transcript")?;

    loop {
        let state: Value = ureq::get(format!("{url}/v1/transcripts/{id}/status")).call()?.body_mut().read_json()?;
        println!("{} {} %", state["status"], state["progress"]);
        match state["status"].as_str() {
            Some("completed") => break,
            Some("failed") => return Err(state["error"].to_string().into()),
            _ => sleep(Duration::from_secs(2)),
        }
    }

    let transcript: Value =
        ureq::get(format!("{url}/v1/transcripts/{id}")).header("Authorization", &key).call()?.body_mut().read_json()?;
    println!("{}", transcript["text"].as_str().unwrap_or(""));
    Ok(())
}
