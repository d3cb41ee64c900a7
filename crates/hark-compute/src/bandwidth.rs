//! What a plain read of memory takes: the bound of everything that streams weights.

use std::hint::black_box;
use std::time::Instant;

use crate::Compute;
use crate::buffer::Buffer;

/// A buffer that is larger than most caches, to be read from one end to the other by all threads.
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
        compute.parallel_for(self.0.len() / PIECE, |piece, _| {
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
