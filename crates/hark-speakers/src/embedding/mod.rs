//! CAM++: the speaker embedding of a piece of speech.
//!
//! Kaldi's filter bank with its mean subtracted, a 2-D convolutional head over frequency and time (`head`), a densely
//! connected TDNN with context-aware masking (`dense`), statistics pooling, and a linear layer. A piece of 1.5 s costs
//! 0.8 G multiply-adds.

mod dense;
mod head;
pub mod reference;
mod weights;

use std::ops::Range;
use std::path::Path;

use hark_compute::Compute;
use hark_compute::buffer::SharedMut;

use crate::SpeakersError;
use crate::fbank::{self, BINS, FilterBank, STEP, frames_in};
use dense::Dense;
use head::Head;

/// Dimension of an embedding.
pub const EMBEDDING_WIDTH: usize = 192;
/// Minimum samples of a piece, 0.1 s; a shorter one is padded with silence.
pub const SHORTEST_PIECE: usize = 1_600;

/// Pieces per batch on one thread: enough to amortize reading the weights, few enough to stay in cache.
const BATCH: usize = 4;

/// One frame of the filter bank.
type Frame = [f32; BINS];

/// The embedding network.
pub struct Embedder {
    compute: Compute,
    bank: FilterBank,
    head: Head,
    dense: Dense,
    /// The workspace of each thread.
    workspaces: Vec<Workspace>,
}

struct Workspace {
    bank: fbank::Workspace,
    head: head::Workspace,
    dense: dense::Workspace,
    features: Vec<Frame>,
}

impl Embedder {
    /// Dimension of an embedding.
    pub const WIDTH: usize = EMBEDDING_WIDTH;

    /// Loads the network from its folder, to run on the threads and kernels of `compute`.
    pub fn load(folder: &Path, compute: &Compute) -> Result<Self, SpeakersError> {
        let (head, dense) = weights::load(folder, |tensors| Ok((Head::pack(tensors)?, Dense::pack(tensors)?)))?;
        let bank = FilterBank::new(compute.ops());
        let workspace = |_| Workspace {
            bank: bank.workspace(),
            head: head::Workspace::new(0),
            dense: dense::Workspace::new(0, 0),
            features: Vec::new(),
        };
        let workspaces = (0..compute.threads()).map(workspace).collect();
        Ok(Embedder { compute: compute.clone(), bank, head, dense, workspaces })
    }

    /// One embedding of length 1 for each piece, ideally of 1.5 s and no less than 0.5 s.
    ///
    /// Pieces of the same length run as batches.
    pub fn embed(&mut self, pieces: &[&[f32]]) -> Vec<[f32; EMBEDDING_WIDTH]> {
        let steps: Vec<usize> = pieces.iter().map(|piece| frames_in(piece.len().max(SHORTEST_PIECE))).collect();
        let bank = &self.bank;
        let features = |index: usize, workspace: &mut fbank::Workspace, out: &mut Vec<Frame>| {
            let short;
            let piece = if pieces[index].len() < SHORTEST_PIECE {
                short = [pieces[index], &vec![0.0; SHORTEST_PIECE - pieces[index].len()][..]].concat();
                &short[..]
            } else {
                pieces[index]
            };
            out.resize(steps[index], [0.0; BINS]);
            for (frame, out) in out.iter_mut().enumerate() {
                bank.frame(workspace, &piece[frame * STEP..], out);
            }
        };
        run(&self.compute, &self.head, &self.dense, &mut self.workspaces, &steps, features)
    }

    /// The embeddings of spans of `samples`, which may overlap: the features of shared frames are computed once.
    ///
    /// Frames are shared only if all spans start a multiple of 10 ms (160 samples) apart. A span that exceeds the samples
    /// is truncated.
    pub fn embed_spans(&mut self, samples: &[f32], spans: &[Range<usize>]) -> Vec<[f32; EMBEDDING_WIDTH]> {
        let inside = |span: &Range<usize>| span.end <= samples.len() && span.len() >= SHORTEST_PIECE;
        let phase = spans.first().map_or(0, |span| span.start % STEP);
        let aligned = |span: &Range<usize>| inside(span) && span.start % STEP == phase;
        if spans.is_empty() || !spans.iter().all(aligned) {
            let pieces: Vec<&[f32]> = spans
                .iter()
                .map(|span| samples.get(span.start..span.end.min(samples.len())).unwrap_or_default())
                .collect();
            return self.embed(&pieces);
        }
        let first = spans.iter().map(|span| span.start).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
        // Frames between spans are not computed.
        let mut needed = vec![false; frames_in(end - first)];
        let frames_of = |span: &Range<usize>| {
            let frame = (span.start - first) / STEP;
            frame..frame + frames_in(span.len())
        };
        spans.iter().for_each(|span| needed[frames_of(span)].fill(true));
        let mut frames = vec![[0f32; BINS]; needed.len()];
        let places = SharedMut::new(frames.as_mut_ptr());
        let bank = &self.bank;
        const FRAMES_PER_TASK: usize = 64;
        self.compute.parallel_for_with(
            &mut self.workspaces,
            needed.len().div_ceil(FRAMES_PER_TASK),
            |piece, workspace, _| {
                for frame in piece * FRAMES_PER_TASK..needed.len().min((piece + 1) * FRAMES_PER_TASK) {
                    if needed[frame] {
                        // SAFETY: every frame belongs to one task.
                        let out = unsafe { &mut *places.at(frame) };
                        bank.frame(&mut workspace.bank, &samples[first + frame * STEP..], out);
                    }
                }
            },
        );
        let steps: Vec<usize> = spans.iter().map(|span| frames_in(span.len())).collect();
        let features = |index: usize, _: &mut fbank::Workspace, out: &mut Vec<Frame>| {
            out.clear();
            out.extend_from_slice(&frames[frames_of(&spans[index])]);
        };
        run(&self.compute, &self.head, &self.dense, &mut self.workspaces, &steps, features)
    }
}

/// Runs pieces of `steps` frames each, in batches of the same length.
fn run(
    compute: &Compute,
    head: &Head,
    dense: &Dense,
    workspaces: &mut [Workspace],
    steps: &[usize],
    features: impl Fn(usize, &mut fbank::Workspace, &mut Vec<Frame>) + Sync,
) -> Vec<[f32; EMBEDDING_WIDTH]> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&index| steps[index]);
    let batch = steps.len().div_ceil(compute.threads()).clamp(1, BATCH);
    let groups: Vec<&[usize]> =
        order.chunk_by(|&a, &b| steps[a] == steps[b]).flat_map(|same| same.chunks(batch)).collect();
    let mut embeddings = vec![[0f32; EMBEDDING_WIDTH]; steps.len()];
    let places = SharedMut::new(embeddings.as_mut_ptr());
    compute.parallel_for_with(workspaces, groups.len(), |group, workspace, worker| {
        let group = groups[group];
        let steps = steps[group[0]];
        if workspace.head.steps() != steps {
            workspace.head = head::Workspace::new(steps);
        }
        if !workspace.dense.is_for(steps, group.len()) {
            workspace.dense = dense::Workspace::new(steps, batch);
        }
        for (place, &index) in group.iter().enumerate() {
            features(index, &mut workspace.bank, &mut workspace.features);
            subtract_mean(&mut workspace.features);
            head.run(worker, &mut workspace.head, &workspace.features, workspace.dense.input_of(place));
        }
        let found = dense.run(worker, &mut workspace.dense, group.len());
        for (&index, embedding) in group.iter().zip(found) {
            // SAFETY: every piece stands in one group.
            unsafe { *places.at(index) = l2_normalized(embedding) };
        }
    });
    embeddings
}

/// Subtracts the mean of each bin over the piece.
fn subtract_mean(features: &mut [Frame]) {
    let mut mean = [0f32; BINS];
    for frame in features.iter() {
        mean.iter_mut().zip(frame).for_each(|(mean, x)| *mean += x);
    }
    mean.iter_mut().for_each(|mean| *mean /= features.len() as f32);
    for frame in features.iter_mut() {
        frame.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
    }
}

fn l2_normalized(mut embedding: [f32; EMBEDDING_WIDTH]) -> [f32; EMBEDDING_WIDTH] {
    let length = embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
    embedding.iter_mut().for_each(|x| *x /= length.max(f32::MIN_POSITIVE));
    embedding
}

impl std::fmt::Debug for Embedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedder").field("isa", &self.compute.isa()).finish_non_exhaustive()
    }
}
