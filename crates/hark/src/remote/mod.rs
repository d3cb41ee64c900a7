//! `hark transcribe --server`: uploads the recording, waits for the transcript, and downloads it.

mod client;
mod upload;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use hark_api::{Accepted, Credits, TranscriptState, TranscriptStatus, TranscriptionResult};
use hark_speech::{Channels, Speakers};

pub(crate) use client::{Client, RemoteError, read};

use crate::CliError;
use crate::cli::{RemoteArgs, Task, TranscribeArgs};
use crate::config::Config;
use crate::transcribe::{Input, noticed};
use upload::Form;

/// How often the status of a transcript is polled: soon at first, then less often.
const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(200);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a server may be unreachable while it transcribes; it may be restarting.
const MAX_UNREACHABLE: Duration = Duration::from_secs(120);
/// The longest `Retry-After` that is waited for, in seconds; a longer one is reported instead.
const MAX_RETRY_AFTER: u64 = 60;
/// How often one recording is sent when the connection breaks.
const MAX_ATTEMPTS: u32 = 4;
/// How long an interrupted program waits to learn which transcripts it has to cancel.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// How far a recording is.
pub(crate) enum Stage {
    /// Bytes sent, and in all where that is known.
    Sending(u64, Option<u64>),
    /// Its position in the queue.
    Queued(Option<u64>),
    /// Percent transcribed.
    Working(u8),
}

/// A server that transcribes for us.
pub(crate) struct Remote {
    client: Client,
    fields: Vec<(&'static str, String)>,
    /// Transcripts that the server works on.
    in_progress: Mutex<HashSet<i64>>,
    /// Recordings that are sent completely and whose transcript has no known id yet.
    awaiting_id: AtomicUsize,
    /// How many more transcriptions the account may have at once.
    slots: Mutex<usize>,
    freed: Condvar,
}

/// How many transcriptions the account may have at once; asking also tells whether the key is valid, before anything is sent.
fn slots(client: &Client) -> Result<usize, CliError> {
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
        let Some(client) = Client::from_args(&args.remote)? else { return Ok(None) };
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
        put("vad", args.vad.map(hark_speech::VoiceActivity::name));
        let (diarize, speakers) = match args.speakers {
            None => (None, None),
            Some(Speakers::Off) => (Some("false"), None),
            Some(Speakers::Auto) => (Some("true"), None),
            Some(Speakers::Exactly(count)) => (Some("true"), Some(count.to_string())),
        };
        put("diarize", diarize);
        put("speakers", speakers.as_deref());
        put("identify", args.identify.then_some("true"));
        put("channels", Some(args.channels.name()).filter(|_| args.channels != Channels::default()));
        put("translate", (args.speech.task == Task::Translate).then_some("true"));
        let slots = Mutex::new(slots(&client)?);
        Ok(Some(Remote {
            client,
            fields,
            in_progress: Mutex::default(),
            awaiting_id: AtomicUsize::new(0),
            slots,
            freed: Condvar::new(),
        }))
    }

    /// Blocks until the server has transcribed the recording.
    pub(crate) fn transcribe(
        &self,
        input: &Input,
        stage: &mut dyn FnMut(Stage),
    ) -> Result<TranscriptionResult, String> {
        let _slot = self.acquire_slot(stage);
        if !self.client.has_key() {
            // Without an account there is no later request for it: the answer is the transcript.
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
        // What is in progress when the program is interrupted stays on the list, to be cancelled.
        if outcome.is_ok() || noticed().is_none() {
            self.lock().remove(&id);
        }
        outcome
    }

    /// Waits until the account may have one more transcription. Those of other clients are not known here: for them the server
    /// answers 429.
    fn acquire_slot(&self, stage: &mut dyn FnMut(Stage)) -> Slot<'_> {
        let mut free = self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while *free == 0 {
            stage(Stage::Queued(None));
            free = self.freed.wait(free).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *free -= 1;
        Slot(self)
    }

    /// Sends the form, again where the connection breaks or the server says `Retry-After`. An `Idempotency-Key` makes that safe.
    fn send<T>(
        &self,
        input: &Input,
        path: &str,
        stage: &mut dyn FnMut(Stage),
        read: impl Fn(client::Answer) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        let name = client::random_name();
        let begun = Instant::now();
        let mut attempts = 0;
        let mut form = Form::open(input, &self.fields)?;
        loop {
            let sent = {
                let sending = AwaitingId { count: &self.awaiting_id, is_counted: false.into() };
                let answer = self.client.post_form(path, &name, &mut form, &mut |sent, total| {
                    if total.is_some_and(|total| sent >= total) {
                        sending.begin();
                    }
                    stage(Stage::Sending(sent, total));
                });
                answer.and_then(&read)
            };
            let error = match sent {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            attempts += 1;
            let wait = match &error {
                _ if noticed().is_some() => return Err(error),
                RemoteError::Refused { status: 429 | 503, retry_after: Some(wait), .. } if *wait <= MAX_RETRY_AFTER => {
                    if begun.elapsed() > Duration::from_secs(3600) {
                        return Err(error);
                    }
                    Duration::from_secs((*wait).clamp(1, 5))
                }
                RemoteError::Unreachable(_) | RemoteError::Refused { status: 502, .. } if attempts < MAX_ATTEMPTS => {
                    Duration::from_secs(u64::from(attempts))
                }
                _ => return Err(error),
            };
            // What was read of a long pipe can't be read again.
            if !form.restart()? {
                return Err(error);
            }
            stage(Stage::Queued(None));
            sleep(wait);
        }
    }

    fn wait(&self, id: i64, stage: &mut dyn FnMut(Stage)) -> Result<TranscriptionResult, String> {
        let mut interval = FIRST_POLL_INTERVAL;
        let mut unreachable_since: Option<Instant> = None;
        loop {
            sleep(interval);
            interval = (interval * 5 / 4).min(MAX_POLL_INTERVAL);
            if noticed().is_some() {
                return Err("interrupted".to_owned());
            }
            let state: TranscriptState = match self.client.get_json(&format!("/v1/transcripts/{id}/status")) {
                Ok(state) => state,
                Err(error)
                    if error.is_transient()
                        && unreachable_since.is_none_or(|since| since.elapsed() < MAX_UNREACHABLE) =>
                {
                    unreachable_since.get_or_insert_with(Instant::now);
                    continue;
                }
                Err(error) => return Err(format!("transcript {id}: {error}")),
            };
            unreachable_since = None;
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

    /// Cancels what the server still works on: the program was interrupted.
    pub(crate) fn cancel(&self) {
        let until = Instant::now() + CANCEL_TIMEOUT;
        // A recording that is sent completely may be accepted at any moment: its id is worth a short wait. Without an account it
        // has none, and ends with the connection.
        while self.client.has_key() && self.awaiting_id.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let in_progress: Vec<i64> = self.lock().drain().collect();
        for id in in_progress {
            if let Err(error) = self.client.delete(&format!("/v1/transcripts/{id}")) {
                eprintln!("hark: transcript {id} could not be cancelled: {error}");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.in_progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The right to one transcription; dropping it lets the next begin.
struct Slot<'a>(&'a Remote);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
        self.0.freed.notify_one();
    }
}

/// Counts a recording from when it is sent completely until its id is known.
struct AwaitingId<'a> {
    count: &'a AtomicUsize,
    is_counted: std::cell::Cell<bool>,
}

impl AwaitingId<'_> {
    fn begin(&self) {
        if !self.is_counted.replace(true) {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for AwaitingId<'_> {
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

/// Sends a recording with some fields and reads the answer; once, since not every path is idempotent.
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
    let client = Client::from_args(args)?
        .ok_or_else(|| CliError::Usage("say which server: --server URL or HARK_SERVER".to_owned()))?;
    if !client.has_key() {
        return Err(CliError::Usage("an API key is needed: give --key KEY or set HARK_KEY".to_owned()));
    }
    Ok(client)
}
