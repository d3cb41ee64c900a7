//! Times the parts of one encoder window, on generated weights, beside the machine's ceiling of that moment.
//!
//! `cargo run --release -p hark-whisper --example encoder_parts -- [rounds] [isa] [bf16|int8] [threads] [shape]`
//!
//! A shared machine gives its tiles at full speed at some moments and not at others. So every window stands between two
//! short runs of bare products on all threads at once, and a window counts as undisturbed if both were nearly as fast
//! as the fastest.
#![allow(clippy::print_stdout)]

mod shapes;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hark_compute::buffer::Buffer;
use hark_compute::kernels::{BLOCK, Block, DEPTH};
use hark_whisper::backend::TokenMap;
use hark_whisper::cpu::times::Part;
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::weights::Dims;

/// A ceiling this near to the best one is the machine's full speed.
const UNDISTURBED: f64 = 0.93;

/// One window and what stood around it.
struct Round {
    whole: Duration,
    /// What one member spent in each part, on average.
    parts: [f64; Part::ALL.len()],
    /// The lower of the two ceilings, operations a second.
    ceiling: f64,
}

/// Operations a second of bf16 products on all threads at once, operands in the first-level cache.
fn ceiling(compute: &Compute, workspace: &mut [Buffer<f32>], rows: &Buffer<u16>, panels: &Buffer<u16>) -> f64 {
    const TILES: usize = 8;
    const REPEATS: usize = 600;
    let places: Vec<usize> = workspace.iter_mut().map(|sums| sums.as_mut_ptr() as usize).collect();
    // Threads wait for each other, so that all run at the same time, and look at their own watch.
    let (awake, slowest) = (AtomicUsize::new(0), AtomicU64::new(0));
    compute.parallel_for(places.len(), |piece, _| {
        let block = Block {
            a: rows.as_ptr(),
            a_stride: TILES * DEPTH + 32,
            left: panels.as_ptr(),
            right: panels[panels.len() / 2..].as_ptr(),
            c: places[piece] as *mut f32,
            c_stride: BLOCK,
            depth: TILES,
            rows: BLOCK,
            accumulate: false,
        };
        awake.fetch_add(1, Ordering::SeqCst);
        while awake.load(Ordering::SeqCst) < places.len() {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        for _ in 0..REPEATS {
            // SAFETY: the buffers have the stated shapes, and each piece has its own sums.
            unsafe { (compute.kernels().block)(&block) };
        }
        slowest.fetch_max(start.elapsed().as_nanos() as u64, Ordering::SeqCst);
    });
    let work = 2 * BLOCK * BLOCK * TILES * DEPTH * REPEATS * places.len();
    work as f64 / (slowest.into_inner() as f64 / 1e9)
}

/// Operations of each part of a window.
fn work_of(dims: &Dims, part: Part) -> f64 {
    let (frames, width, layers) = (dims.n_audio_ctx as f64, dims.n_audio_state as f64, dims.n_audio_layer as f64);
    let square = 2.0 * layers * frames * width * width;
    match part {
        Part::Convolutions => 2.0 * frames * width * 3.0 * (2.0 * dims.n_mels as f64 + width),
        Part::Norm => 0.0,
        Part::QueryKeyValue => 3.0 * square,
        Part::Attention => 4.0 * layers * frames * frames * width,
        Part::Out => square,
        Part::Up | Part::Down => 4.0 * square,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(200, |text| text.parse().expect("rounds are a number"));
    let isa: Isa = args.next().map_or_else(Isa::best, |text| text.parse().expect("an instruction set"));
    let weights: Weights = args.next().map_or(Weights::Int8, |text| text.parse().expect("bf16 or int8"));
    let threads: usize = args.next().map_or(2, |text| text.parse().expect("threads are a number"));
    // The decoder is not timed here.
    let dims = Dims { n_text_layer: 1, ..shapes::dims_of(args.next().as_deref().unwrap_or("base")) };

    let compute = Compute::new(threads, isa);
    let options = CpuOptions { weights, slots: 1, rows: 1, encoder_caches: 0 };
    let tokens = TokenMap { end: 50_257, first_timestamp: dims.n_vocab as u32 - 1501, ..TokenMap::default() };
    let mut backend =
        CpuBackend::load(&shapes::generated(dims), tokens, &compute, options).expect("all tensors are generated");
    let mel: Vec<f32> = (0..3000 * dims.n_mels).map(|index| (index * 7919 % 997) as f32 / 500.0 - 1.0).collect();
    let mut workspace: Vec<Buffer<f32>> = (0..threads).map(|_| Buffer::zeroed(BLOCK * BLOCK)).collect();
    let (mut rows, mut panels) = (Buffer::<u16>::zeroed(BLOCK * 288), Buffer::<u16>::zeroed(BLOCK * 256));
    rows.iter_mut().chain(panels.iter_mut()).enumerate().for_each(|(index, x)| *x = 0x3c00 | (index % 509) as u16);

    let done: Vec<Round> = (0..rounds)
        .map(|_| {
            let before = ceiling(&compute, &mut workspace, &rows, &panels);
            let start = Instant::now();
            let parts = backend.time_encoder(&mel).map(|part| part.as_secs_f64() / threads as f64);
            let whole = start.elapsed();
            let after = ceiling(&compute, &mut workspace, &rows, &panels);
            Round { whole, parts, ceiling: before.min(after) }
        })
        .collect();

    let top = done.iter().map(|round| round.ceiling).fold(0.0, f64::max);
    let calm: Vec<&Round> = done.iter().filter(|round| round.ceiling >= UNDISTURBED * top).collect();
    let ceilings = median(done.iter().map(|round| round.ceiling).collect());
    println!(
        "{} kernels, {} weights, {threads} threads; ceiling for bf16 {:.0} GFLOP/s at best, {:.0} as a median; {} of {rounds} rounds undisturbed",
        isa.name(),
        weights.name(),
        top / 1e9,
        ceilings / 1e9,
        calm.len()
    );
    println!("{:<16}{:>10}{:>10}{:>12}{:>12}", "ms", "best", "median", "undisturbed", "GFLOP/s");
    let line = |name: &str, work: f64, time: &dyn Fn(&Round) -> f64| {
        let all = || done.iter().map(time);
        let best = all().fold(f64::INFINITY, f64::min);
        let undisturbed = median(calm.iter().map(|round| time(round)).collect());
        let median = median(all().collect());
        println!(
            "{name:<16}{:>10.2}{:>10.2}{:>12.2}{:>12.0}",
            best * 1e3,
            median * 1e3,
            undisturbed * 1e3,
            work / undisturbed / 1e9
        );
    };
    for (index, part) in Part::ALL.into_iter().enumerate() {
        line(&format!("{part:?}"), work_of(&dims, part), &|round| round.parts[index]);
    }
    line("waiting", 0.0, &|round| round.whole.as_secs_f64() - round.parts.iter().sum::<f64>());
    let work = Part::ALL.iter().map(|&part| work_of(&dims, part)).sum();
    line("whole", work, &|round| round.whole.as_secs_f64());
}
