//! Measures how long a clip of 5 s takes on an idle machine and while four summaries run, in turns.
//!
//! `cargo run --release -p hark-speech --example clip_beside_summaries -- MODELS_FOLDER SPEECH.wav [ROUNDS] [interactive|bulk]`

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use hark_compute::Compute;
use hark_lm::chat::{ChatMessage, ChatRole, ChatTemplate};
use hark_lm::engine::{Engine, EngineLimits, Generation, GenerationEvent, Request};
use hark_lm::{Model, Sampling};
use hark_media::Source;
use hark_speech::{LoadOptions, Transcriber};
use hark_transcript::Lane;

/// Clips of a round on the idle machine, and as many beside summaries.
const CLIPS: usize = 8;
const SUMMARIES: usize = 4;
/// Bytes of five seconds of 16 kHz mono in 16 bits.
const CLIP_BYTES: usize = 5 * 32_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [models, speech, rest @ ..] = &arguments[..] else {
        return Err("give the models folder and a recording in 16 kHz mono".into());
    };
    let rounds = rest.first().map_or(Ok(3), |text| text.parse::<usize>())?;
    let lane = if rest.get(1).is_some_and(|lane| lane == "interactive") { Lane::Interactive } else { Lane::Bulk };
    let models = Path::new(models);
    let compute = Compute::from_options(None, None);
    let options = LoadOptions {
        compute: Some(compute.clone()),
        ..LoadOptions::new(models.join("whisper-base"), models.join("silero-vad"))
    };
    let transcriber = Transcriber::load(&options)?;
    let model = Model::load(&compute, &models.join("qwen2.5-coder-1.5b-instruct/model.gguf"))?;
    let template = ChatTemplate::new(model.tokenizer())?;
    let engine = Engine::start(model, EngineLimits::default())?;
    let clips = cut(&std::fs::read(speech)?);
    let (mut idle, mut beside) = (Vec::new(), Vec::new());
    // Loads pages and warms the thread pool.
    time_clip(&transcriber, &clips[0])?;
    for round in 0..rounds {
        let mut now_idle = Vec::new();
        for number in 0..CLIPS {
            now_idle.push(time_clip(&transcriber, &clips[number % clips.len()])?);
        }
        let mut summaries =
            Summaries { engine: &engine, template: &template, lane, next: round * 1000, running: Vec::new() };
        summaries.keep_running()?;
        while engine.stats().running < SUMMARIES.min(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_secs(2));
        let (began, before) = (Instant::now(), engine.stats());
        let mut now_beside = Vec::new();
        for number in 0..CLIPS {
            // Clips meet every part of a step.
            std::thread::sleep(Duration::from_millis(400 + 137 * number as u64));
            summaries.keep_running()?;
            now_beside.push(time_clip(&transcriber, &clips[number % clips.len()])?);
        }
        let after = engine.stats();
        drop(summaries);
        while engine.stats().running > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        println!(
            "round {}: idle {} | beside {SUMMARIES} {lane:?} summaries {} | ratio of medians {:.2}, worst {:.2} | model: {} prompt and {} generated tokens in {:.1} s, paused {:.1} s",
            round + 1,
            describe(&now_idle),
            describe(&now_beside),
            median(&now_beside) / median(&now_idle),
            largest(&now_beside) / median(&now_idle),
            after.prompt_tokens - before.prompt_tokens,
            after.generated_tokens - before.generated_tokens,
            began.elapsed().as_secs_f64(),
            (after.paused_micros - before.paused_micros) as f64 / 1e6,
        );
        idle.extend(now_idle);
        beside.extend(now_beside);
    }
    println!(
        "all: idle {} | beside {} | ratio of medians {:.2}, worst {:.2}",
        describe(&idle),
        describe(&beside),
        median(&beside) / median(&idle),
        largest(&beside) / median(&idle)
    );
    Ok(())
}

/// Four requests that are always there.
struct Summaries<'a> {
    engine: &'a Engine,
    template: &'a ChatTemplate,
    lane: Lane,
    /// Numbers the texts, so that none is in the prefix cache.
    next: usize,
    running: Vec<Generation>,
}

impl Summaries<'_> {
    /// Starts a request for each that has ended.
    fn keep_running(&mut self) -> Result<(), Box<dyn Error>> {
        let is_running = |generation: &Generation| loop {
            match generation.next(Duration::ZERO) {
                Some(GenerationEvent::Text(_)) => {}
                Some(GenerationEvent::End(_)) => return false,
                None => return true,
            }
        };
        self.running.retain(is_running);
        while self.running.len() < SUMMARIES {
            self.next += 1;
            let line = |index: usize| {
                let number = self.next * 31 + index * 7;
                format!(
                    "Speaker {}: item {number} costs {} euros, due on day {}.\n",
                    index % 3,
                    number % 97,
                    number % 28
                )
            };
            let text: String = (0..60).map(line).collect();
            let message = |role: ChatRole, content: String| ChatMessage { role, content };
            let messages = [
                message(ChatRole::System, "Summarize the transcript in detail.".to_owned()),
                message(ChatRole::User, text),
            ];
            let prompt = self.template.apply(self.engine.model().tokenizer(), &messages)?;
            let (sampling, owner) = (Sampling::default(), self.next as u64 % SUMMARIES as u64);
            let request = Request { prompt, sampling, grammar: None, max_tokens: 200, owner, lane: self.lane };
            self.running.push(self.engine.submit(request)?);
        }
        Ok(())
    }
}

/// Clips of five seconds, each a WAV file.
fn cut(wav: &[u8]) -> Vec<Vec<u8>> {
    let samples = wav.get(44..).unwrap_or_default();
    let header = |length: usize| {
        let mut header = wav[..44].to_vec();
        header[4..8].copy_from_slice(&(36 + length as u32).to_le_bytes());
        header[40..44].copy_from_slice(&(length as u32).to_le_bytes());
        header
    };
    samples.chunks_exact(CLIP_BYTES).take(4).map(|clip| [header(clip.len()), clip.to_vec()].concat()).collect()
}

fn time_clip(transcriber: &Transcriber, clip: &[u8]) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    let request = hark_speech::Request { language: Some("en".to_owned()), ..hark_speech::Request::default() };
    transcriber.transcribe(Source::Seekable(Box::new(std::io::Cursor::new(clip.to_vec()))), &request, &mut |_| {})?;
    Ok(began.elapsed().as_secs_f64())
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn largest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

fn describe(times: &[f64]) -> String {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{:.3} s ({least:.3} to {:.3})", median(times), largest(times))
}
