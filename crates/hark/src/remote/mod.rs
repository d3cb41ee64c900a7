//! `hark transcribe --server`: the recording goes up, the words come down, and the rest is as on this machine.

mod client;
mod upload;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use hark_api::{Accepted, Credits, TranscriptState, TranscriptStatus, TranscriptionResult};
use hark_speech::Speakers;

pub(crate) use client::{Client, RemoteError, read};

use crate::CliError;
use crate::cli::{RemoteArgs, Task, TranscribeArgs};
use crate::config::Config;
use crate::transcribe::{Input, noticed};
use upload::Form;

/// How often a transcript is asked about: soon at first, then less often.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LAST_LOOK: Duration = Duration::from_secs(2);
/// A server that can't be reached for this long while it works for us is given up; it may have been restarted meanwhile.
const PATIENCE: Duration = Duration::from_secs(120);
/// A server that says "later" is believed up to this wait; a longer one is told to the user instead.
const LONGEST_WAIT: u64 = 60;
/// How often one recording is sent when the connection breaks.
const TRIES: u32 = 4;
/// How long leaving may take: transcripts under way are called off first.
const FAREWELL: Duration = Duration::from_secs(3);

/// How far a recording is.
pub(crate) enum Stage {
    /// Bytes sent, and in all where that is known.
    Sending(u64, Option<u64>),
    /// It waits at this place of the queue.
    Queued(Option<u64>),
    /// Percent heard.
    Working(u8),
}

/// A server that transcribes for us.
pub(crate) struct Remote {
    client: Client,
    fields: Vec<(&'static str, String)>,
    /// Transcripts that the server works on for us.
    live: Mutex<HashSet<i64>>,
    /// Recordings that are sent whole and whose transcript we don't know yet.
    unnamed: AtomicUsize,
    /// Recordings that the account may still have under way.
    places: Mutex<usize>,
    freed: Condvar,
}

/// How many recordings the account may have under way; asking also tells whether the key holds, before anything is sent.
fn places(client: &Client) -> Result<usize, CliError> {
    if !client.has_key() {
        return Ok(1);
    }
    match client.get_json("/v1/credits")? {
        Credits::Account(account) if account.is_active => Ok(5),
        _ => Ok(2),
    }
}

impl Remote {
    /// The server that the arguments name, if they name one.
    pub(crate) fn of(args: &TranscribeArgs, config: &Config, words: bool) -> Result<Option<Self>, CliError> {
        let Some(client) = Client::of(&args.remote)? else { return Ok(None) };
        let only_here = [
            (args.beam.is_some(), "--beam"),
            (!args.temperature.is_empty(), "--temperature"),
            (args.condition, "--condition"),
            (args.track.is_some(), "--track"),
        ];
        if let Some((_, flag)) = only_here.iter().find(|(is_given, _)| *is_given) {
            return Err(CliError::Usage(format!(
                "{flag} works only on this machine: leave it out, or leave out --server"
            )));
        }
        let mut fields = vec![("word_timestamps", words.to_string())];
        let mut put = |name, value: Option<&str>| {
            if let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) {
                fields.push((name, value.to_owned()));
            }
        };
        put("model", args.speech.model.as_deref().or(config.model.as_deref()));
        put("language", args.speech.language.as_deref().or(config.language.as_deref()));
        put("prompt", args.speech.prompt.as_deref());
        put("hotwords", args.speech.hotwords.as_deref());
        let (diarize, speakers) = match args.speakers {
            None => (None, None),
            Some(Speakers::Off) => (Some("false"), None),
            Some(Speakers::Auto) => (Some("true"), None),
            Some(Speakers::Exactly(count)) => (Some("true"), Some(count.to_string())),
        };
        put("diarize", diarize);
        put("speakers", speakers.as_deref());
        put("identify", args.identify.then_some("true"));
        put("translate", (args.speech.task == Task::Translate).then_some("true"));
        let places = Mutex::new(places(&client)?);
        Ok(Some(Remote {
            client,
            fields,
            live: Mutex::default(),
            unnamed: AtomicUsize::new(0),
            places,
            freed: Condvar::new(),
        }))
    }

    /// Blocks until the server has transcribed the recording.
    pub(crate) fn transcribe(
        &self,
        input: &Input,
        stage: &mut dyn FnMut(Stage),
    ) -> Result<TranscriptionResult, String> {
        let _place = self.place(stage);
        if !self.client.has_key() {
            // Without an account nobody could come back for it: the answer is the transcript.
            let path = "/v1/transcribe";
            return self.send(input, path, stage, client::read_json).map_err(|error| error.to_string());
        }
        let accepted = self.send(input, "/v1/transcribe?async=true", stage, |answer| {
            let accepted: Accepted = client::read_json(answer)?;
            self.lock().insert(accepted.id);
            Ok(accepted)
        });
        let id = accepted.map_err(|error| error.to_string())?.id;
        let outcome = self.wait(id, stage);
        // What is under way when the user leaves stays on the list, to be called off.
        if outcome.is_ok() || noticed().is_none() {
            self.lock().remove(&id);
        }
        outcome
    }

    /// Waits until the account may have one more under way. What others of the account do is not known here: then the server
    /// says "later".
    fn place(&self, stage: &mut dyn FnMut(Stage)) -> Place<'_> {
        let mut free = self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while *free == 0 {
            stage(Stage::Queued(None));
            free = self.freed.wait(free).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *free -= 1;
        Place(self)
    }

    /// Sends the form, again where the connection breaks or the server says "later". An `Idempotency-Key` makes that safe.
    fn send<T>(
        &self,
        input: &Input,
        path: &str,
        stage: &mut dyn FnMut(Stage),
        read: impl Fn(client::Answer) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        let name = client::random_name();
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            let mut form = Form::open(input, &self.fields)?;
            let sent = {
                let sending = Unnamed { count: &self.unnamed, is_counted: false.into() };
                let answer = self.client.post_form(path, &name, &mut form, &mut |sent, total| {
                    if total.is_some_and(|total| sent >= total) {
                        sending.sent_whole();
                    }
                    stage(Stage::Sending(sent, total));
                });
                answer.and_then(&read)
            };
            let error = match sent {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            tries += 1;
            let wait = match &error {
                _ if noticed().is_some() => return Err(error),
                // Whoever reads a pipe can't read it again.
                _ if *input == Input::Stdin && form.has_begun() => return Err(error),
                RemoteError::Refused { status: 429 | 503, retry_after: Some(wait), .. } if *wait <= LONGEST_WAIT => {
                    if begun.elapsed() > Duration::from_secs(3600) {
                        return Err(error);
                    }
                    Duration::from_secs((*wait).clamp(1, 5))
                }
                RemoteError::Broken(_) | RemoteError::Refused { status: 502, .. } if tries < TRIES => {
                    Duration::from_secs(u64::from(tries))
                }
                _ => return Err(error),
            };
            stage(Stage::Queued(None));
            sleep(wait);
        }
    }

    fn wait(&self, id: i64, stage: &mut dyn FnMut(Stage)) -> Result<TranscriptionResult, String> {
        let mut look = FIRST_LOOK;
        let mut silent_since: Option<Instant> = None;
        loop {
            sleep(look);
            look = (look * 5 / 4).min(LAST_LOOK);
            if noticed().is_some() {
                return Err("interrupted".to_owned());
            }
            let state: TranscriptState = match self.client.get_json(&format!("/v1/transcripts/{id}/status")) {
                Ok(state) => state,
                Err(error) if error.may_pass() && silent_since.is_none_or(|since| since.elapsed() < PATIENCE) => {
                    silent_since.get_or_insert_with(Instant::now);
                    continue;
                }
                Err(error) => return Err(format!("transcript {id}: {error}")),
            };
            silent_since = None;
            match state.status {
                TranscriptStatus::Queued => stage(Stage::Queued(state.queue_position)),
                TranscriptStatus::Processing => stage(Stage::Working(state.progress)),
                TranscriptStatus::Completed => break,
                TranscriptStatus::Failed => {
                    return Err(state.error.unwrap_or_else(|| "the server could not transcribe it".to_owned()));
                }
            }
        }
        let path = format!("/v1/transcripts/{id}/export/json");
        self.client.get_json(&path).map_err(|error| format!("transcript {id}: {error}"))
    }

    /// Calls off what the server still works on for us; the user wants to leave.
    pub(crate) fn cancel(&self) {
        let until = Instant::now() + FAREWELL;
        // A recording that is sent whole may be accepted at any moment: its name is worth a short wait. Without an account it
        // has none, and ends with the connection.
        while self.client.has_key() && self.unnamed.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let live: Vec<i64> = self.lock().drain().collect();
        for id in live {
            if let Err(error) = self.client.delete(&format!("/v1/transcripts/{id}")) {
                eprintln!("hark: transcript {id} could not be called off: {error}");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.live.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A recording under way; dropping it lets the next begin.
struct Place<'a>(&'a Remote);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
        self.0.freed.notify_one();
    }
}

/// Counts a recording from the moment it is sent whole until it has a name.
struct Unnamed<'a> {
    count: &'a AtomicUsize,
    is_counted: std::cell::Cell<bool>,
}

impl Unnamed<'_> {
    fn sent_whole(&self) {
        if !self.is_counted.replace(true) {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if self.is_counted.get() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Sleeps, but not through an interrupt.
fn sleep(time: Duration) {
    let until = Instant::now() + time;
    while noticed().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())));
    }
}

/// Sends a recording with some fields and reads the answer; once, since not every path knows a repeat.
pub(crate) fn send_form<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
    input: &Input,
    fields: &[(&'static str, String)],
) -> Result<T, RemoteError> {
    let mut form = Form::open(input, fields)?;
    client::read_json(client.post_form(path, &client::random_name(), &mut form, &mut |_, _| {})?)
}

/// The server that a command needs.
pub(crate) fn needed(args: &RemoteArgs) -> Result<Client, CliError> {
    let client =
        Client::of(args)?.ok_or_else(|| CliError::Usage("say which server: --server URL or HARK_SERVER".to_owned()))?;
    if !client.has_key() {
        return Err(CliError::Usage("an API key is needed: give --key KEY or set HARK_KEY".to_owned()));
    }
    Ok(client)
}
