//! What is left of live sessions, compared with what their clients sent and received.
//!
//! - A session has one transcript at most, completed, whose seconds follow each other without gap or repeat.
//! - What a client received as settled is stored, but for the last seconds before a kill ([`LAG`]); after a final message all of it is.
//! - Every started minute that was heard is charged once; a session without any text costs nothing.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use hark_store::{EntryKind, Status, Store, TranscriptFilter, TranscriptId};
use serde::Serialize;

use super::live::{End, LiveExpected, SessionLog};
use crate::error::BenchError;
use crate::service::failed;
use crate::service::kills::{CREDITS, Environment};

/// Texts are stored within so long of being told, on a busy machine.
const LAG: Duration = Duration::from_secs(10);

/// What sessions whose process died may wait for their completion.
const FINISH: Duration = Duration::from_secs(120);

/// What became of live sessions.
#[derive(Debug, Default, Serialize)]
pub(in crate::service) struct Live {
    pub(in crate::service) sessions: u64,
    /// Ended with a final message.
    pub(in crate::service) finished: u64,
    /// Connections that broke and were resumed.
    pub(in crate::service) resumed: u64,
    /// Left by their client, or lost with their process.
    pub(in crate::service) cut: u64,
    pub(in crate::service) seconds_sent: u64,
    pub(in crate::service) seconds_stored: u64,
    pub(in crate::service) minutes_charged: i64,
}

/// A transcript as it is stored.
struct Stored {
    id: TranscriptId,
    numbers: Vec<u32>,
    seconds: f64,
}

/// Entries of the ledger under one session.
#[derive(Default)]
struct Posted {
    holds: u64,
    releases: u64,
    charged: i64,
    refunded: i64,
    is_twice: bool,
}

pub(super) async fn check(
    store: &Store,
    environment: &Environment,
    all: &[LiveExpected],
    wrong: &mut Vec<String>,
) -> Result<Live, BenchError> {
    let mut found = Live::default();
    for expected in all {
        wrong.extend(expected.wrong.iter().cloned());
        found.resumed += expected.resumed;
        let (stored, empty) = transcripts(store, expected, wrong).await?;
        let posted = ledger(store, expected, wrong).await?;
        let mut silent = 0;
        for log in &expected.sessions {
            found.sessions += 1;
            found.seconds_sent += u64::from(log.sent);
            let own: Vec<&Stored> = stored.iter().filter(|stored| is_of(stored, log)).collect();
            if own.len() > 1 {
                wrong.push(format!("live session {} has {} transcripts", log.session, own.len()));
            }
            silent += usize::from(own.is_empty());
            let own = own.first().copied();
            match text(log, own, environment) {
                Ok(()) => {}
                Err(why) => wrong.push(format!("live session {}: {why}", log.session)),
            }
            let posted = posted.get(log.session.as_str());
            if let Err(why) = charge(own, posted) {
                wrong.push(format!("live session {}: {why}", log.session));
            }
            match log.end {
                End::Final { .. } => found.finished += 1,
                End::Cut(_) => found.cut += 1,
            }
            found.seconds_stored += own.map_or(0, |own| own.numbers.len() as u64);
            found.minutes_charged += posted.map_or(0, |posted| posted.charged - posted.refunded);
        }
        for stored in &stored {
            if !expected.sessions.iter().any(|log| is_of(stored, log)) {
                wrong.push(format!("nobody spoke transcript {}", stored.id));
            }
        }
        if empty > silent {
            wrong.push(format!(
                "account {}: {empty} live transcripts without text of {silent} sessions",
                expected.account
            ));
        }
    }
    Ok(found)
}

/// Waits until the sessions that were cut off are completed.
pub(super) async fn finish(store: &Store, all: &[LiveExpected]) -> Result<(), BenchError> {
    let started = Instant::now();
    let filter = TranscriptFilter { per_page: 1, status: Some(Status::Processing), ..TranscriptFilter::default() };
    for expected in all {
        // One that is never completed is found by the check.
        while started.elapsed() < FINISH
            && !store.transcripts().list(expected.account, &filter).await.map_err(failed)?.transcripts.is_empty()
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

fn is_of(stored: &Stored, log: &SessionLog) -> bool {
    let numbers = log.first..log.first + log.sent.max(1);
    stored.numbers.first().is_some_and(|first| numbers.contains(first))
}

/// The transcripts of an account that have text, and how many have none.
async fn transcripts(
    store: &Store,
    expected: &LiveExpected,
    wrong: &mut Vec<String>,
) -> Result<(Vec<Stored>, usize), BenchError> {
    let (mut stored, mut empty) = (Vec::new(), 0);
    for page in 1.. {
        let filter = TranscriptFilter { page, per_page: 100, ..TranscriptFilter::default() };
        let listed = store.transcripts().list(expected.account, &filter).await.map_err(failed)?.transcripts;
        if listed.is_empty() {
            break;
        }
        for one in listed {
            if one.status != Status::Completed {
                wrong.push(format!("live transcript {} is still {}", one.id, one.status));
            }
            let (_, result) = store.transcripts().text(expected.account, one.id).await.map_err(failed)?;
            let numbers: Vec<u32> =
                result.text.split_whitespace().filter_map(|text| text.trim_end_matches('.').parse().ok()).collect();
            match numbers.is_empty() {
                true => empty += 1,
                false => stored.push(Stored { id: one.id, numbers, seconds: result.duration }),
            }
        }
    }
    Ok((stored, empty))
}

/// What was posted under each session.
async fn ledger(
    store: &Store,
    expected: &LiveExpected,
    wrong: &mut Vec<String>,
) -> Result<HashMap<String, Posted>, BenchError> {
    let mut sessions: HashMap<String, Posted> = HashMap::new();
    let mut charges: BTreeMap<String, u64> = BTreeMap::new();
    let (mut charged, mut refunded, mut held) = (0, 0, 0);
    for entry in store.ledger().entries(expected.account, i64::MAX).await.map_err(failed)? {
        let Some(reference) = entry.reference else { continue };
        let Some(session) = reference.strip_prefix("stream:").and_then(|rest| rest.split(':').next()) else {
            wrong.push(format!("account {}: an entry under {reference}", expected.account));
            continue;
        };
        let posted = sessions.entry(session.to_owned()).or_default();
        match entry.kind {
            EntryKind::Hold => {
                posted.holds += 1;
                held -= entry.amount;
            }
            EntryKind::Release => {
                posted.releases += 1;
                held -= entry.amount;
            }
            EntryKind::Charge => {
                let times = charges.entry(reference.clone()).or_default();
                *times += 1;
                posted.is_twice |= *times > 1;
                posted.charged -= entry.amount;
                charged -= entry.amount;
            }
            EntryKind::Refund => {
                posted.refunded += entry.amount;
                refunded += entry.amount;
            }
            other => wrong.push(format!("nobody posted a {}", other.name())),
        }
    }
    for (session, posted) in &sessions {
        let is_known = expected.sessions.iter().any(|log| log.session == *session);
        // The greeting may have been lost: then nothing was heard.
        if !is_known && posted.charged != posted.refunded {
            wrong.push(format!("live session {session} is nobody's and cost {}", posted.charged - posted.refunded));
        }
    }
    let balance = store.accounts().get(expected.account).await.map_err(failed)?.credits;
    if balance != CREDITS - charged + refunded - held {
        let account = expected.account;
        wrong.push(format!(
            "account {account}: {balance} credits are left, {charged} charged, {refunded} refunded, {held} held"
        ));
    }
    let minutes = store.keys().minutes_used(expected.key).await.map_err(failed)?;
    if minutes != charged - refunded {
        wrong.push(format!(
            "account {}: its key counts {minutes} minutes, {charged} were charged and {refunded} refunded",
            expected.account
        ));
    }
    Ok(sessions)
}

/// Whether the stored text is what was sent, as far as it must be there.
fn text(log: &SessionLog, stored: Option<&Stored>, environment: &Environment) -> Result<(), String> {
    let numbers = stored.map_or(&[][..], |stored| &stored.numbers);
    let whole: Vec<u32> = (log.first..log.first + log.sent).collect();
    if !whole.starts_with(numbers) {
        return Err(format!("{} s were sent from {}, stored is {numbers:?}", log.sent, log.first));
    }
    let have = numbers.len() as u32;
    let received_until = |limit: Option<Instant>| {
        let in_time = log.final_texts.iter().filter(|(_, at)| limit.is_none_or(|limit| *at < limit));
        in_time.map(|(number, _)| number + 1 - log.first).max().unwrap_or_default()
    };
    match &log.end {
        End::Final { transcript, text, is_cut } => {
            let told: Vec<u32> =
                text.split_whitespace().filter_map(|text| text.trim_end_matches('.').parse().ok()).collect();
            if stored.is_some_and(|stored| stored.id != TranscriptId(*transcript)) {
                return Err(format!("its transcript is not {transcript}"));
            }
            if told != numbers {
                return Err(format!("its final text has {} s, {have} are stored", told.len()));
            }
            let must = if *is_cut { received_until(None) } else { log.sent };
            if have < must { Err(format!("{must} s must be stored, {have} are")) } else { Ok(()) }
        }
        End::Cut(at) => {
            let must = received_until(Some(environment.last_writable_before(*at, LAG) - LAG));
            if have < must {
                Err(format!("{must} s were received as settled in time, {have} are stored"))
            } else {
                Ok(())
            }
        }
    }
}

/// Whether a session was charged once, for what was heard.
fn charge(stored: Option<&Stored>, posted: Option<&Posted>) -> Result<(), String> {
    let none = Posted::default();
    let posted = posted.unwrap_or(&none);
    let cost = posted.charged - posted.refunded;
    if posted.is_twice || posted.holds > 1 || posted.releases > posted.holds {
        return Err(format!(
            "{} holds, {} releases, charged twice: {}",
            posted.holds, posted.releases, posted.is_twice
        ));
    }
    let minutes = stored.map_or(0, |stored| (stored.seconds / 60.0).ceil() as i64);
    if cost != minutes {
        let seconds = stored.map_or(0.0, |stored| stored.seconds);
        return Err(format!("{seconds} s were heard, {cost} minutes charged"));
    }
    Ok(())
}
