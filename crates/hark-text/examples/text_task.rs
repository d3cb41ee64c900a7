//! Runs tasks on a text or a transcript with a real model, to look at what it makes of them.
//!
//!     text_task summarize:brief,analyze:topics,generate:quiz FILE --model MODEL.gguf
//!     text_task sentiment crates/hark-text/tests/data/sentiment.tsv --model MODEL.gguf
//!
//! `FILE` is a text, or a transcript as `hark transcribe -f json` writes it. The second form measures sentiment on labelled sentences.
#![allow(clippy::print_stdout, reason = "an example that prints")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use hark_compute::Compute;
use hark_lm::Model;
use hark_lm::engine::EngineLimits;
use hark_text::{AnalysisType, Context, LocalModel, Source, Task, analyze};
use hark_transcript::{Lane, Segment, TranscriptionResult};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tasks, file, flag, path] = arguments.as_slice() else {
        return Err("usage: text_task TASKS FILE --model GGUF".into());
    };
    if flag != "--model" {
        return Err("the model is missing: --model GGUF".into());
    }
    let model = Model::load(&Compute::from_options(None, None), Path::new(path))?;
    let model = LocalModel::start("local".to_owned(), model, EngineLimits::default())?;
    let input = std::fs::read_to_string(file)?;
    if tasks == "sentiment" {
        return measure_sentiment(&model, &input).await;
    }
    let source = match serde_json::from_str::<TranscriptionResult>(&input) {
        Ok(transcript) => Source::from_transcript(&transcript),
        Err(_) => Source::from_text(&input),
    };
    for task in tasks.split(',') {
        let before = model.stats();
        let start = Instant::now();
        let result = run(&model, &source, task).await?;
        let stats = model.stats();
        println!("== {task}: {:.1} s", start.elapsed().as_secs_f64());
        println!(
            "   {} prompt tokens, {} of them cached, {} generated",
            stats.prompt_tokens - before.prompt_tokens,
            stats.cached_tokens - before.cached_tokens,
            stats.generated_tokens - before.generated_tokens
        );
        let prose = result.get("summary").or_else(|| result["result"].get("content")).and_then(Value::as_str);
        if let Some(prose) = prose {
            println!("{prose}");
        }
        if prose.is_none() || result["result"].get("items").is_some() {
            println!("{}", serde_json::to_string(result.get("result").unwrap_or(&result))?);
        }
        println!("   parts: {}", result["parts"]);
    }
    Ok(())
}

async fn run(model: &LocalModel, source: &Source, task: &str) -> Result<Value> {
    let context = Context::new(model, 1, Lane::Interactive);
    let (kind, name) = task.split_once(':').ok_or("a task is summarize:STYLE, analyze:TYPE or generate:TYPE")?;
    let name = Value::from(name);
    let task = match kind {
        "summarize" => Task::Summarize(serde_json::from_value(name)?),
        "analyze" => Task::Analyze(serde_json::from_value(name)?),
        "generate" => Task::Generate(serde_json::from_value(name)?),
        _ => return Err(format!("unknown task {kind}").into()),
    };
    Ok(serde_json::to_value(task.run(&context, source).await?)?)
}

/// Lines of a label, a tab and a sentence. Each sentence is a speaker of its own, so that one analysis rates all.
async fn measure_sentiment(model: &LocalModel, input: &str) -> Result<()> {
    let lines: Vec<(&str, &str)> = input.lines().filter_map(|line| line.split_once('\t')).collect();
    let segment = |(at, (_, text)): (usize, &(&str, &str))| Segment {
        text: (*text).to_owned(),
        speaker: Some(format!("S{at}")),
        ..Segment::default()
    };
    let segments: Vec<Segment> = lines.iter().enumerate().map(segment).collect();
    let start = Instant::now();
    let context = Context::new(model, 1, Lane::Interactive);
    let analysis = analyze(&context, &Source::from_segments(&segments, "en"), AnalysisType::Sentiment).await?;
    let found = serde_json::to_value(analysis.result)?;
    let (mut right, mut opposite) = (0, 0);
    for ((label, sentence), rated) in lines.iter().zip(found["by_speaker"].as_array().ok_or("no speakers")?) {
        let rated = rated["label"].as_str().unwrap_or_default();
        right += usize::from(rated == *label);
        opposite += usize::from(matches!((*label, rated), ("positive", "negative") | ("negative", "positive")));
        if rated != *label {
            println!("{label} rated {rated}: {sentence}");
        }
    }
    println!("{right} of {} right, {opposite} opposite, {:.1} s", lines.len(), start.elapsed().as_secs_f64());
    Ok(())
}
