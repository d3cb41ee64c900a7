//! pyannote segmentation-3.0: which of up to three local speakers are active, every 17 ms of a ten-second window.
//!
//! SincNet (`sincnet`), four bidirectional LSTM layers (`lstm`), two linear layers and a powerset classifier of seven
//! classes. A window costs 2 G multiply-adds.

mod lstm;
pub mod reference;
mod sincnet;
mod weights;

use std::path::Path;

use hark_compute::Compute;
use hark_compute::buffer::{Buffer, SharedMut};
use hark_compute::gemm::PackedBf16;
use hark_compute::kernels::BLOCK;
use hark_compute::linear::Rows;
use hark_compute::view::MatMut;

use crate::SpeakersError;
use lstm::{Layer, OUT};
use sincnet::{FRAME_WIDTH, SincNet, Workspace};
use weights::{LAYERS, UNITS, WIDTH, Weights};

/// Samples of a window: 10 s.
pub const WINDOW_SAMPLES: usize = 160_000;
/// Frames of a window.
pub const FRAMES_PER_WINDOW: usize = 589;
/// Hop from one frame to the next in samples: 16.9 ms.
pub const FRAME_STEP: usize = 270;
/// Receptive field of a frame before the recurrent layers in samples: 61.9 ms.
pub const RECEPTIVE_FIELD: usize = 991;
/// Powerset classes of a frame.
pub const CLASSES: usize = 7;
/// The active local speakers of each class.
pub const POWERSET: [&[usize]; CLASSES] = [&[], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2]];

/// Maximum windows of a batch for each pair of threads.
const BATCH: usize = BLOCK;

/// The sample of its window that the middle of a frame falls on.
pub fn frame_middle(frame: usize) -> usize {
    frame * FRAME_STEP + RECEPTIVE_FIELD / 2
}

/// The segmentation network.
pub struct Segmenter {
    compute: Compute,
    sincnet: SincNet,
    layers: Vec<Layer>,
    linears: [(PackedBf16, Vec<f32>); 2],
    classifier: (PackedBf16, Vec<f32>),
    /// Input of the first LSTM layer, `[frame][window][FRAME_WIDTH]`.
    frames: Buffer<u16>,
    /// Outputs of the LSTM layers, `[frame][window][OUT]`, alternating between two buffers.
    states: [Buffer<u16>; 2],
    /// SincNet's workspace of each thread.
    workspaces: Vec<Workspace>,
}

impl Segmenter {
    /// Loads the network from its folder, to run on the threads and kernels of `compute`.
    pub fn load(folder: &Path, compute: &Compute) -> Result<Self, SpeakersError> {
        let weights = Weights::load(folder)?;
        let linear = |linear: &weights::Linear, inputs: usize, outputs: usize| {
            let mut bias = linear.bias.clone();
            bias.resize(outputs.next_multiple_of(BLOCK), 0.0);
            (PackedBf16::pack(outputs, inputs, |output, input| linear.weights[input * outputs + output]), bias)
        };
        let sincnet = SincNet::pack(&weights, compute.isa());
        let workspaces = (0..compute.threads()).map(|_| Workspace::new(&sincnet)).collect();
        Ok(Segmenter {
            compute: compute.clone(),
            sincnet,
            layers: weights.layers.iter().map(Layer::pack).collect(),
            linears: [linear(&weights.linears[0], 2 * UNITS, WIDTH), linear(&weights.linears[1], WIDTH, WIDTH)],
            classifier: linear(&weights.classifier, WIDTH, CLASSES),
            frames: Buffer::zeroed(0),
            states: [Buffer::zeroed(0), Buffer::zeroed(0)],
            workspaces,
        })
    }

    /// The log-probability of each class (see [`POWERSET`]) in each of the [`FRAMES_PER_WINDOW`] frames of each window.
    ///
    /// A window has at most [`WINDOW_SAMPLES`]; a shorter one is padded with silence. The windows of a call run as a
    /// batch: thirty-two take much less time than thirty-two calls.
    pub fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        let batch = BATCH * self.compute.threads().div_ceil(2);
        windows.chunks(batch).flat_map(|windows| self.segment_batch(windows)).collect()
    }

    fn segment_batch(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        // Whole tiles of rows; the LSTM layers read 32 at a time.
        let rows = windows.len().next_multiple_of(16);
        self.reserve(FRAMES_PER_WINDOW * rows + BLOCK);
        let Segmenter { compute, sincnet, layers, frames, states, workspaces, .. } = self;
        let out = frames.shared();
        compute.parallel_for_with(workspaces, windows.len(), |window, workspace, worker| {
            let (at, stride) = (out.at(window * FRAME_WIDTH), rows * FRAME_WIDTH);
            // SAFETY: every window writes its own row of each frame, inside the memory reserved above.
            let out = unsafe { MatMut::from_raw(at, FRAMES_PER_WINDOW, FRAME_WIDTH, stride) };
            sincnet.run(worker, workspace, windows[window], out);
        });
        let [one, other] = states;
        debug_assert_eq!(LAYERS, layers.len());
        for (number, layer) in layers.iter().enumerate() {
            let (input, width, out) = match number {
                0 => (&*frames, FRAME_WIDTH, &mut *one),
                odd if odd % 2 == 1 => (&*one, OUT, &mut *other),
                _ => (&*other, OUT, &mut *one),
            };
            layer.run(compute, rows, input, width, out);
        }
        self.classify(rows, windows.len())
    }

    fn reserve(&mut self, rows: usize) {
        if self.frames.len() < rows * FRAME_WIDTH {
            self.frames = Buffer::zeroed(rows * FRAME_WIDTH);
            self.states = [Buffer::zeroed(rows * OUT), Buffer::zeroed(rows * OUT)];
        }
    }

    /// The linear layers and the classifier.
    fn classify(&mut self, rows: usize, windows: usize) -> Vec<Vec<[f32; CLASSES]>> {
        let mut scores = vec![vec![[0f32; CLASSES]; FRAMES_PER_WINDOW]; windows];
        let places: Vec<_> = scores.iter_mut().map(|window| SharedMut::new(window.as_mut_ptr())).collect();
        // Alternating buffers, four layers end in the second one.
        let states = &self.states[1];
        let Segmenter { compute, linears: [linear, last_linear], classifier, .. } = self;
        let all = FRAMES_PER_WINDOW * rows;
        compute.parallel_for(all.div_ceil(CHUNK), |piece, worker| {
            let mut sums = Sums([0.0; BLOCK * BLOCK]);
            let sums = &mut sums.0;
            let (mut hidden, mut last_hidden) = ([0u16; BLOCK * WIDTH], [0u16; BLOCK * WIDTH]);
            let activate = |layer: &(PackedBf16, Vec<f32>), input: Rows, sums: &mut [f32], out: &mut [u16]| {
                for block in 0..layer.0.blocks() {
                    layer.0.multiply(worker, input, block, sums, BLOCK, false);
                    let out = MatMut::new(&mut out[block * BLOCK..], input.count(), BLOCK, WIDTH);
                    worker.compute().ops().leaky_relu(sums, &layer.1[block * BLOCK..], out);
                }
            };
            for first in (piece * CHUNK..all.min((piece + 1) * CHUNK)).step_by(BLOCK) {
                let count = BLOCK.min(all - first);
                activate(linear, Rows::new(&states[first * OUT..], OUT, count), sums, &mut hidden);
                activate(last_linear, Rows::new(&hidden, WIDTH, count), sums, &mut last_hidden);
                classifier.0.multiply(worker, Rows::new(&last_hidden, WIDTH, count), 0, sums, BLOCK, false);
                for (row, sums) in sums.as_chunks::<BLOCK>().0.iter().enumerate().take(count) {
                    let (frame, window) = ((first + row) / rows, (first + row) % rows);
                    if window < windows {
                        let scores = log_probabilities(&sums[..CLASSES], &classifier.1);
                        // SAFETY: every row of `all` has one place of its own.
                        unsafe { *places[window].at(frame) = scores };
                    }
                }
            }
        });
        scores
    }
}

/// Rows that a thread classifies per task.
const CHUNK: usize = 16 * BLOCK;

#[repr(C, align(64))]
struct Sums([f32; BLOCK * BLOCK]);

fn log_probabilities(sums: &[f32], bias: &[f32]) -> [f32; CLASSES] {
    let scores: [f32; CLASSES] = std::array::from_fn(|class| sums[class] + bias[class]);
    let top = scores.iter().copied().fold(f32::MIN, f32::max);
    let total: f32 = scores.iter().map(|score| (score - top).exp()).sum();
    scores.map(|score| score - top - total.ln())
}

impl std::fmt::Debug for Segmenter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segmenter").field("isa", &self.compute.isa()).finish_non_exhaustive()
    }
}
