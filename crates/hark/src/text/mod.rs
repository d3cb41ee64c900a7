//! `hark summarize`, `hark translate`, `hark analyze`, `hark generate`, `hark ask`: work on a text, a transcript or a recording, on this machine or on a server.

mod ask;
mod input;
mod render;
mod subtitles;
mod translate;

use std::borrow::Cow;
use std::path::Path;

use hark_lm::Model;
use hark_lm::engine::EngineLimits;
use hark_models::Role;
use hark_speech::Compute;
use hark_text::model::LocalModel;
use hark_text::{Context, Endpoint, LanguageModel, Progress, Source, Task};
use hark_transcript::Lane;
use serde_json::{Value, json};

use crate::cli::{AnalyzeArgs, Common, GenerateArgs, SummarizeArgs, TextArgs};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::remote::Client;
use crate::transcribe::installed;
use crate::{CliError, output, serve};

pub(crate) use ask::run as ask;
pub(crate) use translate::run as translate;

/// The file of a language model in its folder.
const MODEL_FILE: &str = "model.gguf";

/// `hark summarize`.
pub(crate) fn summarize(args: &SummarizeArgs, common: &Common) -> Result<(), CliError> {
    run(Task::Summarize(args.style), &args.text, common)
}

/// `hark analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, common: &Common) -> Result<(), CliError> {
    run(Task::Analyze(args.kind), &args.text, common)
}

/// `hark generate`.
pub(crate) fn generate(args: &GenerateArgs, common: &Common) -> Result<(), CliError> {
    run(Task::Generate(args.kind), &args.text, common)
}

fn run(task: Task, args: &TextArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let client = Client::from_args(&args.remote)?;
    let compute = Compute::from_options(config.threads, None);
    let source = input::read(&args.file, &config, &compute)?;
    if source.is_empty() {
        return Err(CliError::Failed(format!("{} has no text to work on", args.file.display())));
    }
    let answer = match client {
        Some(client) => remotely(&client, task, &source)?,
        None => locally(task, &source, args, &config, &compute)?,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&answer).map_err(|error| CliError::Failed(error.to_string()))?
    } else {
        render::text(&answer)
    };
    output::print(format!("{}\n", text.trim_end()).into_bytes())
}

/// The answer of a server.
fn remotely(client: &Client, task: Task, source: &Source) -> Result<Value, CliError> {
    let text = labelled(source);
    let (path, body) = match task {
        Task::Summarize(style) => ("/v1/summarize", json!({"text": text, "style": style})),
        Task::Analyze(kind) => ("/v1/analyze", json!({"text": text, "type": kind})),
        Task::Generate(kind) => ("/v1/generate", json!({"text": text, "type": kind})),
    };
    Ok(client.post_json(path, &body)?)
}

/// A text as it is; a transcript with a line for each turn and the label of who speaks, as a server reads it back.
fn labelled(source: &Source) -> Cow<'_, str> {
    if source.speakers().is_empty() || !source.is_transcript() {
        return Cow::Borrowed(source.text());
    }
    Cow::Owned(source.render(0..source.units().len(), 0..source.text().len()))
}

/// The answer of the model on this machine.
fn locally(
    task: Task,
    source: &Source,
    args: &TextArgs,
    config: &Config,
    compute: &Compute,
) -> Result<Value, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))?;
    let model = open_model(args.model.as_deref(), args.endpoint.as_deref(), config, compute, &runtime)?;
    let quiet = args.quiet || !std::io::IsTerminal::is_terminal(&std::io::stderr());
    let report = move |progress: Progress| {
        if !quiet {
            eprint!("\r{} of {} parts ", progress.done, progress.total);
        }
    };
    let context = Context::new(&*model, 0, Lane::Interactive).with_progress(&report);
    let answer = runtime.block_on(task.run(&context, source));
    if !quiet {
        eprint!("\r{:30}\r", "");
    }
    let answer = answer.map_err(|error| CliError::Failed(error.to_string()))?;
    serde_json::to_value(answer).map_err(|error| CliError::Failed(error.to_string()))
}

/// The language model of the endpoint that the arguments or the configuration name, else one on this machine.
fn open_model(
    model: Option<&str>,
    url: Option<&str>,
    config: &Config,
    compute: &Compute,
    runtime: &tokio::runtime::Runtime,
) -> Result<Box<dyn LanguageModel>, CliError> {
    match endpoint(model, url, config)? {
        Some(endpoint) => {
            let model = runtime.block_on(endpoint.model());
            Ok(Box::new(model.map_err(|error| CliError::Failed(error.to_string()))?))
        }
        None => Ok(Box::new(load(model, config, compute)?)),
    }
}

/// The server whose language model is used: that of the arguments or of the configuration. A GGUF file is used here.
fn endpoint(model: Option<&str>, url: Option<&str>, config: &Config) -> Result<Option<Endpoint>, CliError> {
    let mut config = config.clone();
    let settings = &mut config.server.text;
    if let Some(url) = url {
        settings.endpoint = Some(url.to_owned());
    }
    match model {
        Some(model) if model.ends_with(".gguf") && url.is_none() => return Ok(None),
        Some(model) if settings.endpoint.is_some() => settings.endpoint_model = Some(model.to_owned()),
        _ => {}
    }
    if settings.endpoint.is_none() {
        return Ok(None);
    }
    settings.check().map_err(CliError::Usage)?;
    let settings = serve::language_options(&config)?.endpoint;
    settings.map(Endpoint::new).transpose().map_err(CliError::Failed)
}

/// The language model that the arguments or the configuration name, or the catalogue's default: a name, or a GGUF file.
fn load(asked: Option<&str>, config: &Config, compute: &Compute) -> Result<LocalModel, CliError> {
    let library = ModelLibrary::open(config)?;
    let settings = &config.server.text;
    let name = match asked.or(settings.model.as_deref()) {
        Some(name) => name.to_owned(),
        None => {
            let model = library.catalogue.default_for(Role::Language);
            model.map_err(|error| CliError::Failed(error.to_string()))?.name.clone()
        }
    };
    let is_file = name.ends_with(".gguf");
    let file = if is_file { name.clone().into() } else { installed(&library, &name)?.join(MODEL_FILE) };
    let failed = |error: hark_lm::LmError| CliError::Failed(format!("{}: {error}", file.display()));
    let model = Model::load(compute, Path::new(&file)).map_err(failed)?;
    let limits =
        EngineLimits { context: settings.context, cache_bytes: settings.cache_mb << 20, ..EngineLimits::default() };
    LocalModel::start(name, model, limits).map_err(failed)
}
