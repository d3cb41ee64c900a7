// A summary of a stored transcript. cargo add serde_json; cargo add ureq -F json
use serde_json::{Value, json};
use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let id = env::args().nth(1).ok_or("which transcript?")?;

    // Or: brief, detailed, executive, action_items
    let answer: Value = ureq::post(format!("{url}/v1/transcripts/{id}/summarize"))
        .header("Authorization", format!("Bearer {key}"))
        .send_json(json!({"style": "bullet_points"}))?
        .body_mut()
        .read_json()?;
    println!("{}", answer["summary"].as_str().unwrap_or(""));
    Ok(())
}
