//! The queue of windows: by lane, and inside a lane by owner.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;

use hark_transcript::Lane;

use super::WindowRequest;

/// Slots that the bulk lane must leave free for higher lanes: a clip or a live window never waits for a
/// slot that a long file occupies.
pub(super) const RESERVED: usize = 2;

/// A window in the queue or in the engine.
pub(super) struct QueuedWindow {
    pub(super) request: WindowRequest,
    /// How often it was requeued.
    pub(super) retries: u32,
}

/// The queued windows by lane; in a lane the owners in the order of their turns.
#[derive(Default)]
pub(super) struct WindowQueue {
    pub(super) lanes: BTreeMap<Lane, LaneQueue>,
}

#[derive(Default)]
pub(super) struct LaneQueue {
    turns: VecDeque<u64>,
    pub(super) windows: HashMap<u64, VecDeque<QueuedWindow>>,
}

impl LaneQueue {
    fn push(&mut self, window: QueuedWindow) {
        let owner = window.request.owner;
        let queue = self.windows.entry(owner).or_default();
        if queue.is_empty() {
            self.turns.push_back(owner);
        }
        queue.push_back(window);
    }

    /// Requeues a popped window: it is its owner's next, and the owner's turn is next.
    fn push_front(&mut self, window: QueuedWindow) {
        let owner = window.request.owner;
        let queue = self.windows.entry(owner).or_default();
        queue.push_front(window);
        self.turns.retain(|other| *other != owner);
        self.turns.push_front(owner);
    }

    fn pop(&mut self) -> Option<QueuedWindow> {
        let owner = self.turns.pop_front()?;
        let queue = self.windows.get_mut(&owner)?;
        let request = queue.pop_front();
        if queue.is_empty() {
            self.windows.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        request
    }
}

impl WindowQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.values().all(|lane| lane.turns.is_empty())
    }

    /// Whether it is worth encoding what waits, on a device that encodes `batch` windows almost as fast as one: not while there are only a
    /// few of long recordings, for which more may come.
    pub(super) fn fills(&self, batch: usize) -> bool {
        let waits = |lane: Lane| self.lanes.get(&lane).is_some_and(|queue| !queue.turns.is_empty());
        let bulk = self.lanes.get(&Lane::Bulk).map_or(0, |queue| queue.windows.values().map(VecDeque::len).sum());
        bulk >= batch || self.lanes.keys().any(|&lane| lane != Lane::Bulk && waits(lane))
    }

    /// The next window whose lane may use one of `free` slots; `others` says whether other slots are in use.
    pub(super) fn pop(&mut self, free: usize, others: bool) -> Option<QueuedWindow> {
        for (&lane, queue) in self.lanes.iter_mut().rev() {
            let must_leave = if lane == Lane::Bulk && others { RESERVED } else { 0 };
            if free <= must_leave {
                continue;
            }
            while let Some(window) = queue.pop() {
                if !window.request.cancelled.load(Ordering::Relaxed) {
                    return Some(window);
                }
            }
        }
        None
    }

    pub(super) fn push(&mut self, window: QueuedWindow) {
        self.lanes.entry(window.request.lane).or_default().push(window);
    }

    pub(super) fn push_front(&mut self, window: QueuedWindow) {
        self.lanes.entry(window.request.lane).or_default().push_front(window);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use hark_whisper::decode::DecodeOptions;

    use super::*;
    use crate::scheduler::Meter;

    fn request(owner: u64, lane: Lane, tag: usize) -> WindowRequest {
        WindowRequest {
            owner,
            lane,
            mel: Arc::new([]),
            frames: 0,
            reencode: None,
            options: Arc::new(DecodeOptions::default()),
            cancelled: Arc::new(AtomicBool::new(false)),
            tag,
            reply: Arc::new(|_, _| {}),
            meter: Meter::default(),
        }
    }

    fn queue(requests: impl IntoIterator<Item = WindowRequest>) -> WindowQueue {
        let mut waiting = WindowQueue::default();
        for request in requests {
            waiting.push(QueuedWindow { request, retries: 0 });
        }
        waiting
    }

    fn order(waiting: &mut WindowQueue, free: usize) -> Vec<(u64, usize)> {
        let windows = std::iter::from_fn(|| waiting.pop(free, true));
        windows.map(|window| (window.request.owner, window.request.tag)).collect()
    }

    #[test]
    fn owners_of_a_lane_take_turns() {
        let many = (0..5).map(|tag| request(1, Lane::Bulk, tag));
        let few = (0..2).map(|tag| request(2, Lane::Bulk, tag));
        let mut waiting = queue(many.chain(few));
        let expected = [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (1, 3), (1, 4)];
        assert_eq!(order(&mut waiting, 9), expected);
        assert!(waiting.is_empty());
    }

    #[test]
    fn higher_lanes_go_first_and_bulk_leaves_slots_for_them() {
        let mut waiting =
            queue([request(1, Lane::Bulk, 0), request(2, Lane::Interactive, 1), request(3, Lane::Live, 2)]);
        assert_eq!(order(&mut waiting, RESERVED), [(3, 2), (2, 1)]);
        assert_eq!(order(&mut waiting, RESERVED + 1), [(1, 0)]);
    }

    #[test]
    fn a_device_that_takes_little_still_decodes_long_files() {
        let mut waiting = queue([request(1, Lane::Bulk, 0)]);
        assert!(waiting.pop(1, true).is_none());
        assert!(waiting.pop(1, false).is_some(), "nobody else is there to leave a slot for");
    }

    #[test]
    fn few_windows_of_long_recordings_wait_for_more_and_others_do_not() {
        let mut waiting = queue((0..3).map(|tag| request(tag % 2, Lane::Bulk, tag as usize)));
        assert!(!waiting.fills(4));
        assert!(waiting.fills(3) && waiting.fills(1));
        waiting.push(QueuedWindow { request: request(7, Lane::Live, 0), retries: 0 });
        assert!(waiting.fills(4), "a live session does not wait");
        assert!(!WindowQueue::default().fills(1));
    }

    #[test]
    fn a_window_that_is_put_back_is_its_owners_next() {
        let mut waiting = queue([request(1, Lane::Bulk, 0), request(1, Lane::Bulk, 1), request(2, Lane::Bulk, 0)]);
        let first = waiting.pop(9, true).expect("it waits");
        waiting.push_front(first);
        assert_eq!(order(&mut waiting, 9), [(1, 0), (2, 0), (1, 1)]);
    }

    #[test]
    fn a_cancelled_window_is_skipped() {
        let mut waiting = queue([request(1, Lane::Bulk, 0), request(1, Lane::Bulk, 1)]);
        let first = &waiting.lanes[&Lane::Bulk].windows[&1][0];
        first.request.cancelled.store(true, Ordering::Relaxed);
        assert_eq!(order(&mut waiting, 9), [(1, 1)]);
    }
}
