//! How urgent work is: one definition for the queue of jobs and for the engine's windows.

/// How soon somebody wants the answer; the more urgent lane is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Lane {
    /// Somebody comes back for it: long files, and requests that do not wait.
    #[default]
    Bulk,
    /// Somebody waits for the answer, and the work is short.
    Interactive,
    /// Somebody is speaking.
    Live,
}

impl Lane {
    /// Recordings up to this length, in seconds, are short: somebody who waits for one goes before long work.
    pub const SHORT_SECONDS: f64 = 60.0;

    /// The lane of a recording that somebody does or does not wait for.
    pub fn of_recording(seconds: f64, is_awaited: bool) -> Lane {
        if is_awaited && seconds <= Lane::SHORT_SECONDS { Lane::Interactive } else { Lane::Bulk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_urgent_lane_is_the_greater_one() {
        assert!(Lane::Live > Lane::Interactive && Lane::Interactive > Lane::Bulk);
    }

    #[test]
    fn only_short_work_that_somebody_waits_for_is_interactive() {
        assert_eq!(Lane::of_recording(60.0, true), Lane::Interactive);
        assert_eq!(Lane::of_recording(60.1, true), Lane::Bulk);
        assert_eq!(Lane::of_recording(1.0, false), Lane::Bulk);
    }
}
