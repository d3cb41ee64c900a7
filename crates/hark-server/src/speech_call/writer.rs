//! A file as blocks for a response, from a thread that may block.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hark_media::CancelToken;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// How often a slow client is looked after.
const GLANCE: Duration = Duration::from_millis(20);

/// Passes a file on in blocks and waits while the client is slow. It fails, and calls the work off, once the client has left or takes nothing for too long: the connection alone
/// does not tell, since over HTTP/2 a stream may stand still while its connection lives.
pub(super) struct BlockWriter {
    pub(super) blocks: Sender<Bytes>,
    /// How long a client may take nothing.
    pub(super) patience: Duration,
    /// By when all of the file must have been taken.
    pub(super) deadline: Instant,
    /// Of the work.
    pub(super) cancel: CancelToken,
}

impl Write for BlockWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let until = self.deadline.min(Instant::now() + self.patience);
        let mut block = Bytes::copy_from_slice(bytes);
        loop {
            let problem = match self.blocks.try_send(block) {
                Ok(()) => return Ok(bytes.len()),
                Err(TrySendError::Closed(_)) => io::ErrorKind::BrokenPipe,
                Err(TrySendError::Full(_)) if self.cancel.is_cancelled() => io::ErrorKind::BrokenPipe,
                Err(TrySendError::Full(_)) if Instant::now() >= until => io::ErrorKind::TimedOut,
                Err(TrySendError::Full(same)) => {
                    block = same;
                    std::thread::sleep(GLANCE);
                    continue;
                }
            };
            self.cancel.cancel();
            return Err(io::Error::new(problem, "nobody takes the file any more"));
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{Receiver, channel};

    const HOUR: Duration = Duration::from_secs(3600);

    /// A writer whose client has taken nothing of one block.
    fn stalled(patience: Duration, whole: Duration) -> (BlockWriter, Receiver<Bytes>) {
        let (blocks, receiver) = channel(1);
        let deadline = Instant::now() + whole;
        let mut writer = BlockWriter { blocks, patience, deadline, cancel: CancelToken::default() };
        writer.write_all(b"one").unwrap();
        (writer, receiver)
    }

    fn failure(writer: &mut BlockWriter) -> io::ErrorKind {
        writer.write_all(b"two").unwrap_err().kind()
    }

    #[test]
    fn a_client_that_takes_nothing_is_given_up_and_the_work_called_off() {
        for (patience, whole) in [(Duration::from_millis(60), HOUR), (HOUR, Duration::from_millis(60))] {
            let (mut writer, _receiver) = stalled(patience, whole);
            assert_eq!(failure(&mut writer), io::ErrorKind::TimedOut);
            assert!(writer.cancel.is_cancelled());
        }
    }

    #[test]
    fn a_client_that_left_and_work_that_was_called_off_end_the_wait() {
        let (mut writer, receiver) = stalled(HOUR, HOUR);
        drop(receiver);
        assert_eq!(failure(&mut writer), io::ErrorKind::BrokenPipe);
        let (mut writer, _receiver) = stalled(HOUR, HOUR);
        let cancel = writer.cancel.clone();
        let waiting = std::thread::spawn(move || failure(&mut writer));
        cancel.cancel();
        assert_eq!(waiting.join().unwrap(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_slow_client_gets_every_block_in_order() {
        let (mut writer, mut receiver) = stalled(HOUR, HOUR);
        let writing = std::thread::spawn(move || [b"two", b"six"].map(|block| writer.write_all(block).unwrap()));
        let taken: Vec<Bytes> = std::iter::from_fn(|| receiver.blocking_recv()).collect();
        writing.join().unwrap();
        assert_eq!(taken, ["one", "two", "six"]);
    }
}
