//! Which row of the KV cache has the key of each position of each row: following another hypothesis copies a list of numbers and no keys.

use hark_whisper::backend::Entry;

/// The past of every row.
pub struct Lineage {
    rows_a_slot: usize,
    past: Vec<Vec<u16>>,
}

impl Lineage {
    /// Of this many rows, none of which has a past.
    pub fn new(rows: usize, rows_a_slot: usize) -> Self {
        Lineage { rows_a_slot, past: vec![Vec::new(); rows] }
    }

    /// The row of an entry, counted over all slots.
    pub fn row(&self, slot: usize, row: usize) -> usize {
        slot * self.rows_a_slot + row
    }

    /// Lets every entry's row follow its parent and own its position; returns the past of each entry, its own position included. Entries whose
    /// parent has no such past have none.
    pub fn follow(&mut self, entries: &[Entry]) -> Option<Vec<Vec<u16>>> {
        let mut inherited = Vec::new();
        for entry in entries.iter().filter(|entry| entry.parent != entry.row) {
            let parent = self.past[self.row(entry.slot, entry.parent)].get(..entry.position)?;
            inherited.push((self.row(entry.slot, entry.row), parent.to_vec()));
        }
        for (row, past) in inherited {
            self.past[row] = past;
        }
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let row = self.row(entry.slot, entry.row);
            let past = &mut self.past[row];
            if past.len() < entry.position {
                return None;
            }
            past.truncate(entry.position);
            past.push(row as u16);
            list.push(past.clone());
        }
        Some(list)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.past.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: usize, row: usize, parent: usize, position: usize) -> Entry {
        Entry { slot, row, parent, position, token: 0, query: None }
    }

    #[test]
    fn rows_that_swap_parents_keep_what_these_had_before_the_step() {
        let mut lineage = Lineage::new(6, 3);
        let first = [entry(1, 0, 0, 0), entry(1, 1, 1, 0)];
        assert_eq!(lineage.follow(&first).unwrap(), [vec![3], vec![4]]);
        let swapped = [entry(1, 0, 1, 1), entry(1, 1, 0, 1)];
        assert_eq!(lineage.follow(&swapped).unwrap(), [vec![4, 3], vec![3, 4]]);
        // A prompt in one step, and a row that begins again.
        let prompt = [entry(0, 2, 2, 0), entry(0, 2, 2, 1), entry(1, 1, 1, 1)];
        assert_eq!(lineage.follow(&prompt).unwrap(), [vec![2], vec![2, 2], vec![3, 4]]);
        assert!(lineage.follow(&[entry(0, 0, 0, 1)]).is_none(), "it skips a position");
        assert!(lineage.follow(&[entry(0, 0, 1, 2)]).is_none(), "its parent has no such past");
    }
}
