//! Times decoding steps, on generated weights, beside a plain read of memory at that moment.
//!
//! `cargo run --release -p hark-whisper --example decoder_steps -- [rounds] [windows] [rows] [position] [isa] [shape]`
//!
//! A step must read the decoder's weights and the keys and values of every window once. A shared machine's memory is
//! quicker at some moments than at others, so a large buffer is read before every step.
#![allow(clippy::print_stdout)]

mod shapes;

use std::hint::black_box;
use std::time::Instant;

use hark_compute::bandwidth::Reading;
use hark_whisper::backend::{Admission, Backend, Entry, TokenMap, TokenQuery, TokenRules};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |otherwise: usize| args.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let rounds = number(40);
    let (windows, beam, position) = (number(16), number(5), number(0));
    let isa: Isa = args.next().map_or_else(Isa::best, |text| text.parse().expect("an instruction set"));
    let dims = shapes::dims_of(args.next().as_deref().unwrap_or("base"));

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let compute = Compute::new(threads, isa);
    let options = CpuOptions { weights: Weights::Int8, slots: windows, rows: beam, encoder_caches: 0 };
    let tokens = TokenMap { end: 50_257, first_timestamp: dims.n_vocab as u32 - 1501, ..TokenMap::default() };
    let mut backend =
        CpuBackend::load(&shapes::generated(dims), tokens, &compute, options).expect("all tensors are generated");
    let mel: Vec<f32> = (0..3000 * dims.n_mels).map(|index| (index * 7919 % 997) as f32 / 500.0 - 1.0).collect();
    for slot in 0..windows {
        backend.encode(&[Admission::once(slot, &mel)]).expect("a window is encoded");
    }

    let rules = TokenRules { text: true, end: true, at_start: false, timestamps: None };
    let query = Some(TokenQuery { rules, top_k: beam + 1, sampling: None, no_speech: false, languages: false });
    let mut step = |position: usize| {
        let entries: Vec<Entry> = (0..windows)
            .flat_map(|slot| (0..beam).map(move |row| Entry { slot, row, parent: row, position, token: 1000, query }))
            .collect();
        black_box(backend.step(&entries).expect("a step is done"));
    };
    (0..position).for_each(&mut step);

    let reading = Reading::new();
    let weights = dims.n_text_layer * 14 * dims.n_text_state * dims.n_text_state + dims.n_vocab * dims.n_text_state;
    let bytes = (weights + windows * 2 * dims.n_text_layer * dims.n_audio_ctx * dims.n_text_state) as f64;
    let (mut seconds, mut read) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        read = read.min(reading.read(&compute));
        let start = Instant::now();
        step(position);
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    let rate = reading.bytes() / read;
    println!(
        "{} kernels, {windows} windows × {beam} rows, position {position}: {:.2} ms at best; {:.0} MB read, at best at \
         {:.1} GB/s: {:.2} × the time of reading them",
        isa.name(),
        seconds * 1e3,
        bytes / 1e6,
        rate / 1e9,
        seconds * rate / bytes
    );
}
