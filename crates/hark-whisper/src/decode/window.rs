//! One window in its slot: prompt, temperatures and search, from its first step to its text.

use std::collections::VecDeque;
use std::sync::Arc;

use super::engine::{Job, Outcome};
use super::search::{Hypothesis, Plan, Search};
use super::timing::Untimed;
use super::{Decoded, Language, compression_ratio, start_sequence};
use crate::backend::{Answer, Entry, TokenQuery, TokenRules};
use crate::tokenizer::Tokenizer;

/// Tokens at the end of a cached prompt that are decoded again: some seconds of speech.
const RECOMPUTED_TOKENS: usize = 12;

/// The prompt of the last decoding of a window, whose KV cache is in the slot's first row.
pub(super) struct CachedPrompt {
    pub(super) key: u64,
    /// When it was decoded, by the engine's counter.
    pub(super) look: u64,
    pub(super) prompt: Vec<u32>,
    pub(super) no_speech: f32,
}

/// A window in its slot.
pub(super) struct Window {
    pub(super) job: Job,
    pub(super) phase: Phase,
    /// Maximum tokens of the decoder.
    context: usize,
    language: String,
    language_probability: f32,
    heard: Option<(String, f32)>,
    pub(super) no_speech: f32,
    /// Temperatures not tried yet.
    temperatures: VecDeque<f32>,
    temperature: f32,
    /// The best result so far that failed a threshold.
    rejected: Option<Decoded>,
    /// Tokens of the prompt whose KV cache is reused.
    cached_tokens: usize,
}

/// What a window does next.
pub(super) enum Phase {
    Detecting,
    Prompting(Search),
    /// The prompt is in row 0; sampled hypotheses start from it in rows of their own.
    Spreading(Search),
    Searching(Search),
    /// Decoded; the text is to be aligned with the audio.
    Aligning(Box<Untimed>),
}

/// The languages of an answer, likeliest first; none where it was not asked for them.
fn by_probability(answer: &Answer, tokenizer: &Tokenizer) -> Vec<(String, f32)> {
    let codes = tokenizer.languages().iter().map(|code| (*code).to_owned());
    let mut languages: Vec<(String, f32)> = codes.zip(answer.languages.iter().copied()).collect();
    languages.sort_by(|a, b| b.1.total_cmp(&a.1));
    languages
}

impl Window {
    /// A window whose audio is encoded, before its first step.
    pub(super) fn new(
        job: Job,
        cached: Option<CachedPrompt>,
        tokenizer: &Tokenizer,
        context: usize,
        rows: usize,
    ) -> Self {
        let temperatures = job.options.temperatures.iter().copied().collect();
        let mut window = Window {
            phase: Phase::Detecting,
            context,
            language: "en".to_owned(),
            language_probability: 1.0,
            heard: None,
            no_speech: 0.0,
            temperatures,
            temperature: 0.0,
            rejected: None,
            cached_tokens: 0,
            // The mel values are no longer needed.
            job: Job { mel: Arc::new([]), ..job },
        };
        let known = match &window.job.options.language {
            Language::Known(code) => Some(code.clone()),
            Language::Detect { .. } if !tokenizer.is_multilingual() => Some("en".to_owned()),
            Language::Detect { .. } => None,
        };
        if let Some(code) = known {
            window.language = code;
            window.next_attempt(tokenizer, rows);
            if let Some(cached) = cached.filter(|cached| window.extends(cached)) {
                window.cached_tokens = window.reusable_tokens(&cached.prompt, tokenizer);
                window.no_speech = cached.no_speech;
            }
        }
        window
    }

    /// The prompt: previous text if any, then the start sequence. It leaves space for a token.
    pub(super) fn prompt(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let options = &self.job.options;
        let mut start = start_sequence(tokenizer, &self.language, options.task);
        if !options.timestamps {
            start.push(tokenizer.no_timestamps);
        }
        // A prefix that exceeds the context is truncated at its start.
        let max = self.context.saturating_sub(start.len() + 2);
        let prefix = &options.prefix[options.prefix.len().saturating_sub(max)..];
        let mut tokens = Vec::new();
        if !options.prompt.is_empty() {
            // Half of the context is for the text; a longer prompt is truncated at its start.
            let max = (self.context / 2 - 1).saturating_sub(prefix.len());
            tokens.push(tokenizer.sot_prev);
            tokens.extend(&options.prompt[options.prompt.len().saturating_sub(max)..]);
        }
        tokens.extend(start);
        tokens.extend(prefix);
        tokens
    }

    /// Whether this is the window of `cached`, which has only grown since.
    fn extends(&self, cached: &CachedPrompt) -> bool {
        self.job.reencode.as_ref().is_some_and(|reencode| reencode.key == cached.key && reencode.changed.is_some())
    }

    /// How many tokens of the prompt can reuse the KV cache of the `previous` prompt. The last few cannot: the audio they
    /// attend to has changed. Nor can a prompt whose start sequence is not cached.
    fn reusable_tokens(&self, previous: &[u32], tokenizer: &Tokenizer) -> usize {
        let prompt = self.prompt(tokenizer);
        let same = prompt.iter().zip(previous).take_while(|(token, previous)| token == previous).count();
        let known = same.min(prompt.len().saturating_sub(RECOMPUTED_TOKENS));
        if prompt[..known].contains(&tokenizer.sot) { known } else { 0 }
    }

    /// Starts over with the next temperature; false when none is left.
    fn next_attempt(&mut self, tokenizer: &Tokenizer, rows: usize) -> bool {
        let Some(temperature) = self.temperatures.pop_front() else {
            return false;
        };
        let options = &self.job.options;
        let width = if temperature > 0.0 { options.best_of } else { options.beam };
        let prompt_len = self.prompt(tokenizer).len();
        let plan = Plan {
            width: width.clamp(1, rows),
            temperature,
            timestamps: options.timestamps,
            goes_on: !options.prefix.is_empty(),
            max_tokens: options
                .max_tokens
                .saturating_sub(options.prefix.len())
                .min(self.context.saturating_sub(prompt_len))
                .max(1),
            last_time: tokenizer.timestamp_begin + self.job.frames as u32,
        };
        let seed = self.job.id.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ u64::from(temperature.to_bits());
        self.temperature = temperature;
        self.cached_tokens = 0;
        self.phase = Phase::Prompting(Search::new(plan, prompt_len, seed));
        true
    }

    pub(super) fn entries(&mut self, slot: usize, tokenizer: &Tokenizer, out: &mut Vec<Entry>) {
        let prompt = match &self.phase {
            Phase::Detecting => vec![tokenizer.sot],
            _ => self.prompt(tokenizer),
        };
        let entry = |row: usize, position: usize, query: Option<TokenQuery>| Entry {
            slot,
            row,
            parent: 0,
            position,
            token: prompt[position],
            query,
        };
        let no_speech =
            TokenQuery { rules: TokenRules::default(), top_k: 0, sampling: None, no_speech: true, languages: false };
        let last = prompt.len() - 1;
        match &mut self.phase {
            Phase::Detecting => out.push(entry(0, 0, Some(TokenQuery { languages: true, ..no_speech }))),
            Phase::Prompting(search) => {
                let queries = search.first_queries(tokenizer);
                let spreads = queries.len() > 1;
                for position in self.cached_tokens..last + usize::from(!spreads) {
                    let is_start = prompt[position] == tokenizer.sot;
                    let start = TokenQuery { languages: tokenizer.is_multilingual(), ..no_speech };
                    let query = if position == last { Some(queries[0]) } else { is_start.then_some(start) };
                    out.push(entry(0, position, query));
                }
            }
            Phase::Spreading(search) => {
                for (row, query) in search.first_queries(tokenizer).into_iter().enumerate() {
                    out.push(entry(row, last, Some(query)));
                }
            }
            Phase::Searching(search) => search.entries(slot, tokenizer, out),
            Phase::Aligning(_) => {}
        }
    }

    /// Processes the answers to the entries; returns the outcome when the window is done.
    pub(super) fn absorb(&mut self, answers: &[Answer], tokenizer: &Tokenizer, rows: usize) -> Option<Outcome> {
        match std::mem::replace(&mut self.phase, Phase::Detecting) {
            Phase::Detecting => {
                let mut languages = by_probability(&answers[0], tokenizer);
                self.heard = languages.first().cloned();
                let Language::Detect { sure_from } = self.job.options.language else {
                    return None;
                };
                if languages.is_empty() || languages[0].1 < sure_from {
                    return Some(Outcome::Languages(languages));
                }
                (self.language, self.language_probability) = languages.swap_remove(0);
                self.next_attempt(tokenizer, rows);
                None
            }
            Phase::Prompting(mut search) => {
                // The first answer is for the start token, unless it is cached; the last one for the end of the prompt,
                // unless that is decoded in the next step.
                let mut answers = answers;
                if let Some((start, rest)) = answers.split_first().filter(|_| self.cached_tokens == 0) {
                    self.no_speech = start.no_speech;
                    // What a prompt says speaks for its language: the start token alone is asked before it.
                    if self.heard.is_none() {
                        self.heard = by_probability(start, tokenizer).into_iter().next();
                    }
                    answers = rest;
                }
                if !answers.is_empty() {
                    search.begin(answers, tokenizer);
                    self.finish_step(search, tokenizer, rows)
                } else {
                    self.phase = Phase::Spreading(search);
                    None
                }
            }
            Phase::Spreading(mut search) => {
                search.begin(answers, tokenizer);
                self.finish_step(search, tokenizer, rows)
            }
            Phase::Searching(mut search) => {
                search.absorb(answers, tokenizer);
                self.finish_step(search, tokenizer, rows)
            }
            Phase::Aligning(text) => {
                self.phase = Phase::Aligning(text);
                None
            }
        }
    }

    /// Continues the search, or returns a result that passes the thresholds, or falls back to the next temperature.
    fn finish_step(&mut self, search: Search, tokenizer: &Tokenizer, rows: usize) -> Option<Outcome> {
        if !search.is_done() {
            self.phase = Phase::Searching(search);
            return None;
        }
        let decoded = self.decoded(search.best(), tokenizer);
        let options = &self.job.options;
        let repeats = decoded.compression > options.compression_ratio_threshold;
        let doubtful = decoded.mean_logprob < options.logprob_threshold;
        let silent = decoded.no_speech > options.no_speech_threshold && doubtful;
        if silent {
            return Some(Outcome::Decoded(Box::new(Decoded {
                tokens: Vec::new(),
                log_probs: Vec::new(),
                text: String::new(),
                ..decoded
            })));
        }
        if !repeats && !doubtful {
            return Some(Outcome::Decoded(Box::new(decoded)));
        }
        // Of the failed results keep the likeliest without repetition.
        let better = self.rejected.as_ref().is_none_or(|other| {
            let key =
                |result: &Decoded| (result.compression <= options.compression_ratio_threshold, result.mean_logprob);
            key(&decoded).partial_cmp(&key(other)) == Some(std::cmp::Ordering::Greater)
        });
        if better {
            self.rejected = Some(decoded);
        }
        if self.next_attempt(tokenizer, rows) {
            return None;
        }
        self.rejected.take().map(|decoded| Outcome::Decoded(Box::new(decoded)))
    }

    fn decoded(&self, best: Option<Hypothesis>, tokenizer: &Tokenizer) -> Decoded {
        let mut tokens = self.job.options.prefix.clone();
        let mut log_probs = vec![0.0; tokens.len()];
        let mut mean_logprob = f32::NEG_INFINITY;
        if let Some(best) = best {
            mean_logprob = best.mean_logprob();
            tokens.extend(best.tokens);
            log_probs.extend(best.log_probs);
        }
        let text_tokens: Vec<u32> = tokens.iter().copied().filter(|&token| token < tokenizer.eot).collect();
        let text = tokenizer.decode(&text_tokens).trim().to_owned();
        Decoded {
            language: self.language.clone(),
            language_probability: self.language_probability,
            heard: self.heard.clone(),
            compression: compression_ratio(&text),
            log_probs: log_probs[..tokens.len()].to_vec(),
            tokens,
            text,
            mean_logprob,
            no_speech: self.no_speech,
            temperature: self.temperature,
            words: Vec::new(),
        }
    }
}
