//! What a style of Kokoro sounds like to CAM++, guessed without speaking: a small network from coordinates of a [`StyleSpace`]
//! to a speaker embedding.
//!
//! One hidden layer and a linear path around it, 106,816 weights. `bench/embedding_map.py` fitted it to 66,602 voices that were spoken and
//! embedded, and to the gradient of a similarity at each; on voices that it had not seen its guesses have a cosine of 0.89 to the truth. It
//! only proposes what is worth a try: every proposal is spoken and heard, so where it is wrong a search loses time, nothing else.
//!
//! [`StyleSpace`]: crate::style_space::StyleSpace

use hark_numeric::f16_to_f32;

use crate::network::STYLE_WIDTH;

/// Numbers of an embedding.
pub(crate) const EMBEDDING: usize = 192;
const HIDDEN: usize = 128;
/// Half-precision numbers: `[hidden][coordinate]`, hidden biases, `[embedding][hidden]`, biases, `[embedding][coordinate]`.
const WEIGHTS: &[u8; 2 * (HIDDEN * (STYLE_WIDTH + 1) + EMBEDDING * (HIDDEN + 1 + STYLE_WIDTH))] =
    include_bytes!("../data/embedding_map.bin");

/// The network.
pub(crate) struct EmbeddingMap {
    hidden: Vec<f32>,
    hidden_bias: Vec<f32>,
    out: Vec<f32>,
    bias: Vec<f32>,
    around: Vec<f32>,
}

/// A guess, and what its gradient needs.
pub(crate) struct Guess {
    /// Of length 1.
    pub(crate) embedding: Vec<f32>,
    /// Length before that.
    length: f32,
    /// Sums of the hidden layer before the activation.
    sums: Vec<f32>,
}

impl EmbeddingMap {
    pub(crate) fn new() -> Self {
        let mut numbers = WEIGHTS.as_chunks::<2>().0.iter().map(|bytes| f16_to_f32(u16::from_le_bytes(*bytes)));
        let mut take = |count: usize| numbers.by_ref().take(count).collect();
        EmbeddingMap {
            hidden: take(HIDDEN * STYLE_WIDTH),
            hidden_bias: take(HIDDEN),
            out: take(EMBEDDING * HIDDEN),
            bias: take(EMBEDDING),
            around: take(EMBEDDING * STYLE_WIDTH),
        }
    }

    pub(crate) fn guess(&self, coordinates: &[f32]) -> Guess {
        let dot = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(x, y)| x * y).sum::<f32>();
        let rows = self.hidden.chunks_exact(STYLE_WIDTH).zip(&self.hidden_bias);
        let sums: Vec<f32> = rows.map(|(row, bias)| dot(row, coordinates) + bias).collect();
        let hidden: Vec<f32> = sums.iter().map(|x| x * sigmoid(*x)).collect();
        let rows = self.out.chunks_exact(HIDDEN).zip(self.around.chunks_exact(STYLE_WIDTH)).zip(&self.bias);
        let mut embedding: Vec<f32> =
            rows.map(|((out, around), bias)| dot(out, &hidden) + dot(around, coordinates) + bias).collect();
        let length = dot(&embedding, &embedding).sqrt().max(f32::MIN_POSITIVE);
        embedding.iter_mut().for_each(|x| *x /= length);
        Guess { embedding, length, sums }
    }

    /// The gradient by the coordinates of what has this gradient by the embedding.
    pub(crate) fn gradient(&self, guess: &Guess, by_embedding: &[f32]) -> Vec<f32> {
        let along: f32 = guess.embedding.iter().zip(by_embedding).map(|(x, y)| x * y).sum();
        let (mut by_hidden, mut gradient) = (vec![0f32; HIDDEN], vec![0f32; STYLE_WIDTH]);
        for (at, (x, y)) in guess.embedding.iter().zip(by_embedding).enumerate() {
            // What only makes the vector longer is lost when it is brought to length 1.
            let share = (y - along * x) / guess.length;
            add(&mut by_hidden, share, &self.out[at * HIDDEN..][..HIDDEN]);
            add(&mut gradient, share, &self.around[at * STYLE_WIDTH..][..STYLE_WIDTH]);
        }
        for (at, (by_hidden, sum)) in by_hidden.iter().zip(&guess.sums).enumerate() {
            let s = sigmoid(*sum);
            add(
                &mut gradient,
                by_hidden * s * (1.0 + sum * (1.0 - s)),
                &self.hidden[at * STYLE_WIDTH..][..STYLE_WIDTH],
            );
        }
        gradient
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Adds a multiple of a row.
pub(crate) fn add(to: &mut [f32], share: f32, row: &[f32]) {
    to.iter_mut().zip(row).for_each(|(to, x)| *to += share * x);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_numeric::SplitMix64;

    #[test]
    fn the_gradient_is_that_of_the_guess() {
        let (map, mut random) = (EmbeddingMap::new(), SplitMix64::new(3));
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() - 0.5).collect() };
        let (place, wanted) = (numbers(STYLE_WIDTH), numbers(EMBEDDING));
        let value = |place: &[f32]| map.guess(place).embedding.iter().zip(&wanted).map(|(x, y)| x * y).sum::<f32>();
        let gradient = map.gradient(&map.guess(&place), &wanted);
        for at in (0..STYLE_WIDTH).step_by(17) {
            let moved = |step: f32| {
                let mut place = place.clone();
                place[at] += step;
                value(&place)
            };
            let slope = (moved(0.02) - moved(-0.02)) / 0.04;
            assert!((slope - gradient[at]).abs() < 0.02 * gradient[at].abs() + 1e-3, "{at}: {slope} {}", gradient[at]);
        }
    }
}
