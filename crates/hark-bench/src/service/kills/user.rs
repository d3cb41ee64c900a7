//! A simulated user: performs random requests and records the state that the responses promise.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hark_store::{AccountId, KeyId};

use super::{Environment, Login, random};
use crate::service::client::{Answer, Connection, around, form_type, request, upload, wav};

/// Samples a second of the recordings: few, so that minutes of them are small.
const RATE: u32 = 2000;
/// Seconds of the recordings; a started minute costs a credit.
const LENGTHS: [u32; 3] = [1, 61, 121];
/// Response timeout: jobs of a killed process continue only after their lease expires.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The error of a job whose attempts were all killed.
const ALL_ATTEMPTS_KILLED: &str = "the recording could not be transcribed: every attempt ended unexpectedly";
/// Time in which every process must have noticed that a key is revoked.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum repeats of a request that is answered with a conflict.
const MAX_REPEATS: u32 = 40;
/// Upper bound of a `Retry-After` that is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// What the responses say of an uploaded recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) enum Outcome {
    /// No response: the connection broke or was dropped.
    Nothing,
    /// It was refused or aborted: no trace of it may remain.
    Refused,
    /// It was accepted, under this id.
    Accepted(i64),
    /// It was transcribed.
    Completed(i64),
    /// It failed, with a reason.
    Failed(i64),
    /// It was deleted after it was completed.
    DeletedCompleted(i64),
    /// It was deleted in an unknown state.
    Deleted(i64),
}

/// A key that the user created.
#[derive(Debug, Clone)]
pub(in crate::service) struct CreatedKey {
    /// Its secret, if the response arrived.
    pub(in crate::service) secret: Option<String>,
    pub(in crate::service) is_revoked: bool,
}

/// The state that the store must have by the responses that a user got.
#[derive(Debug)]
pub(in crate::service) struct Expected {
    pub(in crate::service) account: AccountId,
    pub(in crate::service) key: KeyId,
    /// Recordings by title, with their cost.
    pub(in crate::service) recordings: HashMap<String, (Outcome, i64)>,
    /// Keys by name.
    pub(in crate::service) keys: HashMap<String, CreatedKey>,
    /// Broken connections.
    pub(in crate::service) broken: u64,
    /// Errors during a fault.
    pub(in crate::service) excused: u64,
    /// Responses with 429.
    pub(in crate::service) limited: u64,
    /// Repeated requests.
    pub(in crate::service) repeats: u64,
    pub(in crate::service) wrong: Vec<String>,
}

/// A user with an account.
pub(in crate::service) struct SimulatedUser {
    secret: String,
    from: Ipv4Addr,
    environment: Option<Arc<Environment>>,
    expected: Expected,
    sent: u64,
    /// Whether the last response was an error during a fault.
    is_during_fault: bool,
}

impl SimulatedUser {
    pub(in crate::service) fn new(login: Login) -> Self {
        let Login { account, key, secret, from } = login;
        let expected = Expected {
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
        SimulatedUser { secret, from, environment: None, expected, sent: 0, is_during_fault: false }
    }

    /// Performs random requests until the run stops.
    pub(in crate::service) async fn run(mut self, environment: Arc<Environment>) -> Expected {
        self.environment = Some(Arc::clone(&environment));
        let recordings = LENGTHS.map(|seconds| wav(seconds, RATE));
        while !environment.is_stopping() {
            let which = random(LENGTHS.len() as u64) as usize;
            let (recording, cost) = (&recordings[which], which as i64 + 1);
            let done = match random(12) {
                0 | 1 => self.send_and_wait(recording, cost).await,
                2 | 3 => self.send_and_poll(recording, cost).await,
                4 | 5 => self.send_idempotent(recording, cost).await,
                6 => self.disconnect_while_waiting(recording, cost).await,
                7 => self.abort_upload(recording, cost).await,
                8 => self.read_account().await,
                9 => self.delete_completed().await,
                10 => self.delete_early(recording, cost).await,
                _ => self.create_key().await,
            };
            if done.is_err() {
                self.expected.broken += 1;
            }
        }
        self.expected
    }

    /// Uses another environment.
    pub(in crate::service) fn set_environment(&mut self, environment: Arc<Environment>) {
        self.environment = Some(environment);
    }

    /// The expected state, at the end.
    pub(in crate::service) fn expected(self) -> Expected {
        self.expected
    }

    /// Whether transcripts can be listed.
    pub(in crate::service) async fn can_list(&mut self) -> bool {
        let answer = self.request(&request("GET", "/v1/transcripts", &self.secret, &[], &[])).await;
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// Whether a key can be made.
    pub(in crate::service) async fn can_create_key(&mut self) -> bool {
        let name = self.name("probe");
        let body = serde_json::json!({ "name": name }).to_string();
        let headers = [("content-type", "application/json")];
        let answer = self.request(&request("POST", "/v1/keys", &self.secret, &headers, body.as_bytes())).await;
        answer.is_ok_and(|answer| answer.status == 201)
    }

    /// Whether a recording is transcribed synchronously.
    pub(in crate::service) async fn can_transcribe(&mut self) -> bool {
        let title = self.name("probe");
        self.record(&title, Outcome::Nothing, 1);
        let recording = wav(LENGTHS[0], RATE);
        let Ok(answer) = self.request(&upload("/v1/transcribe", &self.secret, &[], &title, &recording)).await else {
            return false;
        };
        let outcome = self.read("a probe", &answer);
        self.record(&title, outcome, 1);
        matches!(outcome, Outcome::Completed(_))
    }

    /// Waits for a running server and connects to it.
    async fn connect(&self) -> io::Result<Connection> {
        let Some(environment) = &self.environment else { return Err(io::ErrorKind::NotConnected.into()) };
        Connection::open_from(self.from, environment.any_address().await?).await
    }

    /// Sends a request once. An error during a fault counts as a broken connection: the outcome is unknown.
    async fn request(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        let faults = self.environment.as_ref().map_or(0, |environment| environment.fault_count());
        let response = async {
            let mut connection = self.connect().await?;
            connection.ask(bytes).await
        };
        let answer = tokio::time::timeout(RESPONSE_TIMEOUT, response).await;
        let Ok(answer) = answer else {
            self.expected.wrong.push(format!("no answer for {} s", RESPONSE_TIMEOUT.as_secs()));
            return Err(io::ErrorKind::TimedOut.into());
        };
        let answer = answer?;
        if let Some(environment) = &self.environment {
            environment.answers.fetch_add(1, Ordering::Relaxed);
            self.is_during_fault = answer.status >= 500 && environment.fault_since(faults);
        }
        if self.is_during_fault {
            self.expected.excused += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
            // A response with a transcript id was accepted.
            if answer.header("x-transcript-id").is_none() {
                return Err(io::Error::other("an error during a fault"));
            }
        }
        if answer.status == 429 {
            self.expected.limited += 1;
            let wait = answer.retry_after().map_or(Duration::from_millis(100), Duration::from_secs);
            tokio::time::sleep(wait.min(MAX_RETRY_AFTER)).await;
        }
        Ok(answer)
    }

    /// Repeats a request until a response arrives.
    async fn request_until_answered(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        loop {
            match self.request(bytes).await {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                Err(_) => {
                    self.expected.repeats += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                answer => return answer,
            }
        }
    }

    /// A unique name.
    fn name(&mut self, what: &str) -> String {
        self.sent += 1;
        format!("{what}-{}-{}", self.expected.account, self.sent)
    }

    fn record(&mut self, title: &str, outcome: Outcome, cost: i64) {
        self.expected.recordings.insert(title.to_owned(), (outcome, cost));
    }

    fn report_unexpected(&mut self, what: &str, answer: &Answer) {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        self.expected.wrong.push(format!("{what} was answered {}: {body}", answer.status));
    }

    /// The outcome by the response to an upload.
    fn read(&mut self, what: &str, answer: &Answer) -> Outcome {
        let id = answer.header("x-transcript-id").and_then(|id| id.parse().ok());
        let body = answer.json();
        match (answer.status, id) {
            (200, Some(id)) if body["text"] == "nothing was heard" => Outcome::Completed(id),
            (202, Some(id)) if body["id"] == id => Outcome::Accepted(id),
            (500, Some(id)) if body["error"].as_str().is_some_and(|error| error.starts_with(ALL_ATTEMPTS_KILLED)) => {
                Outcome::Failed(id)
            }
            // The recording was accepted, whatever the error.
            (500.., Some(id)) if self.is_during_fault => Outcome::Accepted(id),
            (429, None) => Outcome::Refused,
            _ => {
                self.report_unexpected(what, answer);
                Outcome::Nothing
            }
        }
    }

    async fn send_and_wait(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("waited");
        self.record(&title, Outcome::Nothing, cost);
        let answer = self.request(&upload("/v1/transcribe", &self.secret, &[], &title, recording)).await?;
        let outcome = self.read("an upload", &answer);
        self.record(&title, outcome, cost);
        Ok(())
    }

    async fn send(&mut self, what: &str, recording: &[u8], cost: i64) -> io::Result<(String, Outcome)> {
        let title = self.name(what);
        self.record(&title, Outcome::Nothing, cost);
        let answer = self.request(&upload("/v1/transcribe?async=true", &self.secret, &[], &title, recording)).await?;
        let outcome = self.read("an asynchronous upload", &answer);
        self.record(&title, outcome, cost);
        Ok((title, outcome))
    }

    async fn send_and_poll(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let (title, Outcome::Accepted(id)) = self.send("async", recording, cost).await? else { return Ok(()) };
        for _ in 0..random(20) {
            let path = format!("/v1/transcripts/{id}/status");
            let answer = self.request(&request("GET", &path, &self.secret, &[], &[])).await?;
            let body = answer.json();
            match (answer.status, body["status"].as_str()) {
                (200, Some("completed")) => self.record(&title, Outcome::Completed(id), cost),
                (200, Some("failed")) => self.record(&title, Outcome::Failed(id), cost),
                (200, Some("queued" | "processing")) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                (429, _) => continue,
                _ => self.report_unexpected("the status of an accepted upload", &answer),
            }
            break;
        }
        Ok(())
    }

    /// Sends an upload with an idempotency key until a response arrives, sometimes concurrently, and sometimes once more.
    async fn send_idempotent(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("named");
        self.record(&title, Outcome::Nothing, cost);
        let path = if random(2) == 0 { "/v1/transcribe" } else { "/v1/transcribe?async=true" };
        let bytes = upload(path, &self.secret, &[("idempotency-key", title.as_str())], &title, recording);
        if random(3) == 0 {
            // A concurrent repeat that disconnects.
            let (mut other, timeout) = (self.connect().await?, Duration::from_millis(random(50)));
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let _ = tokio::time::timeout(timeout, other.ask(&bytes)).await;
            });
        }
        let mut first = None;
        let mut left = 1 + random(2);
        while left > 0 {
            let answer = self.request_until_answered(&bytes).await?;
            // The disconnected request was first, and its job was cancelled (as the contract says).
            if answer.status == 409 {
                let id = answer.header("x-transcript-id").and_then(|id| id.parse().ok());
                self.record(&title, id.map_or(Outcome::Nothing, Outcome::Failed), cost);
                return Ok(());
            }
            let outcome = self.read("a named upload", &answer);
            match outcome {
                Outcome::Completed(id) | Outcome::Accepted(id) | Outcome::Failed(id) => {
                    if *first.get_or_insert(id) != id {
                        self.expected.wrong.push(format!("a repeat of {title} made {id} beside {first:?}"));
                    }
                    self.record(&title, outcome, cost);
                    left -= 1;
                }
                // All slots are in use: retry.
                Outcome::Refused if first.is_none() => continue,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Uploads a recording and disconnects before the response.
    async fn disconnect_while_waiting(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("left");
        self.record(&title, Outcome::Nothing, cost);
        let mut connection = self.connect().await?;
        connection.send(&upload("/v1/transcribe", &self.secret, &[], &title, recording)).await?;
        tokio::time::sleep(Duration::from_millis(random(40))).await;
        Ok(())
    }

    /// Disconnects in the middle of an upload: no trace of it may remain.
    async fn abort_upload(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let title = self.name("broken");
        self.record(&title, Outcome::Refused, cost);
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

    async fn read_account(&mut self) -> io::Result<()> {
        for path in ["/v1/transcripts?per_page=100", "/v1/credits", "/v1/account", "/v1/keys", "/v1/usage"] {
            let answer = self.request(&request("GET", path, &self.secret, &[], &[])).await?;
            if answer.status != 200 {
                self.report_unexpected(path, &answer);
            }
        }
        Ok(())
    }

    /// Deletes a transcript, repeating until a response arrives.
    async fn delete(&mut self, id: i64) -> io::Result<bool> {
        let path = format!("/v1/transcripts/{id}");
        let before = self.expected.repeats;
        let answer = self.request_until_answered(&request("DELETE", &path, &self.secret, &[], &[])).await?;
        // A repeat may find it already deleted.
        if answer.status != 200 && !(answer.status == 404 && self.expected.repeats > before) {
            self.report_unexpected("a deletion", &answer);
            return Ok(false);
        }
        Ok(true)
    }

    async fn delete_completed(&mut self) -> io::Result<()> {
        let found = self.expected.recordings.iter().find_map(|(title, (outcome, cost))| match outcome {
            Outcome::Completed(id) => Some((title.clone(), *id, *cost)),
            _ => None,
        });
        let Some((title, id, cost)) = found else { return Ok(()) };
        if !self.delete(id).await? {
            return Ok(());
        }
        self.record(&title, Outcome::DeletedCompleted(id), cost);
        let answer = self.request(&request("GET", &format!("/v1/transcripts/{id}"), &self.secret, &[], &[])).await?;
        if answer.status != 404 {
            self.report_unexpected("a deleted transcript", &answer);
        }
        Ok(())
    }

    /// Deletes a transcript that may be queued, running or completed.
    async fn delete_early(&mut self, recording: &[u8], cost: i64) -> io::Result<()> {
        let (title, Outcome::Accepted(id)) = self.send("early", recording, cost).await? else { return Ok(()) };
        tokio::time::sleep(Duration::from_millis(random(30))).await;
        if self.delete(id).await? {
            self.record(&title, Outcome::Deleted(id), cost);
        }
        Ok(())
    }

    /// Creates a key idempotently, uses it, and sometimes revokes it.
    async fn create_key(&mut self) -> io::Result<()> {
        let name = self.name("key");
        self.expected.keys.insert(name.clone(), CreatedKey { secret: None, is_revoked: false });
        let body = serde_json::json!({ "name": name }).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", name.as_str())];
        let bytes = request("POST", "/v1/keys", &self.secret, &headers, body.as_bytes());
        let mut attempts = 0;
        let answer = loop {
            let answer = self.request_until_answered(&bytes).await?;
            attempts += 1;
            if answer.status != 409 || attempts > MAX_REPEATS {
                break answer;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        };
        let made = answer.json();
        let (201, Some(secret), Some(id)) = (answer.status, made["key"].as_str(), made["id"].as_i64()) else {
            self.report_unexpected("a new key", &answer);
            return Ok(());
        };
        self.expected.keys.insert(name.clone(), CreatedKey { secret: Some(secret.to_owned()), is_revoked: false });
        self.expect_key(secret, 200).await?;
        if random(2) == 0 {
            let before = self.expected.repeats;
            let answer = self
                .request_until_answered(&request("DELETE", &format!("/v1/keys/{id}"), &self.secret, &[], &[]))
                .await?;
            if answer.status != 200 && !(answer.status == 404 && self.expected.repeats > before) {
                self.report_unexpected("a revocation", &answer);
                return Ok(());
            }
            self.expected.keys.insert(name, CreatedKey { secret: Some(secret.to_owned()), is_revoked: true });
            self.expect_key(secret, 401).await?;
        }
        Ok(())
    }

    async fn expect_key(&mut self, secret: &str, status: u16) -> io::Result<()> {
        // Other processes cache a key for a second, or longer on a busy machine.
        let started = std::time::Instant::now();
        loop {
            let answer = self.request(&request("GET", "/v1/account", secret, &[], &[])).await?;
            if answer.status == status {
                return Ok(());
            }
            if status != 401 || answer.status != 200 || started.elapsed() > REVOCATION_TIMEOUT {
                self.report_unexpected(&format!("a key that should give {status}"), &answer);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
