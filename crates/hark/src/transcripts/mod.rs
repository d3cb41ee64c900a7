//! `hark transcripts`: what a server has transcribed for an account.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::Path;

use hark_api::{SearchAnswer, TranscriptDetail, TranscriptPage, TranscriptStatus};
use hark_export::Format;

use crate::account::prompt;
use crate::cli::{TranscriptsArgs, TranscriptsCommand};
use crate::remote::{self, Client};
use crate::table::{moment, table};
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: TranscriptsArgs) -> Result<(), CliError> {
    let client = remote::needed(&args.remote)?;
    match args.command {
        TranscriptsCommand::List { page, per_page, status, language, json } => {
            let mut path = format!("/v1/transcripts?page={page}&per_page={per_page}");
            for (name, value) in [("status", status), ("language", language)] {
                if let Some(value) = value {
                    path.push_str(&format!("&{name}={}", encoded(&value)));
                }
            }
            list(&client, &path, json)
        }
        TranscriptsCommand::Search { words, mode, limit, transcript, json } => {
            let mut path = format!("/v1/search?q={}&mode={mode}&limit={limit}", encoded(&words.join(" ")));
            if let Some(id) = transcript {
                path.push_str(&format!("&transcript_id={id}"));
            }
            search(&client, &path, json)
        }
        TranscriptsCommand::Show { id, json } => show(&client, id, json),
        TranscriptsCommand::Export { id, format, output, overwrite } => {
            export(&client, id, format, output.as_deref(), overwrite)
        }
        TranscriptsCommand::Retry { ids } => retry(&client, &ids),
        TranscriptsCommand::Delete { ids, yes } => delete(&client, &ids, yes),
    }
}

fn list(client: &Client, path: &str, json: bool) -> Result<(), CliError> {
    if json {
        let value: serde_json::Value = client.get_json(path)?;
        return output::print(format!("{value:#}\n"));
    }
    let page: TranscriptPage = client.get_json(path)?;
    let rows: Vec<Vec<String>> = page
        .transcripts
        .iter()
        .map(|one| {
            vec![
                one.id.to_string(),
                moment(one.created_at),
                one.status.as_str().to_owned(),
                one.language.clone(),
                clock(one.duration_seconds),
                one.word_count.to_string(),
                one.title.clone(),
            ]
        })
        .collect();
    let mut out = table(&["id", "made (UTC)", "status", "language", "length", "words", "title"], &rows);
    let pages = page.total.max(0).unsigned_abs().div_ceil(page.per_page.max(1).unsigned_abs()).max(1);
    out.push_str(&format!("\npage {} of {pages}, {} transcripts in all\n", page.page, page.total));
    output::print(out)
}

fn search(client: &Client, path: &str, json: bool) -> Result<(), CliError> {
    if json {
        let value: serde_json::Value = client.get_json(path)?;
        return output::print(format!("{value:#}\n"));
    }
    let answer: SearchAnswer = client.get_json(path)?;
    if answer.pending > 0 {
        eprintln!("{} transcripts are not indexed yet", answer.pending);
    }
    if answer.hits.is_empty() {
        return Err(CliError::Failed("nothing was found".to_owned()));
    }
    let shown = answer.hits.iter().map(|hit| {
        let speaker = hit.speaker.as_ref().map(|speaker| format!(", {speaker}")).unwrap_or_default();
        format!("{} {}, {}{speaker}\n    {}\n", hit.transcript_id, hit.title, clock(hit.start_time), hit.text)
    });
    output::print(shown.collect::<Vec<_>>().join("\n"))
}

fn show(client: &Client, id: i64, json: bool) -> Result<(), CliError> {
    let path = format!("/v1/transcripts/{id}");
    if json {
        let value: serde_json::Value = client.get_json(&path)?;
        return output::print(format!("{value:#}\n"));
    }
    let one: TranscriptDetail = client.get_json(&path)?;
    eprintln!(
        "{}: {}, {}, {}, {} words, made {} UTC",
        one.title,
        one.status.as_str(),
        one.language,
        clock(one.duration_seconds),
        one.word_count,
        moment(one.created_at)
    );
    match one.status {
        TranscriptStatus::Completed => export(client, id, Some(Format::Txt), None, false),
        TranscriptStatus::Failed => Err(CliError::Failed(one.error.unwrap_or_else(|| "it failed".to_owned()))),
        _ => Ok(()),
    }
}

fn export(
    client: &Client,
    id: i64,
    format: Option<Format>,
    file: Option<&Path>,
    overwrite: bool,
) -> Result<(), CliError> {
    let by_name = || file.and_then(Path::extension).and_then(OsStr::to_str).and_then(|name| name.parse().ok());
    let format = format.or_else(by_name).unwrap_or(Format::Txt);
    if file.is_none() && !format.is_text() && std::io::stdout().is_terminal() {
        return Err(CliError::Usage(format!("{format} is not for a terminal: add -o FILE, or pipe it on")));
    }
    let content = remote::read(client.get(&format!("/v1/transcripts/{id}/export/{format}"))?)?;
    match file {
        Some(file) => output::write_file(file, content, overwrite).map_err(CliError::Failed),
        None => output::print(content),
    }
}

fn retry(client: &Client, ids: &[i64]) -> Result<(), CliError> {
    let mut is_whole = true;
    for id in ids {
        match client.post(&format!("/v1/transcripts/{id}/retry")) {
            Ok(()) => eprintln!("{id}: queued again"),
            Err(error) => {
                eprintln!("{id}: {error}");
                is_whole = false;
            }
        }
    }
    if is_whole { Ok(()) } else { Err(CliError::Reported) }
}

fn delete(client: &Client, ids: &[i64], yes: bool) -> Result<(), CliError> {
    let question = match ids {
        [id] => format!("delete transcript {id} with its recording?"),
        ids => format!("delete {} transcripts with their recordings?", ids.len()),
    };
    if !yes && !prompt::confirm(&question)? {
        return Err(CliError::Failed("nothing was deleted".to_owned()));
    }
    let mut is_whole = true;
    for id in ids {
        if let Err(error) = client.delete(&format!("/v1/transcripts/{id}")) {
            eprintln!("{id}: {error}");
            is_whole = false;
        }
    }
    if is_whole { Ok(()) } else { Err(CliError::Reported) }
}

/// A value inside a query.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

fn clock(seconds: f64) -> String {
    crate::transcribe::clock(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_can_not_leave_its_place_in_a_query() {
        assert_eq!(encoded("en"), "en");
        assert_eq!(encoded("a&b=c d/é"), "a%26b%3Dc%20d%2F%C3%A9");
    }
}
