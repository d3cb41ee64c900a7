//! Word times from attention made so that the right answer is known.

mod weights_installed;

use hark_whisper::tokenizer::{Tokenizer, Vocabulary};
use hark_whisper::words::{AlignedWord, AlignmentRows, word_times};

const STRIDE: usize = 1500;

fn tokenizer() -> Tokenizer {
    let folder = weights_installed::folder("whisper-base");
    Tokenizer::new(&Vocabulary::open(&folder, 51865).expect("the vocabulary beside the weights"))
}

/// Rows in which row `i` attends to the frames from `starts[i]` to `starts[i + 1]`, over a noisy ground.
fn rows_for(starts: &[usize], seed: u64) -> Vec<f32> {
    let mut seed = seed;
    let mut rows = Vec::new();
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(start + 5);
        rows.extend((0..STRIDE).map(|frame| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let noise = (seed >> 40) as f32 / (1 << 24) as f32;
            if (*start..end).contains(&frame) { 6.0 + noise } else { noise }
        }));
    }
    rows
}

fn times(text: &str, language: &str, starts: &[usize], frames: usize) -> Vec<AlignedWord> {
    let tokenizer = tokenizer();
    let tokens = tokenizer.encode(text);
    assert_eq!(starts.len(), tokens.len() + 1, "{text:?} is {} tokens", tokens.len());
    let (one, two) = (rows_for(starts, 1), rows_for(starts, 2));
    let rows = AlignmentRows { heads: vec![&one, &two], stride: STRIDE, leading: 0 };
    let probabilities: Vec<f32> = (0..tokens.len()).map(|i| 1.0 - 0.1 * i as f32).collect();
    let words = word_times(&tokenizer, language, &tokens, &probabilities, &rows, frames);
    assert_sound(&words, tokens.len(), frames);
    words
}

fn assert_sound(words: &[AlignedWord], tokens: usize, frames: usize) {
    let mut end = 0.0;
    let mut token = 0;
    for word in words {
        assert!(word.start >= end && word.end >= word.start, "{words:?}");
        assert!(word.end <= frames as f64 * 0.02 + 1e-9, "{words:?}");
        assert_eq!(word.tokens.start, token, "every token belongs to one word, in order");
        (end, token) = (word.end, word.tokens.end);
    }
    assert_eq!(token, tokens);
}

#[test]
#[ignore = "needs models"]
fn words_begin_and_end_where_attention_says() {
    let words = times(" ask not what your country", "en", &[10, 30, 48, 66, 84, 110], 140);
    let found: Vec<_> = words.iter().map(|w| (w.text.as_str(), w.start, w.end)).collect();
    let expected = [
        (" ask", 0.2, 0.6),
        (" not", 0.6, 0.96),
        (" what", 0.96, 1.32),
        (" your", 1.32, 1.68),
        (" country", 1.68, 2.2),
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        // The median filter may move an edge by a few frames; the start of the first word is free.
        assert!((found.1 - expected.1).abs() < 0.25 && (found.2 - expected.2).abs() < 0.07, "{found:?} {expected:?}");
    }
    assert_eq!(words.len(), 5);
    assert!((words[1].probability - 0.9).abs() < 1e-6);
}

#[test]
#[ignore = "needs models"]
fn punctuation_joins_its_word_and_keeps_its_tokens() {
    let words = times(" \"Hello, world.\"", "en", &[5, 10, 30, 35, 60, 62], 80);
    let texts: Vec<_> = words.iter().map(|w| w.text.as_str()).collect();
    assert_eq!(texts, [" \"Hello,", " world.\""]);
}

#[test]
#[ignore = "needs models"]
fn a_pause_before_the_first_and_after_the_last_word_is_not_part_of_it() {
    // Words of 0.3 s, with five silent seconds before and ten after.
    let starts = [0, 265, 280, 295, 310, 325, 830];
    let words = times(" ask not what your country can", "en", &starts, 900);
    let longest = words.iter().map(|w| w.end - w.start).fold(0.0, f64::max);
    assert!(longest < 0.7, "{words:?}");
    assert!(words[0].start > 4.5 && words[5].end < 7.5, "{words:?}");
}

#[test]
#[ignore = "needs models"]
fn edges_do_no_harm() {
    let tokenizer = tokenizer();
    let row = vec![0.0; STRIDE];
    let none = AlignmentRows { heads: vec![&row], stride: STRIDE, leading: 0 };
    assert!(word_times(&tokenizer, "en", &[], &[], &none, 100).is_empty());

    let tokens = tokenizer.encode(" one two three, four");
    let probabilities = vec![0.5; tokens.len()];
    let mut seed = 5u64;
    for frames in [0, 1, 2, 3, 4, 7, 8, 1500, 5000] {
        for flat in [true, false] {
            let rows: Vec<f32> = (0..(tokens.len() + 3) * STRIDE)
                .map(|_| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if flat { 1.0 } else { (seed >> 40) as f32 / 1e5 }
                })
                .collect();
            let rows = AlignmentRows { heads: vec![&rows, &rows], stride: STRIDE, leading: 2 };
            let words = word_times(&tokenizer, "en", &tokens, &probabilities, &rows, frames);
            assert_sound(&words, tokens.len(), frames.min(STRIDE));
            assert_eq!(words.iter().map(|w| w.text.as_str()).collect::<String>(), " one two three, four");
        }
    }
    let headless = AlignmentRows { heads: vec![], stride: STRIDE, leading: 0 };
    assert_eq!(word_times(&tokenizer, "en", &tokens, &probabilities, &headless, 100).len(), 4);
}

#[test]
#[ignore = "needs models"]
fn languages_without_spaces_have_a_word_for_each_character() {
    let tokenizer = tokenizer();
    let tokens = tokenizer.encode("東京タワー。");
    let starts: Vec<usize> = (0..=tokens.len()).map(|i| 10 + 20 * i).collect();
    let words = times("東京タワー。", "ja", &starts, 200);
    assert!(words.len() > 2 && words.last().is_some_and(|word| word.text.ends_with('。')), "{words:?}");
}
