//! Speech tokens from text tokens: the loop over the language model.
//!
//! Two rows go through it: one with the text, one with zeros in its place. Logits are moved away from those of the second (classifier-free guidance). The published code does the
//! same; without it the multilingual model seldom says what the text says.

use hark_numeric::SplitMix64;
use hark_onnx::Tensor;

use crate::CloneError;
use crate::networks::Networks;
use crate::sample::{Draw, START, STOP, draw, guide};

/// Text tokens with those around them that the tables of positions have room for.
pub(crate) const MAX_TOKENS: usize = 2048;
/// Speech tokens of a sentence at most: 40 s.
const MOST: usize = 1000;
/// Speech tokens that a sentence may have in any case, and for each of its text tokens: slow speech has three.
const MOST_BASE: usize = 75;
const MOST_PER_TOKEN: usize = 6;
/// Speech tokens before the end may come: a sixth of a second.
const LEAST: usize = 4;
/// The token before the text in whose place the exaggeration goes; it has no position.
pub(crate) const EXAGGERATION: i64 = 6563;
/// The last of the text tokens.
pub(crate) const END_OF_TEXT: i64 = 0;

/// How a sentence is spoken. The defaults are those of the model's authors for many languages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How much expression, 0.25 to 2.
    pub exaggeration: f32,
    /// How strongly the text decides against what is likely without it; 0 halves the work.
    pub guidance: f32,
    /// How freely tokens are drawn; 0 takes the most likely.
    pub temperature: f32,
    /// The share of the most likely token's probability that others must have.
    pub min_p: f32,
    /// By how much tokens that came before are made less likely.
    pub repetition_penalty: f32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { exaggeration: 0.5, guidance: 0.5, temperature: 0.8, min_p: 0.05, repetition_penalty: 2.0 }
    }
}

/// Speech tokens at most of a sentence with so many text tokens.
pub(crate) fn most_tokens(text_tokens: usize) -> usize {
    MOST.min(MOST_BASE + MOST_PER_TOKEN * text_tokens)
}

/// How the tokens of a sentence ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Generated {
    /// At the token that ends speech.
    Whole(Vec<i64>),
    /// At the limit.
    Endless,
}

/// Makes the speech tokens of a sentence. `conditioning` are the embeddings of the voice, rows of the model's width.
pub(crate) fn generate(
    networks: &mut Networks,
    ids: &[i64],
    text_tokens: usize,
    conditioning: &[f32],
    settings: &Settings,
    seed: u64,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Generated, CloneError> {
    if ids.len() > MAX_TOKENS {
        return Err(CloneError::TooLong { found: ids.len(), limit: MAX_TOKENS });
    }
    let most = most_tokens(text_tokens);
    let how = Draw {
        temperature: settings.temperature,
        min_p: settings.min_p,
        repetition_penalty: settings.repetition_penalty,
    };
    let rows = if settings.guidance > 0.0 { 2 } else { 1 };
    let mut random = SplitMix64::new(seed);
    let text = embed(networks, ids, &positions(ids), settings.exaggeration, is_cancelled)?;
    let mut input = prefill(conditioning, &text, ids, networks.width, rows)?;
    let begin = input.shape()[1];
    let mut caches = empty_caches(networks, rows)?;
    let mut tokens = vec![START];
    for step in 0..most {
        let length = begin + step;
        let mask = Tensor::i64(&[rows, length], vec![1; rows * length])?;
        let mut inputs: Vec<(&str, &Tensor)> = vec![("inputs_embeds", &input), ("attention_mask", &mask)];
        inputs.extend(networks.caches.iter().map(|(past, _)| past.as_str()).zip(&caches));
        let mut outputs = networks.language.run(&inputs, is_cancelled)?;
        drop(inputs);
        caches = networks.caches.iter().map(|(_, present)| outputs.take(present)).collect::<Result<_, _>>()?;
        let logits = outputs.take("logits")?;
        let mut logits = last_logits(networks, &logits, rows)?;
        if let [conditional, unconditional] = logits.as_mut_slice() {
            guide(conditional, unconditional, settings.guidance);
        }
        let Some(conditional) = logits.first_mut() else { return Err(CloneError::NotFinite) };
        let next = draw(conditional, &tokens, step >= LEAST, how, &mut random).ok_or(CloneError::NotFinite)?;
        if next == STOP {
            tokens.remove(0);
            return Ok(Generated::Whole(tokens));
        }
        tokens.push(next);
        let embedding = embed(networks, &[next], &[step as i64 + 1], settings.exaggeration, is_cancelled)?;
        input = Tensor::f32(&[rows, 1, networks.width], embedding.repeat(rows))?;
    }
    Ok(Generated::Endless)
}

/// The positions of the tokens before speech: the text counts from its begin, the tokens around it have none.
fn positions(ids: &[i64]) -> Vec<i64> {
    ids.iter().enumerate().map(|(at, id)| if *id >= START { 0 } else { at as i64 - 1 }).collect()
}

fn embed(
    networks: &mut Networks,
    ids: &[i64],
    positions: &[i64],
    exaggeration: f32,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<f32>, CloneError> {
    let count = ids.len();
    let (ids, positions) = (Tensor::i64(&[1, count], ids.to_vec())?, Tensor::i64(&[1, count], positions.to_vec())?);
    let exaggeration = Tensor::f32(&[1], vec![exaggeration])?;
    let inputs = [("input_ids", &ids), ("position_ids", &positions), ("exaggeration", &exaggeration)];
    let embeddings = networks.embedder.run(&inputs, is_cancelled)?.take("inputs_embeds")?;
    let wanted = [1, count, networks.width];
    if embeddings.shape() != wanted {
        let found = embeddings.shape();
        return Err(networks
            .embedder
            .unlike(format!("it returned embeddings of shape {found:?}, not {wanted:?}"))
            .into());
    }
    Ok(embeddings.as_f32()?.to_vec())
}

/// What the language model reads first: the voice, then the text; in the second row zeros in the place of the text.
fn prefill(conditioning: &[f32], text: &[f32], ids: &[i64], width: usize, rows: usize) -> Result<Tensor, CloneError> {
    let length = conditioning.len() / width + ids.len();
    let mut numbers = Vec::with_capacity(rows * length * width);
    for row in 0..rows {
        numbers.extend_from_slice(conditioning);
        let begin = numbers.len();
        numbers.extend_from_slice(text);
        if row == 1 {
            let is_text = is_text(ids);
            let embeddings = numbers[begin..].chunks_mut(width).zip(is_text);
            embeddings.filter(|(_, is_text)| *is_text).for_each(|(embedding, _)| embedding.fill(0.0));
        }
    }
    Ok(Tensor::f32(&[rows, length, width], numbers)?)
}

/// Which tokens are of the text: those up to the one that ends it, without the one of the exaggeration.
fn is_text(ids: &[i64]) -> impl Iterator<Item = bool> + '_ {
    let end = ids.iter().position(|id| *id == END_OF_TEXT);
    ids.iter().enumerate().map(move |(at, id)| *id != EXAGGERATION && end.is_some_and(|end| at <= end))
}

fn empty_caches(networks: &Networks, rows: usize) -> Result<Vec<Tensor>, CloneError> {
    let shape = [rows, networks.heads, 0, networks.head_width];
    let empty = networks.caches.iter().map(|_| Tensor::zeros(networks.cache_kind, &shape));
    Ok(empty.collect::<Result<_, _>>()?)
}

/// The logits of the last step of each row.
fn last_logits(networks: &Networks, logits: &Tensor, rows: usize) -> Result<Vec<Vec<f32>>, CloneError> {
    let (shape, vocabulary) = (logits.shape(), networks.vocabulary);
    match shape.as_slice() {
        [found, steps, width] if *steps > 0 && *found == rows && *width == vocabulary => {
            let numbers = logits.as_f32()?;
            let last = |row: usize| numbers[((row + 1) * steps - 1) * vocabulary..][..vocabulary].to_vec();
            Ok((0..rows).map(last).collect())
        }
        _ => Err(networks.language.unlike(format!("it returned logits of shape {shape:?}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [i64; 7] = [6563, 255, 708, 14, 0, 6561, 6561];

    #[test]
    fn text_has_positions_from_its_begin_and_the_tokens_around_it_have_none() {
        assert_eq!(positions(&IDS), [0, 0, 1, 2, 3, 0, 0]);
        let is_text: Vec<bool> = is_text(&IDS).collect();
        assert_eq!(is_text, [false, true, true, true, true, false, false]);
    }

    #[test]
    fn a_long_text_may_make_more_speech_up_to_a_limit() {
        assert_eq!(most_tokens(1), 81);
        assert_eq!(most_tokens(100), 675);
        assert_eq!(most_tokens(1000), 1000);
    }
}
