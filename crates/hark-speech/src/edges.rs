//! Moves the times of words beside pauses to where their sound begins and ends.
//!
//! Attention to the sound tells which word is said when, but not where a pause begins: the first word after one begins too early there, often
//! with the pause, and the last one ends before its sound does. The level of the sound knows better.

use hark_media::SAMPLE_RATE;
use hark_whisper::words::AlignedWord;

/// Samples of a frame, of 10 ms.
const FRAME: usize = SAMPLE_RATE as usize / 100;
/// How far below its loud parts, in decibels, sound still is speech…
const SPEECH_RANGE: f32 = 33.0;
/// …and how far it is above the quietest parts.
const ABOVE_NOISE: f32 = 6.0;
/// Pauses that are shorter belong to words: the closure of a consonant, for one.
const SHORT_PAUSE: usize = 12;
/// Sounds that are shorter are clicks.
const SHORT_SOUND: usize = 3;
/// Sound further than this from speech, as voice activity detection has it, is something else.
const REACH: usize = 35;
/// How far a word's end follows its sound, and how far its beginning does.
const MOST_LATER: usize = 60;
const MOST_EARLIER: usize = 30;
/// How far a word that lies in a pause is moved.
const MOST_MOVED: usize = 300;
/// So much sound between two words is that of others, which the text leaves out.
const LEFT_OUT: usize = 40;
/// Less sound than this, in frames, is no word's.
const SHORTEST_PART: usize = 4;

/// Moves the edges of words to the sound of `samples`, at 16 kHz; `speech` has the spans of speech. All times are in seconds from the first sample.
pub fn to_sound(words: &mut [AlignedWord], samples: &[f32], speech: &[(f64, f64)]) {
    let sounds = sounds(samples, speech);
    if sounds.is_empty() {
        return;
    }
    into_sound(words, &sounds);
    // Beginnings first: where the next word begins limits how late one ends.
    let mut earliest = 0;
    for word in words.iter_mut() {
        let (start, end) = (frame(word.start), frame(word.end));
        if let Some(Part { own, sound }) = part_of(&sounds, start, end, earliest) {
            if own.0 > start {
                word.start = seconds(own.0);
            } else if sound.0 < start && sound.0 >= earliest && start - sound.0 <= MOST_EARLIER {
                word.start = seconds(sound.0);
            }
        }
        earliest = end;
    }
    for index in 0..words.len() {
        let latest = words.get(index + 1).map_or(usize::MAX, |next| frame(next.start));
        let before = index.checked_sub(1).map_or(0, |before| frame(words[before].end));
        let word = &mut words[index];
        let (start, end) = (frame(word.start), frame(word.end));
        if let Some(Part { own, sound }) = part_of(&sounds, start, end, before) {
            if own.1 < end {
                word.end = seconds(own.1);
            } else if sound.1 > end && sound.1 <= latest && sound.1 - end <= MOST_LATER {
                word.end = seconds(sound.1);
            }
        }
        word.end = word.end.max(word.start);
    }
}

/// Words that lie in a pause altogether share the beginning of the next word's sound with it.
fn into_sound(words: &mut [AlignedWord], sounds: &[(usize, usize)]) {
    for index in (1..words.len()).rev() {
        let (start, end) = (frame(words[index - 1].start), frame(words[index - 1].end));
        let (next_start, next_end) = (frame(words[index].start), frame(words[index].end));
        let before = index.checked_sub(2).map_or(0, |before| frame(words[before].end));
        let is_silent = part_of(sounds, start, end, before).is_none();
        let Some(sound) = sounds.iter().find(|sound| sound.0 >= end).filter(|_| is_silent) else { continue };
        let begins = sound.0.max(next_start);
        if sound.0 < next_end && begins - start <= MOST_MOVED {
            let middle = seconds(begins + (next_end - begins) / 2);
            (words[index - 1].start, words[index - 1].end) = (seconds(begins), middle);
            words[index].start = middle;
        }
    }
}

/// The sound of a word.
struct Part {
    /// What of it lies in the word's times.
    own: (usize, usize),
    /// All of it.
    sound: (usize, usize),
}

/// The sound of a word that lasts from one frame to another, where the word before it ends at `before`. With a pause inside, it is what lies
/// behind the pause, or where most of its sound is.
fn part_of(sounds: &[(usize, usize)], start: usize, end: usize, before: usize) -> Option<Part> {
    let inside = sounds.iter().map(|sound| Part { own: (sound.0.max(start), sound.1.min(end)), sound: *sound });
    let length = |part: &Part| part.own.1.saturating_sub(part.own.0);
    let least = SHORTEST_PART.min(end.saturating_sub(start)).max(1);
    // The end of speech that the text leaves out.
    let is_foreign = |part: &Part| {
        part.own.0 == start
            && start.saturating_sub(part.sound.0.max(before)) >= LEFT_OUT
            && length(part) * 2 < end - start
    };
    let inside: Vec<Part> = inside.filter(|part| length(part) >= least && !is_foreign(part)).collect();
    let is_behind = inside.len() > 1 && inside.last().is_some_and(|last| last.own.1 == end);
    if is_behind { inside.into_iter().next_back() } else { inside.into_iter().rev().max_by_key(length) }
}

fn frame(seconds: f64) -> usize {
    (seconds.max(0.0) * 100.0).round() as usize
}

fn seconds(frame: usize) -> f64 {
    frame as f64 / 100.0
}

/// Runs of frames with the sound of speech: the first frame, and one after the last.
fn sounds(samples: &[f32], speech: &[(f64, f64)]) -> Vec<(usize, usize)> {
    let level = |frame: &[f32]| 10.0 * (frame.iter().map(|x| x * x).sum::<f32>() / FRAME as f32 + 1e-10).log10();
    let levels: Vec<f32> = samples.chunks_exact(FRAME).map(level).collect();
    let mut sorted = levels.clone();
    sorted.sort_by(f32::total_cmp);
    let (Some(&quiet), Some(&loud)) = (sorted.get(sorted.len() / 20), sorted.get(sorted.len() * 19 / 20)) else {
        return Vec::new();
    };
    let threshold = (loud - SPEECH_RANGE).max(quiet + ABOVE_NOISE);
    if threshold > loud - ABOVE_NOISE {
        // There is no telling sound from pauses.
        return Vec::new();
    }
    let mut sounds: Vec<(usize, usize)> = Vec::new();
    for index in (0..levels.len()).filter(|index| levels[*index] > threshold) {
        match sounds.last_mut() {
            Some(last) if index - last.1 < SHORT_PAUSE => last.1 = index + 1,
            _ => sounds.push((index, index + 1)),
        }
    }
    let is_speech = |sound: &(usize, usize)| {
        let near = |span: &(f64, f64)| sound.0 < frame(span.1) + REACH && sound.1 + REACH > frame(span.0);
        sound.1 - sound.0 >= SHORT_SOUND && speech.iter().any(near)
    };
    sounds.retain(is_speech);
    sounds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sound where `spans` say, over a soft noise.
    fn recording(seconds: f64, spans: &[(f64, f64)]) -> Vec<f32> {
        let samples = (seconds * f64::from(SAMPLE_RATE)) as usize;
        let is_loud = |at: f64| spans.iter().any(|span| at >= span.0 && at < span.1);
        let sample = |index: usize| {
            let loud = is_loud(index as f64 / f64::from(SAMPLE_RATE));
            (index as f32 * 0.7).sin() * if loud { 0.3 } else { 0.001 }
        };
        (0..samples).map(sample).collect()
    }

    fn word(start: f64, end: f64) -> AlignedWord {
        AlignedWord { text: " word".to_owned(), tokens: 0..1, start, end, probability: 1.0, holds: (start, end) }
    }

    fn moved(words: &[(f64, f64)], sound: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut words: Vec<AlignedWord> = words.iter().map(|times| word(times.0, times.1)).collect();
        to_sound(&mut words, &recording(10.0, sound), sound);
        words.iter().map(|word| (word.start, word.end)).collect()
    }

    #[test]
    fn a_word_after_a_pause_begins_with_its_sound_and_one_before_a_pause_ends_with_it() {
        let sound = [(1.0, 2.5), (4.0, 5.0)];
        let words = [(0.6, 1.4), (1.4, 2.2), (3.1, 4.5), (4.5, 4.8)];
        assert_eq!(moved(&words, &sound), [(1.0, 1.4), (1.4, 2.5), (4.0, 4.5), (4.5, 5.0)]);
    }

    #[test]
    fn words_in_running_speech_stay_where_they_are() {
        let words = [(1.0, 1.4), (1.43, 2.0), (2.3, 3.0)];
        assert_eq!(moved(&words, &[(1.0, 3.0)]), words);
    }

    #[test]
    fn a_pause_inside_a_word_goes_to_neither_side_of_it() {
        // It begins in the sound of the word before, and is said after the pause.
        assert_eq!(moved(&[(1.0, 1.8), (1.8, 3.5)], &[(1.0, 2.0), (3.0, 3.6)]), [(1.0, 2.0), (3.0, 3.6)]);
    }

    #[test]
    fn a_word_that_lies_in_a_pause_shares_the_sound_behind_it() {
        let words = [(0.5, 1.5), (2.0, 2.6), (2.6, 3.5)];
        assert_eq!(moved(&words, &[(0.5, 1.5), (2.8, 3.5)]), [(0.5, 1.5), (2.8, 3.15), (3.15, 3.5)]);
    }

    #[test]
    fn the_end_of_speech_that_the_text_leaves_out_is_no_word_s_sound() {
        let words = [(1.6, 2.3), (2.3, 3.7)];
        assert_eq!(moved(&words, &[(0.4, 1.7), (3.1, 4.0)]), [(3.1, 3.4), (3.4, 4.0)]);
    }

    #[test]
    fn short_gaps_far_sounds_and_noise_change_nothing() {
        // The closure of a consonant.
        assert_eq!(moved(&[(1.0, 2.0)], &[(1.0, 1.5), (1.58, 2.0)]), [(1.0, 2.0)]);
        // A sound that voice activity detection does not know.
        let mut words = [word(1.0, 1.5), word(4.0, 4.5)];
        to_sound(&mut words, &recording(10.0, &[(1.0, 1.5), (4.2, 4.5), (8.0, 9.0)]), &[(1.0, 1.5)]);
        assert_eq!((words[1].start, words[1].end), (4.0, 4.5));
        // Sound that is loud everywhere has no edges.
        let mut words = [word(1.0, 1.5)];
        to_sound(&mut words, &vec![0.2; 160_000], &[(0.0, 10.0)]);
        assert_eq!((words[0].start, words[0].end), (1.0, 1.5));
        to_sound(&mut words, &[], &[]);
    }
}
