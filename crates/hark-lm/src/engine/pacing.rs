//! How the language model shares the cores with other models, and how many prompt rows a step has. No clock in here: callers measure.

use std::time::Duration;

use hark_transcript::Lane;

/// How long other models have the cores to themselves at first: the time in which short clips are transcribed.
const HEAD_START: Duration = Duration::from_secs(1);
/// Time of a step that computes prompts only: a request that arrives waits no longer for its first rows.
pub(super) const PROMPT_STEP: Duration = Duration::from_millis(1500);
/// Time of a step that computes answers as well, each of which gets one token in it.
pub(super) const MIXED_STEP: Duration = Duration::from_millis(400);
/// Least rows of prompts in a step, and what their number is a multiple of: a block of the GEMM.
const LEAST_ROWS: usize = 32;

/// Decides when the language model pauses for others (speech) that compute on the same threads.
///
/// Work makes a debt, which is paid by pauses while others compute. It is limited to [`HEAD_START`]: after some work on its own the language
/// model lets a clip go first for that long, then it works a layer, pauses, works a layer, as its share says.
#[derive(Debug)]
pub(super) struct Pacer {
    debt: Duration,
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer { debt: HEAD_START }
    }
}

impl Pacer {
    /// Counts work. Beside others that compute all the time, interactive work runs half of the time, bulk work a quarter.
    pub(super) fn worked(&mut self, time: Duration, lane: Lane) {
        let pause = if lane > Lane::Bulk { time } else { time.saturating_mul(3) };
        self.debt = self.debt.saturating_add(pause).min(HEAD_START);
    }

    /// Counts a pause that others used.
    pub(super) fn paused(&mut self, time: Duration) {
        self.debt = self.debt.saturating_sub(time);
    }

    /// Whether to pause if others compute.
    pub(super) fn is_in_debt(&self) -> bool {
        !self.debt.is_zero()
    }
}

/// How many rows of prompts fit a time, learned from the steps so far.
#[derive(Debug, Default)]
pub(super) struct ChunkSize {
    seconds_per_row: Option<f64>,
}

impl ChunkSize {
    /// Learns from a step. Steps of few rows are bound by memory and tell nothing.
    pub(super) fn observe(&mut self, rows: usize, worked: Duration) {
        if rows < LEAST_ROWS {
            return;
        }
        let now = worked.as_secs_f64() / rows as f64;
        // One slow step, beside speech or right after loading, does not count for much.
        self.seconds_per_row = Some(self.seconds_per_row.map_or(now, |before| 0.75 * before + 0.25 * now));
    }

    /// Rows of prompts for a step of about `target`: a multiple of 32 up to `limit`.
    pub(super) fn rows(&self, target: Duration, limit: usize) -> usize {
        let fitting = self.seconds_per_row.map_or(usize::MAX, |seconds| (target.as_secs_f64() / seconds) as usize);
        (fitting / LEAST_ROWS * LEAST_ROWS).max(LEAST_ROWS).min(limit.max(1))
    }
}

/// Shares `rows` of a step among prompts, given by lane and length in order of urgency: the first come first, but a quarter is for bulk prompts.
pub(super) fn share_rows(prompts: &[(Lane, usize)], rows: usize) -> Vec<usize> {
    let wanted = |is_bulk: bool| {
        let prompts = prompts.iter().filter(|(lane, _)| (*lane == Lane::Bulk) == is_bulk);
        prompts.fold(0usize, |sum, (_, length)| sum.saturating_add(*length))
    };
    let reserved = if wanted(false) > 0 { wanted(true).min(rows / 4) } else { rows };
    let mut budgets = [rows.saturating_sub(wanted(true).min(reserved)), 0];
    budgets[1] = rows - wanted(false).min(budgets[0]);
    let share = |(lane, length): &(Lane, usize)| {
        let budget = &mut budgets[usize::from(*lane == Lane::Bulk)];
        let count = (*length).min(*budget);
        *budget -= count;
        count
    };
    prompts.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(1);

    /// Two cores, a language model that always has work, and speech that comes in clips; time goes in milliseconds.
    struct Simulation {
        pacer: Pacer,
        lane: Lane,
        /// Milliseconds of a layer with the machine to itself.
        layer: f64,
        left_of_layer: f64,
        layer_began: u64,
        now: u64,
        worked: f64,
    }

    impl Simulation {
        fn new(lane: Lane, layer: f64) -> Self {
            let (left_of_layer, layer_began, now, worked) = (layer, 0, 0, 0.0);
            Simulation { pacer: Pacer::default(), lane, layer, left_of_layer, layer_began, now, worked }
        }

        /// One millisecond; returns what of it speech had, if it has work. While both work, each has half of the machine.
        fn tick(&mut self, has_speech: bool) -> f64 {
            self.now += 1;
            let is_between_layers = self.left_of_layer >= self.layer;
            if is_between_layers && has_speech && self.pacer.is_in_debt() {
                self.pacer.paused(TICK);
                self.layer_began = self.now;
                return 1.0;
            }
            let part = if has_speech { 0.5 } else { 1.0 };
            self.worked += part;
            self.left_of_layer -= part;
            if self.left_of_layer <= 0.0 {
                self.pacer.worked(Duration::from_millis(self.now - self.layer_began), self.lane);
                self.left_of_layer = self.layer;
                self.layer_began = self.now;
            }
            if has_speech { 1.0 - part } else { 0.0 }
        }

        /// Milliseconds that a clip takes which takes `idle` on an idle machine.
        fn clip(&mut self, idle: f64) -> f64 {
            let (began, mut left) = (self.now, idle);
            while left > 0.0 {
                left -= self.tick(true);
            }
            (self.now - began) as f64
        }

        fn pause(&mut self, millis: u64) {
            (0..millis).for_each(|_| _ = self.tick(false));
        }
    }

    #[test]
    fn a_clip_is_delayed_by_the_layer_that_runs_and_no_more() {
        for (lane, layer) in
            [(Lane::Bulk, 3.0), (Lane::Bulk, 55.0), (Lane::Interactive, 3.0), (Lane::Interactive, 55.0)]
        {
            let mut simulation = Simulation::new(lane, layer);
            for round in 0..50 {
                simulation.pause(1000 + 7 * round);
                let took = simulation.clip(400.0);
                assert!(took <= 400.0 + 2.0 * layer, "{lane:?}, layers of {layer} ms: {took} ms");
            }
        }
    }

    #[test]
    fn clips_one_behind_the_other_take_less_than_twice_their_time_and_the_language_model_goes_on() {
        for (lane, share) in [(Lane::Bulk, 0.1), (Lane::Interactive, 0.2)] {
            let mut simulation = Simulation::new(lane, 20.0);
            for _ in 0..50 {
                simulation.pause(30);
                let took = simulation.clip(400.0);
                assert!(took < 800.0, "{lane:?}: {took} ms");
            }
            let part = simulation.worked / simulation.now as f64;
            assert!(part > share, "{lane:?} had {part} of the machine");
        }
    }

    #[test]
    fn beside_speech_that_never_ends_interactive_work_has_half_of_the_time_and_bulk_work_a_quarter() {
        for (lane, share) in [(Lane::Interactive, 0.5), (Lane::Bulk, 0.25)] {
            let mut simulation = Simulation::new(lane, 20.0);
            let began = simulation.now;
            simulation.clip(20_000.0);
            // It works beside speech, with half of the machine.
            let time = 2.0 * simulation.worked / (simulation.now - began) as f64;
            assert!((time - share).abs() < 0.05, "{lane:?} worked {time} of the time");
        }
    }

    #[test]
    fn prompts_come_in_pieces_that_fit_the_time_of_a_step() {
        let mut chunk = ChunkSize::default();
        assert_eq!(chunk.rows(PROMPT_STEP, 512), 512, "nothing is known yet");
        // Five milliseconds a row: a model of 1.5 billion parameters on two cores.
        (0..20).for_each(|_| chunk.observe(512, Duration::from_millis(2560)));
        assert_eq!(chunk.rows(PROMPT_STEP, 512), 288);
        assert_eq!(chunk.rows(MIXED_STEP, 128), 64);
        // A step of answers alone tells nothing about prompts.
        chunk.observe(8, Duration::from_secs(9));
        assert_eq!(chunk.rows(PROMPT_STEP, 512), 288);
        // A model that is ten times as large.
        (0..20).for_each(|_| chunk.observe(288, Duration::from_millis(14_400)));
        assert_eq!(chunk.rows(PROMPT_STEP, 512), 32, "never less than a block");
        assert_eq!(chunk.rows(PROMPT_STEP, 7), 7, "never more than the limit");
    }

    #[test]
    fn urgent_prompts_go_first_and_bulk_prompts_never_starve() {
        use Lane::{Bulk, Interactive, Live};
        assert_eq!(share_rows(&[(Interactive, 1000), (Bulk, 1000)], 128), [96, 32]);
        assert_eq!(share_rows(&[(Live, 1000), (Interactive, 1000), (Bulk, 10), (Bulk, 90)], 128), [96, 0, 10, 22]);
        assert_eq!(
            share_rows(&[(Interactive, 1000), (Bulk, 10)], 128),
            [118, 10],
            "what bulk does not need is for others"
        );
        assert_eq!(share_rows(&[(Interactive, 50), (Bulk, 1000)], 128), [50, 78], "and the other way round");
        assert_eq!(share_rows(&[(Bulk, 100), (Bulk, 1000)], 128), [100, 28]);
        assert_eq!(share_rows(&[(Interactive, 1000), (Interactive, 1000)], 128), [128, 0]);
        assert_eq!(share_rows(&[], 128), [0; 0]);
        for rows in 1..40 {
            for (urgent, bulk) in [(0, 5), (5, 0), (3, 3), (100, 1), (1, 100)] {
                let shared = share_rows(&[(Interactive, urgent), (Bulk, bulk)], rows);
                assert_eq!(shared.iter().sum::<usize>(), rows.min(urgent + bulk), "no row is left over");
            }
        }
    }
}
