//! Throughput of both networks: `cargo run --release -p hark-speakers --example network_speed -- [SECONDS] [THREADS]`.
//!
//! Ten-second windows every five seconds and pieces of 1.5 s every second, over synthetic audio: what a recording without a
//! pause takes. Prints times real time, best and median of several rounds, for each network and for both together.
//! `HARK_ISA` picks the kernels, `HARK_MODELS` the folder of the models.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hark_speakers::{Compute, Embedder, Isa, SAMPLE_RATE, Segmenter, WINDOW_SAMPLES};

const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: usize = arguments.next().map_or(Ok(325), |text| text.parse())?;
    let threads: usize = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let isa = std::env::var("HARK_ISA").map_or(Ok(Isa::best()), |name| name.parse())?;
    let models = std::env::var_os("HARK_MODELS")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/hark/models")))
        .ok_or("set HARK_MODELS to the folder of the models")?;
    let compute = Arc::new(Compute::new(threads, isa));
    let mut segmenter = Segmenter::load(&models.join("pyannote-segmentation-3"), &compute)?;
    let mut embedder = Embedder::load(&models.join("campplus-zh-en"), &compute)?;

    let samples: Vec<f32> = (0..seconds * SAMPLE_RATE).map(made).collect();
    let windows: Vec<&[f32]> = samples.windows(WINDOW_SAMPLES).step_by(WINDOW_SAMPLES / 2).collect();
    let starts = (0..).map(|index| index * SAMPLE_RATE).take_while(|start| start + 24_000 <= samples.len());
    let spans: Vec<_> = starts.map(|start| start..start + 24_000).collect();

    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        assert_eq!(segmenter.segment(&windows).len(), windows.len());
        let segmented = start.elapsed().as_secs_f64();
        assert_eq!(embedder.embed_spans(&samples, &spans).len(), spans.len());
        let both = start.elapsed().as_secs_f64();
        times[0].push(segmented);
        times[1].push(both - segmented);
        times[2].push(both);
    }
    eprintln!(
        "{seconds} s of audio, {threads} threads, {}: {} windows, {} pieces",
        isa.name(),
        windows.len(),
        spans.len()
    );
    for (name, times) in ["segmentation", "embeddings", "both"].into_iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let faster = |time: f64| seconds as f64 / time;
        let (best, median, worst) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
        eprintln!(
            "{name}: {:.0} x real time at best, {:.0} median, {:.0} at worst",
            faster(best),
            faster(median),
            faster(worst)
        );
    }
    Ok(())
}

/// Two gliding tones and noise: the networks take the same time for any audio.
fn made(index: usize) -> f32 {
    let time = index as f32 / SAMPLE_RATE as f32;
    let noise = (index as u32).wrapping_mul(2_654_435_761) as f32 / 2f32.powi(32) - 0.5;
    0.2 * (700.0 * time + 20.0 * (5.0 * time).sin()).sin() + 0.1 * (1900.0 * time).sin() + 0.02 * noise
}
