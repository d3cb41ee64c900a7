//! Selects the next tokens from a row of logits, under the rules of decoding.
//!
//! There are two kinds of tokens: text (with the end of the text) and timestamps. Everything that the rules need of a row
//! follows from the log-sum-exp and the top k of each kind, and both can be computed by [`TokenRange`], so a row's
//! logits need not be in memory all at once.

use std::ops::Range;

use crate::backend::{Answer, TokenMap, TokenQuery, TokenRules};

/// `(maximum, sum of exp(x - maximum))` of a row; the device's own, vectorized.
pub type LogSum<'a> = &'a dyn Fn(&[f32]) -> (f32, f32);

/// A log-sum-exp in two parts: the maximum, and the sum of exponentials relative to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSumExp {
    top: f32,
    sum: f32,
}

impl LogSumExp {
    /// The sum over no scores.
    pub const EMPTY: LogSumExp = LogSumExp { top: f32::NEG_INFINITY, sum: 0.0 };

    fn of(scores: &[f32], log_sum: LogSum) -> Self {
        let (top, sum) = log_sum(scores);
        if sum > 0.0 { LogSumExp { top, sum } } else { LogSumExp::EMPTY }
    }

    fn all(totals: impl Iterator<Item = LogSumExp> + Clone) -> Self {
        let top = totals.clone().map(|total| total.top).fold(f32::NEG_INFINITY, f32::max);
        let some = totals.filter(|total| total.sum > 0.0);
        LogSumExp { top, sum: some.map(|total| total.sum * (total.top - top).exp()).sum() }
    }

    fn ln(self) -> f32 {
        self.top + self.sum.ln()
    }
}

/// The k highest scores so far, highest first; of equals the lower token.
#[derive(Debug, Clone)]
pub struct TopK {
    count: usize,
    found: Vec<(u32, f32)>,
    /// The score that another one must exceed.
    threshold: f32,
}

impl TopK {
    /// The top `count` of text and the top `count` of timestamps, empty.
    pub fn pair(count: usize) -> [TopK; 2] {
        let threshold = if count == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        [(); 2].map(|()| TopK { count, found: Vec::with_capacity(count + 1), threshold })
    }

    /// Adds the scores of the tokens from `first` on, which must follow all added before; `top` is the highest of them.
    fn offer(&mut self, first: usize, scores: &[f32], top: f32) {
        /// Most chunks have no score above the threshold.
        const CHUNK: usize = 64;
        if top <= self.threshold {
            return;
        }
        for (chunk_index, chunk) in scores.chunks(CHUNK).enumerate() {
            let mut tops = [f32::NEG_INFINITY; 16];
            let mut sixteens = chunk.chunks_exact(16);
            for sixteen in sixteens.by_ref() {
                for lane in 0..16 {
                    tops[lane] = if sixteen[lane] > tops[lane] { sixteen[lane] } else { tops[lane] };
                }
            }
            let top = tops.iter().chain(sixteens.remainder()).copied().fold(f32::NEG_INFINITY, f32::max);
            if top <= self.threshold {
                continue;
            }
            for (index, &score) in chunk.iter().enumerate() {
                if score > self.threshold {
                    self.insert((first + chunk_index * CHUNK + index) as u32, score);
                }
            }
        }
    }

    fn insert(&mut self, token: u32, score: f32) {
        let place = self.found.partition_point(|&(earlier, other)| other > score || other == score && earlier < token);
        self.found.insert(place, (token, score));
        self.found.truncate(self.count);
        if self.found.len() == self.count {
            self.threshold = self.found[self.count - 1].1;
        }
    }
}

/// The tokens that `rules` allow: text (with its end), and timestamps.
fn allowed(map: &TokenMap, rules: &TokenRules) -> [Range<usize>; 2] {
    let end = map.end as usize;
    let text = if rules.text { 0 } else { end }..if rules.end { end + 1 } else { end };
    let times = rules.timestamps.map_or(0..0, |(from, to)| from.max(map.first_timestamp) as usize..to as usize);
    [text, times]
}

/// Whether the next token must be a timestamp: together they are likelier than any text token.
fn must_be_timestamp(rules: &TokenRules, text: LogSumExp, times: LogSumExp) -> bool {
    (rules.text || rules.end) && times.ln() > text.top
}

/// Whether `query` needs more than the log-sum-exp and the top k of each kind.
pub fn needs_all_scores(query: &TokenQuery) -> bool {
    query.sampling.is_some() || query.no_speech || query.languages
}

/// A range of tokens whose scores are contiguous.
pub struct TokenRange<'a> {
    map: &'a TokenMap,
    tokens: Range<usize>,
    /// The suppressed tokens of the range, always and at the beginning, as offsets.
    suppress_tokens: Vec<usize>,
    begin_suppress_tokens: Vec<usize>,
}

impl<'a> TokenRange<'a> {
    /// The range `tokens`.
    pub fn new(map: &'a TokenMap, tokens: Range<usize>) -> Self {
        let among = |list: &[u32]| {
            let inside = list.iter().map(|&token| token as usize).filter(|token| tokens.contains(token));
            inside.map(|token| token - tokens.start).collect()
        };
        TokenRange {
            map,
            suppress_tokens: among(&map.suppress_tokens),
            begin_suppress_tokens: among(&map.begin_suppress_tokens),
            tokens,
        }
    }

    /// Adds the scores of the range to the top k of both kinds and returns their log-sum-exp, by kind.
    ///
    /// Scores of suppressed tokens are overwritten.
    pub fn scan(
        &self,
        scores: &mut [f32],
        query: &TokenQuery,
        best: &mut [TopK; 2],
        log_sum: LogSum,
    ) -> [LogSumExp; 2] {
        assert_eq!(scores.len(), self.tokens.len(), "a score for every token");
        let at_start = if query.rules.at_start { &self.begin_suppress_tokens[..] } else { &[] };
        for &token in self.suppress_tokens.iter().chain(at_start) {
            scores[token] = f32::NEG_INFINITY;
        }
        let mut totals = [LogSumExp::EMPTY; 2];
        for (kind, tokens) in allowed(self.map, &query.rules).into_iter().enumerate() {
            let (from, to) = (tokens.start.max(self.tokens.start), tokens.end.min(self.tokens.end));
            if from < to {
                let scores = &scores[from - self.tokens.start..to - self.tokens.start];
                totals[kind] = LogSumExp::of(scores, log_sum);
                best[kind].offer(from, scores, totals[kind].top);
            }
        }
        totals
    }
}

/// Answers a query that does not need all scores, from the log-sum-exp of all ranges and the top k of all threads.
pub fn conclude<'a>(
    query: &TokenQuery,
    totals: &[[LogSumExp; 2]],
    best: impl Iterator<Item = &'a [TopK; 2]> + Clone,
) -> Answer {
    let [text, times] = [0, 1].map(|kind| LogSumExp::all(totals.iter().map(|total| total[kind])));
    let must_be_timestamp = must_be_timestamp(&query.rules, text, times);
    let total = if must_be_timestamp { times } else { LogSumExp::all([text, times].into_iter()) };
    let mut found: Vec<(u32, f32)> = best
        .flatten()
        .enumerate()
        .filter(|(index, _)| !must_be_timestamp || index % 2 == 1)
        .flat_map(|(_, best)| &best.found)
        .copied()
        .collect();
    found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found.truncate(query.top_k);
    found.iter_mut().for_each(|(_, score)| *score -= total.ln());
    Answer { best: found, ..Answer::default() }
}

/// Answers a query from the scores of all tokens, which are overwritten.
pub fn answer(scores: &mut [f32], map: &TokenMap, query: &TokenQuery, log_sum: LogSum) -> Answer {
    let mut answer = Answer::default();
    if query.no_speech
        && let Some(token) = map.no_speech
    {
        let (top, sum) = log_sum(scores);
        answer.no_speech = (scores[token as usize] - top).exp() / sum;
    }
    if query.languages {
        let top = map.languages.iter().map(|&token| scores[token as usize]).fold(f32::MIN, f32::max);
        let weights: Vec<f32> = map.languages.iter().map(|&token| (scores[token as usize] - top).exp()).collect();
        let sum: f32 = weights.iter().sum();
        answer.languages = weights.into_iter().map(|weight| weight / sum).collect();
    }
    if query.top_k == 0 && query.sampling.is_none() {
        return answer;
    }
    let mut best = TopK::pair(query.top_k);
    let totals = TokenRange::new(map, 0..scores.len()).scan(scores, query, &mut best, log_sum);
    answer.best = match query.sampling {
        Some(sampling) => {
            let [text, times] = allowed(map, &query.rules).map(|tokens| tokens.start..tokens.end.min(scores.len()));
            let (text, total) = match must_be_timestamp(&query.rules, totals[0], totals[1]) {
                true => (0..0, totals[1]),
                false => (text, LogSumExp::all(totals.into_iter())),
            };
            let token = sample(scores, text.chain(times), total.top, sampling.temperature, sampling.uniform);
            vec![(token, scores[token as usize] - total.ln())]
        }
        None => conclude(query, &[totals], [&best].into_iter()).best,
    };
    answer
}

/// Samples a token: the one at `uniform` of the cumulative distribution.
fn sample(
    scores: &[f32],
    tokens: impl Iterator<Item = usize> + Clone,
    top: f32,
    temperature: f32,
    uniform: f32,
) -> u32 {
    let weight = |token: usize| f64::from(((scores[token] - top) / temperature).exp());
    let total: f64 = tokens.clone().map(weight).sum();
    let mut left = f64::from(uniform) * total;
    let mut last = 0;
    for token in tokens.filter(|&token| scores[token] > f32::NEG_INFINITY) {
        last = token;
        left -= weight(token);
        if left < 0.0 {
            break;
        }
    }
    last as u32
}

/// Plain version of [`LogSum`].
#[cfg(test)]
pub fn plain_log_sum(scores: &[f32]) -> (f32, f32) {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if top == f32::NEG_INFINITY {
        return (top, 0.0);
    }
    (top, scores.iter().map(|&score| (score - top).exp()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Sampling;

    /// Ten text tokens, the end (10), two task tokens (11, 12), five timestamps (13..18).
    fn map() -> TokenMap {
        TokenMap {
            end: 10,
            no_speech: Some(12),
            first_timestamp: 13,
            suppress_tokens: vec![3],
            begin_suppress_tokens: vec![5, 10],
            languages: vec![11, 12],
        }
    }

    fn scores() -> Vec<f32> {
        (0..18).map(|token| ((token * 7) % 18) as f32 / 3.0).collect()
    }

    fn query(rules: TokenRules) -> TokenQuery {
        TokenQuery { rules, top_k: 4, sampling: None, no_speech: false, languages: false }
    }

    #[test]
    fn the_best_come_in_order_with_probabilities_that_sum_to_at_most_one() {
        let rules = TokenRules { text: true, end: true, ..TokenRules::default() };
        let answer = answer(&mut scores(), &map(), &TokenQuery { top_k: 11, ..query(rules) }, &plain_log_sum);
        assert!(answer.best.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert_eq!(answer.best.len(), 10, "eleven tokens less the suppressed one");
        let sum: f32 = answer.best.iter().map(|(_, score)| score.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5);
        assert!(answer.best.iter().all(|&(token, _)| token != 3 && token <= 10));
    }

    #[test]
    fn nothing_blank_comes_first() {
        let rules = TokenRules { text: true, end: true, at_start: true, timestamps: None };
        let answer = answer(&mut scores(), &map(), &TokenQuery { top_k: 18, ..query(rules) }, &plain_log_sum);
        assert!(answer.best.iter().all(|&(token, _)| token != 5 && token != 10));
    }

    #[test]
    fn likelier_timestamps_push_out_the_text() {
        let rules = TokenRules { text: true, end: true, at_start: false, timestamps: Some((14, 18)) };
        let mut low = scores();
        low[14..18].fill(-20.0);
        let with_low = answer(&mut low, &map(), &query(rules), &plain_log_sum);
        assert!(with_low.best[0].0 < 10);
        let mut high = scores();
        high[13..18].fill(30.0);
        let with_high = answer(&mut high, &map(), &query(rules), &plain_log_sum);
        assert!(with_high.best.iter().all(|&(token, score)| token >= 14 || score == f32::NEG_INFINITY));
    }

    #[test]
    fn a_draw_follows_the_distribution() {
        let rules = TokenRules { text: true, end: true, ..TokenRules::default() };
        let mut counts = [0; 18];
        for step in 0..2000 {
            let sampling = Sampling { temperature: 1.0, uniform: step as f32 / 2000.0 };
            let sample =
                answer(&mut scores(), &map(), &TokenQuery { sampling: Some(sampling), ..query(rules) }, &plain_log_sum);
            counts[sample.best[0].0 as usize] += 1;
        }
        let expected = answer(&mut scores(), &map(), &TokenQuery { top_k: 11, ..query(rules) }, &plain_log_sum);
        for (token, score) in expected.best {
            let share = f64::from(counts[token as usize]) / 2000.0;
            assert!((share - f64::from(score.exp())).abs() < 0.002, "token {token}: {share}");
        }
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn stretches_of_tokens_give_the_answer_of_the_whole_row() {
        const TOKENS: usize = 3000;
        let map = TokenMap {
            end: 1400,
            no_speech: None,
            first_timestamp: 1500,
            suppress_tokens: vec![7, 1023, 1024, 2047],
            begin_suppress_tokens: vec![8, 1400],
            languages: Vec::new(),
        };
        let rules = |text, end, at_start, timestamps| TokenRules { text, end, at_start, timestamps };
        let mut state = 3u32;
        for (rules, count) in [
            (rules(true, true, true, None), 6),
            (rules(true, true, false, Some((1500, 3000))), 6),
            (rules(true, false, false, Some((1700, 1701))), 1),
            (rules(false, true, false, Some((2000, 2600))), 40),
            (rules(false, false, false, Some((1500, 1600))), 200),
            (rules(true, true, false, Some((1600, 1600))), 0),
        ] {
            for louder in [0.0, 4.0] {
                let scores: Vec<f32> = (0..TOKENS)
                    .map(|token| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        // Eighths, so that many scores are equal.
                        (state >> 24) as f32 / 8.0 + if token >= 1500 { louder } else { 0.0 }
                    })
                    .collect();
                let query = TokenQuery { rules, top_k: count, sampling: None, no_speech: false, languages: false };
                let expected = answer(&mut scores.clone(), &map, &query, &plain_log_sum);
                for run in [64, 512, 700] {
                    // Three who look, each at its stretches in their order.
                    let mut best = [0, 1, 2].map(|_| TopK::pair(count));
                    let totals: Vec<[LogSumExp; 2]> = (0..TOKENS.div_ceil(run))
                        .map(|index| {
                            let tokens = index * run..((index + 1) * run).min(TOKENS);
                            let mut scores = scores[tokens.clone()].to_vec();
                            let who = &mut best[index * index % 3];
                            TokenRange::new(&map, tokens).scan(&mut scores, &query, who, &plain_log_sum)
                        })
                        .collect();
                    let got = conclude(&query, &totals, best.iter());
                    let tokens = |answer: &Answer| answer.best.iter().map(|best| best.0).collect::<Vec<_>>();
                    assert_eq!(tokens(&got), tokens(&expected), "{rules:?} in runs of {run}");
                    for (got, expected) in got.best.iter().zip(&expected.best) {
                        assert!((got.1 - expected.1).abs() < 1e-4, "{got:?} for {expected:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_speech_and_languages_are_read_before_the_rules_apply() {
        let question =
            TokenQuery { rules: TokenRules::default(), top_k: 0, sampling: None, no_speech: true, languages: true };
        let mut even = vec![0.0; 18];
        let answer = answer(&mut even, &map(), &question, &plain_log_sum);
        assert!((answer.no_speech - 1.0 / 18.0).abs() < 1e-6);
        assert_eq!(answer.languages, vec![0.5, 0.5]);
    }
}
