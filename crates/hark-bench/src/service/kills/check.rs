//! Compares the state of the store with what the responses promised the users.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use hark_store::{EntryKind, FaultKind, KeyKind, Status, Store, TranscriptFilter, TranscriptId, TranscriptSummary};
use serde::Serialize;

use super::CREDITS;
use super::user::{Expected, Outcome};
use crate::error::BenchError;
use crate::service::failed;
use crate::service::faults::S3;

/// The file beside the recordings that identifies their store.
const MARKER: &str = "hark-store.json";

/// Counts of what the users did and of the resulting state.
#[derive(Debug, Default, Serialize)]
pub(in crate::service) struct Found {
    /// Uploads, complete or not.
    pub(in crate::service) sent: u64,
    /// Uploads whose acceptance was confirmed.
    pub(in crate::service) promised: u64,
    /// Transcripts at the end.
    pub(in crate::service) completed: u64,
    pub(in crate::service) failed: u64,
    pub(in crate::service) deleted: u64,
    /// Requests that were repeated because their response was lost.
    pub(in crate::service) repeats: u64,
    /// Broken connections.
    pub(in crate::service) broken: u64,
    /// Errors during a fault.
    pub(in crate::service) excused: u64,
    /// Responses with 429 while jobs of killed processes occupied the slots.
    pub(in crate::service) limited: u64,
    pub(in crate::service) charges: u64,
    pub(in crate::service) credits_charged: i64,
    pub(in crate::service) keys: u64,
    /// Recordings of interrupted uploads and deletions that the sweep removed.
    pub(in crate::service) swept: u64,
    pub(in crate::service) recordings_kept: u64,
}

/// Where the recordings are.
#[derive(Clone, Copy)]
pub(in crate::service) enum Place<'a> {
    /// In a folder.
    Folder(&'a Path),
    /// In a bucket, behind a prefix.
    Bucket(&'a S3, &'a str),
}

/// The allowed outcomes of an accepted recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) enum Strictness {
    /// It may have failed with a reason: all attempts were killed.
    MayFail,
    /// It must be transcribed.
    NothingLost,
}

/// Checks everything; inconsistencies are appended to `wrong`.
pub(in crate::service) async fn check(
    store: &Store,
    expected: &[Expected],
    place: Place<'_>,
    strictness: Strictness,
    wrong: &mut Vec<String>,
) -> Result<Found, BenchError> {
    let swept = store.recordings().sweep_older_than(Duration::ZERO).await.map_err(failed)?;
    for key in &swept.quarantined {
        wrong.push(format!("the database does not know recording {key}"));
    }
    let mut found = Found { swept: swept.recordings.len() as u64, ..Found::default() };
    for account in store.ledger().check().await.map_err(failed)? {
        wrong.push(format!("a balance is not the sum of its ledger: {account:?}"));
    }
    if store.jobs().queue_length().await.map_err(failed)? != 0 {
        wrong.push("the queue is not empty".to_owned());
    }
    let mut kept = BTreeSet::new();
    for user in expected {
        wrong.extend(user.wrong.iter().cloned());
        found.sent += user.recordings.len() as u64;
        found.repeats += user.repeats;
        found.broken += user.broken;
        found.limited += user.limited;
        let transcripts = transcripts(store, user, wrong).await?;
        check_promises(store, user, &transcripts, strictness, &mut found, wrong).await?;
        found.excused += user.excused;
        recordings(store, user, &transcripts, &mut kept, wrong).await?;
        credits(store, user, &transcripts, &mut found, wrong).await?;
        keys(store, user, &mut found, wrong).await?;
    }
    found.recordings_kept = kept.len() as u64;
    let stored = match place {
        Place::Folder(folder) => files(folder),
        Place::Bucket(s3, prefix) => s3.names(prefix).await?,
    };
    let stored: BTreeSet<String> = stored.into_iter().filter(|name| name != MARKER).collect();
    for file in stored.difference(&kept) {
        wrong.push(format!("a file belongs to no transcript: {file}"));
    }
    for file in kept.difference(&stored) {
        wrong.push(format!("a recording that is kept is not there: {file}"));
    }
    Ok(found)
}

/// An account's transcripts by title.
async fn transcripts(
    store: &Store,
    user: &Expected,
    wrong: &mut Vec<String>,
) -> Result<HashMap<String, TranscriptSummary>, BenchError> {
    let mut all = HashMap::new();
    for page in 1.. {
        let filter = TranscriptFilter { page, per_page: 100, ..TranscriptFilter::default() };
        let found = store.transcripts().list(user.account, &filter).await.map_err(failed)?.transcripts;
        if found.is_empty() {
            break;
        }
        for transcript in found {
            if let Some(twin) = all.insert(transcript.title.clone(), transcript) {
                wrong.push(format!("there are two transcripts of {}", twin.title));
            }
        }
    }
    Ok(all)
}

/// Every confirmed outcome holds, and there is no transcript without an upload.
async fn check_promises(
    store: &Store,
    user: &Expected,
    transcripts: &HashMap<String, TranscriptSummary>,
    strictness: Strictness,
    found: &mut Found,
    wrong: &mut Vec<String>,
) -> Result<(), BenchError> {
    for (title, (outcome, _)) in &user.recordings {
        let there = transcripts.get(title);
        let status = there.map(|transcript| (transcript.id, transcript.status));
        let is_right = match *outcome {
            Outcome::Nothing => true,
            Outcome::Refused => there.is_none(),
            Outcome::Accepted(id) if strictness == Strictness::NothingLost => {
                status == Some((TranscriptId(id), Status::Completed))
            }
            Outcome::Accepted(id) => status.is_some_and(|(found, _)| found == TranscriptId(id)),
            Outcome::Completed(id) => status == Some((TranscriptId(id), Status::Completed)),
            Outcome::Failed(id) => status == Some((TranscriptId(id), Status::Failed)),
            Outcome::DeletedCompleted(_) | Outcome::Deleted(_) => there.is_none(),
        };
        if !is_right {
            let reason = match there {
                Some(there) => store.transcripts().get(user.account, there.id).await.map_err(failed)?.error,
                None => None,
            };
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            wrong.push(format!("{title}: its sender was told {outcome:?}, the store has {status:?}{reason}"));
        }
        found.promised += u64::from(!matches!(outcome, Outcome::Nothing | Outcome::Refused));
        found.deleted += u64::from(matches!(outcome, Outcome::DeletedCompleted(_) | Outcome::Deleted(_)));
    }
    for (title, transcript) in transcripts {
        if !user.recordings.contains_key(title) {
            wrong.push(format!("nobody sent {title}"));
        }
        match transcript.status {
            Status::Completed => {
                found.completed += 1;
                let (_, result) = store.transcripts().text(user.account, transcript.id).await.map_err(failed)?;
                if result.text != "nothing was heard" || result.segments.len() != 1 {
                    wrong.push(format!("{title} is completed without its words: {result:?}"));
                }
            }
            Status::Failed => {
                found.failed += 1;
                let there = store.transcripts().get(user.account, transcript.id).await.map_err(failed)?;
                let reason = there.error.unwrap_or_default();
                if reason.is_empty() {
                    wrong.push(format!("{title} failed without a reason"));
                }
                // Whether or not its acceptance was confirmed.
                if strictness == Strictness::NothingLost && there.error_kind.is_some_and(FaultKind::is_ours) {
                    wrong.push(format!("{title} failed through a fault of ours ({:?}): {reason}", there.error_kind));
                }
            }
            other => wrong.push(format!("{title} is still {other}")),
        }
    }
    Ok(())
}

/// Completed transcripts have their recording, and so have those that failed through a fault of ours; others have none.
async fn recordings(
    store: &Store,
    user: &Expected,
    transcripts: &HashMap<String, TranscriptSummary>,
    kept: &mut BTreeSet<String>,
    wrong: &mut Vec<String>,
) -> Result<(), BenchError> {
    for (title, transcript) in transcripts {
        let recording = match store.recordings().get(user.account, transcript.id).await {
            Ok(blob) => Some(format!("{}/{}", &blob.key.as_str()[..2], blob.key)),
            Err(hark_store::Error::NotFound(_)) => None,
            Err(error) => return Err(failed(error)),
        };
        // A recording that failed through a fault of ours is kept and can be retried.
        let is_kept = match transcript.status {
            Status::Completed => true,
            Status::Failed => {
                let fault = store.transcripts().get(user.account, transcript.id).await.map_err(failed)?.error_kind;
                fault.is_some_and(FaultKind::is_ours)
            }
            Status::Queued | Status::Processing => false,
        };
        if is_kept != recording.is_some() {
            wrong.push(format!("{title} is {} with recording {recording:?}", transcript.status));
        }
        kept.extend(recording);
    }
    Ok(())
}

/// The ledger entries of a job.
#[derive(Debug, Default)]
struct Entries {
    holds: i64,
    releases: i64,
    charges: i64,
    /// Credits that were held and not released.
    held: i64,
}

/// Holds are released; each completed transcript is charged once, by its length, and counted once.
async fn credits(
    store: &Store,
    user: &Expected,
    transcripts: &HashMap<String, TranscriptSummary>,
    found: &mut Found,
    wrong: &mut Vec<String>,
) -> Result<(), BenchError> {
    let mut jobs: BTreeMap<String, Entries> = BTreeMap::new();
    let (mut charges, mut charged) = (0, 0);
    for entry in store.ledger().entries(user.account, i64::MAX).await.map_err(failed)? {
        let Some(reference) = entry.reference else { continue };
        // A hold that was raised has an entry for each raise, under the job's name and the new total.
        let (job, is_raise) = reference.split_once('+').map_or((reference.as_str(), false), |(job, _)| (job, true));
        let job = jobs.entry(job.to_owned()).or_default();
        match entry.kind {
            EntryKind::Hold => {
                job.holds += i64::from(!is_raise);
                job.held -= entry.amount;
            }
            EntryKind::Release => {
                job.releases += 1;
                job.held -= entry.amount;
            }
            EntryKind::Charge => {
                job.charges += 1;
                charges += 1;
                charged -= entry.amount;
            }
            other => wrong.push(format!("nobody posted a {}", other.name())),
        }
    }
    for (job, entries) in jobs {
        if !matches!(entries, Entries { holds: 1, releases: 1, charges: 0 | 1, held: 0 }) {
            wrong.push(format!("{job} has {entries:?}"));
        }
    }
    // A transcript that was deleted early may have been completed and charged before.
    let (mut min, mut max) = ((0, 0), (0, 0));
    for (title, (outcome, cost)) in &user.recordings {
        let is_completed = transcripts.get(title).is_some_and(|there| there.status == Status::Completed);
        let sure = is_completed || matches!(outcome, Outcome::DeletedCompleted(_));
        if sure {
            min = (min.0 + 1, min.1 + cost);
        }
        if sure || matches!(outcome, Outcome::Deleted(_)) {
            max = (max.0 + 1, max.1 + cost);
        }
    }
    if !(min.0..=max.0).contains(&charges) || !(min.1..=max.1).contains(&charged) {
        let account = user.account;
        wrong.push(format!("account {account}: {charges} charges of {charged} credits, right is {min:?} to {max:?}"));
    }
    let balance = store.accounts().get(user.account).await.map_err(failed)?.credits;
    if balance != CREDITS - charged {
        wrong.push(format!("account {}: {balance} credits are left, {charged} were charged", user.account));
    }
    let used = store.accounts().usage(user.account, 3).await.map_err(failed)?;
    if used.total_transcripts != charges {
        wrong.push(format!("account {}: {} counted, {charges} charged", user.account, used.total_transcripts));
    }
    let minutes = store.keys().minutes_used(user.key).await.map_err(failed)?;
    if minutes != charged {
        wrong.push(format!("account {}: its key counts {minutes} minutes, {charged} were charged", user.account));
    }
    found.charges += charges.unsigned_abs();
    found.credits_charged += charged;
    Ok(())
}

/// Keys exist once, authenticate, and stay revoked.
async fn keys(store: &Store, user: &Expected, found: &mut Found, wrong: &mut Vec<String>) -> Result<(), BenchError> {
    let mut names = BTreeMap::new();
    for key in store.keys().list(user.account, KeyKind::Service).await.map_err(failed)? {
        *names.entry(key.name).or_insert(0) += 1;
    }
    for (name, count) in &names {
        if *count > 1 {
            wrong.push(format!("there are {count} keys called {name}"));
        }
    }
    for (name, made) in &user.keys {
        let Some(secret) = &made.secret else { continue };
        found.keys += 1;
        let authenticates = match store.keys().authenticate(secret).await {
            Ok(_) => true,
            Err(hark_store::Error::NotFound(_)) => false,
            Err(error) => return Err(failed(error)),
        };
        if authenticates == made.is_revoked {
            wrong.push(format!("{name}: revoked is {}, authenticates is {authenticates}", made.is_revoked));
        }
    }
    Ok(())
}

/// All files below a folder, by relative path.
fn files(root: &Path) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(path) = path.strip_prefix(root) {
                out.insert(path.display().to_string());
            }
        }
    }
    out
}
