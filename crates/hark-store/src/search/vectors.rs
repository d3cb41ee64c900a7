//! The vectors of a transcript's passages as one value: int8 with a scale for each vector.
//!
//! Layout, little endian: dimensions (u16), then for each vector a scale (f32) and as many bytes as dimensions. A quarter of f32, and the error of a cosine
//! is below 0.01.

use crate::error::{Error, Result};

/// Encodes unit vectors of one length.
pub(super) fn encode(vectors: &[Vec<f32>]) -> Result<Vec<u8>> {
    let dimensions = vectors.first().map_or(0, Vec::len);
    let invalid = Error::Invalid("the vectors of a transcript must have one length and finite numbers");
    let Ok(header) = u16::try_from(dimensions) else { return Err(invalid) };
    let mut out = Vec::with_capacity(2 + vectors.len() * (4 + dimensions));
    out.extend(header.to_le_bytes());
    for vector in vectors {
        if vector.len() != dimensions || vector.iter().any(|number| !number.is_finite()) {
            return Err(invalid);
        }
        let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        out.extend(scale.to_le_bytes());
        out.extend(vector.iter().map(|number| (number / scale).round() as i8 as u8));
    }
    Ok(out)
}

/// The dot product of a vector with each encoded one, in order; none where the lengths differ.
pub(super) fn scores(stored: &[u8], vector: &[f32]) -> Result<Vec<f32>> {
    let damaged = || Error::Damaged("the vectors of a transcript".into());
    let (header, rest) = stored.split_first_chunk::<2>().ok_or_else(damaged)?;
    let dimensions = usize::from(u16::from_le_bytes(*header));
    if dimensions != vector.len() {
        return Ok(Vec::new());
    }
    let (vectors, []) = (rest.chunks_exact(4 + dimensions), rest.chunks_exact(4 + dimensions).remainder()) else {
        return Err(damaged());
    };
    let score = |encoded: &[u8]| {
        let (scale, numbers) = encoded.split_first_chunk::<4>()?;
        let dot: f32 = numbers.iter().zip(vector).map(|(&byte, number)| f32::from(byte as i8) * number).sum();
        Some(dot * f32::from_le_bytes(*scale))
    };
    vectors.map(|encoded| score(encoded).ok_or_else(damaged)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let vector: Vec<f32> = (0..384).map(|_| next()).collect();
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter().map(|x| x / norm).collect()
    }

    #[test]
    fn scores_are_those_of_the_vectors_within_a_hundredth() {
        let vectors: Vec<Vec<f32>> = (1..20).map(unit).collect();
        let found = scores(&encode(&vectors).unwrap(), &vectors[3]).unwrap();
        for (found, vector) in found.iter().zip(&vectors) {
            let exact: f32 = vector.iter().zip(&vectors[3]).map(|(a, b)| a * b).sum();
            assert!((found - exact).abs() < 0.01, "{found} instead of {exact}");
        }
        assert!(found[3] > 0.99);
    }

    #[test]
    fn what_does_not_fit_is_refused_or_scores_nothing() {
        assert!(encode(&[vec![1.0, 0.0], vec![1.0]]).is_err());
        assert!(encode(&[vec![f32::NAN]]).is_err());
        let stored = encode(&[vec![0.0, 1.0], vec![0.0, 0.0]]).unwrap();
        let found = scores(&stored, &[0.0, 1.0]).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-6 && found[1] == 0.0 && found.len() == 2, "{found:?}");
        assert_eq!(scores(&stored, &[1.0]).unwrap(), Vec::<f32>::new());
        assert!(scores(&stored[..stored.len() - 1], &[0.0, 1.0]).is_err());
        assert_eq!(scores(&encode(&[]).unwrap(), &[]).unwrap(), Vec::<f32>::new());
    }
}
