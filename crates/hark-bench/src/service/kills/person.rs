//! Somebody with an account who does everything one can do, and remembers what they were told.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hark_store::{AccountId, KeyId};

use super::{Login, World, random};
use crate::service::client::{Answer, Connection, around, form_type, request, upload, wav};

/// Samples a second of the recordings: few, so that minutes of them are small.
const RATE: u32 = 2000;
/// Seconds of the recordings that people send; a begun minute costs a credit.
const LENGTHS: [u32; 3] = [1, 61, 121];
/// An answer may take this long, since work of the dead goes on when their lease ends.
const PATIENCE: Duration = Duration::from_secs(60);
/// How the store says that every attempt was killed; the fault is ours, and the reason is given.
const ALL_DIED: &str = "the recording could not be transcribed: every attempt ended unexpectedly";
/// Until then every process has noticed that a key is revoked.
const REVOKED: Duration = Duration::from_secs(10);
/// A repeat that is told to wait asks so many times.
const REPEATS: u32 = 40;
/// Who is told to wait for longer asks earlier.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What somebody knows of a recording they sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) enum Outcome {
    /// The connection broke, or they left, before an answer came.
    Nothing,
    /// It was refused, or broken off before its end: no trace of it may be.
    Refused,
    /// It will be transcribed, under this id.
    Accepted(i64),
    /// It is transcribed.
    Completed(i64),
    /// It failed, for a reason.
    Failed(i64),
    /// It was deleted after it was completed.
    DeletedCompleted(i64),
    /// It was deleted, nobody knows how far it was.
    Deleted(i64),
}

/// A key that somebody made.
#[derive(Debug, Clone)]
pub(in crate::service) struct MadeKey {
    /// Its secret, where the answer came.
    pub(in crate::service) secret: Option<String>,
    pub(in crate::service) is_revoked: bool,
}

/// What somebody remembers.
#[derive(Debug)]
pub(in crate::service) struct Notes {
    pub(in crate::service) account: AccountId,
    pub(in crate::service) key: KeyId,
    /// Recordings by title, with what they cost.
    pub(in crate::service) recordings: HashMap<String, (Outcome, i64)>,
    /// Keys by name.
    pub(in crate::service) keys: HashMap<String, MadeKey>,
    /// Connections that broke.
    pub(in crate::service) broken: u64,
    /// Failures while a fault lasted.
    pub(in crate::service) excused: u64,
    /// Answers that asked to come back later.
    pub(in crate::service) limited: u64,
    /// Repeats of requests that were sent.
    pub(in crate::service) repeats: u64,
    pub(in crate::service) wrong: Vec<String>,
}

pub(in crate::service) struct Person {
    secret: String,
    from: Ipv4Addr,
    world: Option<Arc<World>>,
    notes: Notes,
    sent: u64,
    /// Whether a fault excuses the answer that came last.
    is_excused: bool,
}

impl Person {
    pub(in crate::service) fn new(login: Login) -> Self {
        let Login { account, key, secret, from } = login;
        let notes = Notes {
            account,
            key,
            recordings: HashMap::new(),
            keys: HashMap::new(),
            broken: 0,
            excused: 0,
            limited: 0,
            repeats: 0,
            wrong: Vec::new(),
        };
        Person { secret, from, world: None, notes, sent: 0, is_excused: false }
    }

    /// Does one thing after the other until it is over.
    pub(in crate::service) async fn live(mut self, world: Arc<World>) -> Notes {
        self.world = Some(Arc::clone(&world));
        let recordings = LENGTHS.map(|seconds| wav(seconds, RATE));
        while !world.is_over() {
            let which = random(LENGTHS.len() as u64) as usize;
            let (recording, cost) = (&recordings[which], which as i64 + 1);
            let done = match random(12) {
                0 | 1 => self.send_and_wait(recording, cost).await,
                2 | 3 => self.send_and_come_back(recording, cost).await,
                4 | 5 => self.send_with_a_name(recording, cost).await,
                6 => self.leave(recording, cost).await,
                7 => self.break_off(recording, cost).await,
                8 => self.look_around().await,
                9 => self.delete_completed().await,
                10 => self.delete_early(recording, cost).await,
                _ => self.make_a_key().await,
            };
            if done.is_err() {
                self.notes.broken += 1;
            }
        }
        self.notes
    }

    /// Goes to another world.
    pub(in crate::service) fn move_to(&mut self, world: Arc<World>) {
        self.world = Some(world);
    }

    /// What was remembered, at the end.
    pub(in crate::service) fn notes(self) -> Notes {
        self.notes
    }

    /// Whether transcripts can be listed.
    pub(in crate::service) async fn can_list(&mut self) -> bool {
        let answer = self.ask(&request("GET", "/v1/transcripts", &self.secret, &[], &[])).await;
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// Whether a key can be made.
    pub(in crate::service) async fn can_make_a_key(&mut self) -> bool {
        let name = self.name("probe");
        let body = serde_json::json!({ "name": name }).to_string();
        let headers = [("content-type", "application/json")];
        let answer = self.ask(&request("POST", "/v1/keys", &self.secret, &headers, body.as_bytes())).await;
        answer.is_ok_and(|answer| answer.status == 201)
    }

    /// Whether a recording is transcribed while one waits.
    pub(in crate::service) async fn can_transcribe(&mut self) -> bool {
        let title = self.name("probe");
        self.note(&title, Outcome::Nothing, 1);
        let recording = wav(LENGTHS[0], RATE);
        let Ok(answer) = self.ask(&upload("/v1/transcribe", &self.secret, &[], &title, &recording)).await else {
            return false;
        };
        let outcome = self.read("a probe", &answer);
        self.note(&title, outcome, 1);
        matches!(outcome, Outcome::Completed(_))
    }

    /// Waits for a living server and connects to it.
    async fn connect(&self) -> io::Result<Connection> {
        let Some(world) = &self.world else { return Err(io::ErrorKind::NotConnected.into()) };
        Connection::open_from(self.from, world.any_address().await?).await
    }

    /// Asks once. A failure that a fault excuses is as good as a broken connection: nothing is known of what was asked.
    async fn ask(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        let troubles = self.world.as_ref().map_or(0, |world| world.troubles());
        let asked = async {
            let mut connection = self.connect().await?;
            connection.ask(bytes).await
        };
        let answer = tokio::time::timeout(PATIENCE, asked).await;
        let Ok(answer) = answer else {
            self.notes.wrong.push(format!("no answer for {} s", PATIENCE.as_secs()));
            return Err(io::ErrorKind::TimedOut.into());
        };
        let answer = answer?;
        if let Some(world) = &self.world {
            world.answers.fetch_add(1, Ordering::Relaxed);
            self.is_excused = answer.status >= 500 && world.excuses(troubles);
        }
        if self.is_excused {
            self.notes.excused += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
            // With the name of a transcript it says that it was accepted.
            if answer.header("x-transcript-id").is_none() {
                return Err(io::Error::other("a failure that a fault excuses"));
            }
        }
        if answer.status == 429 {
            self.notes.limited += 1;
            let wait = answer.retry_after().map_or(Duration::from_millis(100), Duration::from_secs);
            tokio::time::sleep(wait.min(LONGEST_WAIT)).await;
        }
        Ok(answer)
    }

    /// Asks until an answer comes.
    async fn insist(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        loop {
            match self.ask(bytes).await {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                Err(_) => {
                    self.notes.repeats += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                answer => return answer,
            }
        }
    }

    /// A name that nothing had before.
    fn name(&mut self, what: &str) -> String {
        self.sent += 1;
        format!("{what}-{}-{}", self.notes.account, self.sent)
    }

    fn note(&mut self, title: &str, outcome: Outcome, cost: i64) {
        self.notes.recordings.insert(title.to_owned(), (outcome, cost));
    }

    fn complain(&mut self, what: &str, answer: &Answer) {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        self.notes.wrong.push(format!("{what} was answered {}: {body}", answer.status));
    }

    /// What an answer to an upload tells.
    fn read(&mut self, what: &str, answer: &Answer) -> Outcome {
        let id = answer.header("x-transcript-id").and_then(|id| id.parse().ok());
        let body = answer.json();
        match (answer.status, id) {
            (200, Some(id)) if body["text"] == "nothing was heard" => Outcome::Completed(id),
            (202, Some(id)) if body["id"] == id => Outcome::Accepted(id),
            (500, Some(id)) if body["error"].as_str().is_some_and(|error| error.starts_with(ALL_DIED)) => {
                Outcome::Failed(id)
            }
            // Whatever became of the answer, the recording was taken.
            (500.., Some(id)) if self.is_excused => Outcome::Accepted(id),
            (429, None) => Outcome::Refused,
            _ => {
                self.complain(what, answer);
                Outcome::Nothing
            }
        }
    }

    async fn send_and_wait(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("waited");
        self.note(&title, Outcome::Nothing, cost);
        let answer = self.ask(&upload("/v1/transcribe", &self.secret, &[], &title, recording)).await?;
        let outcome = self.read("an upload", &answer);
        self.note(&title, outcome, cost);
        Ok(())
    }

    async fn send(&mut self, what: &str, recording: &[u8], cost: i64) -> io::Result<(String, Outcome)> {
        let title = self.name(what);
        self.note(&title, Outcome::Nothing, cost);
        let answer = self.ask(&upload("/v1/transcribe?async=true", &self.secret, &[], &title, recording)).await?;
        let outcome = self.read("an asynchronous upload", &answer);
        self.note(&title, outcome, cost);
        Ok((title, outcome))
    }

    async fn send_and_come_back(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let (title, Outcome::Accepted(id)) = self.send("async", recording, cost).await? else { return Ok(()) };
        for _ in 0..random(20) {
            let path = format!("/v1/transcripts/{id}/status");
            let answer = self.ask(&request("GET", &path, &self.secret, &[], &[])).await?;
            let body = answer.json();
            match (answer.status, body["status"].as_str()) {
                (200, Some("completed")) => self.note(&title, Outcome::Completed(id), cost),
                (200, Some("failed")) => self.note(&title, Outcome::Failed(id), cost),
                (200, Some("queued" | "processing")) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                (429, _) => continue,
                _ => self.complain("the status of an accepted upload", &answer),
            }
            break;
        }
        Ok(())
    }

    /// Repeats an upload until its answer comes, sometimes twice at once, and sometimes once more.
    async fn send_with_a_name(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("named");
        self.note(&title, Outcome::Nothing, cost);
        let path = if random(2) == 0 { "/v1/transcribe" } else { "/v1/transcribe?async=true" };
        let bytes = upload(path, &self.secret, &[("idempotency-key", title.as_str())], &title, recording);
        if random(3) == 0 {
            // Somebody else with the same request, who goes away without a word.
            let (mut other, patience) = (self.connect().await?, Duration::from_millis(random(50)));
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let _ = tokio::time::timeout(patience, other.ask(&bytes)).await;
            });
        }
        let mut first = None;
        let mut left = 1 + random(2);
        while left > 0 {
            let answer = self.insist(&bytes).await?;
            // The one who went away was first, and the job was called off before we came: so the contract has it.
            if answer.status == 409 {
                let id = answer.header("x-transcript-id").and_then(|id| id.parse().ok());
                self.note(&title, id.map_or(Outcome::Nothing, Outcome::Failed), cost);
                return Ok(());
            }
            let outcome = self.read("a named upload", &answer);
            match outcome {
                Outcome::Completed(id) | Outcome::Accepted(id) | Outcome::Failed(id) => {
                    if *first.get_or_insert(id) != id {
                        self.notes.wrong.push(format!("a repeat of {title} made {id} beside {first:?}"));
                    }
                    self.note(&title, outcome, cost);
                    left -= 1;
                }
                // Full places: they become free.
                Outcome::Refused if first.is_none() => continue,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Sends a recording and goes away without waiting for its transcript.
    async fn leave(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("left");
        self.note(&title, Outcome::Nothing, cost);
        let mut connection = self.connect().await?;
        connection.send(&upload("/v1/transcribe", &self.secret, &[], &title, recording)).await?;
        tokio::time::sleep(Duration::from_millis(random(40))).await;
        Ok(())
    }

    /// Goes away in the middle of an upload: no trace of it may stay.
    async fn break_off(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("broken");
        self.note(&title, Outcome::Refused, cost);
        let (before, after) = around(&title);
        let whole = [&before, recording, &after].concat();
        let kind = form_type();
        let bytes = request("POST", "/v1/transcribe", &self.secret, &[("content-type", &kind)], &whole);
        let sent = bytes.len() - after.len() - 1 - random(recording.len() as u64) as usize;
        let mut connection = self.connect().await?;
        connection.send(&bytes[..sent]).await?;
        tokio::time::sleep(Duration::from_millis(random(20))).await;
        Ok(())
    }

    async fn look_around(&mut self) -> io::Result<()> {
        for path in ["/v1/transcripts?per_page=100", "/v1/credits", "/v1/account", "/v1/keys", "/v1/usage"] {
            let answer = self.ask(&request("GET", path, &self.secret, &[], &[])).await?;
            if answer.status != 200 {
                self.complain(path, &answer);
            }
        }
        Ok(())
    }

    /// Deletes a transcript until it is told that it is gone.
    async fn delete(&mut self, id: i64) -> io::Result<bool> {
        let path = format!("/v1/transcripts/{id}");
        let before = self.notes.repeats;
        let answer = self.insist(&request("DELETE", &path, &self.secret, &[], &[])).await?;
        // A repeat may find it gone.
        if answer.status != 200 && !(answer.status == 404 && self.notes.repeats > before) {
            self.complain("a deletion", &answer);
            return Ok(false);
        }
        Ok(true)
    }

    async fn delete_completed(&mut self) -> io::Result<()> {
        let found = self.notes.recordings.iter().find_map(|(title, (outcome, cost))| match outcome {
            Outcome::Completed(id) => Some((title.clone(), *id, *cost)),
            _ => None,
        });
        let Some((title, id, cost)) = found else { return Ok(()) };
        if !self.delete(id).await? {
            return Ok(());
        }
        self.note(&title, Outcome::DeletedCompleted(id), cost);
        let answer = self.ask(&request("GET", &format!("/v1/transcripts/{id}"), &self.secret, &[], &[])).await?;
        if answer.status != 404 {
            self.complain("a deleted transcript", &answer);
        }
        Ok(())
    }

    /// Deletes a transcript that may be queued, worked on or done.
    async fn delete_early(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let (title, Outcome::Accepted(id)) = self.send("early", recording, cost).await? else { return Ok(()) };
        tokio::time::sleep(Duration::from_millis(random(30))).await;
        if self.delete(id).await? {
            self.note(&title, Outcome::Deleted(id), cost);
        }
        Ok(())
    }

    /// Makes a key, once however often it is asked for, uses it, and sometimes revokes it.
    async fn make_a_key(&mut self) -> io::Result<()> {
        let name = self.name("key");
        self.notes.keys.insert(name.clone(), MadeKey { secret: None, is_revoked: false });
        let body = serde_json::json!({ "name": name }).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", name.as_str())];
        let bytes = request("POST", "/v1/keys", &self.secret, &headers, body.as_bytes());
        let mut tries = 0;
        let answer = loop {
            let answer = self.insist(&bytes).await?;
            tries += 1;
            if answer.status != 409 || tries > REPEATS {
                break answer;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        };
        let made = answer.json();
        let (201, Some(secret), Some(id)) = (answer.status, made["key"].as_str(), made["id"].as_i64()) else {
            self.complain("a new key", &answer);
            return Ok(());
        };
        self.notes.keys.insert(name.clone(), MadeKey { secret: Some(secret.to_owned()), is_revoked: false });
        self.expect_key(secret, 200).await?;
        if random(2) == 0 {
            let before = self.notes.repeats;
            let answer = self.insist(&request("DELETE", &format!("/v1/keys/{id}"), &self.secret, &[], &[])).await?;
            if answer.status != 200 && !(answer.status == 404 && self.notes.repeats > before) {
                self.complain("a revocation", &answer);
                return Ok(());
            }
            self.notes.keys.insert(name, MadeKey { secret: Some(secret.to_owned()), is_revoked: true });
            self.expect_key(secret, 401).await?;
        }
        Ok(())
    }

    async fn expect_key(&mut self, secret: &str, status: u16) -> io::Result<()> {
        // Other processes than the one that revoked a key believe it for a second, or longer on a busy machine.
        let begun = std::time::Instant::now();
        loop {
            let answer = self.ask(&request("GET", "/v1/account", secret, &[], &[])).await?;
            if answer.status == status {
                return Ok(());
            }
            if status != 401 || answer.status != 200 || begun.elapsed() > REVOKED {
                self.complain(&format!("a key that should give {status}"), &answer);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
