//! Where the values of a checkpoint's tensor come from.

use std::ops::Range;

use hark_weights::{FileError, Tensor};

/// A tensor of a checkpoint.
pub(super) enum Source {
    /// Stored in a weights file.
    Stored(Tensor),
    /// Whisper's fixed encoder positions, which some formats leave out.
    Sinusoids {
        /// Positions and width.
        shape: [usize; 2],
    },
    /// Made by the checkpoint's generator.
    Generated {
        /// The shape that the generator is asked for.
        shape: Vec<usize>,
    },
}

impl Source {
    pub(super) fn shape(&self) -> &[usize] {
        match self {
            Self::Stored(tensor) => tensor.shape(),
            Self::Sinusoids { shape } => shape,
            Self::Generated { shape } => shape,
        }
    }

    /// The tensor in the shape its network needs, which may differ in dimensions of one only.
    pub(super) fn reshaped(self, shape: &[usize]) -> Result<Self, FileError> {
        match self {
            Self::Stored(tensor) => tensor.reshaped(shape).map(Self::Stored),
            other => Ok(other),
        }
    }

    /// Values of one index of the first dimension.
    pub(super) fn columns(&self) -> usize {
        self.shape().get(1..).map_or(1, |rest| rest.iter().product())
    }

    /// Converts some rows; a generated tensor has none here.
    pub(super) fn read(&self, rows: Range<usize>, out: &mut [f32]) {
        match self {
            Self::Stored(tensor) => tensor.rows_f32(rows, out),
            Self::Sinusoids { shape: [_, width] } => sinusoids(*width, rows, out),
            Self::Generated { .. } => out.fill(0.0),
        }
    }
}

/// OpenAI's fixed encoder positions: sines in the first half of a row, cosines in the second, over wavelengths
/// from 2π to 20000π.
fn sinusoids(width: usize, rows: Range<usize>, out: &mut [f32]) {
    let half = width / 2;
    let step = 10000f64.ln() / (half.max(2) - 1) as f64;
    for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
        for i in 0..half {
            let angle = row as f64 * (-step * i as f64).exp();
            out[i] = angle.sin() as f32;
            out[half + i] = angle.cos() as f32;
        }
    }
}
