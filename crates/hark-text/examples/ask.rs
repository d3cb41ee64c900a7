//! Asks a text or a transcript questions with a real model, to look at what it makes of them.
//!
//!     ask FILE --model MODEL.gguf "question" ["follow-up" …]
//!     ask QUESTIONS.tsv --model MODEL.gguf
//!
//! `FILE` is a text, or a transcript as `hark transcribe -f json` writes it; each question but the first is asked with those before it. The second form measures
//! answers: lines of a file name (relative to the list), a question and accepted phrases separated by `|`, with tabs between; without phrases the
//! question has no answer.
#![allow(clippy::print_stdout, reason = "an example that prints")]

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use hark_compute::Compute;
use hark_lm::Model;
use hark_lm::engine::EngineLimits;
use hark_text::ask::{Answer, Excerpt, Exchange, Question, ask, excerpts, fits_whole};
use hark_text::retrieve::Retriever;
use hark_text::{Context, LocalModel, Source};
use hark_transcript::{Lane, TranscriptionResult};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, flag, path, questions @ ..] = arguments.as_slice() else {
        return Err("usage: ask FILE --model GGUF QUESTION…".into());
    };
    if flag != "--model" {
        return Err("the model is missing: --model GGUF".into());
    }
    let model = Model::load(&Compute::from_options(None, None), Path::new(path))?;
    let model = LocalModel::start("local".to_owned(), model, EngineLimits::default())?;
    if file.ends_with(".tsv") {
        return measure(&model, Path::new(file)).await;
    }
    let source = read(Path::new(file))?;
    let mut history = Vec::new();
    for text in questions {
        let (answer, seconds) = answered(&model, &source, &Question { text, history: &history }).await?;
        println!("== {text}\n{} {:?} ({seconds})", answer.text, answer.refused);
        for found in &answer.sources {
            let unit = &source.units()[found.unit];
            println!("   {:.2} [{}] {}", found.relevance, unit.start.unwrap_or_default(), source.content(unit));
        }
        history.push(Exchange { question: text.clone(), answer: answer.text });
    }
    Ok(())
}

fn read(file: &Path) -> Result<Source> {
    let input = std::fs::read_to_string(file)?;
    Ok(match serde_json::from_str::<TranscriptionResult>(&input) {
        Ok(transcript) => Source::from_transcript(&transcript),
        Err(_) => Source::from_text(&input),
    })
}

/// The answer, and the seconds to its beginning and its end with the tokens that were read.
async fn answered(model: &LocalModel, source: &Source, question: &Question<'_>) -> Result<(Answer, String)> {
    let context = Context::new(model, 1, Lane::Interactive);
    let (before, start) = (model.stats(), Instant::now());
    let begun = Mutex::new(None);
    let on_text = |_: &str| {
        begun.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert_with(|| start.elapsed());
    };
    let chosen = if fits_whole(&context, source, question)? {
        vec![Excerpt::whole(source)]
    } else {
        let retriever = Retriever::new(source);
        let ranking = retriever.rank(&question.retrieval_query(), None);
        excerpts(&context, source, &retriever, &ranking, question)?
    };
    let answer = ask(&context, &chosen, question, &on_text).await?;
    let first = begun.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).unwrap_or_default();
    let stats = model.stats();
    let times = format!(
        "begins after {:.1} s, ends after {:.1} s; {} prompt tokens, {} of them cached, {} generated",
        first.as_secs_f64(),
        start.elapsed().as_secs_f64(),
        stats.prompt_tokens - before.prompt_tokens,
        stats.cached_tokens - before.cached_tokens,
        stats.generated_tokens - before.generated_tokens
    );
    Ok((answer, times))
}

async fn measure(model: &LocalModel, list: &Path) -> Result<()> {
    let folder = list.parent().unwrap_or(Path::new("."));
    let (mut right, mut answerable, mut refused, mut unanswerable) = (0, 0, 0, 0);
    for line in std::fs::read_to_string(list)?.lines().filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, text, ..] = fields.as_slice() else { return Err(format!("not a question: {line}").into()) };
        let accepted: Vec<&str> = fields.get(2).map(|all| all.split('|').collect()).unwrap_or_default();
        let source = read(&folder.join(file))?;
        let (answer, times) = answered(model, &source, &Question { text, history: &[] }).await?;
        let said = answer.text.to_lowercase();
        let is_right = answer.found && accepted.iter().any(|phrase| said.contains(&phrase.to_lowercase()));
        let verdict = match (accepted.is_empty(), answer.found) {
            (true, found) => {
                unanswerable += 1;
                refused += usize::from(!found);
                if found { "NOT REFUSED" } else { "refused" }
            }
            (false, found) => {
                answerable += 1;
                right += usize::from(is_right);
                if is_right {
                    "right"
                } else if found {
                    "WRONG"
                } else {
                    "REFUSED"
                }
            }
        };
        println!("{verdict}: {file}: {text}\n    {} {:?} ({times})", answer.text, answer.refused);
    }
    println!("{right} of {answerable} right, {refused} of {unanswerable} refused");
    Ok(())
}
