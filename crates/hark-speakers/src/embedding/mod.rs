//! CAM++: the voice of a piece of sound as a vector.

use std::path::Path;
use std::sync::Arc;

use hark_whisper::cpu::Compute;

use crate::SpeakersError;

/// Numbers of an embedding.
pub const EMBEDDING_WIDTH: usize = 192;

/// The embedding network.
pub struct Embedder {
    compute: Arc<Compute>,
}

impl Embedder {
    /// Numbers of an embedding.
    pub const WIDTH: usize = EMBEDDING_WIDTH;

    /// Loads the network from its folder, to run on the threads and kernels of `compute`.
    pub fn load(_folder: &Path, compute: &Arc<Compute>) -> Result<Self, SpeakersError> {
        Ok(Embedder { compute: Arc::clone(compute) })
    }

    /// One vector of length 1 for each piece of sound, best of 1.5 s and no less than 0.5 s.
    ///
    /// Pieces given together run together; those of the same length do so best.
    pub fn embed(&mut self, _pieces: &[&[f32]]) -> Vec<[f32; EMBEDDING_WIDTH]> {
        let _ = &self.compute;
        todo!("the network is being written")
    }
}
