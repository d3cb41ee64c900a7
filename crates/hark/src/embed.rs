//! `hark embed`: the lines of texts as vectors, on this machine or on a server.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use hark_api::Embeddings;
use hark_embed::Embedder;
use hark_models::Role;
use hark_speech::Compute;
use serde::Serialize;

use crate::cli::{Common, EmbedArgs};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::remote::Client;
use crate::transcribe::installed_for;
use crate::{CliError, output};

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 30;
/// Lines that are embedded at a time, on this machine and by a call of a server; a caller without a key may send fewer.
const BATCH: usize = 512;
const ANONYMOUS_BATCH: usize = 64;

/// A line of the output.
#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
    embedding: Vec<f32>,
}

/// Runs the command.
pub(crate) fn run(args: &EmbedArgs, common: &Common) -> Result<(), CliError> {
    let text = read(&args.files)?;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(CliError::Failed("there is no text to embed: every line of the input is one".to_owned()));
    }
    match Client::from_args(&args.remote)? {
        Some(client) => {
            let size = if client.has_key() { BATCH } else { ANONYMOUS_BATCH };
            print(&lines, size, |lines| {
                let answer: Embeddings = client.post_json("/v1/embed", &serde_json::json!({ "texts": lines }))?;
                Ok(answer.embeddings)
            })
        }
        None => {
            let config = Config::load(common)?;
            let library = ModelLibrary::open(&config)?;
            let folder = installed_for(&library, Role::TextEmbedding)?;
            let compute = Compute::from_options(config.threads, None);
            let failed = |error: hark_embed::EmbedError| CliError::Failed(error.to_string());
            let embedder = Embedder::load(&compute, &folder).map_err(failed)?;
            print(&lines, BATCH, |lines| {
                let embedded = embedder.embed(lines, &|| false).map_err(failed)?;
                Ok(embedded.into_iter().map(|one| one.vector).collect())
            })
        }
    }
}

/// Prints the vectors of lines, a batch at a time.
fn print(
    lines: &[&str],
    size: usize,
    embed: impl Fn(&[&str]) -> Result<Vec<Vec<f32>>, CliError>,
) -> Result<(), CliError> {
    for batch in lines.chunks(size) {
        let mut out = Vec::new();
        for (text, embedding) in batch.iter().zip(embed(batch)?) {
            serde_json::to_writer(&mut out, &Line { text, embedding })
                .map_err(|error| CliError::Failed(error.to_string()))?;
            out.push(b'\n');
        }
        output::print(out)?;
    }
    Ok(())
}

/// The text of all files, stdin where there are none.
fn read(files: &[PathBuf]) -> Result<String, CliError> {
    let stdin = [PathBuf::from("-")];
    let mut text = String::new();
    for file in if files.is_empty() { &stdin[..] } else { files } {
        let problem = |error: std::io::Error| CliError::Failed(format!("{}: {error}", file.display()));
        let before = text.len();
        if file == Path::new("-") {
            std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text).map_err(problem)?;
        } else {
            let source = std::fs::File::open(file).map_err(problem)?;
            source.take(MAX_BYTES).read_to_string(&mut text).map_err(problem)?;
        }
        if (text.len() - before) as u64 >= MAX_BYTES {
            return Err(CliError::Failed(format!("{} is longer than 1 GiB: split it", file.display())));
        }
        text.push('\n');
    }
    Ok(text)
}
