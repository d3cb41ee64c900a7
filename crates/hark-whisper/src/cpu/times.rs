//! Where time goes: what the members spent in each part of the encoder's work, added up, and what a plain read of memory takes.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Compute;
use super::buffer::Buffer;

/// A part of the encoder's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Both convolutions with their rounding.
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

/// Nanoseconds of all members, part by part.
#[derive(Default)]
pub struct Times([AtomicU64; Part::ALL.len()]);

impl Times {
    /// Starts a member's watch; some forty laps a layer cost nothing beside the work between them.
    pub fn watch(&self) -> Watch<'_> {
        Watch { times: self, since: Instant::now() }
    }

    /// What the members spent in each part since the last call, added up.
    pub fn take(&self) -> [Duration; Part::ALL.len()] {
        Part::ALL.map(|part| Duration::from_nanos(self.0[part as usize].swap(0, Ordering::Relaxed)))
    }
}

/// A member's own watch.
pub struct Watch<'a> {
    times: &'a Times,
    since: Instant,
}

impl Watch<'_> {
    /// The time since the last lap went into `part`.
    pub fn lap(&mut self, part: Part) {
        self.lap_of(1, part);
    }

    /// The time since the last lap of `members`, who worked together, went into `part`.
    pub fn lap_of(&mut self, members: usize, part: Part) {
        let now = Instant::now();
        let nanos = (now - self.since).as_nanos() as u64 * members as u64;
        self.times.0[part as usize].fetch_add(nanos, Ordering::Relaxed);
        self.since = now;
    }
}

/// A buffer that is larger than most caches, to be read from one end to the other by all members.
pub struct Reading(Buffer<f32>);

impl Reading {
    /// 256 MB, all of them touched.
    pub fn new() -> Self {
        let mut data = Buffer::zeroed(64 << 20);
        data.fill(1.0);
        Reading(data)
    }

    /// How many bytes a read takes.
    pub fn bytes(&self) -> f64 {
        (self.0.len() * size_of::<f32>()) as f64
    }

    /// Reads everything and returns the seconds.
    pub fn read(&self, compute: &Compute) -> f64 {
        const PIECE: usize = 1 << 20;
        let start = Instant::now();
        compute.each(self.0.len() / PIECE, |piece, _| {
            let mut lanes = [0f32; 64];
            for line in self.0[piece * PIECE..(piece + 1) * PIECE].chunks_exact(64) {
                for lane in 0..64 {
                    lanes[lane] += line[lane];
                }
            }
            black_box(lanes);
        });
        start.elapsed().as_secs_f64()
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self::new()
    }
}
