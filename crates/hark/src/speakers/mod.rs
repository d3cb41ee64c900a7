//! `hark speakers`: people whose voices are known, on this machine or in an account of a server.

mod local;

use std::path::{Path, PathBuf};

use hark_api::{DateTime, Speaker, SpeakerList};
use hark_media::Source;
use hark_speech::{Compute, Voiceprint};

use crate::cli::{Common, SpeakersArgs, SpeakersCommand};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::remote::{self, Client};
use crate::table::{moment, table};
use crate::transcribe::{Input, voices};
use crate::{CliError, output};
use local::{KnownVoice, LocalVoices};

/// Characters of a name, as a server has it.
const MAX_NAME: usize = 200;

/// Runs the command.
pub(crate) fn run(args: &SpeakersArgs, common: &Common) -> Result<(), CliError> {
    match Client::from_args(&args.remote)? {
        Some(_) => run_remote(args, &remote::needed(&args.remote)?),
        None => run_local(args, &Config::load(common)?),
    }
}

/// The voices that are known on this machine, for a run that wants to name them.
pub(crate) fn known_locally() -> Result<Vec<(String, Voiceprint)>, CliError> {
    let known = LocalVoices::read(&local::file())?;
    if known.voices.is_empty() {
        return Err(CliError::Failed(
            "no voices are known on this machine: `hark speakers enroll NAME CLIP` teaches one".to_owned(),
        ));
    }
    Ok(known.voices.into_iter().map(|voice| (voice.name, voice.print)).collect())
}

/// Voices that are stored on this machine.
fn run_local(args: &SpeakersArgs, config: &Config) -> Result<(), CliError> {
    let file = local::file();
    let mut known = LocalVoices::read(&file)?;
    match &args.command {
        SpeakersCommand::Enroll { name, clips } => {
            let name = checked(name)?;
            if known.find(&name).is_some() {
                return Err(CliError::Failed(format!(
                    "{name} is known already: `hark speakers remove {name}` forgets the voice"
                )));
            }
            let print = compute_print(clips, config)?;
            known.voices.push(KnownVoice { name: name.clone(), created_at: now(), print });
            known.write(&file)?;
            print_result(args, &serde_json::json!({ "name": name }), format!("{name} is known on this machine\n"))
        }
        SpeakersCommand::List => {
            let list = known.voices.iter().map(|voice| (voice.name.clone(), voice.created_at));
            show(args, list.collect())
        }
        SpeakersCommand::Remove { name } => {
            let Some(place) = known.find(name.trim()) else { return Err(unknown(name)) };
            let gone = known.voices.remove(place).name;
            known.write(&file)?;
            print_result(args, &serde_json::json!({ "removed": gone }), format!("forgot the voice of {gone}\n"))
        }
    }
}

/// Voices of an account of a server.
fn run_remote(args: &SpeakersArgs, client: &Client) -> Result<(), CliError> {
    let listed = || client.get_json::<SpeakerList>("/v1/speakers").map(|list| list.speakers);
    match &args.command {
        SpeakersCommand::Enroll { name, clips } => {
            let [clip] = clips.as_slice() else {
                return Err(CliError::Usage(
                    "a server takes one clip: join them first, or give the longest".to_owned(),
                ));
            };
            let fields = [("name", checked(name)?)];
            let made: Speaker = remote::send_form(client, "/v1/speakers", &Input::File(clip.clone()), &fields)
                .map_err(|error| CliError::Failed(format!("{}: {error}", clip.display())))?;
            let text = format!("{} is known to the account\n", made.name);
            print_result(args, &serde_json::json!(made), text)
        }
        SpeakersCommand::List => {
            show(args, listed()?.into_iter().map(|known| (known.name, known.created_at)).collect())
        }
        SpeakersCommand::Remove { name } => {
            let is_named = |known: &Speaker| same(&known.name, name.trim());
            let Some(gone) = listed()?.into_iter().find(is_named) else { return Err(unknown(name)) };
            client.delete(&format!("/v1/speakers/{}", gone.id))?;
            print_result(
                args,
                &serde_json::json!({ "removed": gone.name }),
                format!("forgot the voice of {}\n", gone.name),
            )
        }
    }
}

/// Computes one voiceprint of all the clips, which must be of one voice.
fn compute_print(clips: &[PathBuf], config: &Config) -> Result<Voiceprint, CliError> {
    let library = ModelLibrary::open(config)?;
    let voices = voices(&library, &Compute::from_options(config.threads, None))?;
    let wrong = |clip: &Path, why: String| CliError::Failed(format!("{}: {why}", clip.display()));
    let mut prints: Vec<Voiceprint> = Vec::new();
    for clip in clips {
        let print = voices.print(Source::Path(clip.clone()), &hark_media::Options::default());
        let print = print.map_err(|error| wrong(clip, error.to_string()))?;
        if prints.first().is_some_and(|first| first.is_anothers(&print)) {
            return Err(wrong(clip, format!("is not the voice of {}: give clips of one person", clips[0].display())));
        }
        prints.push(print);
    }
    Voiceprint::together(&prints).ok_or_else(|| CliError::Usage("give at least one clip of the voice".to_owned()))
}

/// A name that can be read and printed.
fn checked(name: &str) -> Result<String, CliError> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(CliError::Usage(format!("a name has 1 to {MAX_NAME} characters that can be seen")));
    }
    Ok(name.to_owned())
}

fn unknown(name: &str) -> CliError {
    CliError::Failed(format!("no voice is called {name}: `hark speakers list` shows all"))
}

/// A name is the same whatever the case of its letters.
fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn now() -> DateTime {
    DateTime(hark_store::Clock::system().now())
}

fn show(args: &SpeakersArgs, known: Vec<(String, DateTime)>) -> Result<(), CliError> {
    if args.json {
        let list: Vec<_> =
            known.iter().map(|(name, at)| serde_json::json!({ "name": name, "created_at": at })).collect();
        return output::print(format!("{:#}\n", serde_json::json!({ "speakers": list })));
    }
    let rows: Vec<Vec<String>> = known.into_iter().map(|(name, at)| vec![name, moment(at)]).collect();
    output::print(table(&["name", "learned"], &rows))
}

fn print_result(args: &SpeakersArgs, json: &serde_json::Value, text: String) -> Result<(), CliError> {
    output::print(if args.json { format!("{json:#}\n") } else { text })
}
