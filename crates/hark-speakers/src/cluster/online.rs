//! Voices while they speak: each new piece goes to the nearest voice known so far, or begins a new one.
//!
//! A label once given to a voice stays with it: what was shown to people isn't renamed. Mistakes of the first seconds
//! are mended once, at the end, by the clustering of the whole recording.

use super::linkage::Group;
use super::{Voice, nearest};

/// How eagerly new voices are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnlineOptions {
    /// Least cosine to a voice for a piece to be taken as that voice's.
    pub same: f32,
    /// Least cosine for a piece to be learned from: what is less sure is labelled but leaves the voice as it was.
    pub learn: f32,
    /// Pieces of an unknown voice that must agree before it gets a label: one cough is nobody.
    pub confirm: usize,
    /// Voices at most; further ones go to the nearest.
    pub most: usize,
}

impl Default for OnlineOptions {
    fn default() -> Self {
        // The best of a few tried on the 40 built conversations of `tuning`: 95.3 % of the pieces under the right label
        // while they come, the number of voices right in 29, too large in the others. The end mends it.
        OnlineOptions { same: 0.20, learn: 0.35, confirm: 2, most: 20 }
    }
}

/// The voices of a live session.
#[derive(Debug, Clone, Default)]
pub struct Online {
    options: OnlineOptions,
    voices: Vec<Group>,
    centroids: Vec<Voice>,
    /// Unknown voices that have not been heard often enough.
    candidates: Vec<Group>,
}

impl Online {
    /// No voices yet.
    pub fn new(options: OnlineOptions) -> Self {
        Online { options, ..Online::default() }
    }

    /// The label of one more piece, given as a vector of length 1; none while its voice is not sure to be a new one
    /// and nobody is known yet.
    pub fn label(&mut self, vector: &Voice) -> Option<usize> {
        let known = nearest(vector, &self.centroids);
        match known {
            Some((voice, cosine)) if cosine >= self.options.same || self.voices.len() >= self.options.most => {
                if cosine >= self.options.learn {
                    self.voices[voice].join(&Group::of(vector, 1.0));
                    self.centroids[voice] = self.voices[voice].centroid();
                }
                Some(voice)
            }
            _ => self.unknown(vector).or(known.map(|(voice, _)| voice)),
        }
    }

    /// What each voice sounds like so far.
    pub fn voices(&self) -> &[Voice] {
        &self.centroids
    }

    /// Counts a piece for an unknown voice, and gives that voice its label when it was heard often enough.
    fn unknown(&mut self, vector: &Voice) -> Option<usize> {
        let centroids: Vec<Voice> = self.candidates.iter().map(Group::centroid).collect();
        let place = match nearest(vector, &centroids) {
            Some((place, cosine)) if cosine >= self.options.learn => {
                self.candidates[place].join(&Group::of(vector, 1.0));
                place
            }
            _ => {
                self.candidates.push(Group::of(vector, 1.0));
                self.candidates.len() - 1
            }
        };
        if self.candidates[place].count < self.options.confirm as f32 {
            return None;
        }
        let group = self.candidates.remove(place);
        self.centroids.push(group.centroid());
        self.voices.push(group);
        Some(self.voices.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{noisy_voices, unit};
    use super::*;

    #[test]
    fn labels_follow_the_voices_in_order_of_first_appearance_and_never_change() {
        let (vectors, voices) = noisy_voices(1, &[12, 12, 12], 0.8);
        // Turns of four pieces: 0 0 0 0 1 1 1 1 2 2 2 2 0 …
        let order = (0..9).flat_map(|turn| (0..4).map(move |piece| (turn % 3) * 12 + (turn / 3) * 4 + piece));
        let mut online = Online::new(OnlineOptions::default());
        let mut right = 0;
        for place in order {
            right += usize::from(online.label(&vectors[place]) == Some(voices[place]));
        }
        // The first piece of each voice is not labelled as its own yet.
        assert_eq!((right, online.voices().len()), (33, 3));
    }

    #[test]
    fn one_strange_sound_is_no_voice() {
        let (vectors, _) = noisy_voices(2, &[6], 0.6);
        let mut online = Online::new(OnlineOptions::default());
        for vector in &vectors[..4] {
            online.label(vector);
        }
        assert_eq!(online.label(&unit(77)), Some(0), "a cough goes to the nearest voice");
        assert_eq!(online.label(&vectors[5]), Some(0));
        assert_eq!(online.voices().len(), 1);
    }

    #[test]
    fn there_are_never_more_voices_than_allowed() {
        let (vectors, _) = noisy_voices(3, &[3, 3, 3, 3], 0.5);
        let mut online = Online::new(OnlineOptions { most: 2, ..OnlineOptions::default() });
        let labels: Vec<Option<usize>> = vectors.iter().map(|vector| online.label(vector)).collect();
        assert_eq!(online.voices().len(), 2);
        assert!(labels[2..].iter().all(|label| label.is_some_and(|label| label < 2)), "{labels:?}");
    }
}
