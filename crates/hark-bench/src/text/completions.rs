//! Prompt and generated tokens a second through `/v1/chat/completions`, of Hark and of llama.cpp's server with the same file.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use super::failed;
use super::http::Client;
use super::server::Server;
use crate::error::BenchError;
use crate::spread::Spread;

/// Words of a prompt that is measured for its reading.
const PROMPT_WORDS: usize = 450;
/// Tokens written where writing is measured.
const GENERATED: usize = 96;
/// Tokens of a slot of the peer: a prompt and its answer.
pub(super) const CONTEXT: usize = 2048;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Workload {
    /// Long prompts, one token of answer: prompt tokens a second.
    Prompt,
    /// Short prompts, long answers: generated tokens a second.
    Generation,
}

/// A line of the table.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) workload: Workload,
    pub(super) clients: usize,
    /// Tokens a second.
    pub(super) hark: Spread,
    pub(super) peer: Option<Spread>,
    /// Hark's over the peer's, round by round.
    pub(super) ratio: Option<Spread>,
}

/// Measures each number of clients, in turns. `text` is what prompts are cut from, `model` the name Hark knows the file by.
pub(super) fn run(
    hark: &Server,
    peer: Option<&Server>,
    model: &str,
    text: &str,
    clients: &[usize],
    rounds: usize,
) -> Result<Vec<Line>, BenchError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut serial = 0;
    // Both have loaded their model before anything counts.
    for server in std::iter::once(hark).chain(peer) {
        measure(server, model, &words, Workload::Generation, 1, &mut serial)?;
    }
    let mut lines = Vec::new();
    for &count in clients {
        for workload in [Workload::Prompt, Workload::Generation] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..rounds.max(1) {
                let mut order: Vec<(&Server, bool)> = vec![(hark, true)];
                order.extend(peer.map(|peer| (peer, false)));
                if round % 2 == 1 {
                    order.reverse();
                }
                for (server, is_hark) in order {
                    let speed = measure(server, model, &words, workload, count, &mut serial)?;
                    if is_hark { ours.push(speed) } else { theirs.push(speed) }
                }
            }
            let ratio = Spread::of(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect());
            lines.push(Line {
                workload,
                clients: count,
                hark: Spread::of(ours).ok_or(BenchError::NoRounds)?,
                peer: Spread::of(theirs),
                ratio,
            });
            eprintln!("  {workload:?}, {count} clients measured");
        }
    }
    Ok(lines)
}

/// Tokens a second over all clients, each with a request of its own.
fn measure(
    server: &Server,
    model: &str,
    words: &[&str],
    workload: Workload,
    clients: usize,
    serial: &mut usize,
) -> Result<f64, BenchError> {
    let requests: Vec<Value> = (0..clients)
        .map(|_| {
            *serial += 1;
            request(model, words, workload, *serial)
        })
        .collect();
    let start = Instant::now();
    let tokens: Vec<Result<u64, BenchError>> = std::thread::scope(|scope| {
        let handles: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(number, body)| {
                let client = &server.clients[number % server.clients.len()];
                scope.spawn(move || tokens(client, body, workload))
            })
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|_| Err(failed("a client panicked")))
        };
        handles.into_iter().map(join).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let tokens = tokens.into_iter().sum::<Result<u64, BenchError>>()?;
    Ok(tokens as f64 / seconds)
}

/// A request that shares no beginning with another, so that no prefix cache helps.
fn request(model: &str, words: &[&str], workload: Workload, serial: usize) -> Value {
    let from = (serial * 137) % words.len().max(1);
    let excerpt = |count: usize| words.iter().cycle().skip(from).take(count).copied().collect::<Vec<_>>().join(" ");
    let (prompt, tokens) = match workload {
        Workload::Prompt => (format!("{serial}. {}\n\nIs this a conversation?", excerpt(PROMPT_WORDS)), 1),
        Workload::Generation => {
            (format!("{serial}. {} ... Continue this story in great detail, with many events.", excerpt(12)), GENERATED)
        }
    };
    json!({"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0})
}

fn tokens(client: &Client, body: &Value, workload: Workload) -> Result<u64, BenchError> {
    let answer = client.post("/v1/chat/completions", body)?;
    let field = match workload {
        Workload::Prompt => "prompt_tokens",
        Workload::Generation => "completion_tokens",
    };
    answer["usage"][field].as_u64().ok_or_else(|| failed("/v1/chat/completions gave no usage"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_begin_differently_and_ask_for_the_tokens_that_are_counted() {
        let words = ["one", "two", "three"];
        let (one, other) = (request("m", &words, Workload::Prompt, 1), request("m", &words, Workload::Prompt, 2));
        assert_ne!(
            one["messages"][0]["content"].as_str().unwrap()[..2],
            other["messages"][0]["content"].as_str().unwrap()[..2]
        );
        assert_eq!(one["max_tokens"], 1);
        assert_eq!(request("m", &words, Workload::Generation, 3)["max_tokens"], GENERATED);
    }
}
