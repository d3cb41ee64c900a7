//! `hark speakers`: people whose voices are known, on this machine or in an account of a server.

mod kept;

use std::path::{Path, PathBuf};

use hark_api::{DateTime, Speaker, SpeakerList};
use hark_media::Source;
use hark_models::SPEAKER_MODELS;
use hark_speech::{Voiceprint, Voices};

use crate::cli::{Common, SpeakersArgs, SpeakersCommand};
use crate::config::Config;
use crate::models::Shelf;
use crate::remote::{self, Client};
use crate::table::{moment, table};
use crate::transcribe::{Input, installed};
use crate::{CliError, output};
use kept::{Kept, Known};

/// Characters of a name, as a server has it.
const MAX_NAME: usize = 200;

/// Runs the command.
pub(crate) fn run(args: &SpeakersArgs, common: &Common) -> Result<(), CliError> {
    match Client::of(&args.remote)? {
        Some(_) => there(args, &remote::needed(&args.remote)?),
        None => here(args, &Config::load(common)?),
    }
}

/// The voices that are known on this machine, for a run that wants to name them.
pub(crate) fn known_here() -> Result<Vec<(String, Voiceprint)>, CliError> {
    let kept = Kept::read(&kept::file())?;
    if kept.voices.is_empty() {
        return Err(CliError::Failed(
            "no voices are known on this machine: `hark speakers enroll NAME CLIP` teaches one".to_owned(),
        ));
    }
    Ok(kept.voices.into_iter().map(|known| (known.name, known.print)).collect())
}

fn here(args: &SpeakersArgs, config: &Config) -> Result<(), CliError> {
    let file = kept::file();
    let mut kept = Kept::read(&file)?;
    match &args.command {
        SpeakersCommand::Enroll { name, clips } => {
            let name = checked(name)?;
            if kept.find(&name).is_some() {
                return Err(CliError::Failed(format!(
                    "{name} is known already: `hark speakers remove {name}` forgets the voice"
                )));
            }
            let print = listen(clips, config)?;
            kept.voices.push(Known { name: name.clone(), created_at: now(), print });
            kept.write(&file)?;
            say(args, &serde_json::json!({ "name": name }), format!("{name} is known on this machine\n"))
        }
        SpeakersCommand::List => {
            let list = kept.voices.iter().map(|known| (known.name.clone(), known.created_at));
            show(args, list.collect())
        }
        SpeakersCommand::Remove { name } => {
            let Some(place) = kept.find(name.trim()) else { return Err(unknown(name)) };
            let gone = kept.voices.remove(place).name;
            kept.write(&file)?;
            say(args, &serde_json::json!({ "removed": gone }), format!("forgot the voice of {gone}\n"))
        }
    }
}

fn there(args: &SpeakersArgs, client: &Client) -> Result<(), CliError> {
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
            let said = format!("{} is known to the account\n", made.name);
            say(args, &serde_json::json!(made), said)
        }
        SpeakersCommand::List => {
            show(args, listed()?.into_iter().map(|known| (known.name, known.created_at)).collect())
        }
        SpeakersCommand::Remove { name } => {
            let is_named = |known: &Speaker| same(&known.name, name.trim());
            let Some(gone) = listed()?.into_iter().find(is_named) else { return Err(unknown(name)) };
            client.delete(&format!("/v1/speakers/{}", gone.id))?;
            say(args, &serde_json::json!({ "removed": gone.name }), format!("forgot the voice of {}\n", gone.name))
        }
    }
}

/// One print of all the clips, which must be of one voice.
fn listen(clips: &[PathBuf], config: &Config) -> Result<Voiceprint, CliError> {
    let shelf = Shelf::open(config)?;
    let [segmentation, embedding] = SPEAKER_MODELS.map(|name| installed(&shelf, name));
    let voices = Voices::load(&segmentation?, &embedding?, config.threads, None);
    let voices = voices.map_err(|error| CliError::Failed(error.to_string()))?;
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

fn say(args: &SpeakersArgs, json: &serde_json::Value, text: String) -> Result<(), CliError> {
    output::print(if args.json { format!("{json:#}\n") } else { text })
}
