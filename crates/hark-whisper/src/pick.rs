//! Choosing the next token from a row of scores, under the rules of decoding.

use crate::backend::{Answer, Ask, Rules, TokenMap};

/// `(maximum, sum of exp(x - maximum))` of a row; the device's own, vectorized.
pub type LogSum<'a> = &'a dyn Fn(&[f32]) -> (f32, f32);

/// Answers `ask` from the scores of all tokens; the scores are overwritten.
pub fn answer(scores: &mut [f32], map: &TokenMap, ask: &Ask, log_sum: LogSum) -> Answer {
    let mut answer = Answer::default();
    if ask.no_speech
        && let Some(token) = map.no_speech
    {
        let (top, sum) = log_sum(scores);
        answer.no_speech = (scores[token as usize] - top).exp() / sum;
    }
    if ask.languages {
        let top = map.languages.iter().map(|&token| scores[token as usize]).fold(f32::MIN, f32::max);
        let weights: Vec<f32> = map.languages.iter().map(|&token| (scores[token as usize] - top).exp()).collect();
        let sum: f32 = weights.iter().sum();
        answer.languages = weights.into_iter().map(|weight| weight / sum).collect();
    }
    if ask.best == 0 && ask.draw.is_none() {
        return answer;
    }
    forbid(scores, map, &ask.rules, log_sum);
    let (top, sum) = log_sum(scores);
    let total = top + sum.ln();
    if let Some(draw) = ask.draw {
        let token = drawn(scores, top, draw.temperature, draw.uniform);
        answer.best = vec![(token, scores[token as usize] - total)];
    } else {
        answer.best = best(scores, ask.best);
        for (_, score) in &mut answer.best {
            *score -= total;
        }
    }
    answer
}

/// Puts the scores of tokens that may not come to minus infinity.
fn forbid(scores: &mut [f32], map: &TokenMap, rules: &Rules, log_sum: LogSum) {
    const NEVER: f32 = f32::NEG_INFINITY;
    let (end, first_time) = (map.end as usize, (map.first_time as usize).min(scores.len()));
    for &token in &map.never {
        scores[token as usize] = NEVER;
    }
    if rules.at_start {
        for &token in &map.never_first {
            scores[token as usize] = NEVER;
        }
    }
    // Everything between the end and the timestamps is a task or language token.
    scores[end + 1..first_time].fill(NEVER);
    if !rules.end {
        scores[end] = NEVER;
    }
    if !rules.text {
        scores[..end].fill(NEVER);
    }
    let Some((from, to)) = rules.times else {
        scores[first_time..].fill(NEVER);
        return;
    };
    let to = (to as usize).min(scores.len());
    let from = (from as usize).clamp(first_time, to);
    scores[first_time..from].fill(NEVER);
    scores[to..].fill(NEVER);
    if !rules.text && !rules.end {
        return;
    }
    let (top, sum) = log_sum(&scores[from..to]);
    if top == NEVER || from == to {
        return;
    }
    let likeliest_other = scores[..=end].iter().copied().fold(NEVER, f32::max);
    if top + sum.ln() > likeliest_other {
        scores[..=end].fill(NEVER);
    }
}

/// The `count` highest scores, highest first; of equals the lower token.
fn best(scores: &[f32], count: usize) -> Vec<(u32, f32)> {
    /// Scores are looked at in chunks; most chunks hold nothing above the lowest of the best so far.
    const CHUNK: usize = 64;
    let mut found: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
    let mut threshold = f32::NEG_INFINITY;
    for (chunk_index, chunk) in scores.chunks(CHUNK).enumerate() {
        let mut tops = [f32::NEG_INFINITY; 16];
        let mut sixteens = chunk.chunks_exact(16);
        for sixteen in sixteens.by_ref() {
            for lane in 0..16 {
                tops[lane] = if sixteen[lane] > tops[lane] { sixteen[lane] } else { tops[lane] };
            }
        }
        let top = tops.iter().chain(sixteens.remainder()).copied().fold(f32::NEG_INFINITY, f32::max);
        if top <= threshold {
            continue;
        }
        for (index, &score) in chunk.iter().enumerate() {
            if score > threshold {
                let place = found.partition_point(|&(_, other)| other >= score);
                found.insert(place, ((chunk_index * CHUNK + index) as u32, score));
                found.truncate(count);
                if found.len() == count {
                    threshold = found[count - 1].1;
                }
            }
        }
    }
    found
}

/// The token at `uniform` of the cumulative distribution.
fn drawn(scores: &[f32], top: f32, temperature: f32, uniform: f32) -> u32 {
    let weight = |score: f32| f64::from(((score - top) / temperature).exp());
    let total: f64 = scores.iter().map(|&score| weight(score)).sum();
    let mut left = f64::from(uniform) * total;
    let mut last = 0;
    for (token, &score) in scores.iter().enumerate() {
        if score == f32::NEG_INFINITY {
            continue;
        }
        last = token;
        left -= weight(score);
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
    use crate::backend::Draw;

    /// Ten text tokens, the end (10), two task tokens (11, 12), five timestamps (13..18).
    fn map() -> TokenMap {
        TokenMap {
            end: 10,
            no_speech: Some(12),
            first_time: 13,
            never: vec![3],
            never_first: vec![5, 10],
            languages: vec![11, 12],
        }
    }

    fn scores() -> Vec<f32> {
        (0..18).map(|token| ((token * 7) % 18) as f32 / 3.0).collect()
    }

    fn ask(rules: Rules) -> Ask {
        Ask { rules, best: 4, draw: None, no_speech: false, languages: false }
    }

    #[test]
    fn the_best_come_in_order_with_probabilities_that_sum_to_at_most_one() {
        let rules = Rules { text: true, end: true, ..Rules::default() };
        let answer = answer(&mut scores(), &map(), &Ask { best: 11, ..ask(rules) }, &plain_log_sum);
        assert!(answer.best.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert_eq!(answer.best.len(), 10, "eleven tokens less the one that never comes");
        let sum: f32 = answer.best.iter().map(|(_, score)| score.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5);
        assert!(answer.best.iter().all(|&(token, _)| token != 3 && token <= 10));
    }

    #[test]
    fn nothing_blank_comes_first() {
        let rules = Rules { text: true, end: true, at_start: true, times: None };
        let answer = answer(&mut scores(), &map(), &Ask { best: 18, ..ask(rules) }, &plain_log_sum);
        assert!(answer.best.iter().all(|&(token, _)| token != 5 && token != 10));
    }

    #[test]
    fn likelier_timestamps_push_out_the_text() {
        let rules = Rules { text: true, end: true, at_start: false, times: Some((14, 18)) };
        let mut low = scores();
        low[14..18].fill(-20.0);
        let with_low = answer(&mut low, &map(), &ask(rules), &plain_log_sum);
        assert!(with_low.best[0].0 < 10);
        let mut high = scores();
        high[13..18].fill(30.0);
        let with_high = answer(&mut high, &map(), &ask(rules), &plain_log_sum);
        assert!(with_high.best.iter().all(|&(token, score)| token >= 14 || score == f32::NEG_INFINITY));
    }

    #[test]
    fn a_draw_follows_the_distribution() {
        let rules = Rules { text: true, end: true, ..Rules::default() };
        let mut counts = [0; 18];
        for step in 0..2000 {
            let draw = Draw { temperature: 1.0, uniform: step as f32 / 2000.0 };
            let drawn = answer(&mut scores(), &map(), &Ask { draw: Some(draw), ..ask(rules) }, &plain_log_sum);
            counts[drawn.best[0].0 as usize] += 1;
        }
        let expected = answer(&mut scores(), &map(), &Ask { best: 11, ..ask(rules) }, &plain_log_sum);
        for (token, score) in expected.best {
            let share = f64::from(counts[token as usize]) / 2000.0;
            assert!((share - f64::from(score.exp())).abs() < 0.002, "token {token}: {share}");
        }
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn no_speech_and_languages_are_read_before_the_rules_apply() {
        let question = Ask { rules: Rules::default(), best: 0, draw: None, no_speech: true, languages: true };
        let mut even = vec![0.0; 18];
        let answer = answer(&mut even, &map(), &question, &plain_log_sum);
        assert!((answer.no_speech - 1.0 / 18.0).abs() < 1e-6);
        assert_eq!(answer.languages, vec![0.5, 0.5]);
    }
}
