//! `hark bench text`: how good and how fast work on text is.
//!
//! In: the transcripts with references of `bench/text`, a `hark serve` of its own with the installed models, and where they are
//! there llama.cpp's server and sentence-transformers as peers. Out: Markdown tables with every miss, and JSON. Answers are
//! judged by key phrases; how anything is answered is none of its business.

mod chrf;
mod completions;
mod corpus;
mod embeddings;
pub(crate) mod http;
mod latency;
mod pattern;
mod questions;
mod schema;
mod sentences;
pub(crate) mod server;
mod show;
mod tasks;

use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hark_compute::Compute;
use hark_embed::Embedder;
use hark_models::{Catalogue, Role};
use serde::Serialize;

use crate::audio::{self, Scratch};
use crate::error::BenchError;
use crate::parallel::on_threads;
use crate::{print, systems};
use corpus::Document;
use server::Server;

/// Seconds of the clip that is sent while summaries run.
const CLIP_SECONDS: f64 = 5.0;

/// Arguments of `hark bench text`.
#[derive(Debug, Args)]
pub(super) struct TextArgs {
    /// What to measure; several with commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// A first impression: two transcripts, few tasks and sentences, one round, 1 and 4 clients
    #[arg(long)]
    quick: bool,
    /// Transcripts, the shortest first [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Transcripts by name, with commas, such as town-hall [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    transcripts: Vec<String>,
    /// Of the tasks only those that references judge: detailed summary, entities, action items, topics, key quotes
    #[arg(long)]
    few_tasks: bool,
    /// Transcripts whose quality is measured at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    together: usize,
    /// Rounds of each measurement of speed
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Clients at once
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,16", value_parser = clap::value_parser!(u8).range(1..=16))]
    clients: Vec<u8>,
    /// Language model by its catalogue name [default: the catalogue's]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// llama.cpp's server, to be measured with the same model file
    #[arg(long, value_name = "PROGRAM")]
    llama_server: Option<PathBuf>,
    /// A WAV file whose first 5 s of speech are the clip [default: one of the test sounds]
    #[arg(long, value_name = "FILE")]
    clip: Option<PathBuf>,
    /// Threads that compute [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables and all misses as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Tasks, questions and sentences
    Quality,
    /// Completions, embeddings, second question and clip
    Speed,
    /// Summaries, analyses and generated content against schemas and references
    Tasks,
    /// Retrieval, answers and refusals
    Questions,
    /// Translation, personal data and sentiment
    Sentences,
    /// Tokens a second, beside llama.cpp's server
    Completions,
    /// Texts a second, beside sentence-transformers
    Embeddings,
    /// The second question to a transcript beside the first
    SecondQuestion,
    /// A clip of 5 s beside summaries
    Clip,
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
struct Report {
    model: String,
    threads: usize,
    tasks: Vec<tasks::Figures>,
    questions: Vec<questions::Figures>,
    sentences: Option<sentences::Figures>,
    completions: Vec<completions::Line>,
    embeddings: Option<embeddings::Figures>,
    second_question: Option<latency::SecondQuestion>,
    clip: Option<latency::Clip>,
    /// Parts that gave no figures, and why.
    not_run: Vec<String>,
}

/// How many of how many.
#[derive(Debug, Default, Clone, Serialize)]
struct Share {
    hits: usize,
    total: usize,
}

impl Share {
    fn count(&mut self, is_hit: bool) {
        self.hits += usize::from(is_hit);
        self.total += 1;
    }

    fn sum<'a>(shares: impl Iterator<Item = &'a Share>) -> Share {
        shares
            .fold(Share::default(), |sum, share| Share { hits: sum.hits + share.hits, total: sum.total + share.total })
    }

    fn percent(&self) -> String {
        if self.total == 0 {
            return "-".to_owned();
        }
        format!("{:.1} %", 100.0 * self.hits as f64 / self.total as f64)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total == 0 { out.write_str("-") } else { write!(out, "{}/{}", self.hits, self.total) }
    }
}

fn failed(error: impl fmt::Display) -> BenchError {
    BenchError::System { system: "text".to_owned(), error: error.to_string() }
}

impl TextArgs {
    fn wants(&self, part: Part) -> bool {
        let group = match part {
            Part::Tasks | Part::Questions | Part::Sentences => Part::Quality,
            _ => Part::Speed,
        };
        self.only.is_empty() || self.only.contains(&part) || self.only.contains(&group)
    }

    fn limit(&self) -> Option<usize> {
        self.limit.or(self.quick.then_some(2))
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    fn clients(&self) -> Vec<usize> {
        self.clients
            .iter()
            .map(|&clients| usize::from(clients))
            .filter(|&clients| !self.quick || clients <= 4)
            .collect()
    }
}

pub(super) fn run(args: &TextArgs) -> Result<(), BenchError> {
    let bench = systems::bench_folder()
        .ok_or_else(|| failed("bench/ was not found; start this in the repository or set HARK_BENCH"))?;
    let documents = corpus::load(&bench.join("text"), &args.transcripts, args.limit())?;
    let model = match &args.model {
        Some(model) => model.clone(),
        None => Catalogue::builtin().default_for(Role::Language).map_err(failed)?.name.clone(),
    };
    let model_folder = systems::installed(&model)?;
    let compute = Compute::from_options(args.threads, None);
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let embedder_folder = systems::installed_for(Role::TextEmbedding)?;
    let embedder = Embedder::load(&compute, &embedder_folder).map_err(failed)?;
    let mut report = Report { model, threads, ..Report::default() };

    // The speed of embeddings is measured while nothing else has memory or threads.
    if args.wants(Part::Embeddings) {
        eprintln!("embeddings");
        let figures = embeddings::run(&embedder, &embedder_folder, &bench, &documents, threads, args.rounds());
        report.embeddings = report.keep("embeddings", figures);
    }
    let parts = [Part::Tasks, Part::Questions, Part::Sentences, Part::Completions, Part::SecondQuestion, Part::Clip];
    if parts.into_iter().any(|part| args.wants(part)) {
        let folder = tempfile::tempdir().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let server = runtime.block_on(Server::hark(folder.path(), &documents, args.model.as_deref(), args.threads))?;
        speed(args, &mut report, &server, &documents, folder.path(), &model_folder);
        quality(args, &mut report, &server, &documents, &bench, &embedder);
    }
    finish(args, &report)
}

impl Report {
    /// A figure, or none with the reason in the report: one part that fails takes no other with it.
    fn keep<T>(&mut self, part: &str, figures: Result<T, BenchError>) -> Option<T> {
        figures.map_err(|error| self.not_run.push(format!("{part}: {error}"))).ok()
    }
}

/// Before quality, since questions that were asked stay in the prefix cache.
fn speed(args: &TextArgs, report: &mut Report, server: &Server, documents: &[Document], folder: &Path, model: &Path) {
    if args.wants(Part::SecondQuestion) {
        eprintln!("second question");
        let figures = latency::second_question(server, documents);
        report.second_question = report.keep("second question", figures);
    }
    if args.wants(Part::Clip) {
        eprintln!("clip beside summaries");
        let figures =
            recording(args).and_then(|recording| latency::clip(server, documents.len().min(2) - 1, &recording));
        report.clip = report.keep("clip", figures);
    }
    if args.wants(Part::Completions) {
        eprintln!("completions");
        let figures = completions(args, report, server, documents, folder, model);
        report.completions = report.keep("completions", figures).unwrap_or_default();
    }
}

fn completions(
    args: &TextArgs,
    report: &mut Report,
    server: &Server,
    documents: &[Document],
    folder: &Path,
    model: &Path,
) -> Result<Vec<completions::Line>, BenchError> {
    let clients = args.clients();
    let slots = clients.iter().copied().max().unwrap_or(1);
    let peer = match &args.llama_server {
        Some(program) => {
            let file = model.join("model.gguf");
            let started = Server::llama(folder, program, &file, report.threads, slots, completions::CONTEXT);
            report.keep("llama-server", started)
        }
        None => {
            report.not_run.push("llama-server: give --llama-server PROGRAM".to_owned());
            None
        }
    };
    let text = documents.iter().map(|document| document.transcript.text.as_str()).collect::<Vec<_>>().join(" ");
    completions::run(server, peer.as_ref(), &report.model, &text, &clients, args.rounds())
}

/// The clip, as a WAV file in memory.
fn recording(args: &TextArgs) -> Result<Vec<u8>, BenchError> {
    let source = match &args.clip {
        Some(path) => path.clone(),
        None => systems::installed("test-sounds-meetings")?.join("sample.wav"),
    };
    let scratch = Scratch::new()?;
    let target = scratch.file("clip.wav");
    audio::cut(&source, 0.0, CLIP_SECONDS, &target)?;
    std::fs::read(&target).map_err(|source| BenchError::File { path: target, source })
}

fn quality(
    args: &TextArgs,
    report: &mut Report,
    server: &Server,
    documents: &[Document],
    bench: &Path,
    embedder: &Embedder,
) {
    if args.wants(Part::Questions) {
        eprintln!("questions");
        let asked = on_threads(args.together, documents, |index, document| {
            questions::run(server.client_of(index), server.transcripts[index], document, embedder)
        });
        for (document, figures) in documents.iter().zip(asked) {
            let figures = report.keep(&format!("questions to {}", document.name), figures);
            report.questions.extend(figures);
        }
    }
    if args.wants(Part::Tasks) {
        eprintln!("tasks");
        report.tasks = on_threads(args.together, documents, |index, document| {
            tasks::run(server.client_of(index), server.transcripts[index], document, args.quick || args.few_tasks)
        });
    }
    if args.wants(Part::Sentences) {
        eprintln!("sentences");
        let repository = bench.parent().unwrap_or(bench);
        let figures = sentences::run(&server.clients[0], repository, args.quick);
        report.sentences = report.keep("sentences", figures);
    }
}

fn finish(args: &TextArgs, report: &Report) -> Result<(), BenchError> {
    let write = |path: &PathBuf, text: String| {
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })
    };
    if let Some(path) = &args.json {
        write(path, serde_json::to_string_pretty(report).map_err(BenchError::Json)? + "\n")?;
    }
    let text = show::markdown(report);
    if let Some(path) = &args.markdown {
        write(path, text.clone())?;
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_reads_as_a_fraction_and_one_of_nothing_as_a_dash() {
        let mut share = Share::default();
        assert_eq!((share.to_string(), share.percent()), ("-".to_owned(), "-".to_owned()));
        share.count(true);
        share.count(false);
        assert_eq!((share.to_string(), share.percent()), ("1/2".to_owned(), "50.0 %".to_owned()));
        assert_eq!(Share::sum([&share, &share].into_iter()).total, 4);
    }

    #[test]
    fn the_report_shows_every_miss_and_what_did_not_run() {
        let mut report = Report { model: "tiny".to_owned(), threads: 2, ..Report::default() };
        let mut figures = tasks::Figures { transcript: "talk".to_owned(), ..tasks::Figures::default() };
        figures.facts.count(false);
        figures.misses.push("fact not named: a\nb".to_owned());
        report.tasks.push(figures);
        report.not_run.push("llama-server: none".to_owned());
        let text = show::markdown(&report);
        assert!(text.contains("| talk | - | 0/1 |"), "{text}");
        assert!(text.contains("- fact not named: a b\n") && text.contains("- llama-server: none\n"), "{text}");
    }
}
