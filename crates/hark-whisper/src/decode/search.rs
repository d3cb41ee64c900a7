//! The search for one window's text: which tokens to try next, and which hypotheses survive.

use hark_numeric::SplitMix64;

use crate::backend::{Answer, Entry, Sampling, TokenQuery, TokenRules};
use crate::tokenizer::Tokenizer;

/// A hypothesis: a text so far.
#[derive(Debug, Clone)]
pub struct Hypothesis {
    /// The row of its KV cache.
    pub row: usize,
    /// The row whose KV cache it follows in the next step.
    parent: usize,
    /// Tokens after the prompt.
    pub tokens: Vec<u32>,
    /// Log-probability of each, and of the end if reached.
    pub log_probs: Vec<f32>,
    sum: f32,
}

impl Hypothesis {
    /// Sum of log-probabilities divided by length, as the original ranks.
    fn rank(&self) -> f32 {
        self.sum / self.tokens.len().max(1) as f32
    }

    /// Mean log-probability, the end included.
    pub fn mean_logprob(&self) -> f32 {
        self.sum / (self.tokens.len() + 1) as f32
    }
}

/// The parameters of a search.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Hypotheses: the beam width, or how many to sample.
    pub width: usize,
    /// Zero for beam search, above for sampling.
    pub temperature: f32,
    /// Whether timestamps are generated.
    pub timestamps: bool,
    /// Whether the prompt ends in a prefix of the text.
    pub goes_on: bool,
    /// Maximum tokens.
    pub max_tokens: usize,
    /// The last allowed timestamp token (the end of the window's audio).
    pub last_time: u32,
}

/// Latest first timestamp: speech that the window cut out begins within its first second.
const FIRST_TIME_LIMIT: u32 = 50;

/// The search's state.
pub struct Search {
    plan: Plan,
    prompt_len: usize,
    live: Vec<Hypothesis>,
    finished: Vec<Hypothesis>,
    random: SplitMix64,
}

impl Search {
    /// A search whose prompt of `prompt_len` tokens is in row 0.
    pub fn new(plan: Plan, prompt_len: usize, seed: u64) -> Self {
        Search { plan, prompt_len, live: Vec::new(), finished: Vec::new(), random: SplitMix64::new(seed | 1) }
    }

    /// The queries after the last token of the prompt, by row: sampled hypotheses start in rows of their own.
    pub fn first_queries(&mut self, tokenizer: &Tokenizer) -> Vec<TokenQuery> {
        let rules = self.rules(&[], tokenizer);
        if self.plan.temperature > 0.0 {
            (0..self.plan.width).map(|_| self.query(rules)).collect()
        } else {
            vec![self.query(rules)]
        }
    }

    /// Processes the answers to [`Search::first_queries`].
    pub fn begin(&mut self, answers: &[Answer], tokenizer: &Tokenizer) {
        let empty = |row: usize| Hypothesis { row, parent: row, tokens: Vec::new(), log_probs: Vec::new(), sum: 0.0 };
        self.live = (0..answers.len()).map(empty).collect();
        self.absorb(answers, tokenizer);
    }

    /// The next entries: the newest token of every live hypothesis.
    pub fn entries(&mut self, slot: usize, tokenizer: &Tokenizer, out: &mut Vec<Entry>) {
        for index in 0..self.live.len() {
            let rules = self.rules(&self.live[index].tokens, tokenizer);
            let query = self.query(rules);
            let hypothesis = &self.live[index];
            out.push(Entry {
                slot,
                row: hypothesis.row,
                parent: hypothesis.parent,
                position: self.prompt_len + hypothesis.tokens.len() - 1,
                token: hypothesis.tokens[hypothesis.tokens.len() - 1],
                query: Some(query),
            });
        }
    }

    /// Processes the answers to the entries, in order.
    pub fn absorb(&mut self, answers: &[Answer], tokenizer: &Tokenizer) {
        // (log-probability of the whole, index of the hypothesis, token, its log-probability)
        let mut candidates: Vec<(f32, usize, u32, f32)> = Vec::new();
        for (index, answer) in answers.iter().enumerate() {
            for &(token, log_prob) in answer.best.iter().filter(|(_, log_prob)| log_prob.is_finite()) {
                candidates.push((self.live[index].sum + log_prob, index, token, log_prob));
            }
        }
        if self.plan.temperature == 0.0 {
            candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        }
        let before = std::mem::take(&mut self.live);
        // Rows that stay: a hypothesis prefers its parent's row, so that a beam of one never moves.
        let mut next: Vec<(usize, u32, f32)> = Vec::new();
        for (_, index, token, log_prob) in candidates {
            if next.len() == self.plan.width {
                break;
            }
            if token == tokenizer.eot {
                let mut done = before[index].clone();
                done.sum += log_prob;
                done.log_probs.push(log_prob);
                if self.finished.len() < self.plan.width {
                    self.finished.push(done);
                }
            } else {
                next.push((index, token, log_prob));
            }
        }
        let drawn = self.plan.temperature > 0.0;
        let mut taken = vec![false; self.plan.width];
        let mut rows: Vec<Option<usize>> = next
            .iter()
            .map(|&(index, ..)| {
                let row = before[index].row;
                (!std::mem::replace(&mut taken[row], true)).then_some(row)
            })
            .collect();
        for row in rows.iter_mut().filter(|row| row.is_none()) {
            let free = taken.iter().position(|&taken| !taken).unwrap_or_default();
            taken[free] = true;
            *row = Some(free);
        }
        self.live = next
            .into_iter()
            .zip(rows)
            .map(|((index, token, log_prob), row)| {
                let parent = &before[index];
                let row = if drawn { parent.row } else { row.unwrap_or_default() };
                let mut tokens = Vec::with_capacity(parent.tokens.len() + 16);
                tokens.extend_from_slice(&parent.tokens);
                tokens.push(token);
                let mut log_probs = Vec::with_capacity(parent.log_probs.len() + 16);
                log_probs.extend_from_slice(&parent.log_probs);
                log_probs.push(log_prob);
                Hypothesis { row, parent: parent.row, tokens, log_probs, sum: parent.sum + log_prob }
            })
            .collect();
        if self.finished.len() >= self.plan.width {
            self.live.clear();
        }
        let most = self.plan.max_tokens;
        if self.live.iter().any(|hypothesis| hypothesis.tokens.len() >= most || is_looping(&hypothesis.tokens)) {
            // All hypotheses of a beam have the same length. At the maximum they count as they are.
            let room = self.plan.width.saturating_sub(self.finished.len());
            self.finished.extend(self.live.drain(..).take(room.max(1)));
            self.live.clear();
        }
    }

    /// Whether the search is complete.
    pub fn is_done(&self) -> bool {
        self.live.is_empty()
    }

    /// The best text.
    pub fn best(self) -> Option<Hypothesis> {
        self.finished.into_iter().max_by(|a, b| a.rank().total_cmp(&b.rank()))
    }

    fn query(&mut self, rules: TokenRules) -> TokenQuery {
        let sampling = (self.plan.temperature > 0.0)
            .then(|| Sampling { temperature: self.plan.temperature, uniform: self.random.unit() });
        // One more than the beam: if the end is among them, enough others remain.
        let top_k = if self.plan.width == 1 { 1 } else { self.plan.width + 1 };
        TokenQuery { rules, top_k, sampling, no_speech: false, languages: false }
    }

    /// The tokens that may follow `tokens`, by the original's rules for text and timestamps.
    fn rules(&self, tokens: &[u32], tokenizer: &Tokenizer) -> TokenRules {
        let at_start = tokens.is_empty() && !self.plan.goes_on;
        if !self.plan.timestamps {
            return TokenRules { text: true, end: true, at_start, timestamps: None };
        }
        let first = tokenizer.timestamp_begin;
        let last = self.plan.last_time + 1;
        if at_start {
            let limit = (first + FIRST_TIME_LIMIT + 1).min(last);
            return TokenRules { text: false, end: false, at_start, timestamps: Some((first, limit)) };
        }
        let is_time = |token: u32| token >= first;
        let last_is_time = tokens.last().is_some_and(|&token| is_time(token));
        let before_is_time = tokens.len() < 2 || is_time(tokens[tokens.len() - 2]);
        let latest = tokens.iter().rev().copied().find(|&token| is_time(token)).unwrap_or(first);
        match (last_is_time, before_is_time) {
            // A pair of timestamps (or the first one): text must follow.
            (true, true) => TokenRules { text: true, end: true, at_start: false, timestamps: None },
            // An end time: its start time follows, or the end of the text.
            (true, false) => TokenRules { text: false, end: true, at_start: false, timestamps: Some((latest, last)) },
            // Inside a segment: its end must follow its start.
            (false, _) => TokenRules { text: true, end: true, at_start: false, timestamps: Some((latest + 1, last)) },
        }
    }
}

/// Whether the tail is one short phrase over and over: the checks would refuse it at the end, so stop now.
fn is_looping(tokens: &[u32]) -> bool {
    const TIMES: usize = 10;
    (1..=6).any(|length| {
        let span = length * TIMES;
        tokens.len() >= span && {
            let tail = &tokens[tokens.len() - span..];
            tail.chunks_exact(length).all(|phrase| phrase == &tail[..length])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_looping;

    #[test]
    fn a_phrase_over_and_over_is_a_loop_and_speech_is_not() {
        assert!(is_looping(&[vec![7, 8, 9], [1, 2].repeat(10)].concat()));
        assert!(is_looping(&[5; 10]));
        assert!(!is_looping(&[5; 9]));
        assert!(!is_looping(&(0..100).collect::<Vec<u32>>()));
    }
}
