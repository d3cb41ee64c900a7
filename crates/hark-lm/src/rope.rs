//! Rotary position embedding.

use crate::RopeStyle;

/// The frequencies of a model.
pub(crate) struct Rope {
    style: RopeStyle,
    /// Radians per position for each pair of elements.
    frequencies: Vec<f64>,
    /// What sines and cosines are multiplied by.
    magnitude: f64,
}

impl Rope {
    /// Frequencies `base^(-2i/dims) / factor`, each divided by its own of `divisors`, if there are some.
    pub(crate) fn new(style: RopeStyle, dims: usize, base: f64, factor: f64, divisors: Option<&[f32]>) -> Self {
        let frequency = |i: usize| {
            let divisor = divisors.map_or(1.0, |divisors| f64::from(divisors[i]));
            base.powf(-2.0 * i as f64 / dims as f64) / factor / divisor
        };
        Rope { style, frequencies: (0..dims / 2).map(frequency).collect(), magnitude: 1.0 }
    }

    /// The same with sines and cosines multiplied by `magnitude`.
    pub(crate) fn with_magnitude(self, magnitude: f32) -> Self {
        Rope { magnitude: f64::from(magnitude), ..self }
    }

    /// Cosine and sine of every pair's angle at a position.
    pub(crate) fn angles(&self, position: usize, out: &mut Vec<[f32; 2]>) {
        out.extend(self.frequencies.iter().map(|frequency| {
            let (sin, cos) = (frequency * position as f64).sin_cos();
            [(cos * self.magnitude) as f32, (sin * self.magnitude) as f32]
        }));
    }

    /// Pairs of elements that are rotated.
    pub(crate) fn pairs(&self) -> usize {
        self.frequencies.len()
    }

    /// Rotates the heads of a row, each of `head_dim` elements, of which the first are rotated.
    pub(crate) fn rotate(&self, row: &mut [f32], head_dim: usize, angles: &[[f32; 2]]) {
        for head in row.chunks_exact_mut(head_dim) {
            match self.style {
                RopeStyle::Interleaved => {
                    for (pair, [cos, sin]) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                        let [a, b] = *pair;
                        *pair = [a * cos - b * sin, a * sin + b * cos];
                    }
                }
                RopeStyle::Halves => {
                    let (first, second) = head.split_at_mut(angles.len());
                    for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(angles) {
                        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                    }
                }
            }
        }
    }
}
