//! The hash of a recording, computed on threads of its own while the recording is written.
//!
//! A thread is taken for what is there and given back, not held for as long as the upload lasts: otherwise slow uploads would use up all threads that may block.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::blocking;
use crate::error::{Error, Result};

/// Bytes that may wait to be hashed before whoever brings more waits, too.
const AHEAD: usize = 4 << 20;

/// A hash that is some pieces behind.
pub(crate) struct Hashing {
    state: State,
    waiting: Vec<Bytes>,
    bytes: usize,
}

enum State {
    Idle(Sha256),
    Busy(JoinHandle<Sha256>),
}

impl Hashing {
    pub(crate) fn new() -> Hashing {
        Hashing { state: State::Idle(Sha256::new()), waiting: Vec::new(), bytes: 0 }
    }

    /// Adds pieces; returns at once unless too many wait.
    pub(crate) async fn push(&mut self, pieces: &[Bytes]) -> Result<()> {
        self.waiting.extend_from_slice(pieces);
        self.bytes += pieces.iter().map(Bytes::len).sum::<usize>();
        let hash = match &mut self.state {
            State::Idle(hash) => std::mem::take(hash),
            State::Busy(task) if task.is_finished() || self.bytes >= AHEAD => task.await.map_err(stopped)?,
            State::Busy(_) => return Ok(()),
        };
        let pieces = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        self.state = State::Busy(tokio::task::spawn_blocking(move || update(hash, &pieces)));
        Ok(())
    }

    /// The hash of everything.
    pub(crate) async fn finish(self) -> Result<[u8; 32]> {
        let hash = match self.state {
            State::Idle(hash) => hash,
            State::Busy(task) => task.await.map_err(stopped)?,
        };
        let waiting = self.waiting;
        blocking(move || Ok(update(hash, &waiting).finalize().into())).await
    }
}

fn update(mut hash: Sha256, pieces: &[Bytes]) -> Sha256 {
    for piece in pieces {
        hash.update(piece);
    }
    hash
}

fn stopped(error: tokio::task::JoinError) -> Error {
    Error::Blob(format!("the upload was stopped: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_of_any_length_are_hashed_in_their_order() {
        let whole: Vec<u8> = (0..3 * AHEAD).map(|n| (n / 7 % 253) as u8).collect();
        let mut hashing = Hashing::new();
        let mut rest = Bytes::from(whole.clone());
        let mut length = 1;
        while !rest.is_empty() {
            let pieces = [rest.split_to(length.min(rest.len())), rest.split_to(5.min(rest.len()))];
            hashing.push(&pieces).await.unwrap();
            assert!(hashing.bytes < AHEAD, "what waits is bounded");
            length = length * 3 % (AHEAD / 2) + 1;
        }
        assert_eq!(hashing.finish().await.unwrap(), <[u8; 32]>::from(Sha256::digest(&whole)));
        assert_eq!(Hashing::new().finish().await.unwrap(), <[u8; 32]>::from(Sha256::digest(b"")));
    }
}
