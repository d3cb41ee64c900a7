//! From embeddings to voices: which pieces of sound are the same person's.
//!
//! In: vectors of length 1, in the order of time. Out: how many voices there are, what each sounds like (its centroid),
//! and how near each piece is to each. None of its business: where in time the pieces lie, and networks.

mod blocks;
mod linkage;
mod voices;

pub use blocks::{Blocks, Tree};
pub use linkage::{Group, Merge, average_linkage, cut_at, cut_into, dot};
pub use voices::{Heard, find_voices};

use crate::EMBEDDING_WIDTH;

/// A voice as a vector of length 1: an embedding, or the centroid of many.
pub type Voice = [f32; EMBEDDING_WIDTH];

/// A vector of length 1 in the same direction; zeros stay zeros.
pub fn unit_length(vector: &Voice) -> Voice {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 { vector.map(|value| value / length) } else { *vector }
}

/// An embedding with its own mean taken off, of length 1.
///
/// The network's numbers are all a little above zero, whoever speaks: two strangers have a cosine of 0.35. Without the
/// mean it is near 0, and one distance tells voices apart in quiet readings and in echoing rooms alike.
pub fn centred(embedding: &Voice) -> Voice {
    let mean = embedding.iter().sum::<f32>() / EMBEDDING_WIDTH as f32;
    unit_length(&embedding.map(|value| value - mean))
}

/// The nearest of some voices and the cosine to it; none where there are none.
pub fn nearest(vector: &Voice, voices: &[Voice]) -> Option<(usize, f32)> {
    voices.iter().map(|voice| dot(vector, voice)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Numbers from -1 to 1 that look random and are the same every time.
    pub fn random(state: &mut u64) -> f32 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// A direction of its own for each number.
    pub fn unit(number: u64) -> Voice {
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut vector = [0.0; EMBEDDING_WIDTH];
        vector.iter_mut().for_each(|value| *value = random(&mut state));
        unit_length(&vector)
    }

    /// Embeddings of as many voices as there are sizes, each with that many, and whose each is; `noise` is the length
    /// of what is added to the voice.
    pub fn noisy_voices(seed: u64, sizes: &[usize], noise: f32) -> (Vec<Voice>, Vec<usize>) {
        let mut vectors = Vec::new();
        let mut voices = Vec::new();
        for (voice, &size) in sizes.iter().enumerate() {
            let centre = unit(seed * 1000 + voice as u64);
            for piece in 0..size {
                let other = unit(1_000_000 * (voice as u64 + 1) + 100_000 * seed + piece as u64);
                let mut vector = centre;
                vector.iter_mut().zip(&other).for_each(|(value, other)| *value += noise * other);
                vectors.push(unit_length(&vector));
                voices.push(voice);
            }
        }
        (vectors, voices)
    }

    #[test]
    fn what_all_embeddings_share_is_no_likeness() {
        let lifted = |number| unit_length(&unit(number).map(|value| value + 0.1));
        assert!(dot(&lifted(1), &lifted(2)) > 0.6);
        assert!(dot(&centred(&lifted(1)), &centred(&lifted(2))).abs() < 0.2);
        assert!((dot(&centred(&lifted(1)), &centred(&lifted(1))) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn the_nearest_voice_is_the_one_with_the_greatest_cosine() {
        let voices = [unit(1), unit(2), unit(3)];
        let mut near = voices[1];
        near[0] += 0.05;
        assert_eq!(nearest(&unit_length(&near), &voices).map(|(voice, _)| voice), Some(1));
        assert_eq!(nearest(&near, &[]), None);
    }
}
