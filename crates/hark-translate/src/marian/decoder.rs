//! The decoder: greedy search over all sentences of a batch at once; a sentence that has ended leaves the batch.

use super::linear::{apply, for_rows, products};
use super::transformer::{Source, Transformer, Workspace};
use super::{DecoderLayer, LENGTH_FACTOR, LENGTH_SLACK, Marian, position_signal};
use crate::TranslateError;

/// The sentences that are being written, one row each.
struct Rows {
    /// Which sentence of the batch a row is.
    sentences: Vec<usize>,
    /// The token that each row wrote last.
    last: Vec<Option<u32>>,
    /// The state of the recurrent unit of each layer, row after row.
    cells: Vec<Vec<f32>>,
}

/// Memory of a step beside that of [`Workspace`].
#[derive(Default)]
struct StepWorkspace {
    shared: Workspace,
    gate: Vec<f32>,
    candidate: Vec<f32>,
    logits: Vec<f32>,
}

impl Marian {
    /// Writes the target tokens of all sentences, without their ends.
    pub(super) fn decode(
        &self,
        source: &Source,
        end: u32,
        never: u32,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u32>>, TranslateError> {
        let width = self.transformer.config.width;
        let mut workspace = StepWorkspace::default();
        let batch = &source.batch;
        let count = batch.sentences.len();
        let mut rows = Rows {
            sentences: (0..count).collect(),
            last: vec![None; count],
            cells: vec![vec![0.0; count * width]; self.decoder.len()],
        };
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); count];
        let (mut states, mut signal) = (Vec::new(), Vec::new());
        for position in 0.. {
            if rows.sentences.is_empty() {
                break;
            }
            if is_cancelled() {
                return Err(TranslateError::Cancelled);
            }
            position_signal(position, width, &mut signal);
            states.resize(rows.sentences.len() * width, 0.0);
            for (state, last) in states.chunks_exact_mut(width).zip(&rows.last) {
                self.target_embeddings.look_up(*last, &signal, state);
            }
            for (index, layer) in self.decoder.iter().enumerate() {
                self.recurrent(&mut workspace, layer, &mut rows.cells[index], &mut states);
                let (shared, cross) = (&mut workspace.shared, &layer.cross_attention);
                let sentences = rows.sentences.iter().copied();
                self.transformer.cross_attention(shared, cross, index, source, sentences, &mut states);
                self.transformer.feed_forward(shared, &layer.feed_forward, &mut states);
            }
            let best = self.best_words(&mut workspace, &states, never)?;
            let is_live: Vec<bool> = best
                .iter()
                .zip(&rows.sentences)
                .map(|(token, sentence)| {
                    let is_end = *token == end;
                    if !is_end {
                        out[*sentence].push(*token);
                    }
                    !is_end && out[*sentence].len() < length_limit(batch.sentences[*sentence].len())
                })
                .collect();
            rows.last = best.into_iter().map(Some).collect();
            rows.keep(&is_live, width);
        }
        Ok(out)
    }

    /// The simpler simple recurrent unit: `cell = gate * cell + (1 - gate) * candidate`, whose ReLU is the output.
    fn recurrent(&self, workspace: &mut StepWorkspace, layer: &DecoderLayer, cells: &mut [f32], states: &mut [f32]) {
        let Transformer { compute, config } = &self.transformer;
        let width = config.width;
        let StepWorkspace { shared, gate, candidate, .. } = workspace;
        shared.activations.set(compute, states, states.len() / width, width);
        let [forget, input] = &layer.recurrent;
        apply(compute, &shared.activations, [forget, input], [&mut *gate, &mut *candidate], |x| x);
        for ((cell, gate), candidate) in cells.iter_mut().zip(gate).zip(candidate) {
            let keep = 1.0 / (1.0 + (-*gate).exp());
            *cell = keep * *cell + (1.0 - keep) * *candidate;
            *candidate = cell.max(0.0);
        }
        self.transformer.add_norm(&layer.recurrent_norm, &workspace.candidate, states);
    }

    /// The likeliest word of each row.
    fn best_words(
        &self,
        workspace: &mut StepWorkspace,
        states: &[f32],
        never: u32,
    ) -> Result<Vec<u32>, TranslateError> {
        let Transformer { compute, config } = &self.transformer;
        let rows = states.len() / config.width;
        let StepWorkspace { shared, logits, .. } = workspace;
        shared.activations.set(compute, states, rows, config.width);
        let mut best = vec![[f32::NEG_INFINITY, 0.0]; rows];
        let mut first = 0;
        for stretch in &self.output {
            let words = stretch.outputs();
            products(compute, &shared.activations, [stretch], [&mut *logits]);
            let hidden = (never as usize).checked_sub(first);
            // The best of a row is written over its first two logits.
            for_rows(compute, logits, words, |_, row| {
                stretch.finish(row, |x| x);
                if let Some(never) = hidden.and_then(|at| row.get_mut(at)) {
                    *never = f32::NEG_INFINITY;
                }
                let (at, value) = largest(row);
                row[..2].copy_from_slice(&[value, f32::from_bits(at as u32)]);
            });
            for (row, best) in logits.chunks_exact(words).zip(&mut best) {
                if row[0] > best[0] {
                    *best = [row[0], f32::from_bits(row[1].to_bits() + first as u32)];
                }
            }
            first += words;
        }
        if best.iter().any(|[value, _]| !value.is_finite()) {
            return Err(TranslateError::NotFinite);
        }
        Ok(best.into_iter().map(|[_, word]| word.to_bits()).collect())
    }
}

impl Rows {
    /// Keeps the rows that are live.
    fn keep(&mut self, is_live: &[bool], width: usize) {
        if is_live.iter().all(|live| *live) {
            return;
        }
        let kept: Vec<usize> = (0..is_live.len()).filter(|row| is_live[*row]).collect();
        for cells in &mut self.cells {
            for (to, from) in kept.iter().enumerate() {
                cells.copy_within(from * width..(from + 1) * width, to * width);
            }
            cells.truncate(kept.len() * width);
        }
        self.sentences = kept.iter().map(|row| self.sentences[*row]).collect();
        self.last = kept.iter().map(|row| self.last[*row]).collect();
    }
}

/// Most tokens that a source sentence of so many tokens may become.
fn length_limit(source: usize) -> usize {
    (source as f32 * LENGTH_FACTOR).ceil() as usize + LENGTH_SLACK
}

/// The first largest value and where it is. Sixteen candidates are compared at a time, so that the loop vectorizes.
fn largest(row: &[f32]) -> (usize, f32) {
    const LANES: usize = 16;
    let (blocks, rest) = row.as_chunks::<LANES>();
    let mut best = [f32::NEG_INFINITY; LANES];
    for block in blocks {
        for (best, value) in best.iter_mut().zip(block) {
            *best = if *value > *best { *value } else { *best };
        }
    }
    let value =
        best.iter().chain(rest).fold(f32::NEG_INFINITY, |best, value| if *value > best { *value } else { best });
    (row.iter().position(|found| *found == value).unwrap_or(0), value)
}

#[cfg(test)]
mod tests {
    use super::largest;

    #[test]
    fn the_first_of_equal_values_is_the_largest() {
        let mut row = vec![-1.0; 100];
        assert_eq!(largest(&row), (0, -1.0));
        row[37] = 2.0;
        row[98] = 2.0;
        assert_eq!(largest(&row), (37, 2.0));
        row[99] = 3.0;
        assert_eq!(largest(&row), (99, 3.0));
        assert_eq!(largest(&[f32::NAN; 20]).1, f32::NEG_INFINITY);
    }
}
