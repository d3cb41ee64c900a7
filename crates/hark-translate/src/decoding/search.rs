//! Greedy and beam search over the sentences of a batch; a sentence that has ended leaves it.

use std::sync::{Mutex, PoisonError};

use hark_compute::kernels::Kernels;

use super::{Decoder, Row};
use crate::TranslateError;

/// How target tokens are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search<'a> {
    /// Hypotheses of a sentence; 1 is greedy.
    pub beams: usize,
    /// The end of a sentence.
    pub end: u32,
    /// Tokens that are never generated.
    pub never: &'a [u32],
}

/// The tokens of every sentence without their ends; sentence `i` has at most `limits[i]`.
pub(crate) fn search<D: Decoder>(
    decoder: &D,
    sources: &D::Sources,
    limits: &[usize],
    search: Search<'_>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u32>>, TranslateError> {
    match search.beams {
        0 | 1 => search_greedily(decoder, sources, limits, search, is_cancelled),
        _ => search_beams(decoder, sources, limits, search, is_cancelled),
    }
}

fn search_greedily<D: Decoder>(
    decoder: &D,
    sources: &D::Sources,
    limits: &[usize],
    search: Search<'_>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u32>>, TranslateError> {
    let mut workspace = D::Workspace::default();
    let mut rows: Vec<Row> = (0..limits.len()).map(|source| decoder.begin(source)).collect();
    let mut out = vec![Vec::new(); limits.len()];
    while !rows.is_empty() {
        if is_cancelled() {
            return Err(TranslateError::Cancelled);
        }
        decoder.step(&mut workspace, sources, &mut rows);
        let mut best = best_words(decoder, &mut workspace, rows.len(), 1, search.never)?.into_iter();
        rows.retain_mut(|row| {
            let word = best.next().and_then(|best| best.words.first().copied()).map_or(search.end, |(word, _)| word);
            if word == search.end {
                return false;
            }
            row.last = word;
            out[row.source].push(word);
            out[row.source].len() < limits[row.source]
        });
    }
    Ok(out)
}

fn search_beams<D: Decoder>(
    decoder: &D,
    sources: &D::Sources,
    limits: &[usize],
    search: Search<'_>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u32>>, TranslateError> {
    let mut workspace = D::Workspace::default();
    let beginning = |source: usize| {
        let hypothesis = Hypothesis { tokens: Vec::new(), logprob: 0.0 };
        Beams { ended: Vec::new(), live: vec![hypothesis], rows: vec![decoder.begin(source)] }
    };
    let mut all: Vec<Beams> = (0..limits.len()).map(beginning).collect();
    loop {
        if is_cancelled() {
            return Err(TranslateError::Cancelled);
        }
        let mut rows: Vec<Row> = all.iter_mut().flat_map(|beams| std::mem::take(&mut beams.rows)).collect();
        if rows.is_empty() {
            break;
        }
        decoder.step(&mut workspace, sources, &mut rows);
        // Twice as many candidates: at most half of them end.
        let best = best_words(decoder, &mut workspace, rows.len(), 2 * search.beams, search.never)?;
        let mut written = rows.into_iter().zip(best);
        for (beams, limit) in all.iter_mut().zip(limits) {
            let count = beams.live.len();
            let written: Vec<(Row, Best)> = written.by_ref().take(count).collect();
            beams.step(written, &search, *limit);
        }
    }
    Ok(all.into_iter().map(Beams::best).collect())
}

/// The likeliest words of a row, with what their probabilities need.
struct Best {
    /// Likeliest first, with their logits.
    words: Vec<(u32, f32)>,
    /// The largest logit, and the sum of exponentials relative to it.
    largest: f32,
    sum: f32,
}

/// The `count` likeliest words of each row.
fn best_words<D: Decoder>(
    decoder: &D,
    workspace: &mut D::Workspace,
    rows: usize,
    count: usize,
    never: &[u32],
) -> Result<Vec<Best>, TranslateError> {
    let begin = || Mutex::new(Best { words: Vec::new(), largest: f32::NEG_INFINITY, sum: 0.0 });
    let best: Vec<Mutex<Best>> = std::iter::repeat_with(begin).take(rows).collect();
    let kernels = decoder.compute().kernels();
    decoder.for_logits(workspace, rows, &|row, first, logits| {
        // Each row is one thread's own; the lock only says so to the compiler.
        let mut best = best[row].lock().unwrap_or_else(PoisonError::into_inner);
        best.take(kernels, first, logits, count, never);
    });
    let best: Vec<Best> =
        best.into_iter().map(|best| best.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
    match best.iter().all(|best| best.largest.is_finite() && best.sum.is_finite() && !best.words.is_empty()) {
        true => Ok(best),
        false => Err(TranslateError::NotFinite),
    }
}

impl Best {
    /// Takes the logits of some words.
    fn take(&mut self, kernels: &Kernels, first: usize, logits: &[f32], count: usize, never: &[u32]) {
        /// Logits that are looked at together: hardly any of so many is among the best.
        const BLOCK: usize = 64;
        // Probabilities are asked for by beams only.
        if count > 1 {
            let (top, sum) = kernels.log_sum(logits);
            let largest = self.largest.max(top);
            self.sum = self.sum * (self.largest - largest).exp() + sum * (top - largest).exp();
            self.largest = largest;
        }
        for (block, logits) in logits.chunks(BLOCK).enumerate() {
            let worst = self.words.get(count - 1).map_or(f32::NEG_INFINITY, |(_, worst)| *worst);
            // Without a branch for each, so that the loop vectorizes.
            if logits.iter().fold(0u32, |better, logit| better + u32::from(*logit > worst)) == 0 {
                continue;
            }
            for (at, logit) in logits.iter().enumerate() {
                let is_better = self.words.get(count - 1).is_none_or(|(_, worst)| logit > worst);
                let word = (first + block * BLOCK + at) as u32;
                if !is_better || logit.is_nan() || never.contains(&word) {
                    continue;
                }
                // The first of equal words comes first.
                let place = self.words.partition_point(|(_, other)| other >= logit);
                self.words.insert(place, (word, *logit));
                self.words.truncate(count);
            }
        }
        if count == 1 {
            self.largest = self.words.first().map_or(self.largest, |(_, logit)| *logit);
        }
    }

    fn logprob(&self, logit: f32) -> f32 {
        logit - self.largest - self.sum.ln()
    }
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
        let mut parents = Vec::with_capacity(search.beams);
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
            parents.push((beam, word));
        }
        self.live = live;
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
        } else {
            self.rows = follow(written.into_iter().map(|(row, _)| row), &parents);
        }
    }

    fn best(self) -> Vec<u32> {
        self.ended.into_iter().next().map_or_else(Vec::new, |hypothesis| hypothesis.tokens)
    }
}

/// Rows that go on from others with a word each. The last one that goes on from a row takes it, so that most keys and values are not copied.
fn follow(rows: impl Iterator<Item = Row>, parents: &[(usize, u32)]) -> Vec<Row> {
    let mut rows: Vec<Option<Row>> = rows.map(Some).collect();
    let follower = |(index, (beam, word)): (usize, &(usize, u32))| {
        let is_last = parents[index + 1..].iter().all(|(later, _)| later != beam);
        let row = if is_last { rows[*beam].take() } else { rows[*beam].clone() };
        row.map(|row| Row { last: *word, ..row })
    };
    parents.iter().enumerate().filter_map(follower).collect()
}
