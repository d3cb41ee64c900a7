//! SentencePiece's BPE: neighbouring pieces merge by the score of what they make, and characters that the vocabulary lacks become bytes.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// What merging needs beside the vocabulary.
pub(super) struct Spm {
    /// The score of each token.
    pub(super) scores: Vec<f32>,
    /// The token of each byte.
    pub(super) bytes: [Option<u32>; 256],
    /// Stands for a character where there are no tokens of bytes.
    pub(super) unknown: Option<u32>,
    /// Whether a text begins with a space that is not in it.
    pub(super) adds_space: bool,
    /// Whether white space behind a control token does not count (Phi 3).
    pub(super) strips_after_control: bool,
}

/// A piece of the text, in a list linked by index.
struct Symbol {
    start: usize,
    /// Bytes; none when it became part of its neighbour.
    length: usize,
    previous: usize,
    next: usize,
}

/// Two neighbours that may merge.
struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both: it is stale when they have others.
    length: usize,
}

const NONE: usize = usize::MAX;

impl Ord for Candidate {
    /// The highest score is the largest, then the leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl Spm {
    /// Appends the tokens of a text, in time proportional to its length times its logarithm. `by_bytes` has tokens with their spaces.
    pub(super) fn encode(&self, text: &str, by_bytes: &HashMap<Vec<u8>, u32>, out: &mut Vec<u32>) {
        let count = text.chars().count();
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, c))| Symbol {
                start,
                length: c.len_utf8(),
                previous: index.wrapping_sub(1),
                next: if index + 1 < count { index + 1 } else { NONE },
            })
            .collect();
        let token = |start: usize, length: usize| by_bytes.get(&text.as_bytes()[start..start + length]).copied();
        let offer = |heap: &mut BinaryHeap<Candidate>, symbols: &[Symbol], left: usize| {
            let Some(first) = symbols.get(left) else { return };
            let Some(second) = symbols.get(first.next) else { return };
            let length = first.length + second.length;
            if let Some(token) = token(first.start, length) {
                let score = self.scores.get(token as usize).copied().unwrap_or(0.0);
                heap.push(Candidate { score, left, right: first.next, length });
            }
        };
        let mut heap = BinaryHeap::new();
        (0..count).for_each(|left| offer(&mut heap, &symbols, left));
        while let Some(Candidate { left, right, length, .. }) = heap.pop() {
            let (first, second) = (&symbols[left], &symbols[right]);
            let is_stale = first.length == 0 || second.length == 0 || first.length + second.length != length;
            if is_stale {
                continue;
            }
            let after = second.next;
            symbols[right].length = 0;
            symbols[left].length = length;
            symbols[left].next = after;
            if let Some(after) = symbols.get_mut(after) {
                after.previous = left;
            }
            offer(&mut heap, &symbols, symbols[left].previous);
            offer(&mut heap, &symbols, left);
        }
        for Symbol { start, length, .. } in symbols.iter().filter(|symbol| symbol.length > 0) {
            match token(*start, *length) {
                Some(token) => out.push(token),
                None => {
                    let bytes = &text.as_bytes()[*start..start + length];
                    match bytes.iter().map(|byte| self.bytes[usize::from(*byte)]).collect::<Option<Vec<u32>>>() {
                        Some(tokens) => out.extend(tokens),
                        None => out.extend(self.unknown),
                    }
                }
            }
        }
    }
}

/// The byte that a name such as `<0x0A>` stands for.
pub(super) fn byte_of(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}
