//! `hark bench gpu`: the network on a GPU, with generated weights of large-v3-turbo's shape.

use std::path::PathBuf;

use clap::Args;
use hark_cuda::cuda::{CudaDevice, CudaOptions, libraries};
use hark_cuda::device::Device as _;
use hark_cuda::speed::{Bound, SpeedOptions, kernels, windows};
use hark_models::ModelStore;

use crate::error::BenchError;

/// Arguments of `hark bench gpu`.
#[derive(Debug, Args)]
pub(super) struct GpuArgs {
    /// The number of the GPU
    #[arg(long, default_value_t = 0)]
    gpu: usize,
    /// Windows decoded at once, with commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64, 128])]
    batches: Vec<usize>,
    /// Tokens of a window
    #[arg(long, default_value_t = 100)]
    tokens: usize,
    /// Rounds of each measurement, of which the fastest counts
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Write the figures as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, serde::Serialize)]
struct Kernel {
    name: String,
    microseconds: f64,
    /// 10^12 operations or bytes a second.
    rate: f64,
    unit: &'static str,
    share_of_peak: f64,
}

#[derive(Debug, serde::Serialize)]
struct Windows {
    windows: usize,
    encode_milliseconds: f64,
    step_microseconds: f64,
    times_real_time: f64,
}

#[derive(Debug, serde::Serialize)]
struct Report {
    gpu: String,
    kernels: Vec<Kernel>,
    windows: Vec<Windows>,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: "hark".to_owned(), error: error.to_string() }
}

pub(super) fn run(args: &GpuArgs) -> Result<(), BenchError> {
    let folder = ModelStore::default_dir();
    let (installed, cache) = (libraries::installed_in(&folder), libraries::kernels_in(&folder));
    let cuda = CudaOptions { ordinal: args.gpu, libraries: installed.to_vec(), cache: Some(cache) };
    let device = CudaDevice::open(&cuda).map_err(failed)?;
    let gpu = device.name();
    let measured = kernels(&device, args.rounds).map_err(failed)?;
    let peak = |bound: Bound| {
        let of_kind = measured.iter().find(|kernel| kernel.bound == bound);
        of_kind.map_or(f64::INFINITY, |kernel| kernel.work / kernel.seconds)
    };
    let kernels = measured.iter().map(|kernel| Kernel {
        name: kernel.name.clone(),
        microseconds: kernel.seconds * 1e6,
        rate: kernel.work / kernel.seconds / 1e12,
        unit: if kernel.bound == Bound::Products { "TFLOP/s" } else { "TB/s" },
        share_of_peak: kernel.work / kernel.seconds / peak(kernel.bound),
    });
    let kernels: Vec<Kernel> = kernels.collect();
    let defaults = SpeedOptions::default();
    let batches = args.batches.iter().copied().filter(|&batch| batch > 0).collect();
    let options = SpeedOptions { batches, tokens: args.tokens, rounds: args.rounds, ..defaults };
    let windows = windows(device, &options).map_err(failed)?.into_iter().map(|speed| Windows {
        windows: speed.windows,
        encode_milliseconds: speed.encode * 1e3,
        step_microseconds: speed.step * 1e6,
        times_real_time: speed.times_real_time,
    });
    let report = Report { gpu, kernels, windows: windows.collect() };
    crate::print(&table(&report, args))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report).map_err(BenchError::Json)?;
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

fn table(report: &Report, args: &GpuArgs) -> String {
    let GpuArgs { tokens, rounds, .. } = args;
    let mut table =
        format!("{}, large-v3-turbo's shape with generated weights, bf16, best of {rounds} rounds\n\n", report.gpu);
    for Kernel { name, microseconds, rate, unit, share_of_peak } in &report.kernels {
        let share = share_of_peak * 100.0;
        table += &format!("{name:<44} {microseconds:>9.1} µs {rate:>8.2} {unit:<8} {share:>4.0} %\n");
    }
    table += &format!(
        "\n| windows | encoder, ms a window | step, µs | × real time, {tokens} tokens a window |\n|---|---|---|---|\n"
    );
    for Windows { windows, encode_milliseconds, step_microseconds, times_real_time } in &report.windows {
        table += &format!("| {windows} | {encode_milliseconds:.2} | {step_microseconds:.0} | {times_real_time:.0} |\n");
    }
    table
}
