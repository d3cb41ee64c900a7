//! Greedy and beam search over the sentences of a batch; a sentence that has ended leaves it.

use std::sync::{Mutex, PoisonError};

use super::forward::{Row, Source, Workspace};
use super::{Search, T5};
use crate::TranslateError;

/// Most tokens of a translation: so many for each of its source, and so many more.
const LENGTH_FACTOR: usize = 3;
const LENGTH_SLACK: usize = 16;

/// The likeliest words of a row, with what their probabilities need.
struct Best {
    /// Likeliest first, with their logits.
    words: Vec<(u32, f32)>,
    /// The largest logit, and the sum of exponentials relative to it.
    largest: f32,
    sum: f32,
}

/// A hypothesis of a beam.
#[derive(Clone)]
struct Hypothesis {
    tokens: Vec<u32>,
    logprob: f32,
}

impl Hypothesis {
    /// The mean log-probability of its tokens, the end included.
    fn score(&self) -> f32 {
        self.logprob / (self.tokens.len() + 1) as f32
    }
}

/// The beams of one sentence.
struct Beams {
    /// Those that have ended, best first.
    ended: Vec<Hypothesis>,
    /// Those that go on, best first, and their rows.
    live: Vec<Hypothesis>,
    rows: Vec<Row>,
}

impl T5 {
    pub(super) fn search_greedily(
        &self,
        sources: &[Source],
        search: Search<'_>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u32>>, TranslateError> {
        let mut workspace = Workspace::default();
        let mut rows: Vec<Row> = (0..sources.len()).map(|source| Row::new(self, source)).collect();
        let mut out = vec![Vec::new(); sources.len()];
        while !rows.is_empty() {
            if is_cancelled() {
                return Err(TranslateError::Cancelled);
            }
            self.decode(&mut workspace, sources, &mut rows);
            let best = self.best_words(&mut workspace, rows.len(), 1, search.never)?;
            let mut best = best.into_iter();
            rows.retain_mut(|row| {
                let word =
                    best.next().and_then(|best| best.words.first().copied()).map_or(search.end, |(word, _)| word);
                if word == search.end {
                    return false;
                }
                row.last = word;
                out[row.source].push(word);
                out[row.source].len() < length_limit(&sources[row.source])
            });
        }
        Ok(out)
    }

    pub(super) fn search_beams(
        &self,
        sources: &[Source],
        search: Search<'_>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u32>>, TranslateError> {
        let mut workspace = Workspace::default();
        let beginning = |source: usize| {
            let hypothesis = Hypothesis { tokens: Vec::new(), logprob: 0.0 };
            Beams { ended: Vec::new(), live: vec![hypothesis], rows: vec![Row::new(self, source)] }
        };
        let mut all: Vec<Beams> = (0..sources.len()).map(beginning).collect();
        loop {
            if is_cancelled() {
                return Err(TranslateError::Cancelled);
            }
            let mut rows: Vec<Row> = all.iter_mut().flat_map(|beams| std::mem::take(&mut beams.rows)).collect();
            if rows.is_empty() {
                break;
            }
            self.decode(&mut workspace, sources, &mut rows);
            // Twice as many candidates: at most half of them end.
            let best = self.best_words(&mut workspace, rows.len(), 2 * search.beams, search.never)?;
            let mut written = rows.into_iter().zip(best);
            for (beams, source) in all.iter_mut().zip(sources) {
                let count = beams.live.len();
                let written: Vec<(Row, Best)> = written.by_ref().take(count).collect();
                beams.step(written, &search, length_limit(source));
            }
        }
        Ok(all.into_iter().map(Beams::best).collect())
    }

    /// The `count` likeliest words of each row.
    fn best_words(
        &self,
        workspace: &mut Workspace,
        rows: usize,
        count: usize,
        never: &[u32],
    ) -> Result<Vec<Best>, TranslateError> {
        let begin = || Mutex::new(Best { words: Vec::new(), largest: f32::NEG_INFINITY, sum: 0.0 });
        let best: Vec<Mutex<Best>> = std::iter::repeat_with(begin).take(rows).collect();
        self.for_logits(workspace, rows, |row, first, logits| {
            // Each row is one thread's own; the lock only says so to the compiler.
            let mut best = best[row].lock().unwrap_or_else(PoisonError::into_inner);
            best.take(first, logits, count, never);
        });
        let best: Vec<Best> =
            best.into_iter().map(|best| best.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
        match best.iter().all(|best| best.largest.is_finite() && !best.words.is_empty()) {
            true => Ok(best),
            false => Err(TranslateError::NotFinite),
        }
    }
}

impl Best {
    /// Takes the logits of some words.
    fn take(&mut self, first: usize, logits: &[f32], count: usize, never: &[u32]) {
        // Probabilities are asked for by beams only.
        if count > 1 {
            let largest = logits.iter().copied().fold(self.largest, f32::max);
            self.sum *= (self.largest - largest).exp();
            self.sum += logits.iter().map(|logit| (logit - largest).exp()).sum::<f32>();
            self.largest = largest;
        }
        for (at, logit) in logits.iter().enumerate() {
            let is_better = self.words.len() < count || self.words.last().is_some_and(|(_, worst)| logit > worst);
            if !is_better || logit.is_nan() {
                continue;
            }
            let word = (first + at) as u32;
            if never.contains(&word) {
                continue;
            }
            // The first of equal words comes first.
            let place = self.words.partition_point(|(_, other)| other >= logit);
            self.words.insert(place, (word, *logit));
            self.words.truncate(count);
        }
        if count == 1 {
            self.largest = self.words.first().map_or(self.largest, |(_, logit)| *logit);
        }
    }

    fn logprob(&self, logit: f32) -> f32 {
        logit - self.largest - self.sum.ln()
    }
}

impl Beams {
    /// Goes on with the best words of each beam.
    fn step(&mut self, written: Vec<(Row, Best)>, search: &Search<'_>, limit: usize) {
        let mut candidates: Vec<(f32, usize, u32)> = Vec::new();
        for (beam, (hypothesis, (_, best))) in self.live.iter().zip(&written).enumerate() {
            let words = best.words.iter();
            candidates.extend(words.map(|(word, logit)| (hypothesis.logprob + best.logprob(*logit), beam, *word)));
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut live = Vec::with_capacity(search.beams);
        let mut rows = Vec::with_capacity(search.beams);
        for (rank, (logprob, beam, word)) in candidates.into_iter().enumerate() {
            if live.len() == search.beams {
                break;
            }
            let mut hypothesis = Hypothesis { logprob, ..self.live[beam].clone() };
            if word == search.end {
                // One that ends but is not among the best would crowd out others.
                if rank < search.beams {
                    self.ended.push(hypothesis);
                }
                continue;
            }
            hypothesis.tokens.push(word);
            live.push(hypothesis);
            rows.push(written[beam].0.followed_by(word));
        }
        (self.live, self.rows) = (live, rows);
        self.ended.sort_by(|a, b| b.score().total_cmp(&a.score()));
        self.ended.truncate(search.beams);
        let is_long = self.live.first().is_none_or(|hypothesis| hypothesis.tokens.len() >= limit);
        // No beam that goes on can become better than the worst of those that have ended.
        let is_done = self.ended.len() == search.beams
            && self.ended.last().zip(self.live.first()).is_none_or(|(worst, best)| best.score() <= worst.score());
        if is_long || is_done {
            if self.ended.is_empty() {
                self.ended.extend(self.live.first().cloned());
            }
            self.live.clear();
            self.rows.clear();
        }
    }

    fn best(self) -> Vec<u32> {
        self.ended.into_iter().next().map_or_else(Vec::new, |hypothesis| hypothesis.tokens)
    }
}

fn length_limit(source: &Source) -> usize {
    LENGTH_FACTOR * source.tokens + LENGTH_SLACK
}
