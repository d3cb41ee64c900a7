//! Time of each part of the encoder's work, summed over threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A part of the encoder's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Both convolutions with their rounding to bf16.
    Convolutions,
    /// Layer norms.
    Norm,
    /// Queries, keys and values.
    QueryKeyValue,
    /// Attention of the frames to each other.
    Attention,
    /// The output projection of attention.
    Out,
    /// The first half of the MLP, with GELU.
    Up,
    /// The second half of the MLP.
    Down,
}

impl Part {
    /// Every part, in the order of the work.
    pub const ALL: [Part; 7] =
        [Part::Convolutions, Part::Norm, Part::QueryKeyValue, Part::Attention, Part::Out, Part::Up, Part::Down];
}

/// Nanoseconds of all threads, part by part.
#[derive(Default)]
pub struct Times([AtomicU64; Part::ALL.len()]);

impl Times {
    /// Starts a thread's stopwatch; its forty laps per layer cost nothing compared to the work.
    pub fn watch(&self) -> Watch<'_> {
        Watch { times: self, since: Instant::now() }
    }

    /// The time of each part since the last call, summed over threads.
    pub fn take(&self) -> [Duration; Part::ALL.len()] {
        Part::ALL.map(|part| Duration::from_nanos(self.0[part as usize].swap(0, Ordering::Relaxed)))
    }
}

/// A thread's stopwatch.
pub struct Watch<'a> {
    times: &'a Times,
    since: Instant,
}

impl Watch<'_> {
    /// The time since the last lap went into `part`.
    pub fn lap(&mut self, part: Part) {
        self.lap_of(1, part);
    }

    /// The time since the last lap of `threads`, which worked together, went into `part`.
    pub fn lap_of(&mut self, threads: usize, part: Part) {
        let now = Instant::now();
        let nanos = (now - self.since).as_nanos() as u64 * threads as u64;
        self.times.0[part as usize].fetch_add(nanos, Ordering::Relaxed);
        self.since = now;
    }
}
