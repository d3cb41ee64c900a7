//! The vocabulary as a trie of bytes, and the tokens that a matcher allows.

use super::{Matcher, automaton::Stack};
use crate::{TokenMask, Tokenizer};

/// Masks of plain tokens are kept for up to so many characters.
const MOST_CHARACTERS: usize = 24;

/// Text tokens, found byte by byte.
///
/// Tokens that are plain text (whole characters, nothing that JSON escapes) are nearly all of a vocabulary, and inside of a text every
/// one of them is allowed as long as it is not too long: for those there are masks. Only the others are walked through there.
pub(crate) struct TokenTrie {
    /// All tokens that may stand in an answer.
    all: Trie,
    /// Those that are not plain.
    special: Trie,
    /// Plain tokens of up to as many characters as the index says; the last mask has all.
    plain: Vec<TokenMask>,
    longest: usize,
}

/// Nodes in the order of a walk, children behind their parents.
struct Trie {
    nodes: Vec<TrieNode>,
}

struct TrieNode {
    byte: u8,
    depth: u16,
    /// [`NO_TOKEN`] where no token ends.
    token: u32,
    /// Nodes to its next sibling, its children included.
    skip: u32,
}

const NO_TOKEN: u32 = u32::MAX;

impl TokenTrie {
    /// The trie of a vocabulary.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        // Answers are on one line, and a control character inside of a text is escaped: tokens with such bytes never fit.
        let is_usable = |bytes: &[u8]| bytes.len() < usize::from(u16::MAX) && bytes.iter().all(|byte| *byte >= 0x20);
        let mut all: Vec<(&[u8], u32)> = tokenizer.text_tokens().map(|(token, bytes)| (bytes, token)).collect();
        all.retain(|(bytes, _)| is_usable(bytes));
        all.sort_unstable();
        all.dedup_by_key(|(bytes, _)| *bytes);
        let characters = |bytes: &[u8]| match bytes.iter().any(|byte| matches!(byte, b'"' | b'\\')) {
            true => None,
            false => std::str::from_utf8(bytes).ok().map(|text| text.chars().count()),
        };
        let mut plain = vec![TokenMask::none(tokenizer.len()); MOST_CHARACTERS + 2];
        let (mut special, mut longest) = (Vec::new(), 0);
        for (bytes, token) in &all {
            match characters(bytes) {
                Some(count) => {
                    longest = longest.max(count);
                    let first = count.min(MOST_CHARACTERS + 1);
                    plain[first..].iter_mut().for_each(|mask| mask.allow(*token));
                }
                None => special.push((*bytes, *token)),
            }
        }
        TokenTrie { all: Trie::new(&all), special: Trie::new(&special), plain, longest }
    }

    /// Sets `mask` to the tokens that may come next.
    pub(crate) fn mask(&self, matcher: &Matcher, mask: &mut TokenMask) {
        let trie = match matcher.stack.room_in_text() {
            Some(room) => {
                let room = room as usize;
                let index = if room >= self.longest { MOST_CHARACTERS + 1 } else { room.min(MOST_CHARACTERS) };
                mask.copy_from(&self.plain[index]);
                &self.special
            }
            None => {
                mask.clear();
                &self.all
            }
        };
        // The stack behind each byte of the path to the node that is looked at.
        let mut stacks: Vec<Stack> = vec![matcher.stack.clone()];
        let mut at = 0;
        while let Some(node) = trie.nodes.get(at) {
            let depth = usize::from(node.depth);
            if stacks.len() < depth + 2 {
                stacks.push(matcher.stack.clone());
            }
            let (before, after) = stacks.split_at_mut(depth + 1);
            after[0].set(&before[depth]);
            if !after[0].advance(&matcher.grammar, node.byte) {
                at += node.skip as usize;
                continue;
            }
            if node.token != NO_TOKEN {
                mask.allow(node.token);
            }
            at += 1;
        }
    }
}

impl Trie {
    /// The trie of tokens that are sorted by their bytes.
    fn new(sorted: &[(&[u8], u32)]) -> Self {
        let mut nodes: Vec<TrieNode> = Vec::new();
        let mut path: Vec<usize> = Vec::new();
        let mut last: &[u8] = &[];
        let close = |nodes: &mut Vec<TrieNode>, path: &mut Vec<usize>, depth: usize| {
            for index in path.drain(depth..) {
                nodes[index].skip = (nodes.len() - index) as u32;
            }
        };
        for (bytes, token) in sorted {
            let common = bytes.iter().zip(last).take_while(|(a, b)| a == b).count();
            close(&mut nodes, &mut path, common);
            for (depth, byte) in bytes.iter().enumerate().skip(common) {
                path.push(nodes.len());
                nodes.push(TrieNode { byte: *byte, depth: depth as u16, token: NO_TOKEN, skip: 1 });
            }
            if let Some(end) = path.last() {
                nodes[*end].token = *token;
            }
            last = bytes;
        }
        close(&mut nodes, &mut path, 0);
        Trie { nodes }
    }
}
