//! The space in which voices are searched: styles by how far they lie from the model's own voices.
//!
//! Sound and melody, the halves of a style, are each whitened by the covariance of the voices, to which a floor is added
//! so that directions in which the voices agree are narrow but not closed. The mean square of the coordinates is then a squared
//! Mahalanobis distance: it tells how unlike all known voices a style is.

use crate::network::STYLE_WIDTH;

/// Numbers of a half.
const HALF: usize = STYLE_WIDTH / 2;
/// Standard deviation that every direction has at least. That of the voices is 0.74 in the widest direction and below 0.1 in most.
const FLOOR: f64 = 0.15;

/// Coordinates of styles: `style = mean + lower · coordinates`.
pub(crate) struct StyleSpace {
    mean: Vec<f32>,
    /// The lower Cholesky factors of both covariances, by rows.
    lower: [Vec<f32>; 2],
}

impl StyleSpace {
    /// The space of these styles, each of [`STYLE_WIDTH`] numbers.
    pub(crate) fn of(styles: &[&[f32]]) -> Self {
        let count = styles.len().max(1) as f64;
        let mean: Vec<f64> =
            (0..STYLE_WIDTH).map(|at| styles.iter().map(|style| f64::from(style[at])).sum::<f64>() / count).collect();
        let lower = [0, HALF].map(|first| {
            let mut covariance = vec![0f64; HALF * HALF];
            for style in styles {
                let centred: Vec<f64> = (first..first + HALF).map(|at| f64::from(style[at]) - mean[at]).collect();
                for (row, x) in covariance.chunks_exact_mut(HALF).zip(&centred) {
                    row.iter_mut().zip(&centred).for_each(|(sum, y)| *sum += x * y / (count - 1.0).max(1.0));
                }
            }
            (0..HALF).for_each(|at| covariance[at * HALF + at] += FLOOR * FLOOR);
            cholesky(covariance)
        });
        StyleSpace { mean: mean.iter().map(|x| *x as f32).collect(), lower }
    }

    /// Where a style lies.
    pub(crate) fn coordinates(&self, style: &[f32]) -> Vec<f32> {
        let mut out = vec![0f32; STYLE_WIDTH];
        for (half, lower) in self.lower.iter().enumerate() {
            let out = &mut out[half * HALF..][..HALF];
            for row in 0..HALF {
                let (before, at) = (&lower[row * HALF..][..row], half * HALF + row);
                let known: f32 = before.iter().zip(&*out).map(|(x, y)| x * y).sum();
                out[row] = (style[at] - self.mean[at] - known) / lower[row * HALF + row];
            }
        }
        out
    }

    /// The style at some coordinates.
    pub(crate) fn style(&self, coordinates: &[f32]) -> Vec<f32> {
        let number = |at: usize| {
            let (half, row) = (at / HALF, at % HALF);
            let weights = &self.lower[half][row * HALF..][..=row];
            let moved: f32 = weights.iter().zip(&coordinates[half * HALF..]).map(|(x, y)| x * y).sum();
            self.mean[at] + moved
        };
        (0..STYLE_WIDTH).map(number).collect()
    }
}

/// The lower factor of a positive definite matrix.
fn cholesky(mut matrix: Vec<f64>) -> Vec<f32> {
    for row in 0..HALF {
        for column in 0..=row {
            let dot: f64 = (0..column).map(|at| matrix[row * HALF + at] * matrix[column * HALF + at]).sum();
            let rest = matrix[row * HALF + column] - dot;
            matrix[row * HALF + column] =
                if row == column { rest.sqrt() } else { rest / matrix[column * HALF + column] };
        }
        matrix[row * HALF + row + 1..(row + 1) * HALF].fill(0.0);
    }
    matrix.iter().map(|x| *x as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_numeric::SplitMix64;

    fn styles(count: usize) -> Vec<Vec<f32>> {
        let mut random = SplitMix64::new(7);
        let mut style = || (0..STYLE_WIDTH).map(|at| (random.unit() - 0.5) * (1 + at % 3) as f32).collect();
        (0..count).map(|_| style()).collect()
    }

    #[test]
    fn a_style_has_coordinates_and_coordinates_a_style() {
        let styles = styles(20);
        let space = StyleSpace::of(&styles.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for style in &styles {
            let back = space.style(&space.coordinates(style));
            assert!(back.iter().zip(style).all(|(x, y)| (x - y).abs() < 1e-3));
        }
    }

    #[test]
    fn many_voices_have_coordinates_of_unit_variance_and_a_stranger_lies_far_out() {
        let styles = styles(600);
        let space = StyleSpace::of(&styles.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let square = |style: &[f32]| space.coordinates(style).iter().map(|x| x * x).sum::<f32>() / STYLE_WIDTH as f32;
        let mean = styles.iter().map(|style| square(style)).sum::<f32>() / 600.0;
        // The floor takes a little.
        assert!((0.8..1.0).contains(&mean), "{mean}");
        let stranger: Vec<f32> = styles[0].iter().map(|x| 3.0 * x).collect();
        assert!(square(&stranger) > 5.0);
    }
}
