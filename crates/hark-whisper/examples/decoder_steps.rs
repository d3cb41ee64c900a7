//! Times decoding steps, on generated weights, beside a plain read of memory at that moment.
//!
//! `cargo run --release -p hark-whisper --example decoder_steps -- [rounds] [windows] [rows] [position] [isa] [shape]`
//!
//! A step must read the decoder's weights and the keys and values of every window once. A shared machine's memory is
//! quicker at some moments than at others, so every step stands between two reads of a large buffer.
#![allow(clippy::print_stdout)]

mod shapes;

use std::hint::black_box;
use std::time::Instant;

use hark_whisper::backend::{Ask, Backend, Entry, Rules, TokenMap};
use hark_whisper::cpu::buffer::Buffer;
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};

/// Bytes a second of a plain read by all threads.
fn reading(compute: &Compute, data: &Buffer<f32>) -> f64 {
    const PIECE: usize = 1 << 20;
    let start = Instant::now();
    compute.each(data.len() / PIECE, |piece, _| {
        let mut lanes = [0f32; 64];
        for line in data[piece * PIECE..(piece + 1) * PIECE].chunks_exact(64) {
            for lane in 0..64 {
                lanes[lane] += line[lane];
            }
        }
        black_box(lanes);
    });
    (data.len() * 4) as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |otherwise: usize| args.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let rounds = number(40);
    let (windows, beam, position) = (number(16), number(5), number(0));
    let isa: Isa = args.next().map_or_else(Isa::best, |text| text.parse().expect("an instruction set"));
    let dims = shapes::dims_of(args.next().as_deref().unwrap_or("base"));

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = CpuOptions { threads, isa, weights: Weights::Int8, slots: windows, rows: beam, memories: 0 };
    let tokens = TokenMap { end: 50_257, first_time: dims.n_vocab as u32 - 1501, ..TokenMap::default() };
    let mut backend = CpuBackend::load(&shapes::generated(dims), tokens, options).expect("all tensors are generated");
    let mel: Vec<f32> = (0..3000 * dims.n_mels).map(|index| (index * 7919 % 997) as f32 / 500.0 - 1.0).collect();
    (0..windows).for_each(|slot| backend.encode(&[(slot, &mel)]));

    let rules = Rules { text: true, end: true, at_start: false, times: None };
    let ask = Some(Ask { rules, best: beam + 1, draw: None, no_speech: false, languages: false });
    let mut step = |position: usize| {
        let entries: Vec<Entry> = (0..windows)
            .flat_map(|slot| (0..beam).map(move |row| Entry { slot, row, parent: row, position, token: 1000, ask }))
            .collect();
        black_box(backend.step(&entries));
    };
    (0..position).for_each(&mut step);

    let compute = Compute::new(threads, isa);
    let mut data = Buffer::<f32>::zeroed(64 << 20);
    data.fill(1.0);
    let weights = dims.n_text_layer * 14 * dims.n_text_state * dims.n_text_state + dims.n_vocab * dims.n_text_state;
    let bytes = (weights + windows * 2 * dims.n_text_layer * dims.n_audio_ctx * dims.n_text_state) as f64;
    let done: Vec<(f64, f64)> = (0..rounds)
        .map(|_| {
            let before = reading(&compute, &data);
            let start = Instant::now();
            step(position);
            let seconds = start.elapsed().as_secs_f64();
            (seconds, before.max(reading(&compute, &data)))
        })
        .collect();
    let best = done.iter().map(|&(seconds, _)| seconds).fold(f64::INFINITY, f64::min);
    let top = done.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let middle = median(done.iter().map(|&(seconds, _)| seconds).collect());
    let times = median(done.iter().map(|&(seconds, rate)| seconds * rate / bytes).collect());
    println!(
        "{} kernels, {windows} windows × {beam} rows, position {position}: {:.2} ms at best, {:.2} as a median; {:.0} MB \
         read, at best at {:.1} GB/s; {:.2} × the time of reading them (best over best {:.2})",
        isa.name(),
        best * 1e3,
        middle * 1e3,
        bytes / 1e6,
        top / 1e9,
        times,
        best * top / bytes
    );
}
