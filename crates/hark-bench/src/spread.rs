//! A figure measured several times: its middle and how far the rounds lay apart.

use std::fmt;

use serde::Serialize;

/// The median of some measurements with the smallest and the largest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Every measurement in the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// The spread of some rounds; `None` of none.
    pub fn of(rounds: Vec<f64>) -> Option<Self> {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, min, max, rounds })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = out.precision().unwrap_or(1);
        if self.rounds.len() < 2 {
            return write!(out, "{:.places$}", self.median);
        }
        write!(out, "{:.places$} [{:.places$}..{:.places$}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_an_odd_count_and_the_mean_of_the_middle_two_of_an_even() {
        assert_eq!(Spread::of(vec![9.0, 1.0, 5.0]).unwrap().median, 5.0);
        assert_eq!(Spread::of(vec![9.0, 1.0, 5.0, 6.0]).unwrap().median, 5.5);
        assert!(Spread::of(vec![]).is_none());
    }

    #[test]
    fn it_reads_as_median_with_its_ends_and_one_round_claims_no_spread() {
        assert_eq!(format!("{:.2}", Spread::of(vec![2.0, 1.0, 4.0]).unwrap()), "2.00 [1.00..4.00]");
        assert_eq!(Spread::of(vec![2.0]).unwrap().to_string(), "2.0");
    }

    #[test]
    fn the_rounds_keep_their_order() {
        assert_eq!(Spread::of(vec![3.0, 1.0]).unwrap().rounds, [3.0, 1.0]);
    }
}
