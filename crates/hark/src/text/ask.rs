//! `hark ask`: questions about a text, subtitles, a transcript or a recording, answered on this machine with their sources.

use std::cell::OnceCell;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use hark_embed::Embedder;
use hark_models::Role;
use hark_speech::Compute;
use hark_text::ask::{Answer, Excerpt, Exchange, Question, ask, excerpts, fits_whole};
use hark_text::retrieve::Retriever;
use hark_text::{Context, LanguageModel, Source};
use hark_transcript::Lane;
use serde::Serialize;

use super::{input, open_model};
use crate::cli::{AskArgs, Common};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::transcribe::{clock, installed_for};
use crate::{CliError, output};

/// An answer as `--json` prints it.
#[derive(Serialize)]
struct AnswerLine<'a> {
    question: &'a str,
    answer: &'a str,
    found: bool,
    sources: Vec<SourceLine<'a>>,
    model: &'a str,
}

/// A place that an answer rests on; texts have no times.
#[derive(Serialize)]
struct SourceLine<'a> {
    text: &'a str,
    speaker: Option<&'a str>,
    start_time: Option<f64>,
    end_time: Option<f64>,
    relevance: f64,
}

/// Runs the command.
pub(crate) fn run(args: &AskArgs, common: &Common) -> Result<(), CliError> {
    let stdin = std::io::stdin();
    if args.questions.is_empty() && !stdin.is_terminal() {
        return Err(CliError::Failed("there is no question: give it after the file".to_owned()));
    }
    let config = Config::load(common)?;
    let compute = Compute::from_options(config.threads, None);
    let source = input::read(&args.file, &config, &compute)?;
    if source.is_empty() {
        return Err(CliError::Failed(format!("{} has no text to ask about", args.file.display())));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))?;
    let model = open_model(args.model.as_deref(), args.endpoint.as_deref(), &config, &compute, &runtime)?;
    let mut conversation = Conversation {
        config: &config,
        compute: &compute,
        source: &source,
        model: &*model,
        runtime,
        is_json: args.json,
        history: Vec::new(),
        index: OnceCell::new(),
    };
    for question in &args.questions {
        conversation.answer(question)?;
    }
    if !args.questions.is_empty() {
        return Ok(());
    }
    eprintln!("Ask about {}; an empty line ends it.", args.file.display());
    loop {
        eprint!("? ");
        let _ = std::io::stderr().flush();
        let mut line = String::new();
        let read = stdin.lock().read_line(&mut line).map_err(|error| CliError::Failed(format!("stdin: {error}")))?;
        if read == 0 || line.trim().is_empty() {
            return Ok(());
        }
        conversation.answer(line.trim())?;
    }
}

/// Questions about one source; each is asked with those before it.
struct Conversation<'a> {
    config: &'a Config,
    compute: &'a Compute,
    source: &'a Source,
    model: &'a dyn LanguageModel,
    runtime: tokio::runtime::Runtime,
    is_json: bool,
    history: Vec<Exchange>,
    /// The index of a long source, made when it is first needed.
    index: OnceCell<(Retriever, Option<Embedder>)>,
}

impl Conversation<'_> {
    /// Answers a question and prints the answer with its sources.
    fn answer(&mut self, text: &str) -> Result<(), CliError> {
        let context = Context::new(self.model, 0, Lane::Interactive);
        let question = Question { text, history: &self.history };
        let failed = |error: hark_text::TextError| CliError::Failed(error.to_string());
        let chosen = if fits_whole(&context, self.source, &question).map_err(failed)? {
            vec![Excerpt::whole(self.source)]
        } else {
            let (retriever, embedder) = self.index.get_or_init(|| self.make_index());
            let query = question.retrieval_query();
            let vector =
                embedder.as_ref().and_then(|embedder| embed(embedder, &[&query])).and_then(|mut all| all.pop());
            let ranking = retriever.rank(&query, vector.as_deref());
            excerpts(&context, self.source, retriever, &ranking, &question).map_err(failed)?
        };
        let is_json = self.is_json;
        // A reader that has gone is noticed when the rest is printed.
        let on_text = move |piece: &str| {
            if !is_json {
                let _ = output::print(piece);
            }
        };
        let answer = self.runtime.block_on(ask(&context, &chosen, &question, &on_text)).map_err(failed)?;
        output::print(self.rest(text, &answer)?)?;
        self.history.push(Exchange { question: text.to_owned(), answer: answer.text });
        Ok(())
    }

    /// What is printed after the text of an answer; with `--json` the whole line.
    fn rest(&self, question: &str, answer: &Answer) -> Result<String, CliError> {
        let source = |found: &hark_text::ask::AnswerSource| {
            let unit = &self.source.units()[found.unit];
            SourceLine {
                text: self.source.content(unit),
                speaker: unit.speaker.as_deref(),
                start_time: unit.start,
                end_time: unit.end,
                relevance: found.relevance,
            }
        };
        let sources: Vec<SourceLine<'_>> = answer.sources.iter().map(source).collect();
        if !self.is_json {
            return Ok(format!("\n{}", sources.iter().map(SourceLine::render).collect::<String>()));
        }
        let model = Context::new(self.model, 0, Lane::Interactive).model_name().to_owned();
        let line = AnswerLine { question, answer: &answer.text, found: answer.found, sources, model: &model };
        let line = serde_json::to_string(&line).map_err(|error| CliError::Failed(error.to_string()))?;
        Ok(format!("{line}\n"))
    }

    /// Passages by their words, and by their meaning where the embedding model is installed.
    fn make_index(&self) -> (Retriever, Option<Embedder>) {
        let retriever = Retriever::new(self.source);
        let Some(embedder) = self.embedder() else { return (retriever, None) };
        let texts = retriever.texts(self.source);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match embed(&embedder, &texts) {
            Some(vectors) => (retriever.with_vectors(vectors), Some(embedder)),
            None => (retriever, None),
        }
    }

    fn embedder(&self) -> Option<Embedder> {
        let library = ModelLibrary::open(self.config).ok()?;
        let folder = installed_for(&library, Role::TextEmbedding).ok()?;
        Embedder::load(self.compute, &folder).ok()
    }
}

impl SourceLine<'_> {
    fn render(&self) -> String {
        let time = self.start_time.map(|start| format!("[{}] ", clock(start))).unwrap_or_default();
        let speaker = self.speaker.map(|name| format!("{name}: ")).unwrap_or_default();
        format!("  {time}{speaker}{}\n", self.text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

fn embed(embedder: &Embedder, texts: &[&str]) -> Option<Vec<Vec<f32>>> {
    let embedded = embedder.embed(texts, &|| false).ok()?;
    Some(embedded.into_iter().map(|one| one.vector).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_shown_with_its_time_and_speaker() {
        let line = SourceLine {
            text: "It is\ndue.",
            speaker: Some("Ann"),
            start_time: Some(75.4),
            end_time: None,
            relevance: 1.0,
        };
        assert_eq!(line.render(), format!("  [{}] Ann: It is due.\n", clock(75.4)));
        let line = SourceLine { speaker: None, start_time: None, ..line };
        assert_eq!(line.render(), "  It is due.\n");
    }
}
