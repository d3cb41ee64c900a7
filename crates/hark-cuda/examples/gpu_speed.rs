//! How fast the network is on a GPU, with generated weights of large-v3-turbo's shape: what `hark bench gpu` measures, in a small program.
//!
//! `gpu_speed [windows encoded at once] [batch] [tokens]`: the last two for one batch alone, and once, under a profiler. All precisions in turn, or
//! the one of `HARK_GPU_PRECISION`.

#![allow(clippy::print_stdout)]

use hark_cuda::Precision;
use hark_cuda::cuda::{CudaDevice, CudaOptions};
use hark_cuda::speed::{Bound, SpeedOptions, kernels, windows};

/// The argument with this number, if it is there and a number.
fn argument(index: usize) -> Option<usize> {
    std::env::args().nth(index).and_then(|text| text.parse().ok())
}

fn main() {
    let folders = std::env::var_os("HARK_CUDA_LIBRARIES").map(|list| std::env::split_paths(&list).collect());
    let libraries: Vec<std::path::PathBuf> = folders.unwrap_or_default();
    let open = || CudaDevice::open(&CudaOptions { libraries: libraries.clone(), ..CudaOptions::default() });
    let mut options = SpeedOptions::default();
    options.encode_at_once = argument(1).unwrap_or(options.encode_at_once);
    options.tokens = argument(3).unwrap_or(options.tokens);
    match argument(2) {
        Some(batch) => (options.batches, options.rounds) = (vec![batch], 1),
        None => {
            for figure in kernels(&open().expect("a GPU"), options.rounds).expect("the kernels run") {
                let unit = if figure.bound == Bound::Products { "TFLOP/s" } else { "TB/s" };
                let rate = figure.work / figure.seconds / 1e12;
                println!("{:<44} {:>9.1} µs {rate:>8.2} {unit}", figure.name, figure.seconds * 1e6);
            }
        }
    }
    let wanted = std::env::var("HARK_GPU_PRECISION").ok().map(|text| text.parse::<Precision>().expect("a precision"));
    for precision in [Precision::Bf16, Precision::Fp8Windows, Precision::Fp8] {
        if wanted.is_some_and(|wanted| wanted != precision) {
            continue;
        }
        options.precision = precision;
        for rows in [1, 5] {
            options.rows = rows;
            println!("{precision:?}, {rows} rows a window: windows | encode ms a window | step µs | × real time");
            for speed in windows(open().expect("a GPU"), &options).expect("the network runs") {
                let (encode, step) = (speed.encode * 1e3, speed.step * 1e6);
                println!("{} | {encode:.3} | {step:.1} | {:.0}", speed.windows, speed.times_real_time);
            }
        }
    }
}
