//! Voiceprints: made from a clip of one voice, and used to name the speakers of a recording.

use std::collections::BTreeMap;
use std::fmt;

use hark_media::{AudioStream, Options, Source};
use hark_speakers::cluster::{Embedding, dot, l2_normalized};
use hark_speakers::{Diarization, Diarizer, EMBEDDING_WIDTH, SAMPLE_RATE};

use crate::speakers::label;
use crate::{SpeechError, Voices};

/// The first byte of a stored print: the network that made it. Vectors of different networks can't be compared.
const CAMPPLUS_ZH_EN: u8 = 1;
/// The cosine similarity from which a speaker is named: above that of any two strangers among 55,000 pairs of voices, since a wrong
/// name is worse than none. docs/contributors/speakers.md has the figures.
const SAME_VOICE: f32 = 0.60;
/// Below this cosine similarity two clips are of two people.
const OTHER_VOICE: f32 = 0.40;
/// The minimum speech of a clip, in seconds.
const LEAST_SPEECH: f64 = 3.0;
/// The maximum duration of a clip, in seconds: more adds nothing to the print.
const LONGEST_CLIP: usize = 600;
/// A second voice counts from this many seconds and this share of all speech on.
const SECOND_VOICE: (f64, f64) = (1.5, 0.1);

/// A voiceprint: a speaker embedding of length 1, compared by cosine similarity.
#[derive(Clone, PartialEq)]
pub struct Voiceprint(Embedding);

/// A print identifies a person, so it is never logged.
impl fmt::Debug for Voiceprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Voiceprint")
    }
}

impl Voiceprint {
    /// Normalizes a vector; `None` if it is zero or not finite.
    pub fn new(vector: &[f32; EMBEDDING_WIDTH]) -> Option<Self> {
        let print = l2_normalized(vector);
        // Also false for NaN.
        ((dot(&print, &print) - 1.0).abs() < 1e-3).then_some(Voiceprint(print))
    }

    /// Cosine similarity: 1 for the same voice, near 0 for strangers.
    pub fn likeness(&self, other: &Voiceprint) -> f32 {
        dot(&self.0, &other.0)
    }

    /// Whether two prints are of two people.
    pub fn is_anothers(&self, other: &Voiceprint) -> bool {
        self.likeness(other) < OTHER_VOICE
    }

    /// The mean of several prints of one voice; `None` without any.
    pub fn together(prints: &[Voiceprint]) -> Option<Self> {
        let mut sum = [0.0; EMBEDDING_WIDTH];
        for print in prints {
            sum.iter_mut().zip(&print.0).for_each(|(sum, value)| *sum += value);
        }
        Voiceprint::new(&sum)
    }

    /// Encodes the print for storage.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|value| value.to_le_bytes());
        std::iter::once(CAMPPLUS_ZH_EN).chain(numbers).collect()
    }

    /// Decodes a stored print; `None` if it is damaged or of another network.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&CAMPPLUS_ZH_EN, numbers) = bytes.split_first()? else { return None };
        let (numbers, []) = numbers.as_chunks::<4>() else { return None };
        let numbers: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
        Voiceprint::new(numbers.as_slice().try_into().ok()?)
    }
}

impl Voices {
    /// The print of the voice of a clip; blocks while it is computed.
    pub fn print(&self, source: Source, media: &Options) -> Result<Voiceprint, SpeechError> {
        let mut audio = AudioStream::open(source, media)?;
        let mut diarizer = Diarizer::new(self.clone());
        let (mut samples, mut heard) = (Vec::new(), 0);
        while audio.read(&mut samples)? > 0 {
            heard += samples.len();
            if heard > LONGEST_CLIP * SAMPLE_RATE {
                return Err(SpeechError::ClipTooLong { minutes: LONGEST_CLIP / 60 });
            }
            diarizer.push(&samples);
            samples.clear();
        }
        one_voice(&diarizer.finish(None))
    }
}

/// The voice of a clip without a second voice.
fn one_voice(heard: &Diarization) -> Result<Voiceprint, SpeechError> {
    let mut spoken = vec![0.0; heard.centroids.len()];
    for turn in &heard.turns {
        spoken[turn.speaker] += turn.end - turn.start;
    }
    let speech: f64 = heard.exclusive.iter().map(|turn| turn.end - turn.start).sum();
    let main = (0..spoken.len()).max_by(|&a, &b| spoken[a].total_cmp(&spoken[b]));
    let Some(main) = main.filter(|_| speech > 0.0) else { return Err(SpeechError::NoSpeech) };
    let is_clear =
        |&other: &usize| other != main && spoken[other] >= SECOND_VOICE.0 && spoken[other] >= SECOND_VOICE.1 * speech;
    let others = (0..spoken.len()).filter(is_clear).count();
    if others > 0 {
        return Err(SpeechError::SeveralVoices { voices: others + 1 });
    }
    if spoken[main] < LEAST_SPEECH {
        return Err(SpeechError::TooLittleSpeech { heard: spoken[main], needed: LEAST_SPEECH });
    }
    Voiceprint::new(&heard.centroids[main]).ok_or(SpeechError::NoSpeech)
}

/// The names of those speakers whose voices are known, by label; `order` has the speaker of each label's number. A
/// speaker gets the name that fits best or none, and where a name fits several it is the best one's alone: two voices
/// of one recording are two people.
pub(crate) fn names(heard: &[Embedding], order: &[usize], known: &[(String, Voiceprint)]) -> BTreeMap<String, String> {
    let mut best: BTreeMap<&str, (f32, usize)> = BTreeMap::new();
    for (number, &speaker) in order.iter().enumerate() {
        let likeness = known.iter().map(|(name, print)| (dot(&heard[speaker], &print.0), name));
        let Some((alike, name)) = likeness.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        if alike >= SAME_VOICE && best.get(name.as_str()).is_none_or(|&(other, _)| alike > other) {
            best.insert(name, (alike, number));
        }
    }
    best.into_iter().map(|(name, (_, number))| (label(number), name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_speakers::Turn;

    /// A voice that points along one axis, and a little along another.
    fn voice(axis: usize, other: usize, share: f32) -> Embedding {
        let mut vector = [0.0; EMBEDDING_WIDTH];
        vector[axis] = (1.0 - share * share).sqrt();
        vector[other] += share;
        vector
    }

    fn known(names: &[(&str, usize)]) -> Vec<(String, Voiceprint)> {
        names.iter().map(|&(name, axis)| (name.to_owned(), Voiceprint(voice(axis, axis + 100, 0.0)))).collect()
    }

    fn spoken(seconds: &[f64]) -> Diarization {
        let mut turns = Vec::new();
        let mut start = 0.0;
        for (speaker, seconds) in seconds.iter().enumerate() {
            turns.push(Turn { start, end: start + seconds, speaker });
            start += seconds;
        }
        let centroids = (0..seconds.len()).map(|speaker| voice(speaker, 50, 0.0)).collect();
        Diarization { exclusive: turns.clone(), turns, centroids, overlaps: Vec::new() }
    }

    #[test]
    fn known_voices_get_their_names_under_the_labels_of_the_text() {
        let heard = [voice(0, 50, 0.3), voice(1, 50, 0.3), voice(2, 50, 0.3)];
        // The text begins with the third voice.
        let names = names(&heard, &[2, 0, 1], &known(&[("Ann", 0), ("Bob", 2), ("Eve", 7)]));
        assert_eq!(names, BTreeMap::from([("SPEAKER_00".into(), "Bob".into()), ("SPEAKER_01".into(), "Ann".into())]));
    }

    #[test]
    fn a_name_goes_to_the_best_match_alone_and_the_other_keeps_its_label() {
        // Both are nearest to Ann; the second is a little like Bob, which does not make it Bob.
        let heard = [voice(0, 1, 0.1), voice(0, 1, 0.6)];
        let named = names(&heard, &[1, 0], &known(&[("Ann", 0), ("Bob", 1)]));
        assert_eq!(named, BTreeMap::from([("SPEAKER_01".into(), "Ann".into())]));
    }

    #[test]
    fn strangers_and_an_empty_list_leave_every_label() {
        let heard = [voice(0, 1, 0.0)];
        assert_eq!(names(&heard, &[0], &[]), BTreeMap::new());
        assert_eq!(names(&heard, &[0], &known(&[("Eve", 1)])), BTreeMap::new());
        let just_below = voice(0, 1, (1.0 - (SAME_VOICE - 0.01).powi(2)).sqrt());
        assert_eq!(names(&[just_below], &[0], &known(&[("Ann", 0)])), BTreeMap::new());
    }

    #[test]
    fn a_clip_is_refused_without_speech_with_too_little_and_with_two_voices() {
        assert!(matches!(one_voice(&spoken(&[])), Err(SpeechError::NoSpeech)));
        assert!(matches!(one_voice(&spoken(&[2.9])), Err(SpeechError::TooLittleSpeech { .. })));
        assert!(matches!(one_voice(&spoken(&[9.0, 4.0])), Err(SpeechError::SeveralVoices { voices: 2 })));
        assert!(matches!(one_voice(&spoken(&[2.0, 2.0])), Err(SpeechError::SeveralVoices { voices: 2 })));
        // A cough that passes for another voice is none.
        assert_eq!(one_voice(&spoken(&[1.0, 20.0])).unwrap(), Voiceprint(voice(1, 50, 0.0)));
    }

    #[test]
    fn a_print_reads_back_as_it_was_and_damage_is_noticed() {
        let print = Voiceprint::new(&voice(3, 9, 0.4)).unwrap();
        let bytes = print.to_bytes();
        assert_eq!(bytes.len(), 769);
        assert_eq!(Voiceprint::from_bytes(&bytes).unwrap(), print);
        assert_eq!(Voiceprint::from_bytes(&bytes[..768]), None);
        assert_eq!(Voiceprint::from_bytes(&[]), None);
        let mut other = bytes.clone();
        other[0] = 2;
        assert_eq!(Voiceprint::from_bytes(&other), None, "another network's");
        other = bytes;
        other[1..5].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(Voiceprint::from_bytes(&other), None);
        assert_eq!(Voiceprint::new(&[0.0; EMBEDDING_WIDTH]), None);
        assert_eq!(format!("{print:?}"), "Voiceprint");
    }

    #[test]
    fn several_clips_make_one_print_between_them() {
        let prints = [Voiceprint(voice(0, 1, 0.5)), Voiceprint(voice(0, 2, 0.5))];
        let one = Voiceprint::together(&prints).unwrap();
        assert!(prints.iter().all(|print| one.likeness(print) > prints[0].likeness(&prints[1])));
        assert_eq!(Voiceprint::together(&[]), None);
    }
}
