//! A text as rules look at it: characters by index, in lower case beside.

/// A text by Unicode scalar values.
pub(super) struct Text {
    /// The characters.
    pub chars: Vec<char>,
    /// The same in lower case, one for one.
    lower: Vec<char>,
}

/// A word: letters and digits, and apostrophes and hyphens between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordAt {
    pub start: usize,
    pub end: usize,
}

impl Text {
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let lower = chars.iter().map(|c| c.to_lowercase().next().unwrap_or(*c)).collect();
        Text { chars, lower }
    }

    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// The character at an index; a space outside of the text.
    pub fn at(&self, index: usize) -> char {
        self.chars.get(index).copied().unwrap_or(' ')
    }

    /// The character before an index; a space at the beginning.
    pub fn before(&self, index: usize) -> char {
        index.checked_sub(1).map_or(' ', |index| self.at(index))
    }

    /// Whether a word neither goes on at `start` from before nor at `end` behind.
    pub fn is_bounded(&self, start: usize, end: usize) -> bool {
        !self.before(start).is_alphanumeric() && !self.at(end).is_alphanumeric()
    }

    /// Characters in lower case.
    pub fn lower(&self, start: usize, end: usize) -> String {
        self.lower[start.min(self.len())..end.min(self.len())].iter().collect()
    }

    /// Whether one of the words begins with one of `keywords` within `reach` characters before `start`.
    pub fn has_keyword_before(&self, start: usize, reach: usize, keywords: &[&str]) -> bool {
        let window = self.lower(start.saturating_sub(reach), start);
        keywords.iter().any(|keyword| {
            window.match_indices(keyword).any(|(at, _)| !window[..at].ends_with(|c: char| c.is_alphanumeric()))
        })
    }

    /// Where the keyword ends in lower case, at the beginnings of words.
    pub fn keyword_ends(&self, keyword: &str) -> Vec<usize> {
        let keyword: Vec<char> = keyword.chars().collect();
        let starts = self.lower.windows(keyword.len()).enumerate().filter(|(_, window)| *window == keyword);
        starts
            .map(|(start, _)| (start, start + keyword.len()))
            .filter(|(start, _)| !self.before(*start).is_alphanumeric())
            .map(|(_, end)| end)
            .collect()
    }

    /// The words in order.
    pub fn words(&self) -> Vec<WordAt> {
        let (mut words, mut at) = (Vec::new(), 0);
        while at < self.len() {
            if !self.chars[at].is_alphanumeric() {
                at += 1;
                continue;
            }
            let start = at;
            while at < self.len() {
                let joins = matches!(self.chars[at], '\'' | '’' | '-') && self.at(at + 1).is_alphanumeric();
                if !self.chars[at].is_alphanumeric() && !joins {
                    break;
                }
                at += 1;
            }
            words.push(WordAt { start, end: at });
        }
        words
    }
}
