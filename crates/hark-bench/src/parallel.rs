//! The same work on many items at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does the same with every item on so many threads, each taking the next as soon as it is through; results in the order of the items.
pub(crate) fn on_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((number, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
                {
                    let result = work(number, item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The same on all cores, of work that can fail.
pub(crate) fn on_all_cores<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(usize, &T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    on_threads(cores, items, work).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_results_keep_their_order() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [0, 1, 7] {
            let done = on_threads(threads, &items, |at, item| (at, item * 2));
            assert!(done.iter().enumerate().all(|(at, one)| *one == (at, 2 * at)) && done.len() == 100);
        }
        let failed = on_all_cores(&items, |_, item| if *item == 50 { Err("no") } else { Ok(*item) });
        assert_eq!(failed, Err("no"));
    }
}
