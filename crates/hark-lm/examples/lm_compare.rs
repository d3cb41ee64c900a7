//! Compares greedy answers and logits with those of another runtime.
//!
//! `cargo run --release -p hark-lm --example lm_compare -- MODEL.gguf PROMPT…`
//!
//! Beside each file PROMPT stand two files that the other runtime wrote: PROMPT.ref, whose first line has the count and the numbers of
//! the prompt's tokens and each further line a token that it generated, its second choice and the gap between their logits;
//! and PROMPT.logits, the logits behind the prompt as `f32`.

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::error::Error;
use std::path::Path;

use hark_compute::Compute;
use hark_lm::{BatchRow, KvCache, Model, Sampler, Sampling, Workspace};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((path, prompts)) = arguments.split_first() else {
        println!("usage: lm_compare MODEL.gguf PROMPT...");
        return Ok(());
    };
    let compute = Compute::from_options(Some(2), std::env::var("HARK_ISA").ok().and_then(|name| name.parse().ok()));
    let model = Model::load(&compute, Path::new(path))?;
    let mut workspace = Workspace::default();
    for prompt in prompts {
        let text = std::fs::read_to_string(prompt)?;
        let reference = std::fs::read_to_string(format!("{prompt}.ref"))?;
        let mut lines = reference.lines();
        let first = lines.next().unwrap_or_default().split(' ').skip(1);
        let expected: Vec<u32> = first.map(str::parse).collect::<Result<_, _>>()?;
        let tokens = model.tokenizer().encode_with_control(&text);
        println!("{prompt}: {} tokens, as the other runtime's: {}", tokens.len(), tokens == expected);

        let mut cache = KvCache::new(model.config(), 4096)?;
        let sequence = cache.create();
        let last = expected.len() - 1;
        let row = |(index, token): (usize, &u32)| BatchRow { sequence, token: *token, wants_logits: index == last };
        let rows: Vec<BatchRow> = expected.iter().enumerate().map(row).collect();
        let mut logits = model.forward(&mut workspace, &mut cache, &rows, &|| false)?.to_vec();
        let bytes = std::fs::read(format!("{prompt}.logits"))?;
        let other: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let squares =
            |of: &dyn Fn(usize) -> f32| (0..other.len()).map(|i| f64::from(of(i)).powi(2)).sum::<f64>().sqrt();
        let dot: f64 = logits.iter().zip(&other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        let cosine = dot / squares(&|i| logits[i]) / squares(&|i| other[i]);
        let rms = squares(&|i| logits[i] - other[i]) / (other.len() as f64).sqrt();
        let largest = logits.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let spread = squares(&|i| other[i]) / (other.len() as f64).sqrt();
        println!("  logits: cosine {cosine:.6}, RMS difference {rms:.4} of {spread:.2}, largest {largest:.3}");

        let mut sampler = Sampler::new(Sampling::default());
        let (mut alike, mut parted) = (0, 0);
        // Both go on with the other's token, so that every step is compared.
        for line in lines {
            let mut parts = line.split(' ');
            let mut next = || parts.next().unwrap_or_default();
            let (token, gap) = (next().parse::<u32>()?, (next(), next()).1.to_owned());
            let own = sampler.sample(&logits, &[], None).unwrap_or(0);
            if own == token {
                alike += 1;
            } else {
                let behind = logits[own as usize] - logits[token as usize];
                println!(
                    "  token {}: {own} where the other has {token}, gaps {behind:.3} here, {gap} there",
                    alike + parted
                );
                parted += 1;
            }
            let row = BatchRow { sequence, token, wants_logits: true };
            logits = model.forward(&mut workspace, &mut cache, &[row], &|| false)?.to_vec();
        }
        println!("  greedy choice: {alike} alike, {parted} other");
    }
    Ok(())
}
