//! Normalization: characters by a table that the model carries (Unicode NFKC and more), then spaces.

use super::SPACE;

/// How text is normalized before it is cut into pieces.
pub(super) struct Normalizer {
    pub(super) charsmap: Charsmap,
    /// Pieces that are never normalized.
    pub(super) user_defined: Vec<Box<str>>,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
}

impl Normalizer {
    /// The text with its characters replaced, spaces as [`SPACE`].
    pub(super) fn normalize(&self, text: &str) -> String {
        let mut rest = text;
        let mut out = String::with_capacity(text.len() + text.len() / 2);
        if self.remove_extra_whitespaces {
            while let Some((" ", after)) = self.next(rest) {
                rest = after;
            }
        }
        if rest.is_empty() {
            return out;
        }
        if self.add_dummy_prefix {
            out.push(SPACE);
        }
        let mut was_space = self.remove_extra_whitespaces;
        while let Some((mut normal, after)) = self.next(rest) {
            rest = after;
            if was_space {
                normal = normal.trim_start_matches(' ');
            }
            if let Some(last) = normal.chars().next_back() {
                out.extend(normal.chars().map(|c| if c == ' ' { SPACE } else { c }));
                was_space = self.remove_extra_whitespaces && last == ' ';
            }
        }
        if self.remove_extra_whitespaces {
            out.truncate(out.trim_end_matches(SPACE).len());
        }
        out
    }

    /// What the next characters become, and what follows them; none at the end.
    fn next<'a>(&'a self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let first = text.chars().next()?;
        let longest =
            self.user_defined.iter().filter(|piece| text.starts_with(&***piece)).map(|piece| piece.len()).max();
        if let Some(length) = longest {
            return Some(text.split_at(length));
        }
        if let Some((length, normal)) = self.charsmap.longest(text.as_bytes())
            && text.is_char_boundary(length)
        {
            return Some((normal, &text[length..]));
        }
        Some(text.split_at(first.len_utf8()))
    }
}

/// The table of replacements: a double-array trie (darts-clone) over UTF-8, whose values are places in a pool of NUL-terminated texts.
pub(super) struct Charsmap {
    units: Vec<u32>,
    pool: String,
}

impl Charsmap {
    /// Reads the table; none where it is broken. No bytes at all are a table without replacements.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Charsmap { units: Vec::new(), pool: String::new() });
        }
        let (size, rest) = bytes.split_first_chunk()?;
        let (trie, pool) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        let (units, odd) = trie.as_chunks();
        let pool = std::str::from_utf8(pool).ok()?.to_owned();
        odd.is_empty().then(|| Charsmap { units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(), pool })
    }

    /// The longest beginning of `text` that has a replacement: its length and the replacement.
    fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let has_leaf = |unit: u32| unit >> 8 & 1 == 1;
        let value = |unit: u32| (unit & 0x7fff_ffff) as usize;
        let label = |unit: u32| unit & 0x8000_00ff;
        let offset = |unit: u32| ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize;
        let mut node = offset(*self.units.first()?);
        let mut found = None;
        for (index, byte) in text.iter().enumerate() {
            node ^= usize::from(*byte);
            let Some(unit) = self.units.get(node).filter(|unit| label(**unit) == u32::from(*byte)) else { break };
            node ^= offset(*unit);
            if has_leaf(*unit)
                && let Some(leaf) = self.units.get(node)
                && let Some(rest) = self.pool.get(value(*leaf)..)
            {
                found = Some((index + 1, rest.split('\0').next().unwrap_or_default()));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalizer(charsmap: Charsmap) -> Normalizer {
        Normalizer { charsmap, user_defined: Vec::new(), add_dummy_prefix: true, remove_extra_whitespaces: true }
    }

    /// A trie with the one key "A", which becomes "a b".
    fn one_rule() -> Charsmap {
        let mut units = vec![0u32; 512];
        units[0] = 256 << 10;
        units[256 ^ 0x41] = 0x41 | 1 << 8 | 2 << 10;
        units[256 ^ 0x41 ^ 2] = 0x8000_0000;
        Charsmap { units, pool: "a b\0".into() }
    }

    #[test]
    fn spaces_become_marks_and_runs_of_them_one() {
        let normalizer = normalizer(Charsmap::read(&[]).unwrap());
        assert_eq!(normalizer.normalize("  one  two "), "▁one▁two");
        assert_eq!(normalizer.normalize("   "), "");
        assert_eq!(normalizer.normalize(""), "");
    }

    #[test]
    fn characters_are_replaced_by_the_longest_rule() {
        assert_eq!(normalizer(one_rule()).normalize("xAA B"), "▁xa▁ba▁b▁B");
    }

    #[test]
    fn broken_tables_are_refused_or_replace_nothing() {
        assert!(Charsmap::read(&[1]).is_none());
        assert!(Charsmap::read(&[9, 0, 0, 0, 1]).is_none());
        assert!(Charsmap::read(&[3, 0, 0, 0, 1, 1, 1]).is_none());
        assert!(Charsmap::read(&[0, 0, 0, 0, 0xff]).is_none());
        let wild = Charsmap { units: vec![u32::MAX; 7], pool: String::new() };
        assert_eq!(normalizer(wild).normalize("hello"), "▁hello");
    }
}
