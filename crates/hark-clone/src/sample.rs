//! The choice of the next speech token.

use hark_numeric::SplitMix64;

/// Tokens of sound: the codebook of the speech tokenizer.
pub(crate) const CODES: usize = 6561;
/// Begins the speech tokens.
pub(crate) const START: i64 = 6561;
/// Ends them.
pub(crate) const STOP: i64 = 6562;

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Draw {
    /// Logits are divided by it; at 0 the most likely token is taken.
    pub(crate) temperature: f32,
    /// Tokens less likely than this share of the most likely one are left out.
    pub(crate) min_p: f32,
    /// Logits of tokens that came before are divided by it where they are positive, multiplied where not.
    pub(crate) repetition_penalty: f32,
}

/// Logits of the conditional pass moved away from those of the pass without text: `c + weight (c - u)`.
pub(crate) fn guide(conditional: &mut [f32], unconditional: &[f32], weight: f32) {
    for (one, other) in conditional.iter_mut().zip(unconditional) {
        *one += weight * (*one - other);
    }
}

/// Draws a token of sound, or [`STOP`] where that is allowed; none where the logits are not finite. `before` are the tokens so far.
pub(crate) fn draw(
    logits: &mut [f32],
    before: &[i64],
    may_stop: bool,
    how: Draw,
    random: &mut SplitMix64,
) -> Option<i64> {
    let stop = STOP as usize;
    if logits.len() <= stop {
        return None;
    }
    let mut seen = vec![false; logits.len()];
    for token in before {
        let Some(is_seen) = usize::try_from(*token).ok().and_then(|token| seen.get_mut(token)) else { continue };
        if !std::mem::replace(is_seen, true) {
            let logit = &mut logits[*token as usize];
            *logit = if *logit < 0.0 { *logit * how.repetition_penalty } else { *logit / how.repetition_penalty };
        }
    }
    let allowed = |token: usize| token < CODES || (token == stop && may_stop);
    let candidates = (0..=stop).filter(|token| allowed(*token));
    let best = candidates.clone().max_by(|one, other| logits[*one].total_cmp(&logits[*other]))?;
    let most = logits[best];
    if !most.is_finite() || candidates.clone().any(|token| logits[token].is_nan()) {
        return None;
    }
    if how.temperature <= 0.0 {
        return Some(best as i64);
    }
    // Against the most likely token, so that nothing overflows.
    let weight = |token: usize| f64::from((logits[token] - most) / how.temperature).exp();
    let kept: Vec<(usize, f64)> =
        candidates.map(|token| (token, weight(token))).filter(|(_, weight)| *weight >= f64::from(how.min_p)).collect();
    let total: f64 = kept.iter().map(|(_, weight)| weight).sum();
    let mut left = (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * total;
    for (token, weight) in &kept {
        left -= weight;
        if left < 0.0 {
            return Some(*token as i64);
        }
    }
    Some(kept.last().map_or(best, |(token, _)| *token) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: Draw = Draw { temperature: 0.0, min_p: 0.05, repetition_penalty: 1.0 };

    fn logits(of: &[(usize, f32)]) -> Vec<f32> {
        let mut logits = vec![-5.0; 8194];
        of.iter().for_each(|(token, logit)| logits[*token] = *logit);
        logits
    }

    #[test]
    fn tokens_that_mean_no_sound_are_never_drawn_and_the_end_only_where_it_may_come() {
        let mut random = SplitMix64::new(1);
        let scores = logits(&[(6561, 9.0), (6563, 9.0), (8193, 9.0), (6562, 5.0), (17, 1.0)]);
        assert_eq!(draw(&mut scores.clone(), &[], true, GREEDY, &mut random), Some(STOP));
        assert_eq!(draw(&mut scores.clone(), &[], false, GREEDY, &mut random), Some(17));
        assert_eq!(draw(&mut vec![0.0; 6562], &[], true, GREEDY, &mut random), None, "too few logits");
        assert_eq!(draw(&mut logits(&[(3, f32::NAN)]), &[], true, GREEDY, &mut random), None);
        assert_eq!(draw(&mut logits(&[(3, f32::INFINITY)]), &[], true, GREEDY, &mut random), None);
    }

    #[test]
    fn a_token_that_came_before_counts_less_once_however_often_it_came() {
        let mut random = SplitMix64::new(1);
        let penalty = Draw { repetition_penalty: 2.0, ..GREEDY };
        let scores = [(1, 4.0), (2, 3.0), (3, -1.0), (4, -1.5)];
        assert_eq!(draw(&mut logits(&scores), &[], true, penalty, &mut random), Some(1));
        assert_eq!(draw(&mut logits(&scores), &[START, 1], true, penalty, &mut random), Some(2));
        // 4 / 2 = 2 is still more than 3 / 2.
        assert_eq!(draw(&mut logits(&scores), &[1, 2, 1, 1, 1], true, penalty, &mut random), Some(1));
        let negative = [(3, -1.0), (4, -1.5)];
        assert_eq!(draw(&mut logits(&negative), &[3], true, penalty, &mut random), Some(4));
    }

    #[test]
    fn draws_follow_the_probabilities_and_leave_out_what_is_unlikely() {
        let how = Draw { temperature: 1.0, min_p: 0.05, repetition_penalty: 1.0 };
        let (mut random, mut counts) = (SplitMix64::new(7), [0usize; 4]);
        for _ in 0..4000 {
            // e^0 : e^-1 : e^-2 = 0.67 : 0.24 : 0.09, and e^-4, which is below 5 % of the first.
            let mut scores = logits(&[(0, 0.0), (1, -1.0), (2, -2.0), (3, -4.0)]);
            counts[draw(&mut scores, &[], true, how, &mut random).unwrap() as usize] += 1;
        }
        let share = |token: usize| counts[token] as f64 / 4000.0;
        assert!((share(0) - 0.665).abs() < 0.03 && (share(1) - 0.245).abs() < 0.03, "{counts:?}");
        assert!((share(2) - 0.09).abs() < 0.02 && counts[3] == 0, "{counts:?}");
        let drawn = |seed: u64| {
            let mut random = SplitMix64::new(seed);
            (0..20).map(|_| draw(&mut logits(&[(0, 0.0), (1, 0.0)]), &[], true, how, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(5), drawn(5));
        assert_ne!(drawn(5), drawn(6));
    }

    #[test]
    fn guidance_moves_away_from_what_is_likely_without_the_text() {
        let mut conditional = vec![1.0, 2.0, -1.0];
        guide(&mut conditional, &[0.0, 3.0, -1.0], 0.5);
        assert_eq!(conditional, [1.5, 1.5, -1.0]);
    }
}
