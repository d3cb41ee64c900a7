//! From attention over audio frames to the times of words.
//!
//! In come the tokens of a window's text, their probabilities and the rows of cross-attention scores that predicted
//! them; out go words with start, end and confidence, in seconds from the start of the window. It is OpenAI's
//! method: the heads' attention is made comparable over tokens, smoothed over time and followed by dynamic time
//! warping. Where the window stands in the recording is none of its business.

use std::ops::Range;

use crate::tokenizer::Tokenizer;

/// Seconds of one encoder position.
const FRAME_SECONDS: f64 = 0.02;
/// Marks that belong to the word after them.
const OPENING: &str = "\"'“¿([{-";
/// Marks that belong to the word before them.
const CLOSING: &str = "\"'.。,，!！?？:：”)]}、";
/// Marks that end a sentence: a pause may follow.
const SENTENCE_END: &str = ".。!！?？";
/// No ordinary word is held longer than twice this.
const LONGEST_MEDIAN: f64 = 0.7;

/// A word, the tokens it is made of and when it was said.
#[derive(Debug, Clone, PartialEq)]
pub struct AlignedWord {
    /// The word as decoded: with its leading space, if it has one, and its punctuation.
    pub text: String,
    /// Which of the text tokens it is made of.
    pub tokens: Range<usize>,
    /// When it begins, in seconds from the start of the window.
    pub start: f64,
    /// When it ends.
    pub end: f64,
    /// Mean probability of its tokens.
    pub probability: f32,
    /// From the first to the last second that fell to it, pauses and skipped speech beside it included: a word that
    /// holds much speech stands where the text leaves something out.
    pub holds: (f64, f64),
}

impl AlignedWord {
    /// The same word on a clock that began `seconds` earlier.
    pub fn later_by(&self, seconds: f64) -> Self {
        let holds = (self.holds.0 + seconds, self.holds.1 + seconds);
        AlignedWord { start: self.start + seconds, end: self.end + seconds, holds, ..self.clone() }
    }
}

/// Scaled query-key products of the alignment heads, before the softmax.
#[derive(Debug, Clone)]
pub struct AlignmentRows<'a> {
    /// For each head, rows one after the other, each `stride` long.
    pub heads: Vec<&'a [f32]>,
    /// Frames of a row: 1500.
    pub stride: usize,
    /// Rows before the one that predicts the first text token (of the prompt's special tokens): they take part in
    /// comparing tokens, as in OpenAI's code, but not in the path. May be zero.
    pub leading: usize,
}

/// Words of a window's text with their times.
///
/// Each head has `leading + text_tokens.len() + 1` rows: row `leading + i` predicted text token `i`, the last one the
/// end of text. `frames` counts the encoder positions of real audio, 20 ms each; what lies after them is padding.
///
/// # Panics
/// When a head has another number of rows, or there are not as many probabilities as tokens.
pub fn word_times(
    tokenizer: &Tokenizer,
    language: &str,
    text_tokens: &[u32],
    token_probs: &[f32],
    rows: &AlignmentRows,
    frames: usize,
) -> Vec<AlignedWord> {
    let frames = frames.min(rows.stride);
    let matrix = agreement(rows, rows.leading + text_tokens.len() + 1, frames);
    words_of_agreement(tokenizer, language, text_tokens, token_probs, &matrix, frames)
}

/// What the heads agree on: `[row_count - leading][frames]`, higher where a token sounds like a frame; nothing without heads or frames.
///
/// # Panics
/// When a head has another number of rows than `row_count`.
pub fn agreement(rows: &AlignmentRows, row_count: usize, frames: usize) -> Vec<f32> {
    assert!(
        rows.heads.iter().all(|head| head.len() == row_count * rows.stride),
        "every head has a row for each token and the end"
    );
    if frames == 0 || rows.heads.is_empty() { Vec::new() } else { alignment_matrix(rows, row_count, frames) }
}

/// [`word_times`] of what the heads agree on: `[text tokens + 1][frames]`, or nothing.
///
/// # Panics
/// When the matrix has another size, or there are not as many probabilities as tokens.
pub fn words_of_agreement(
    tokenizer: &Tokenizer,
    language: &str,
    text_tokens: &[u32],
    token_probs: &[f32],
    matrix: &[f32],
    frames: usize,
) -> Vec<AlignedWord> {
    assert_eq!(text_tokens.len(), token_probs.len(), "one probability for each token");
    if text_tokens.is_empty() {
        return Vec::new();
    }
    let jumps = match matrix.len() {
        0 => vec![0; text_tokens.len() + 1],
        numbers => {
            assert_eq!(numbers, (text_tokens.len() + 1) * frames, "a row for each token and the end");
            first_frames(matrix, text_tokens.len() + 1, frames)
        }
    };

    let (texts, tokens_of) = tokenizer.split_to_word_tokens(text_tokens, language);
    let mut words = Vec::with_capacity(texts.len());
    let mut first = 0;
    for (text, tokens) in texts.into_iter().zip(tokens_of) {
        let tokens = first..first + tokens.len();
        first = tokens.end;
        let probability = token_probs[tokens.clone()].iter().sum::<f32>() / tokens.len() as f32;
        let (start, end) =
            (f64::from(jumps[tokens.start]) * FRAME_SECONDS, f64::from(jumps[tokens.end]) * FRAME_SECONDS);
        words.push(AlignedWord { text, start, end, holds: (start, end), tokens, probability });
    }
    // What the end of the text drew to itself lies behind the last word.
    if let Some(last) = words.last_mut() {
        last.holds.1 = frames as f64 * FRAME_SECONDS;
    }
    shorten_long_words(&mut words);
    merge_punctuation(&mut words);
    run_forwards(&mut words);
    words
}

/// Words at the edges of a sentence or window swallow the pause beside them: cuts it off again.
fn shorten_long_words(words: &mut [AlignedWord]) {
    let mut durations: Vec<f64> =
        words.iter().map(|word| word.end - word.start).filter(|duration| *duration > 0.0).collect();
    if durations.is_empty() {
        return;
    }
    durations.sort_by(f64::total_cmp);
    let middle = durations.len() / 2;
    let median = if durations.len().is_multiple_of(2) {
        (durations[middle - 1] + durations[middle]) / 2.0
    } else {
        durations[middle]
    };
    let longest = 2.0 * median.min(LONGEST_MEDIAN);

    for i in 1..words.len() {
        if words[i].end - words[i].start > longest {
            if ends_sentence(&words[i].text) {
                words[i].end = words[i].start + longest;
            } else if ends_sentence(&words[i - 1].text) {
                words[i].start = words[i].end - longest;
            }
        }
    }
    // The silence before the first word may also have gone to the second.
    if words.len() > 1 {
        let both = words[1].end - words[0].start;
        let second = words[1].end - words[1].start;
        if words[0].end - words[0].start <= longest && both > 2.0 * longest && second > longest {
            let boundary = (words[1].end / 2.0).max(words[1].end - longest);
            words[0].end = boundary;
            words[1].start = boundary;
        }
    }
    if let Some(word) = words.first_mut() {
        word.start = word.start.max(word.end - longest);
    }
    if let Some(word) = words.last_mut() {
        word.end = word.end.min(word.start + longest);
    }
}

fn ends_sentence(text: &str) -> bool {
    !text.is_empty() && SENTENCE_END.contains(text)
}

/// Gives opening marks to the word after them and closing marks to the word before, times staying those of the word.
fn merge_punctuation(words: &mut Vec<AlignedWord>) {
    let mut following = words.len().saturating_sub(1);
    for previous in (0..following).rev() {
        let text = &words[previous].text;
        if text.starts_with(' ') && OPENING.contains(text.trim()) {
            let text = std::mem::take(&mut words[previous].text);
            let (start, holds) = (words[previous].tokens.start, words[previous].holds.0);
            words[following].text.insert_str(0, &text);
            words[following].tokens.start = start;
            words[following].holds.0 = holds;
        } else {
            following = previous;
        }
    }
    let mut previous = 0;
    for following in 1..words.len() {
        if !words[previous].text.ends_with(' ') && CLOSING.contains(words[following].text.as_str()) {
            let text = std::mem::take(&mut words[following].text);
            let (end, holds) = (words[following].tokens.end, words[following].holds.1);
            words[previous].text.push_str(&text);
            words[previous].tokens.end = words[previous].tokens.end.max(end);
            words[previous].holds.1 = holds;
        } else {
            previous = following;
        }
    }
    words.retain(|word| !word.text.is_empty());
}

/// No word ends before it begins or begins before the one before it has ended.
fn run_forwards(words: &mut [AlignedWord]) {
    let mut earliest = 0.0f64;
    for word in words {
        word.start = word.start.max(earliest);
        word.end = word.end.max(word.start);
        earliest = word.end;
    }
}

fn alignment_matrix(rows: &AlignmentRows, row_count: usize, frames: usize) -> Vec<f32> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the machine has the features the function is compiled for.
        return unsafe { alignment_matrix_avx2(rows, row_count, frames) };
    }
    alignment_matrix_portable(rows, row_count, frames)
}

/// The same code compiled for wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn alignment_matrix_avx2(rows: &AlignmentRows, row_count: usize, frames: usize) -> Vec<f32> {
    alignment_matrix_portable(rows, row_count, frames)
}

/// For each head: softmax over real frames, then each frame's values over tokens to mean 0 and deviation 1, then a
/// median over 7 frames; the mean over heads. Cost: about 40 vector operations a value.
#[inline(always)]
fn alignment_matrix_portable(rows: &AlignmentRows, row_count: usize, frames: usize) -> Vec<f32> {
    let mut matrix = vec![0.0; (row_count - rows.leading) * frames];
    let mut attention = vec![0.0; row_count * frames];
    let mut mean = vec![0.0; frames];
    let mut scale = vec![0.0; frames];
    let mut padded = vec![0.0; frames + 6];
    for head in &rows.heads {
        mean.fill(0.0);
        for (scores, attention) in head.chunks_exact(rows.stride).zip(attention.chunks_exact_mut(frames)) {
            softmax(&scores[..frames], attention);
            add(&mut mean, attention);
        }
        mean.iter_mut().for_each(|v| *v /= row_count as f32);
        scale.fill(0.0);
        for attention in attention.chunks_exact(frames) {
            for ((sum, value), mean) in scale.iter_mut().zip(attention).zip(&mean) {
                *sum += (value - mean) * (value - mean);
            }
        }
        // A frame that all tokens attend to alike says nothing.
        for value in &mut scale {
            *value = if *value > 0.0 { 1.0 / (*value / row_count as f32).sqrt() } else { 0.0 };
        }
        let text_rows = attention.chunks_exact(frames).skip(rows.leading);
        for (attention, out) in text_rows.zip(matrix.chunks_exact_mut(frames)) {
            for (((out, value), mean), scale) in padded[3..].iter_mut().zip(attention).zip(&mean).zip(&scale) {
                *out = (value - mean) * scale;
            }
            add_medians(&mut padded, out);
        }
    }
    let heads = rows.heads.len() as f32;
    matrix.iter_mut().for_each(|v| *v /= heads);
    matrix
}

#[inline(always)]
fn add(sums: &mut [f32], values: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

#[inline(always)]
fn softmax(scores: &[f32], out: &mut [f32]) {
    const LANES: usize = 16;
    let mut largest = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for (largest, score) in largest.iter_mut().zip(chunk) {
            *largest = if *largest > *score { *largest } else { *score };
        }
    }
    let largest = largest.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    for (out, score) in out.iter_mut().zip(scores) {
        *out = exp(score - largest);
    }
    let mut sums = [0.0f32; LANES];
    let (chunks, rest) = out.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    let scale = 1.0 / (sums.iter().sum::<f32>() + rest.iter().sum::<f32>());
    for value in out {
        *value *= scale;
    }
}

/// e^x for x ≤ 0, within 2e-7 of itself, without branches or calls so that a loop over it becomes vector code.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = if x > -87.0 { x } else { -87.0 };
    // x = n ln 2 + r; adding 1.5 × 2^23 rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r / 720.0)))));
    series * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

/// Adds the median over 7 frames, edges reflected, of the row in `padded[3..]` to `out`; too short a row is added as
/// it is.
#[inline(always)]
fn add_medians(padded: &mut [f32], out: &mut [f32]) {
    let frames = out.len();
    if frames <= 3 {
        add(out, &padded[3..]);
        return;
    }
    for i in 0..3 {
        padded[i] = padded[6 - i];
        padded[frames + 3 + i] = padded[frames + 1 - i];
    }
    const LANES: usize = 16;
    let whole = frames / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let mut values = [[0.0f32; LANES]; 7];
        for (i, values) in values.iter_mut().enumerate() {
            values.copy_from_slice(&padded[at + i..at + i + LANES]);
        }
        add(&mut out[at..at + LANES], &median_of_7(values));
    }
    for at in whole..frames {
        let mut values = [[0.0f32]; 7];
        for (i, value) in values.iter_mut().enumerate() {
            value[0] = padded[at + i];
        }
        out[at] += median_of_7(values)[0];
    }
}

/// The median of seven in 13 exchanges (the known smallest network), in every lane at once.
#[inline(always)]
fn median_of_7<const LANES: usize>(values: [[f32; LANES]; 7]) -> [f32; LANES] {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g] = values;
    exchange(&mut a, &mut f);
    exchange(&mut a, &mut d);
    exchange(&mut b, &mut g);
    exchange(&mut c, &mut e);
    exchange(&mut a, &mut b);
    exchange(&mut d, &mut f);
    exchange(&mut c, &mut g);
    exchange(&mut c, &mut d);
    exchange(&mut d, &mut g);
    exchange(&mut e, &mut f);
    exchange(&mut b, &mut e);
    exchange(&mut b, &mut d);
    exchange(&mut d, &mut e);
    d
}

/// Puts the lower values into the first array, the higher ones into the second.
#[inline(always)]
fn exchange<const LANES: usize>(low: &mut [f32; LANES], high: &mut [f32; LANES]) {
    for (low, high) in low.iter_mut().zip(high) {
        let (a, b) = (*low, *high);
        *low = if a < b { a } else { b };
        *high = if a < b { b } else { a };
    }
}

/// Dynamic time warping: the frame at which the cheapest path enters each row, a path that goes through all rows and
/// frames in order and gains `matrix` where it goes. Cost: one pass over the matrix.
fn first_frames(matrix: &[f32], rows: usize, frames: usize) -> Vec<u32> {
    const DIAGONAL: u8 = 0;
    const DOWN: u8 = 1;
    const ALONG: u8 = 2;
    let mut steps = vec![ALONG; rows * frames];
    // `cost[j + 1]` is the cost of reaching frame j; before the pass, of the row above.
    let mut cost = vec![f32::INFINITY; frames + 1];
    cost[0] = 0.0;
    for (gains, steps) in matrix.chunks_exact(frames).zip(steps.chunks_exact_mut(frames)) {
        let mut diagonal = cost[0];
        let mut along = f32::INFINITY;
        cost[0] = f32::INFINITY;
        for ((gain, step), cost) in gains.iter().zip(steps).zip(&mut cost[1..]) {
            let down = *cost;
            let (cheapest, from) = if diagonal < down && diagonal < along {
                (diagonal, DIAGONAL)
            } else if down < diagonal && down < along {
                (down, DOWN)
            } else {
                (along, ALONG)
            };
            *step = from;
            diagonal = down;
            along = cheapest - gain;
            *cost = along;
        }
    }
    let mut first = vec![0; rows];
    let (mut row, mut frame) = (rows - 1, frames - 1);
    loop {
        first[row] = frame as u32;
        let step = match (row, frame) {
            (0, 0) => break,
            (0, _) => ALONG,
            (_, 0) => DOWN,
            _ => steps[row * frames + frame],
        };
        row -= usize::from(step != ALONG);
        frame -= usize::from(step != DOWN);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize, mut seed: u64) -> Vec<f32> {
        (0..count)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 40) as f32 / (1 << 22) as f32 - 2.0
            })
            .collect()
    }

    #[test]
    fn the_median_network_agrees_with_sorting() {
        for seed in 0..2000 {
            let mut values = noise(7, seed);
            if seed % 3 == 0 {
                values[2] = values[5];
            }
            let lanes: [[f32; 1]; 7] = std::array::from_fn(|i| [values[i]]);
            values.sort_by(f32::total_cmp);
            assert_eq!(median_of_7(lanes)[0], values[3]);
        }
    }

    #[test]
    fn the_fast_exponential_agrees_with_the_slow_one() {
        for i in 0..20_000 {
            let x = -i as f32 * 0.004_3;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 3e-7 * exact, "exp({x})");
        }
        assert!(exp(-1000.0) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
    }

    /// The method as its paper code states it, in f64 and without any cleverness.
    fn plain_matrix(rows: &AlignmentRows, row_count: usize, frames: usize) -> Vec<f64> {
        let mut matrix = vec![0.0; (row_count - rows.leading) * frames];
        for head in &rows.heads {
            let mut z = vec![vec![0.0; frames]; row_count];
            for (row, z) in z.iter_mut().enumerate() {
                let scores = &head[row * rows.stride..][..frames];
                let sum: f64 = scores.iter().map(|s| f64::from(*s).exp()).sum();
                z.iter_mut().zip(scores).for_each(|(z, s)| *z = f64::from(*s).exp() / sum);
            }
            for frame in 0..frames {
                let mean = z.iter().map(|z| z[frame]).sum::<f64>() / row_count as f64;
                let variance = z.iter().map(|z| (z[frame] - mean).powi(2)).sum::<f64>() / row_count as f64;
                z.iter_mut().for_each(|z| z[frame] = (z[frame] - mean) / variance.sqrt());
            }
            for (row, z) in z.iter().skip(rows.leading).enumerate() {
                for frame in 0..frames {
                    let at = |offset: isize| {
                        let i = (frame as isize + offset).abs();
                        let last = frames as isize - 1;
                        z[if i > last { 2 * last - i } else { i } as usize]
                    };
                    let reach = if frames <= 3 { 0 } else { 3 };
                    let mut around: Vec<f64> = (-reach..=reach).map(at).collect();
                    around.sort_by(f64::total_cmp);
                    let median = around[reach as usize];
                    matrix[row * frames + frame] += median / rows.heads.len() as f64;
                }
            }
        }
        matrix
    }

    #[test]
    fn the_fast_matrix_agrees_with_the_plain_one() {
        for (tokens, frames, leading) in [(1, 4, 0), (5, 50, 3), (23, 333, 0), (40, 1500, 3), (3, 2, 1)] {
            let row_count = tokens + 1 + leading;
            let stride = 1500;
            let heads: Vec<Vec<f32>> = (0..3).map(|h| noise(row_count * stride, h + frames as u64)).collect();
            let rows = AlignmentRows { heads: heads.iter().map(|h| &h[..]).collect(), stride, leading };
            let plain = plain_matrix(&rows, row_count, frames);
            let portable = alignment_matrix_portable(&rows, row_count, frames);
            for fast in [alignment_matrix(&rows, row_count, frames), portable] {
                assert_eq!(fast.len(), plain.len());
                for (fast, plain) in fast.iter().zip(&plain) {
                    assert!((f64::from(*fast) - plain).abs() < 2e-4, "{fast} {plain}");
                }
            }
        }
    }

    /// The best gain of any path, by trying them all.
    fn best_gain(matrix: &[f32], frames: usize, row: usize, frame: usize) -> f32 {
        let here = matrix[row * frames + frame];
        let mut before = Vec::new();
        if row > 0 {
            before.push(best_gain(matrix, frames, row - 1, frame));
        }
        if frame > 0 {
            before.push(best_gain(matrix, frames, row, frame - 1));
        }
        if row > 0 && frame > 0 {
            before.push(best_gain(matrix, frames, row - 1, frame - 1));
        }
        here + before.into_iter().reduce(f32::max).unwrap_or(0.0)
    }

    #[test]
    fn warping_finds_a_path_no_other_path_beats() {
        for seed in 0..200 {
            let (rows, frames) = (1 + seed as usize % 4, 1 + seed as usize % 7);
            let matrix = noise(rows * frames, seed);
            let first = first_frames(&matrix, rows, frames);
            assert_eq!(first[0], 0);
            assert!(first.is_sorted());
            // The path stays in a row until it enters the next, by a step down or a diagonal one.
            let gain_up_to = |row: usize, last: usize| -> f32 {
                (first[row] as usize..=last).map(|frame| matrix[row * frames + frame]).sum()
            };
            let mut gain = vec![0.0];
            for row in 0..rows {
                let ends = match first.get(row + 1) {
                    None => vec![frames - 1],
                    Some(next) if *next == first[row] => vec![*next as usize],
                    Some(next) => vec![*next as usize, *next as usize - 1],
                };
                gain = gain
                    .iter()
                    .flat_map(|g| ends.iter().map(|e| g + gain_up_to(row, *e)).collect::<Vec<_>>())
                    .collect();
            }
            let found = gain.into_iter().fold(f32::MIN, f32::max);
            let best = best_gain(&matrix, frames, rows - 1, frames - 1);
            assert!((found - best).abs() < 1e-4, "found {found}, best {best}");
        }
    }
}
