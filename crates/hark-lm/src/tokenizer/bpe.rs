//! Byte pair encoding of one word, in time proportional to its length times its logarithm.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// GPT-2's alphabet: each byte is written as one printable character. Printable Latin-1 stands for itself, the other bytes
/// for the characters from 256 on, in order.
pub(super) fn bytes_of_characters() -> HashMap<char, u8> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    let mut character = |byte: u8| {
        if is_printable(byte) {
            return char::from(byte);
        }
        next += 1;
        char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    (0..=255).map(|byte| (character(byte), byte)).collect()
}

/// Which two neighbouring tokens become one, and which pair comes first.
pub(super) struct Merges {
    /// Rank and result of a pair.
    pairs: HashMap<(u32, u32), (u32, u32)>,
    /// The token of each byte.
    bytes: [Option<u32>; 256],
}

/// A token of the word being encoded, in a list linked by index.
struct Symbol {
    token: u32,
    previous: usize,
    next: usize,
    is_gone: bool,
}

const NONE: usize = usize::MAX;

impl Merges {
    /// Reads lines such as `h ello`, the most frequent pair first. A line that names unknown tokens is skipped, as it can
    /// never apply.
    pub(super) fn read<'a>(
        lines: impl Iterator<Item = &'a str>,
        by_bytes: &HashMap<Vec<u8>, u32>,
        bytes_of: &HashMap<char, u8>,
    ) -> Self {
        let mut pairs = HashMap::new();
        for (rank, line) in lines.enumerate() {
            let bytes = |text: &str| text.chars().map(|c| bytes_of.get(&c).copied()).collect::<Option<Vec<u8>>>();
            let Some((left, right)) = line.split_once(' ') else { continue };
            let (Some(left), Some(right)) = (bytes(left), bytes(right)) else { continue };
            let both = [left.as_slice(), right.as_slice()].concat();
            if let (Some(left), Some(right), Some(both)) =
                (by_bytes.get(&left), by_bytes.get(&right), by_bytes.get(&both))
            {
                pairs.entry((*left, *right)).or_insert((rank as u32, *both));
            }
        }
        Merges { pairs, bytes: std::array::from_fn(|byte| by_bytes.get(&[byte as u8][..]).copied()) }
    }

    /// Appends the tokens of a word. Bytes that the vocabulary lacks are left out.
    pub(super) fn encode(&self, word: &[u8], by_bytes: &HashMap<Vec<u8>, u32>, out: &mut Vec<u32>) {
        if word.len() == 1 {
            out.extend(by_bytes.get(word));
            return;
        }
        let tokens: Vec<u32> = word.iter().filter_map(|byte| self.bytes[usize::from(*byte)]).collect();
        let count = tokens.len();
        let mut symbols: Vec<Symbol> = tokens
            .into_iter()
            .enumerate()
            .map(|(i, token)| Symbol {
                token,
                previous: i.wrapping_sub(1),
                next: if i + 1 < count { i + 1 } else { NONE },
                is_gone: false,
            })
            .collect();
        // Lowest rank first, then leftmost. An entry is stale when its tokens have changed since.
        let mut heap = BinaryHeap::new();
        let offer = |heap: &mut BinaryHeap<_>, symbols: &[Symbol], left: usize| {
            let Some(Symbol { token, next, .. }) = symbols.get(left) else { return };
            let Some(right) = symbols.get(*next) else { return };
            if let Some((rank, both)) = self.pairs.get(&(*token, right.token)) {
                heap.push(Reverse((*rank, left, *token, right.token, *both)));
            }
        };
        (0..count).for_each(|left| offer(&mut heap, &symbols, left));
        while let Some(Reverse((_, left, first, second, both))) = heap.pop() {
            let right = symbols[left].next;
            let is_current = !symbols[left].is_gone
                && symbols[left].token == first
                && symbols.get(right).is_some_and(|right| right.token == second);
            if !is_current {
                continue;
            }
            let after = symbols[right].next;
            symbols[right].is_gone = true;
            symbols[left].token = both;
            symbols[left].next = after;
            if let Some(after) = symbols.get_mut(after) {
                after.previous = left;
            }
            offer(&mut heap, &symbols, symbols[left].previous);
            offer(&mut heap, &symbols, left);
        }
        out.extend(symbols.iter().filter(|symbol| !symbol.is_gone).map(|symbol| symbol.token));
    }
}
