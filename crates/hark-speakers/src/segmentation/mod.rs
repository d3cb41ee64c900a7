//! pyannote segmentation-3.0: which of up to three voices speak, every 17 ms of a ten-second window.

use std::path::Path;
use std::sync::Arc;

use hark_whisper::cpu::Compute;

use crate::SpeakersError;

/// Samples of a window: ten seconds.
pub const WINDOW_SAMPLES: usize = 160_000;
/// Frames of a window.
pub const FRAMES_PER_WINDOW: usize = 589;
/// Samples from one frame to the next: 16.9 ms.
pub const FRAME_STEP: usize = 270;
/// Samples that the convolutions in front of a frame see: 61.9 ms.
pub const FRAME_FIELD: usize = 991;
/// Classes of a frame.
pub const CLASSES: usize = 7;
/// Who speaks in each class: voice 0, 1, 2 of the window.
pub const POWERSET: [&[usize]; CLASSES] = [&[], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2]];

/// The sample of its window that the middle of a frame falls on.
pub fn frame_middle(frame: usize) -> usize {
    frame * FRAME_STEP + FRAME_FIELD / 2
}

/// The segmentation network.
pub struct Segmenter {
    compute: Arc<Compute>,
}

impl Segmenter {
    /// Loads the network from its folder, to run on the threads and kernels of `compute`.
    pub fn load(_folder: &Path, compute: &Arc<Compute>) -> Result<Self, SpeakersError> {
        Ok(Segmenter { compute: Arc::clone(compute) })
    }

    /// The log-probability of each class (see [`POWERSET`]) in each of the [`FRAMES_PER_WINDOW`] frames of each window.
    ///
    /// A window has at most [`WINDOW_SAMPLES`]; a shorter one is followed by silence. Windows given together run
    /// together: thirty-two are much quicker than thirty-two times one.
    pub fn segment(&mut self, _windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        let _ = &self.compute;
        todo!("the network is being written")
    }
}
