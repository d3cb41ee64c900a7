// Passages of all your transcripts in which something is said, best first. cargo add serde_json; cargo add ureq -F json
use serde_json::Value;
use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);

    let found: Value = ureq::get(format!("{url}/v1/search"))
        .query("q", "apples and bread")
        .query("limit", "5")
        .header("Authorization", format!("Bearer {key}"))
        .call()?
        .body_mut()
        .read_json()?;

    for hit in found["hits"].as_array().into_iter().flatten() {
        println!("{}, {} s: {}", hit["title"], hit["start_time"], hit["text"]);
    }
    Ok(())
}
