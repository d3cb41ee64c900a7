//! Measures a language model: prompt tokens a second, and generated tokens a second of one and more sequences.
//!
//! `cargo run --release -p hark-lm --example lm_speed -- MODEL.gguf [threads] [prompt] [generated] [sequences,…]`

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::path::Path;
use std::time::Instant;

use hark_compute::Compute;
use hark_lm::{BatchRow, KvCache, LmError, Model, Sampler, Sampling, Workspace};

fn main() -> Result<(), LmError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: usize| {
        arguments.get(index).and_then(|text| text.parse::<usize>().ok()).unwrap_or(otherwise)
    };
    let Some(path) = arguments.first() else {
        println!("usage: lm_speed MODEL.gguf [threads] [prompt tokens] [generated tokens] [sequences,...]");
        return Ok(());
    };
    let (threads, prompt, generated) = (number(1, 2), number(2, 512), number(3, 32));
    let batches: Vec<usize> = arguments
        .get(4)
        .map_or(vec![1, 4, 16], |text| text.split(',').filter_map(|count| count.parse().ok()).collect());
    let isa = std::env::var("HARK_ISA").ok().and_then(|name| name.parse().ok());
    let compute = Compute::from_options(Some(threads), isa);
    let began = Instant::now();
    let model = Model::load(&compute, Path::new(path))?;
    println!(
        "load: {:.2} s, {} MB packed, {}",
        began.elapsed().as_secs_f64(),
        model.bytes() >> 20,
        compute.isa().name()
    );
    let mut cache = KvCache::new(model.config(), 64 * 1024)?;
    let mut workspace = Workspace::default();
    let vocabulary = model.config().vocabulary as u32;
    let token = |index: usize| (index as u32 * 7919 + 17) % vocabulary.min(100_000);

    for _ in 0..3 {
        let sequence = cache.create();
        let rows: Vec<BatchRow> = (0..prompt)
            .map(|index| BatchRow { sequence, token: token(index), wants_logits: index + 1 == prompt })
            .collect();
        let began = Instant::now();
        model.forward(&mut workspace, &mut cache, &rows, &|| false)?;
        println!("prompt of {prompt}: {:.1} tokens/s", prompt as f64 / began.elapsed().as_secs_f64());
        cache.remove(sequence);
    }
    for count in batches {
        for _ in 0..2 {
            let sequences: Vec<_> = (0..count).map(|_| cache.create()).collect();
            let mut next: Vec<u32> = (0..count).map(token).collect();
            let mut sampler = Sampler::new(Sampling::default());
            let mut best = f64::MAX;
            let began = Instant::now();
            for _ in 0..generated {
                let rows: Vec<BatchRow> = sequences
                    .iter()
                    .zip(&next)
                    .map(|(sequence, token)| BatchRow { sequence: *sequence, token: *token, wants_logits: true })
                    .collect();
                let step = Instant::now();
                let logits = model.forward(&mut workspace, &mut cache, &rows, &|| false)?;
                for (row, logits) in logits.chunks_exact(vocabulary as usize).enumerate() {
                    next[row] = sampler.sample(logits, &[], None).unwrap_or(0);
                }
                best = best.min(step.elapsed().as_secs_f64());
            }
            let seconds = began.elapsed().as_secs_f64();
            let (mean, best) = ((count * generated) as f64 / seconds, count as f64 / best);
            println!("{count} sequences: {mean:.1} tokens/s (best step {best:.1})");
            sequences.into_iter().for_each(|sequence| cache.remove(sequence));
        }
    }
    Ok(())
}
