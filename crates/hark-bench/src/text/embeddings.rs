//! Embeddings a second, of `hark-embed` and of sentence-transformers on the same weights, both in a process without a server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use hark_embed::Embedder;
use serde::Serialize;
use serde_json::{Value, json};

use super::corpus::Document;
use super::failed;
use crate::error::BenchError;
use crate::spread::Spread;

/// Texts of a round.
const TEXTS: usize = 256;

/// Texts a second.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) texts: usize,
    pub(super) hark: Spread,
    pub(super) peer: Option<Spread>,
    pub(super) ratio: Option<Spread>,
    /// The version of the peer, or why it did not run.
    pub(super) peer_note: String,
}

/// Measures in turns; the peer runs where `bench/peers_embeddings.sh` installed it.
pub(super) fn run(
    embedder: &Embedder,
    model: &Path,
    bench: &Path,
    documents: &[Document],
    threads: usize,
    rounds: usize,
) -> Result<Figures, BenchError> {
    let segments = documents.iter().flat_map(|document| &document.transcript.segments);
    let texts: Vec<&str> = segments.map(|segment| segment.text.as_str()).cycle().take(TEXTS).collect();
    let folder = tempfile::tempdir().map_err(failed)?;
    let started = Peer::start(bench, model, threads, folder.path());
    let (mut peer, peer_note) = match started {
        Ok((peer, version)) => (Some(peer), version),
        Err(error) => (None, format!("did not run: {error}")),
    };
    embedder.embed(&texts, &|| false).map_err(failed)?;
    if let Some(peer) = &mut peer {
        peer.embed(&texts)?;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        embedder.embed(&texts, &|| false).map_err(failed)?;
        ours.push(TEXTS as f64 / start.elapsed().as_secs_f64());
        if let Some(peer) = &mut peer {
            theirs.push(TEXTS as f64 / peer.embed(&texts)?);
        }
    }
    Ok(Figures {
        texts: TEXTS,
        ratio: Spread::of(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect()),
        hark: Spread::of(ours).ok_or(BenchError::NoRounds)?,
        peer: Spread::of(theirs),
        peer_note,
    })
}

/// `bench/peer_sentence_transformers.py`: a line of texts in, a line with seconds out.
struct Peer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(bench: &Path, model: &Path, threads: usize, folder: &Path) -> Result<(Self, String), BenchError> {
        let python = std::env::var_os("HARK_BENCH_EMBEDDINGS_VENV")
            .map_or_else(|| bench.join(".venv-embeddings"), Into::into)
            .join("bin/python");
        if !python.is_file() {
            return Err(failed("sentence-transformers is not installed; install it with bench/peers_embeddings.sh"));
        }
        let log_path = folder.join("sentence-transformers.log");
        let log = std::fs::File::create(&log_path).map_err(failed)?;
        let mut command = Command::new(python);
        command.arg(bench.join("peer_sentence_transformers.py")).arg("--model").arg(model);
        command.args(["--threads", &threads.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|source| BenchError::Start { system: "sentence-transformers".to_owned(), source })?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let Some(answers) = answers.map(BufReader::new) else {
            return Err(failed("sentence-transformers has no output"));
        };
        let mut peer = Peer { child, requests, answers };
        match peer.line()? {
            Some(ready) if ready["ready"] == true => {
                Ok((peer, ready["version"].as_str().unwrap_or_default().to_owned()))
            }
            Some(answer) => Err(failed(format!("sentence-transformers: {}", answer["error"]))),
            None => Err(BenchError::Ended { system: "sentence-transformers".to_owned(), log: log_path }),
        }
    }

    /// Seconds that the texts took.
    fn embed(&mut self, texts: &[&str]) -> Result<f64, BenchError> {
        let Some(requests) = &mut self.requests else { return Err(failed("sentence-transformers has no input")) };
        writeln!(requests, "{}", json!({ "texts": texts }))
            .and_then(|()| requests.flush())
            .map_err(BenchError::Pipe)?;
        let answer = self.line()?.ok_or_else(|| failed("sentence-transformers ended without an answer"))?;
        answer["seconds"].as_f64().ok_or_else(|| failed(format!("sentence-transformers: {}", answer["error"])))
    }

    fn line(&mut self) -> Result<Option<Value>, BenchError> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(BenchError::Pipe)?;
        if line.is_empty() { Ok(None) } else { serde_json::from_str(&line).map(Some).map_err(BenchError::Json) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
