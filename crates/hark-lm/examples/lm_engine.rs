//! Measures the engine: the second question to a text beside the first, clients at the same time, answers with a schema, and what is left
//! to other work on the same threads.
//!
//! `cargo run --release -p hark-lm --example lm_engine -- MODEL.gguf [questions|clients|schema|beside|clips] [number]`

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hark_compute::Compute;
use hark_lm::chat::{ChatMessage, ChatRole, ChatTemplate};
use hark_lm::engine::{Engine, EngineLimits, Finish, Generation, GenerationEvent, Request};
use hark_lm::grammar::Grammar;
use hark_lm::{Model, Sampling};
use hark_transcript::Lane;

const LONG: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        println!("usage: lm_engine MODEL.gguf [questions|clients|schema|beside|clips] [number]");
        return Ok(());
    };
    let number = |otherwise: usize| arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let began = Instant::now();
    let compute = Compute::from_options(None, None);
    let model = Model::load(&compute, Path::new(path))?;
    println!("load: {:.2} s", began.elapsed().as_secs_f64());
    let template = ChatTemplate::new(model.tokenizer())?;
    let engine = Engine::start(model, EngineLimits::default())?;
    let ask = Ask { engine: &engine, template: &template };
    match arguments.get(1).map_or("questions", String::as_str) {
        "questions" => ask.questions(number(2000)),
        "clients" => ask.clients(number(16)),
        "schema" => ask.schema(number(200)),
        "beside" => ask.beside(&compute),
        "clips" => ask.clips(&compute, number(3)),
        other => Err(format!("there is no measurement {other:?}").into()),
    }
}

struct Ask<'a> {
    engine: &'a Engine,
    template: &'a ChatTemplate,
}

impl Ask<'_> {
    fn request(&self, text: &str, question: &str, max_tokens: usize) -> Result<Request, Box<dyn Error>> {
        let message = |role: ChatRole, content: String| ChatMessage { role, content };
        let messages = [
            message(ChatRole::System, "Answer the question about the transcript.".to_owned()),
            message(ChatRole::User, format!("{text}\n\n{question}")),
        ];
        let prompt = self.template.apply(self.engine.model().tokenizer(), &messages)?;
        Ok(Request {
            prompt,
            sampling: Sampling::default(),
            grammar: None,
            max_tokens,
            owner: 1,
            lane: Lane::Interactive,
        })
    }

    /// Seconds to the first text and to the end, and what came.
    fn timed(&self, request: Request) -> Result<(f64, f64, String), Box<dyn Error>> {
        let began = Instant::now();
        let generation = self.engine.submit(request)?;
        let (mut first, mut text) = (None, String::new());
        while let Some(event) = generation.next(LONG) {
            match event {
                GenerationEvent::Text(piece) => {
                    first.get_or_insert_with(|| began.elapsed().as_secs_f64());
                    text.push_str(&piece);
                }
                GenerationEvent::End(outcome) => {
                    let (finish, usage) = outcome?;
                    println!("  {usage:?} {finish:?}");
                    break;
                }
            }
        }
        Ok((first.unwrap_or_default(), began.elapsed().as_secs_f64(), text))
    }

    /// Two questions to one text of about so many tokens.
    fn questions(&self, tokens: usize) -> Result<(), Box<dyn Error>> {
        let line = |index: usize| {
            format!("Speaker {}: item {index} costs {} euros and is due on day {}.\n", index % 3, index * 7, index % 28)
        };
        let text: String = (0..tokens / 22).map(line).collect();
        let mut times = Vec::new();
        for question in ["What does item 3 cost?", "Who speaks about item 5?", "On which day is item 9 due?"] {
            let (first, all, answer) = self.timed(self.request(&text, question, 40)?)?;
            println!("{question} first text after {first:.2} s, end after {all:.2} s: {answer:?}");
            times.push(first);
        }
        println!("second question begins to be answered in {:.3} of the first's time", times[1] / times[0]);
        Ok(())
    }

    /// So many clients at the same time, each with a text of its own.
    fn clients(&self, count: usize) -> Result<(), Box<dyn Error>> {
        let began = Instant::now();
        let mut all: Vec<Generation> = Vec::new();
        for client in 0..count {
            let mut request =
                self.request(&format!("Client {client} says hello."), "Write a story about a lighthouse.", 64)?;
            request.owner = client as u64;
            all.push(self.engine.submit(request)?);
        }
        let mut tokens = 0;
        for generation in all {
            tokens += generation.wait()?.2.completion;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("{count} clients: {tokens} tokens in {seconds:.1} s, {:.1} tokens/s", tokens as f64 / seconds);
        Ok(())
    }

    /// Regions of foreground work in ten seconds: alone, beside bulk requests and beside interactive ones, and what those got.
    fn beside(&self, compute: &Compute) -> Result<(), Box<dyn Error>> {
        let foreground = || {
            let (began, mut regions) = (Instant::now(), 0);
            while began.elapsed() < Duration::from_secs(10) {
                // About a millisecond of work for each thread.
                compute.parallel_for(8, |index, _| {
                    let sum = (0..200_000u64).fold(index as u64, |sum, next| sum.rotate_left(5) ^ next);
                    std::hint::black_box(sum);
                });
                regions += 1;
            }
            regions
        };
        println!("alone: {} regions", foreground());
        for lane in [Lane::Bulk, Lane::Interactive] {
            let mut all = Vec::new();
            for client in 0..4 {
                let text = format!("Client {client} says: {}", "the sea is calm today. ".repeat(40));
                all.push(self.engine.submit(Request { lane, ..self.request(&text, "Write a long story.", 500)? })?);
            }
            while self.engine.stats().running == 0 {
                std::thread::yield_now();
            }
            let tokens = |stats: hark_lm::engine::EngineStats| stats.prompt_tokens + stats.generated_tokens;
            let before = tokens(self.engine.stats());
            let regions = foreground();
            let beside = tokens(self.engine.stats()) - before;
            std::thread::sleep(Duration::from_secs(10));
            let idle = tokens(self.engine.stats()) - before - beside;
            println!("beside {lane:?}: {regions} regions; the model computed {beside} tokens, alone afterwards {idle}");
            drop(all);
            while self.engine.stats().running > 0 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Bursts of foreground work as long as a clip's, alone and beside four requests, in turns.
    fn clips(&self, compute: &Compute, rounds: usize) -> Result<(), Box<dyn Error>> {
        // A decoder's regions: some 100 µs for each thread, and a moment between them.
        let burst = || {
            let began = Instant::now();
            for _ in 0..2000 {
                compute.parallel_for(8, |index, _| {
                    let sum = (0..25_000u64).fold(index as u64, |sum, next| sum.rotate_left(5) ^ next);
                    std::hint::black_box(sum);
                });
            }
            began.elapsed().as_secs_f64()
        };
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        for (round, lane) in (0..rounds).flat_map(|round| [(round, Lane::Bulk), (round, Lane::Interactive)]) {
            let mut idle: Vec<f64> = (0..8).map(|_| burst()).collect();
            let mut all = Vec::new();
            for client in 0..4 {
                let text = format!("Client {client} of round {round} says: {}", "the sea is calm today. ".repeat(200));
                all.push(self.engine.submit(Request { lane, ..self.request(&text, "Write a long story.", 400)? })?);
            }
            std::thread::sleep(Duration::from_secs(2));
            let before = self.engine.stats();
            let mut beside = Vec::new();
            for number in 0..8 {
                std::thread::sleep(Duration::from_millis(300 + 137 * number));
                beside.push(burst());
            }
            let after = self.engine.stats();
            drop(all);
            while self.engine.stats().running > 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let (alone, together) = (median(&mut idle), median(&mut beside));
            println!(
                "round {} {lane:?}: alone {alone:.3} s [{:.3}..{:.3}], beside four requests {together:.3} s [{:.3}..{:.3}], ratio {:.2}; {} prompt and {} generated tokens, {:.1} s of pauses",
                round + 1,
                idle[0],
                idle[7],
                beside[0],
                beside[7],
                together / alone,
                after.prompt_tokens - before.prompt_tokens,
                after.generated_tokens - before.generated_tokens,
                (after.paused_micros - before.paused_micros) as f64 / 1e6
            );
        }
        Ok(())
    }

    /// So many answers with a schema, each with another seed; all must be valid.
    fn schema(&self, count: usize) -> Result<(), Box<dyn Error>> {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "maxLength": 40},
                "sentiment": {"enum": ["positive", "neutral", "negative"]},
                "score": {"type": "number", "minimum": -1, "maximum": 1},
                "assignee": {"type": ["string", "null"], "maxLength": 20},
                "topics": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
            },
            "required": ["title", "sentiment", "score", "assignee", "topics"],
        });
        let grammar = Arc::new(Grammar::from_schema(&schema)?);
        let (mut valid, mut cut, mut all) = (0, 0, Vec::new());
        let began = Instant::now();
        for seed in 0..count {
            let mut request =
                self.request("Ana: We ship on Friday. Ben: Great news!", "Describe the conversation as JSON.", 200)?;
            request.sampling = Sampling { temperature: 1.0, seed: seed as u64, ..Sampling::default() };
            request.grammar = Some(Arc::clone(&grammar));
            all.push(self.engine.submit(request)?);
        }
        let mut tokens = 0;
        for (index, generation) in all.into_iter().enumerate() {
            let (text, finish, usage) = generation.wait()?;
            tokens += usage.completion;
            if index < 3 {
                println!("{text}");
            }
            let value: Result<serde_json::Value, _> = serde_json::from_str(&text);
            let is_valid = value.is_ok_and(|value| {
                let length = |value: &serde_json::Value| value.as_str().map_or(usize::MAX, |text| text.chars().count());
                let topics = value["topics"].as_array().cloned().unwrap_or_default();
                length(&value["title"]) <= 40
                    && ["positive", "neutral", "negative"].contains(&value["sentiment"].as_str().unwrap_or_default())
                    && value["score"].as_f64().is_some_and(|score| (-1.0..=1.0).contains(&score))
                    && (value["assignee"].is_null() || length(&value["assignee"]) <= 20)
                    && (1..=3).contains(&topics.len())
                    && topics.iter().all(|topic| length(topic) <= 20)
            });
            valid += usize::from(is_valid);
            cut += usize::from(finish == Finish::Length);
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("{valid} of {count} valid, {cut} cut, {tokens} tokens in {seconds:.1} s; {:?}", self.engine.stats());
        Ok(())
    }
}
