//! How soon a question is answered whose transcript was read before, and a clip while summaries run.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::json;

use super::corpus::Document;
use super::failed;
use super::server::{ACCOUNTS, Server};
use crate::error::BenchError;
use crate::spread::Spread;

/// What server-sent events of an answer have before the first of its text.
const FIRST_TEXT: &str = "event: delta";

/// Clips that are sent in each state.
const CLIPS: usize = 10;

/// Seconds until the first text of an answer.
#[derive(Debug, Serialize)]
pub(super) struct SecondQuestion {
    pub(super) first: Spread,
    pub(super) second: Spread,
    /// The second question's time over the first's, transcript by transcript.
    pub(super) ratio: Spread,
}

/// Asks two questions about each transcript that has two. Nothing else may have asked about them before.
pub(super) fn second_question(server: &Server, documents: &[Document]) -> Result<SecondQuestion, BenchError> {
    // Models are in memory before anything counts.
    server.clients[0].post("/v1/summarize", &json!({ "text": "The meeting begins at nine. Bring the contract." }))?;
    server.clients[0].post("/v1/embed", &json!({ "text": "The meeting begins at nine." }))?;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (index, (document, id)) in documents.iter().zip(&server.transcripts).enumerate() {
        let ask = |question: &str| -> Result<f64, BenchError> {
            let body = json!({ "question": question, "stream": true });
            let reply = server.client_of(index).stream(&format!("/v1/transcripts/{id}/chat"), &body, FIRST_TEXT)?;
            reply.first.ok_or_else(|| failed(format!("no event of text in the answer to {question:?}")))
        };
        let answerable: Vec<_> =
            document.reference.questions.iter().filter(|question| question.answer.is_some()).collect();
        if let [one, other, ..] = answerable.as_slice() {
            first.push(ask(&one.ask)?);
            second.push(ask(&other.ask)?);
            eprintln!(
                "  {}: first text after {:.2} s, then {:.2} s",
                document.name,
                first[first.len() - 1],
                second[second.len() - 1]
            );
        }
    }
    let ratio = Spread::of(first.iter().zip(&second).map(|(first, second)| second / first).collect());
    Ok(SecondQuestion {
        first: Spread::of(first).ok_or(BenchError::NoRounds)?,
        second: Spread::of(second).ok_or(BenchError::NoRounds)?,
        ratio: ratio.ok_or(BenchError::NoRounds)?,
    })
}

/// Seconds until a clip of 5 s is transcribed.
#[derive(Debug, Serialize)]
pub(super) struct Clip {
    pub(super) idle: Spread,
    pub(super) beside_summaries: Spread,
    /// Summaries that were written meanwhile.
    pub(super) summaries: usize,
}

/// Sends a clip again and again to an idle server, then to one that writes summaries.
pub(super) fn clip(server: &Server, document: usize, recording: &[u8]) -> Result<Clip, BenchError> {
    let send =
        || -> Result<f64, BenchError> { Ok(server.clients[ACCOUNTS - 1].upload("/v1/transcribe", recording)?.seconds) };
    let times = || Spread::of((0..CLIPS).map(|_| send()).collect::<Result<_, _>>()?).ok_or(BenchError::NoRounds);
    // Both models are in memory before anything counts.
    let path = format!("/v1/transcripts/{}/summarize", server.transcripts[document]);
    let body = json!({ "style": "detailed", "force": true });
    let writer = server.client_of(document);
    writer.post(&path, &body)?;
    send()?;
    let idle = times()?;
    let is_over = AtomicBool::new(false);
    let (beside_summaries, summaries) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut written = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        writer.post(&path, &body)?;
                        written += 1;
                    }
                    Ok::<usize, BenchError>(written)
                })
            })
            .collect();
        let beside = times();
        is_over.store(true, Ordering::Relaxed);
        let written =
            writers.into_iter().map(|writer| writer.join().unwrap_or_else(|_| Err(failed("a writer panicked"))));
        let written = written.sum::<Result<usize, BenchError>>()?;
        Ok::<_, BenchError>((beside?, written))
    })?;
    Ok(Clip { idle, beside_summaries, summaries })
}
