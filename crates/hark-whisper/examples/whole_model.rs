//! Decodes windows with a whole network of generated weights, for shapes whose weights are not at hand: what an encoder
//! window and a step cost, and how much memory it all takes.
//!
//! `cargo run --release -p hark-whisper --example whole_model -- [shape] [slots] [tokens] [isa] [bf16|int8] [threads]`
#![allow(clippy::print_stdout)]

mod shapes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hark_whisper::backend::TokenMap;
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Language, Outcome};
use hark_whisper::tokenizer::Tokenizer;

const BEAM: usize = 5;

/// Megabytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or(0) / 1000
}

fn average(work: (u64, Duration), before: (u64, Duration)) -> f64 {
    (work.1 - before.1).as_secs_f64() * 1e3 / (work.0 - before.0).max(1) as f64
}

fn main() {
    let mut args = std::env::args().skip(1);
    let shape = args.next().unwrap_or_else(|| "turbo".to_owned());
    let slots: usize = args.next().map_or(8, |text| text.parse().expect("slots are a number"));
    let tokens: usize = args.next().map_or(50, |text| text.parse().expect("tokens are a number"));
    let isa: Isa = args.next().map_or_else(Isa::best, |text| text.parse().expect("an instruction set"));
    let weights: Weights = args.next().map_or(Weights::Int8, |text| text.parse().expect("bf16 or int8"));
    let threads: usize = args.next().map_or(2, |text| text.parse().expect("threads are a number"));

    let dims = shapes::dims_of(&shape);
    let begun = Instant::now();
    let checkpoint = shapes::generated(dims);
    let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
    // Texts are to have their full length, so the end never comes.
    let map = TokenMap {
        end: tokenizer.eot,
        no_speech: Some(tokenizer.no_speech),
        first_timestamp: tokenizer.timestamp_begin,
        suppress_tokens: vec![tokenizer.eot],
        languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
        ..TokenMap::default()
    };
    let compute = Compute::new(threads, isa);
    let options = CpuOptions { weights, slots, rows: BEAM, encoder_caches: 0 };
    let backend = CpuBackend::load(&checkpoint, map, &compute, options).expect("all tensors are generated");
    let mut engine = Engine::new(backend, tokenizer);
    println!(
        "{shape}, {} kernels, {} weights, {threads} threads, {slots} slots: loaded in {:.1} s, {} MB",
        isa.name(),
        weights.name(),
        begun.elapsed().as_secs_f64(),
        resident()
    );
    let decode = Arc::new(DecodeOptions {
        language: Language::Detect { sure_from: 0.0 },
        beam: BEAM,
        temperatures: vec![0.0],
        words: true,
        max_tokens: tokens,
        ..DecodeOptions::default()
    });
    for windows in [1, slots] {
        let (before, begun) = (engine.stats(), Instant::now());
        for id in 0..windows as u64 {
            let value = |index: usize| (index * 7919 % (997 + id as usize)) as f32 / 500.0 - 1.0;
            let mel = (0..3000 * dims.n_mels).map(value).collect();
            let job = Job { id, mel, frames: 1500, options: Arc::clone(&decode), lane: 0, reencode: None };
            engine.admit(vec![job]).expect("a window is encoded");
        }
        let mut done = Vec::new();
        while engine.live() > 0 {
            let outcomes = engine.step(0).expect("a step is done");
            done.extend(outcomes.into_iter().map(|(id, outcome)| (id, outcome.timed(engine.tokenizer()))));
        }
        let texts =
            done.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Decoded(text) if text.tokens.len() == tokens));
        let stats = engine.stats();
        println!(
            "{windows} windows × beam {BEAM}, {tokens} tokens ({} texts of that length): {:.2} s; encoder {:.0} ms a window, {:.1} ms a \
             step of {windows}, {:.0} ms an alignment; {} MB",
            texts.count(),
            begun.elapsed().as_secs_f64(),
            average(stats.encoded, before.encoded),
            average(stats.stepped, before.stepped),
            average(stats.aligned, before.aligned),
            resident()
        );
    }
    engine.trim().expect("memory is given back");
    println!("idle: {} MB", resident());
}
