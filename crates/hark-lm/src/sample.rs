//! Choosing the next token.

use hark_numeric::SplitMix64;

/// Which tokens are allowed: a bit for each token of the vocabulary.
#[derive(Debug, Clone)]
pub struct TokenMask {
    bits: Vec<u64>,
}

impl TokenMask {
    /// A mask that allows nothing, for a vocabulary of so many tokens.
    pub fn none(vocabulary: usize) -> Self {
        TokenMask { bits: vec![0; vocabulary.div_ceil(64)] }
    }

    /// Allows nothing.
    pub fn clear(&mut self) {
        self.bits.fill(0);
    }

    /// Allows what another mask of the same vocabulary allows, and nothing else.
    pub fn copy_from(&mut self, other: &TokenMask) {
        self.bits.copy_from_slice(&other.bits);
    }

    /// Allows a token; one beyond the vocabulary is ignored.
    pub fn allow(&mut self, token: u32) {
        if let Some(word) = self.bits.get_mut(token as usize / 64) {
            *word |= 1 << (token % 64);
        }
    }

    /// Whether a token is allowed.
    pub fn allows(&self, token: u32) -> bool {
        self.bits.get(token as usize / 64).is_some_and(|word| word >> (token % 64) & 1 == 1)
    }
}

/// How tokens are chosen. The default is greedy.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this; 0 takes the most likely token.
    pub temperature: f32,
    /// Only so many of the most likely tokens; 0 for all.
    pub top_k: usize,
    /// Only the most likely tokens that together have this probability.
    pub top_p: f32,
    /// Only tokens at least this fraction as likely as the most likely.
    pub min_p: f32,
    /// Logits of tokens that were seen are divided by this if positive, else multiplied; 1 for none.
    pub repetition_penalty: f32,
    /// The last so many tokens are those that were seen.
    pub repetition_window: usize,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: 64,
            seed: 0,
        }
    }
}

/// Chooses the tokens of one sequence.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    random: SplitMix64,
    /// Token and logit, then weight, of those that may be chosen.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    /// A sampler at the start of its random numbers.
    pub fn new(sampling: Sampling) -> Self {
        let random = SplitMix64::new(sampling.seed);
        Sampler { sampling, random, candidates: Vec::new() }
    }

    /// Chooses a token by its logits; `seen` are the tokens before it. None where the mask allows no token.
    pub fn sample(&mut self, logits: &[f32], seen: &[u32], mask: Option<&TokenMask>) -> Option<u32> {
        let Sampling { temperature, top_k, top_p, min_p, repetition_penalty, repetition_window, .. } = self.sampling;
        let recent = &seen[seen.len().saturating_sub(repetition_window)..];
        let logit = |token: usize| {
            let logit = logits[token];
            if repetition_penalty == 1.0 || !recent.contains(&(token as u32)) {
                return logit;
            }
            if logit > 0.0 { logit / repetition_penalty } else { logit * repetition_penalty }
        };
        let allowed = (0..logits.len()).filter(|token| mask.is_none_or(|mask| mask.allows(*token as u32)));
        if temperature <= 0.0 {
            // The first of equals, as every greedy decoder takes.
            let best = allowed.map(|token| (token as u32, logit(token)));
            return best.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(token, _)| token);
        }
        self.candidates.clear();
        self.candidates.extend(allowed.map(|token| (token as u32, logit(token))));
        let most_likely = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if top_k > 0 && top_k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(top_k - 1, most_likely);
            self.candidates.truncate(top_k);
        }
        // Only a limit on their probability needs them in order; without one, sorting a whole vocabulary would take milliseconds.
        if top_p < 1.0 {
            self.candidates.sort_unstable_by(most_likely);
        }
        let largest = self.candidates.iter().map(|(_, logit)| *logit).reduce(f32::max)?;
        self.candidates.iter_mut().for_each(|(_, weight)| *weight = ((*weight - largest) / temperature).exp());
        self.candidates.retain(|(_, weight)| *weight >= min_p);
        let total: f32 = self.candidates.iter().map(|(_, weight)| weight).sum();
        if top_p < 1.0 {
            let mut sum = 0.0;
            let enough = self.candidates.iter().position(|(_, weight)| {
                sum += weight;
                sum >= top_p * total
            });
            self.candidates.truncate(enough.map_or(self.candidates.len(), |last| last + 1));
        }
        let total: f32 = self.candidates.iter().map(|(_, weight)| weight).sum();
        let mut place = self.random.unit() * total;
        for (token, weight) in &self.candidates {
            place -= weight;
            if place < 0.0 {
                return Some(*token);
            }
        }
        self.candidates.last().map(|(token, _)| *token)
    }
}

/// The natural logarithm of a token's probability.
///
/// # Panics
/// When there is no such token.
pub fn log_softmax_at(logits: &[f32], token: u32) -> f32 {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    (f64::from(logits[token as usize] - largest) - sum.ln()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(sampling: Sampling, logits: &[f32], mask: Option<&TokenMask>) -> Vec<f32> {
        let mut sampler = Sampler::new(sampling);
        let mut counts = vec![0f32; logits.len()];
        for _ in 0..20_000 {
            let token = sampler.sample(logits, &[], mask).expect("a token is allowed");
            counts[token as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn tokens_come_as_often_as_their_probability_says() {
        let logits = [0.5f32, 0.3, 0.15, 0.05].map(f32::ln);
        let close = |found: &[f32], expected: [f32; 4]| {
            let is_close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.015);
            assert!(is_close, "{found:?} where {expected:?} was expected");
        };
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        close(&frequencies(sampling.clone(), &logits, None), [0.5, 0.3, 0.15, 0.05]);
        close(&frequencies(Sampling { top_k: 2, ..sampling.clone() }, &logits, None), [0.625, 0.375, 0.0, 0.0]);
        close(&frequencies(Sampling { top_p: 0.79, ..sampling.clone() }, &logits, None), [0.625, 0.375, 0.0, 0.0]);
        close(&frequencies(Sampling { min_p: 0.29, ..sampling.clone() }, &logits, None), [0.526, 0.316, 0.158, 0.0]);
        let mut mask = TokenMask::none(4);
        [1, 3, 700].into_iter().for_each(|token| mask.allow(token));
        close(&frequencies(sampling, &logits, Some(&mask)), [0.0, 0.857, 0.0, 0.143]);
    }

    #[test]
    fn greedy_takes_the_best_allowed_token_and_penalties_count_only_recent_ones() {
        let logits = [1.0, 3.0, 2.9, -1.0];
        let mut sampler = Sampler::new(Sampling::default());
        assert_eq!(sampler.sample(&logits, &[], None), Some(1));
        assert_eq!(sampler.sample(&logits, &[], Some(&TokenMask::none(4))), None);
        let penalty = Sampling { repetition_penalty: 1.1, repetition_window: 2, ..Sampling::default() };
        let mut sampler = Sampler::new(penalty);
        assert_eq!(sampler.sample(&logits, &[0, 1], None), Some(2));
        assert_eq!(sampler.sample(&logits, &[1, 0, 0], None), Some(1), "seen too long ago");
    }

    #[test]
    fn a_seed_repeats_its_choices() {
        let logits = [0.0; 50];
        let choices = |seed: u64| {
            let mut sampler = Sampler::new(Sampling { temperature: 1.0, seed, ..Sampling::default() });
            (0..20).map(|_| sampler.sample(&logits, &[], None)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
        let exact = -(50f32.ln());
        assert!((log_softmax_at(&logits, 3) - exact).abs() < 1e-6);
    }
}
