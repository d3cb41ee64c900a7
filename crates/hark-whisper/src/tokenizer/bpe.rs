//! Merging bytes into tokens, the pair of lowest rank first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Appends the tokens of one piece; a piece that is itself a token is that token.
///
/// A heap holds every pair of neighbours that is a token, so a piece of n bytes costs O(n log n).
pub(super) fn merge(piece: &[u8], ids: &HashMap<Vec<u8>, u32>, tokens: &mut Vec<u32>) {
    if let Some(id) = ids.get(piece) {
        tokens.push(*id);
        return;
    }
    // Part i begins at byte i and ends at `end[i]`; 0 once it has been joined to the part before it.
    let count = piece.len();
    let mut end: Vec<usize> = (1..=count).collect();
    let mut before: Vec<usize> = (0..count).map(|i| i.wrapping_sub(1)).collect();
    let rank_of = |start: usize, end: usize| ids.get(&piece[start..end]).copied();
    let mut pairs = BinaryHeap::new();
    for start in 0..count.saturating_sub(1) {
        if let Some(rank) = rank_of(start, start + 2) {
            pairs.push(Reverse((rank, start, start + 2)));
        }
    }
    while let Some(Reverse((_, start, pair_end))) = pairs.pop() {
        // A pair is stale when one of its parts has grown or gone since it was pushed.
        let middle = end[start];
        if middle == 0 || middle >= pair_end || end[middle] != pair_end {
            continue;
        }
        end[start] = pair_end;
        end[middle] = 0;
        if pair_end < count {
            before[pair_end] = start;
            if let Some(rank) = rank_of(start, end[pair_end]) {
                pairs.push(Reverse((rank, start, end[pair_end])));
            }
        }
        if before[start] != usize::MAX
            && let Some(rank) = rank_of(before[start], pair_end)
        {
            pairs.push(Reverse((rank, before[start], pair_end)));
        }
    }
    let mut start = 0;
    while start < count {
        // Every single byte is a token in a real vocabulary; in a broken one it is dropped.
        tokens.extend(rank_of(start, end[start]));
        start = end[start];
    }
}
