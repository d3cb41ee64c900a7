// Ask a stored transcript, and ask on. cargo add serde_json; cargo add ureq -F json
use serde_json::{Value, json};
use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let id = env::args().nth(1).ok_or("which transcript?")?;
    let mut session = Value::Null;

    for question in ["What are they going to buy?", "And where?"] {
        let answer: Value = ureq::post(format!("{url}/v1/transcripts/{id}/chat"))
            .header("Authorization", format!("Bearer {key}"))
            .send_json(json!({"question": question, "session_id": session}))?
            .body_mut()
            .read_json()?;
        session = answer["session_id"].clone();
        println!("{}", answer["answer"].as_str().unwrap_or(""));
        for source in answer["sources"].as_array().into_iter().flatten() {
            println!("    {} s: {}", source["start_time"], source["text"]);
        }
    }
    Ok(())
}
