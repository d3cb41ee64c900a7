//! Random choices that a seed repeats.

use std::time::Duration;

use hark_numeric::SplitMix64;

/// The choices of a seed.
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(SplitMix64::new(seed))
    }

    /// A number below `below`.
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0.bits() % below.max(1)
    }

    /// One of these.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A time between `least` and `most`, each order of magnitude as likely as the next.
    pub(super) fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let share = self.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let (least, most) = (least.as_secs_f64(), most.as_secs_f64().max(least.as_secs_f64()));
        Duration::from_secs_f64(least * (most / least).powf(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices_and_times_stay_in_their_range() {
        let roll = |seed| {
            let mut dice = Dice::new(seed);
            (0..50).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(roll(7), roll(7));
        assert_ne!(roll(7), roll(8));
        let (least, most) = (Duration::from_millis(300), Duration::from_secs(45));
        let mut dice = Dice::new(1);
        assert!((0..1000).all(|_| (least..=most).contains(&dice.time(least, most))));
    }
}
