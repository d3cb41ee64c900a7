//! Embeds the lines of a file and prints their vectors as JSON, or says how many it embeds a second.
//!
//! `cargo run --release -p hark-embed --example embed_lines -- MODEL_FOLDER FILE [ROUNDS]`

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::time::Instant;

use hark_compute::Compute;
use hark_embed::Embedder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file, rest @ ..] = &arguments[..] else { return Err("give a folder and a file".into()) };
    let embedder = Embedder::load(&Compute::from_options(None, None), folder.as_ref())?;
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<&str> = text.lines().collect();
    let embeddings = embedder.embed(&lines, &|| false)?;
    let Some(rounds) = rest.first() else {
        for embedding in embeddings {
            println!("{:?}", embedding.vector);
        }
        return Ok(());
    };
    let tokens: usize = embeddings.iter().map(|embedding| embedding.tokens).sum();
    let mut best = f64::INFINITY;
    for _ in 0..rounds.parse::<usize>()? {
        let start = Instant::now();
        embedder.embed(&lines, &|| false)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{} texts, {tokens} tokens: {:.0} texts/s", lines.len(), lines.len() as f64 / best);
    Ok(())
}
