//! `hark bench kernels`: each kernel beside what this machine was just seen to do at best.
//!
//! The peaks are measured, not looked up: products on data that stays in the first-level cache, and a plain read of a
//! large buffer, both by all threads at once. A shared machine slows down for moments, so the best of many rounds
//! counts, for the peaks and the kernels alike. Its memory is quicker at some moments than at others, so steps of the
//! decoder, which are all reading, have a read before each of them to be compared with.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use hark_compute::bandwidth::Reading;
use hark_compute::buffer::Buffer;
use hark_compute::kernels::int8::{INT8_DEPTH, INT8_TILE, Int8Block};
use hark_compute::kernels::{BLOCK, Block, DEPTH, TILE};
use hark_compute::linear::{Linear, Rows, matmul, store_bf16};
use hark_compute::view::MatMut;
use hark_models::ModelStore;
use hark_whisper::backend::{Admission, Backend, Entry, TokenMap, TokenQuery, TokenRules};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::weights::Checkpoint;

use super::error::BenchError;

/// Arguments of `hark bench kernels`.
#[derive(Debug, Args)]
pub(super) struct KernelsArgs {
    /// Kernels to measure [default: the machine's best]
    #[arg(long, env = "HARK_ISA")]
    isa: Option<Isa>,
    /// How the linear layers are kept: int8 or bf16
    #[arg(long, default_value = "int8")]
    weights: Weights,
    /// Threads that compute [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Model whose shapes and weights are used
    #[arg(long, default_value = "whisper-base")]
    model: String,
    /// Rounds of each measurement
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Write the figures as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One line of the table.
#[derive(Debug, serde::Serialize)]
struct Figure {
    name: String,
    best_ms: f64,
    /// Work a second: 10^9 operations or bytes.
    rate: f64,
    unit: &'static str,
    share_of_peak: f64,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: "hark".to_owned(), error: error.to_string() }
}

/// The seconds of the quickest of `rounds` calls.
fn best(rounds: usize, mut work: impl FnMut()) -> f64 {
    (0..rounds.max(1))
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

pub(super) fn run(args: &KernelsArgs) -> Result<(), BenchError> {
    let isa = args.isa.unwrap_or_else(Isa::best);
    if !isa.is_available() {
        return Err(BenchError::System {
            system: "hark".to_owned(),
            error: format!("this machine has no {}", isa.name()),
        });
    }
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let compute = Compute::new(threads, isa);
    let reading = Reading::new();
    let flops = peak_products(&compute, args.weights, args.rounds);
    let bytes = (
        reading.bytes(),
        best(args.rounds.min(20), || {
            reading.read(&compute);
        }),
    );
    let mut figures = vec![
        figure("peak: products in the first-level cache", flops.1, flops.0, flops.0 / flops.1, "GFLOP/s"),
        figure("peak: reading 256 MB", bytes.1, bytes.0, bytes.0 / bytes.1, "GB/s"),
    ];
    let (flops, bytes) = (flops.0 / flops.1, bytes.0 / bytes.1);

    let folder = model_folder(&args.model)?;
    let checkpoint = Checkpoint::open(&folder).map_err(failed)?;
    let dims = checkpoint.dims;
    let (frames, width) = (dims.n_audio_ctx, dims.n_audio_state);
    for (name, rows, inputs, outputs) in [
        ("encoder: queries, keys, values", frames, width, 3 * width),
        ("encoder: attention output", frames, width, width),
        ("encoder: MLP up", frames, width, 4 * width),
        ("encoder: MLP down", frames, 4 * width, width),
    ] {
        let (seconds, _) = linear(&compute, rows, inputs, outputs, args);
        let work = 2.0 * (rows * inputs * outputs) as f64;
        figures.push(figure(name, seconds, work, flops, "GFLOP/s"));
    }
    for (name, rows) in [("decoder: all scores, 5 rows", 5), ("decoder: all scores, 80 rows", 80)] {
        let (seconds, read) = linear(&compute, rows, width, dims.n_vocab, args);
        figures.push(figure(name, seconds, read, bytes, "GB/s"));
    }
    whole_network(&checkpoint, args, &compute, (flops, &reading), &mut figures)?;

    let mut table = format!(
        "{} kernels, {} weights, {threads} threads, {} shapes, best of {} rounds\n\n",
        isa.name(),
        args.weights.name(),
        args.model,
        args.rounds
    );
    for figure in &figures {
        let Figure { name, best_ms, rate, unit, share_of_peak } = figure;
        table += &format!("{name:<44} {best_ms:>9.3} ms {rate:>9.1} {unit:<8} {:>4.0} %\n", share_of_peak * 100.0);
    }
    crate::print(&table)?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&figures).map_err(BenchError::Json)?;
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

fn figure(name: &str, seconds: f64, work: f64, peak: f64, unit: &'static str) -> Figure {
    let rate = work / seconds;
    Figure { name: name.to_owned(), best_ms: seconds * 1e3, rate: rate / 1e9, unit, share_of_peak: rate / peak }
}

fn model_folder(name: &str) -> Result<PathBuf, BenchError> {
    let folder = ModelStore::default_dir().join(name);
    if folder.is_dir() { Ok(folder) } else { Err(BenchError::NoModel { model: name.to_owned(), folder }) }
}

/// `(operations, seconds)` of product blocks whose operands stay in the first-level cache, on all threads.
fn peak_products(compute: &Compute, weights: Weights, rounds: usize) -> (f64, f64) {
    /// Bytes of an activation row, and of a column's weights.
    const BYTES_IN_CACHE: usize = 512;
    const REPEATS: usize = 400;
    let mut sums: Vec<Buffer<f32>> = (0..compute.threads()).map(|_| Buffer::zeroed(BLOCK * BLOCK)).collect();
    let places: Vec<usize> = sums.iter_mut().map(|sums| sums.as_mut_ptr() as usize).collect();
    let (mut rows, mut panels) =
        (Buffer::<u16>::zeroed(BLOCK * BYTES_IN_CACHE / 2), Buffer::<u16>::zeroed(BLOCK * BYTES_IN_CACHE / 2));
    rows.iter_mut().chain(panels.iter_mut()).enumerate().for_each(|(index, x)| *x = 0x3c00 | (index % 509) as u16);
    let right = &panels[panels.len() / 2..];
    let scales = Buffer::<f32>::zeroed(BLOCK);
    let offsets = Buffer::<i32>::zeroed(BLOCK);
    let bf16 = |sums: *mut f32| Block {
        a: rows.as_ptr(),
        a_stride: BYTES_IN_CACHE / 2,
        left: panels.as_ptr(),
        right: right.as_ptr(),
        c: sums,
        c_stride: BLOCK,
        depth: BYTES_IN_CACHE / 2 / DEPTH,
        rows: BLOCK,
        accumulate: false,
    };
    let int8 = |sums: *mut f32| Int8Block {
        a: rows.as_ptr().cast(),
        a_stride: BYTES_IN_CACHE,
        left: panels.as_ptr().cast(),
        right: right.as_ptr().cast(),
        sums: sums.cast(),
        depth: BYTES_IN_CACHE / INT8_DEPTH,
        rows: BLOCK,
        offsets: offsets.as_ptr(),
        is_first: true,
        is_last: true,
        row_scales: scales.as_ptr(),
        column_scales: scales.as_ptr(),
    };
    const { assert!(TILE * 2 == INT8_TILE, "tiles of both kinds are as large") };
    let seconds = best(rounds, || {
        compute.parallel_for(compute.threads(), |piece, _| {
            let sums = places[piece] as *mut f32;
            for _ in 0..REPEATS {
                // SAFETY: the buffers have the stated shapes, and each piece has its own sums.
                unsafe {
                    match weights {
                        Weights::Bf16 => (compute.kernels().block)(&bf16(sums)),
                        Weights::Int8 => (compute.int8().block)(&int8(sums)),
                    }
                }
            }
        });
    });
    let depth = match weights {
        Weights::Bf16 => BYTES_IN_CACHE / 2,
        Weights::Int8 => BYTES_IN_CACHE,
    };
    ((2 * BLOCK * BLOCK * depth * REPEATS * compute.threads()) as f64, seconds)
}

/// Seconds of one linear layer of that shape, and the bytes of its weights.
fn linear(compute: &Compute, rows: usize, inputs: usize, outputs: usize, args: &KernelsArgs) -> (f64, f64) {
    let weights: Vec<f32> = (0..outputs * inputs).map(|index| (index % 251) as f32 / 251.0 - 0.5).collect();
    let layer = Linear::pack(&weights, outputs, inputs, None, args.weights);
    let stride = inputs + 32;
    let mut input = Buffer::<u16>::zeroed((rows + 2 * BLOCK) * stride);
    input.iter_mut().enumerate().for_each(|(index, x)| *x = 0x3c00 | (index % 509) as u16);
    let columns = layer.columns();
    let mut out = Buffer::<u16>::zeroed(rows * columns);
    let view = Rows::new(&input, stride, rows);
    // SAFETY: a product gives every block once.
    let store = unsafe { store_bf16(compute, MatMut::new(&mut out, rows, columns, columns), false) };
    let seconds = best(args.rounds, || matmul(compute, view, &layer, &store));
    (seconds, layer.bytes() as f64)
}

/// The encoder and whole decoding steps on the model's own weights.
fn whole_network(
    checkpoint: &Checkpoint,
    args: &KernelsArgs,
    compute: &Compute,
    (flops, reading): (f64, &Reading),
    figures: &mut Vec<Figure>,
) -> Result<(), BenchError> {
    const SLOTS: usize = 16;
    const BEAM: usize = 5;
    let dims = checkpoint.dims;
    let tokens = TokenMap { end: 50_257, first_timestamp: dims.n_vocab as u32 - 1501, ..TokenMap::default() };
    let options = CpuOptions { weights: args.weights, slots: SLOTS, rows: BEAM, encoder_caches: 0 };
    let mut backend = CpuBackend::load(checkpoint, tokens, compute, options).map_err(failed)?;
    let mel: Vec<f32> = (0..3000 * dims.n_mels).map(|index| (index % 97) as f32 / 97.0 - 0.5).collect();

    let (frames, width, layers) = (dims.n_audio_ctx as f64, dims.n_audio_state as f64, dims.n_audio_layer as f64);
    let convolutions = 2.0 * frames * width * (2.0 * 3.0 * dims.n_mels as f64 + 3.0 * width);
    let work = convolutions + layers * (24.0 * frames * width * width + 4.0 * frames * frames * width);
    let seconds = best(args.rounds, || drop(backend.encoder_states(&mel)));
    figures.push(figure("encoder: a whole window", seconds, work, flops, "GFLOP/s"));

    for slot in 0..SLOTS {
        backend.encode(&[Admission::once(slot, &mel)]).map_err(failed)?;
    }
    let (text_width, text_layers) = (dims.n_text_state as f64, dims.n_text_layer as f64);
    let bytes_a_weight = match args.weights {
        Weights::Bf16 => 2.0,
        Weights::Int8 => 1.0,
    };
    let weights = bytes_a_weight * (text_layers * 14.0 * text_width * text_width + dims.n_vocab as f64 * text_width);
    // Keys and values are kept in one byte each.
    let a_window = 2.0 * text_layers * frames * text_width;
    let rules = TokenRules { text: true, end: true, at_start: false, timestamps: None };
    let query = Some(TokenQuery { rules, top_k: BEAM + 1, sampling: None, no_speech: false, languages: false });
    for (windows, beam) in [(1, 1), (1, BEAM), (8, 1), (SLOTS, 1), (SLOTS, BEAM)] {
        let (mut seconds, mut read) = (f64::INFINITY, f64::INFINITY);
        for position in 0..args.rounds.max(1) {
            let entries: Vec<Entry> = (0..windows)
                .flat_map(|slot| {
                    (0..beam).map(move |row| Entry { slot, row, parent: row, position, token: 1000, query })
                })
                .collect();
            read = read.min(reading.read(compute));
            seconds = seconds.min(best(1, || drop(black_box(backend.step(&entries)))));
        }
        let bytes = reading.bytes() / read;
        let name = format!("decoder: a step of {windows} windows × {beam} rows");
        figures.push(figure(&name, seconds, weights + windows as f64 * a_window, bytes, "GB/s"));
    }
    Ok(())
}
