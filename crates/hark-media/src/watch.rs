//! Reading that ends before the source does: somebody called it off, its time is over, or its length passes what was granted.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use symphonia::core::io::MediaSource;

use crate::{MediaError, Options};

/// Lets another thread call work on a source off; clones share it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Calls the work off.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was called off.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Decides how much of a source may be decoded, as it turns out how long it really is.
pub trait LengthBudget: Send + Sync {
    /// Asked when `seconds` of audio were decoded, silence that fills gaps included. Gives the length up to which it need not be
    /// asked again; none, or less than `seconds`, stops the decoding with [`MediaError::OverBudget`]. May block.
    fn grant(&self, seconds: f64) -> Option<f64>;
}

/// A [`LengthBudget`] that clones share; without one a source may be as long as it is.
#[derive(Clone, Default)]
pub struct Budget(Option<Arc<dyn LengthBudget>>);

impl Budget {
    /// The budget that asks `of`.
    pub fn new(of: Arc<dyn LengthBudget>) -> Self {
        Budget(Some(of))
    }

    /// The length up to which decoding may go on when `seconds` were decoded.
    pub(crate) fn grant(&self, seconds: f64) -> Result<f64, MediaError> {
        let granted = self.0.as_ref().map_or(Some(f64::INFINITY), |budget| budget.grant(seconds));
        granted.filter(|&granted| granted >= seconds).ok_or(MediaError::OverBudget { seconds })
    }
}

impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Budget" } else { "Unlimited" })
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    cancel: CancelToken,
    deadline: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(options: &Options) -> Self {
        Watch { cancel: options.cancel.clone(), deadline: options.deadline }
    }

    /// An error when it is time to stop.
    pub(crate) fn check(&self) -> Result<(), MediaError> {
        if self.cancel.is_cancelled() {
            return Err(MediaError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(MediaError::Limit("reading it takes too long".into())),
            _ => Ok(()),
        }
    }
}

/// A source that can't be read any more when it is time to stop: decoders in this process have no other place to ask.
pub(crate) struct Watched<S> {
    pub(crate) source: S,
    pub(crate) watch: Watch,
}

impl<S: Read> Read for Watched<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.check().map_err(io::Error::other)?;
        self.source.read(buffer)
    }
}

impl<S: Seek> Seek for Watched<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.source.seek(to)
    }
}

impl<S: MediaSource> MediaSource for Watched<S> {
    fn is_seekable(&self) -> bool {
        self.source.is_seekable()
    }

    fn byte_len(&self) -> Option<u64> {
        self.source.byte_len()
    }
}
