//! SHA-256 of a recording, computed on blocking threads while the recording is written.
//!
//! Each batch is a task of its own: a task that lasted as long as the upload would let slow uploads occupy all blocking threads.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::blocking;
use crate::error::{Error, Result};

/// Bytes that may be pending before `push` waits for the hasher.
const MAX_PENDING_BYTES: usize = 4 << 20;

/// A hasher that runs behind the writer, by at most [`MAX_PENDING_BYTES`].
pub(crate) struct BackgroundHasher {
    state: State,
    pending: Vec<Bytes>,
    pending_bytes: usize,
}

enum State {
    Idle(Sha256),
    Busy(JoinHandle<Sha256>),
}

impl BackgroundHasher {
    pub(crate) fn new() -> BackgroundHasher {
        BackgroundHasher { state: State::Idle(Sha256::new()), pending: Vec::new(), pending_bytes: 0 }
    }

    /// Adds bytes; waits only while too many are pending.
    pub(crate) async fn push(&mut self, pieces: &[Bytes]) -> Result<()> {
        self.pending.extend_from_slice(pieces);
        self.pending_bytes += pieces.iter().map(Bytes::len).sum::<usize>();
        let hash = match &mut self.state {
            State::Idle(hash) => std::mem::take(hash),
            State::Busy(task) if task.is_finished() || self.pending_bytes >= MAX_PENDING_BYTES => {
                task.await.map_err(stopped)?
            }
            State::Busy(_) => return Ok(()),
        };
        let pieces = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.state = State::Busy(tokio::task::spawn_blocking(move || update(hash, &pieces)));
        Ok(())
    }

    /// The hash of all bytes.
    pub(crate) async fn finish(self) -> Result<[u8; 32]> {
        let hash = match self.state {
            State::Idle(hash) => hash,
            State::Busy(task) => task.await.map_err(stopped)?,
        };
        let pending = self.pending;
        blocking(move || Ok(update(hash, &pending).finalize().into())).await
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
        let whole: Vec<u8> = (0..3 * MAX_PENDING_BYTES).map(|n| (n / 7 % 253) as u8).collect();
        let mut hasher = BackgroundHasher::new();
        let mut rest = Bytes::from(whole.clone());
        let mut length = 1;
        while !rest.is_empty() {
            let pieces = [rest.split_to(length.min(rest.len())), rest.split_to(5.min(rest.len()))];
            hasher.push(&pieces).await.unwrap();
            assert!(hasher.pending_bytes < MAX_PENDING_BYTES, "what waits is bounded");
            length = length * 3 % (MAX_PENDING_BYTES / 2) + 1;
        }
        assert_eq!(hasher.finish().await.unwrap(), <[u8; 32]>::from(Sha256::digest(&whole)));
        assert_eq!(BackgroundHasher::new().finish().await.unwrap(), <[u8; 32]>::from(Sha256::digest(b"")));
    }
}
