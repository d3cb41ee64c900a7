//! Whisper large-v3-turbo's shape with generated weights on a GPU, engine alone: × real time at several batch sizes, 100 tokens a window.
//!
//! `gpu_speed [windows encoded at once] [batch] [tokens]`: the last two for one batch alone, and once, under a profiler.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use hark_cuda::cuda::{CudaDevice, CudaOptions};
use hark_cuda::{GpuBackend, GpuOptions};
use hark_numeric::SplitMix64;
use hark_whisper::backend::{Admission, Backend, Entry, TokenMap, TokenQuery, TokenRules};
use hark_whisper::mel::WINDOW_FRAMES;
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};

const TOKENS: usize = 100;
const ROUNDS: usize = 4;

/// The argument with this number, if it is there and a number.
fn argument(index: usize) -> Option<usize> {
    std::env::args().nth(index).and_then(|text| text.parse().ok())
}

fn main() {
    let turbo = Dims {
        n_mels: 128,
        n_audio_ctx: 1500,
        n_audio_state: 1280,
        n_audio_head: 20,
        n_audio_layer: 32,
        n_text_ctx: 448,
        n_text_state: 1280,
        n_text_head: 20,
        n_text_layer: 4,
        n_vocab: 51_866,
    };
    let mut random = SplitMix64::new(1);
    let noise: Vec<f32> = (0..1_000_003).map(|_| random.unit() * 2.0 - 1.0).collect();
    let vocabulary = Vocabulary::bytes_only(turbo.n_vocab);
    let checkpoint = Checkpoint::generated(turbo, vocabulary, move |name, shape| {
        let is_norm = name.contains("ln") && name.ends_with("weight");
        let inputs = shape.iter().skip(1).product::<usize>() as f32;
        let (scale, shift) = if is_norm { (0.1, 1.0) } else { (1.0 / inputs.max(1.0).sqrt().max(4.0), 0.0) };
        let start = name.bytes().fold(7usize, |hash, byte| (hash * 31 + usize::from(byte)) % noise.len());
        let rows = noise[start..].iter().chain(noise.iter().cycle());
        rows.take(shape.iter().product()).map(|x| x * scale + shift).collect()
    });
    let tokens = TokenMap { end: 50_257, first_timestamp: 50_365, no_speech: Some(50_363), ..TokenMap::default() };
    let encode_at_once = argument(1).unwrap_or(8);
    let (batches, rounds) = match argument(2) {
        Some(batch) => (vec![batch], 1),
        None => (vec![1, 16, 64, 128], ROUNDS),
    };
    let tokens_of_a_window = argument(3).unwrap_or(TOKENS);
    let begun = Instant::now();
    let folders = std::env::var_os("HARK_CUDA_LIBRARIES").map(|list| std::env::split_paths(&list).collect());
    let device = CudaDevice::open(&CudaOptions { libraries: folders.unwrap_or_default(), ..CudaOptions::default() })
        .expect("a GPU");
    eprintln!("opened after {:.2?}", begun.elapsed());
    let options = GpuOptions { slots: Some(130), rows: 1, encode_at_once };
    let mut backend = GpuBackend::load(device, &checkpoint, tokens, options).expect("it loads");
    eprintln!("loaded after {:.2?}, {:?}", begun.elapsed(), backend.memory());
    let mel: Vec<f32> = (0..WINDOW_FRAMES * turbo.n_mels).map(|_| random.unit() * 2.0 - 1.0).collect();
    println!("batch | encode ms a window | step µs | × real time | encoder alone");
    for batch in batches {
        let windows: Vec<Admission> = (0..batch).map(|slot| Admission::once(slot, &mel)).collect();
        let rules = TokenRules { text: true, end: false, at_start: false, timestamps: None };
        let query = Some(TokenQuery { rules, top_k: 1, sampling: None, no_speech: false, languages: false });
        let mut best = (f64::INFINITY, Duration::ZERO, Duration::ZERO);
        for _ in 0..rounds {
            let begun = Instant::now();
            backend.encode(&windows).expect("it encodes");
            let encoded = begun.elapsed();
            let mut last = vec![11u32; batch];
            for position in 0..tokens_of_a_window {
                let entries: Vec<Entry> = (0..batch)
                    .map(|slot| Entry { slot, row: 0, parent: 0, position, token: last[slot], query })
                    .collect();
                let answers = backend.step(&entries).expect("it steps");
                last.iter_mut().zip(answers).for_each(|(last, answer)| *last = answer.best[0].0);
            }
            let all = begun.elapsed();
            if all.as_secs_f64() < best.0 {
                best = (all.as_secs_f64(), encoded, all - encoded);
            }
        }
        let (all, encoded, decoded) = best;
        println!(
            "{batch} | {:.3} | {:.1} | {:.0} | {:.0}",
            encoded.as_secs_f64() * 1e3 / batch as f64,
            decoded.as_secs_f64() * 1e6 / tokens_of_a_window as f64,
            30.0 * batch as f64 / all,
            30.0 * batch as f64 / encoded.as_secs_f64(),
        );
    }
}
