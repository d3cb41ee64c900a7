//! Enhances raw samples and says how fast: `enhance_speed MODEL_FOLDER IN.f32 OUT.f32 [THREADS] [STRENGTH] [CHANNELS]`.
//!
//! The files hold 48 kHz little-endian 32-bit floats, as `ffmpeg -i talk.mp3 -ar 48000 -ac 1 -f f32le talk.f32` makes them; the result
//! can be compared sample by sample with that of DeepFilterNet's own library.

use std::path::Path;
use std::time::Instant;

use hark_enhance::{Compute, Enhancer, Options};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, input, output, rest @ ..] = &args[..] else { panic!("give a model folder, an input and an output") };
    let number = |index: usize, default: f32| rest.get(index).map_or(default, |text| text.parse().expect("a number"));
    let (threads, strength, channels) = (number(0, 2.0) as usize, number(1, 100.0), number(2, 1.0) as usize);
    let bytes = std::fs::read(input).expect("the input can be read");
    let samples: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let begun = Instant::now();
    let compute = Compute::from_options(Some(threads), None);
    let enhancer = Enhancer::load(&compute, Path::new(model)).expect("the model loads");
    let loaded = begun.elapsed();
    let mut stream = enhancer.stream(channels, &Options { strength }).expect("such a stream exists");
    let mut out = Vec::with_capacity(samples.len());
    let begun = Instant::now();
    for block in samples.chunks(48_000 * channels) {
        stream.push(block, &mut out, &|| false).expect("the samples are sound");
    }
    stream.finish(&mut out, &|| false).expect("it ends once");
    let elapsed = begun.elapsed().as_secs_f64();
    assert_eq!(out.len(), samples.len());
    let seconds = samples.len() as f64 / 48_000.0 / channels as f64;
    eprintln!(
        "{}, {threads} threads, {channels} channels: {seconds:.1} s in {elapsed:.3} s, {:.0} x real time; loaded in {loaded:.1?}",
        compute.isa().name(),
        seconds / elapsed
    );
    let bytes: Vec<u8> = out.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    std::fs::write(output, bytes).expect("the output can be written");
}
