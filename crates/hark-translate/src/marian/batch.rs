//! Sentences that are translated together: their rows stand one behind the other, and each has its own pages of keys and values.

use std::ops::Range;

use hark_compute::attention::paged::PAGE;

/// Sentences that are translated together.
pub(crate) struct Batch {
    /// The tokens of all sentences.
    pub(crate) tokens: Vec<u32>,
    /// The rows of each sentence.
    pub(crate) sentences: Vec<Range<usize>>,
    /// The rows of each page.
    pub(crate) page_rows: Vec<Range<usize>>,
    /// The numbers of all pages, and which of them belong to each sentence.
    pub(crate) pages: Vec<u32>,
    pub(crate) sentence_pages: Vec<Range<usize>>,
}

impl Batch {
    pub(crate) fn new(sentences: &[&[u32]]) -> Self {
        let (mut tokens, mut rows_of, mut page_rows, mut sentence_pages) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for sentence in sentences {
            assert!(!sentence.is_empty(), "a sentence has at least its end");
            let (first, first_page) = (tokens.len(), page_rows.len());
            tokens.extend_from_slice(sentence);
            let rows = first..tokens.len();
            page_rows.extend(rows.clone().step_by(PAGE).map(|row| row..(row + PAGE).min(rows.end)));
            sentence_pages.push(first_page..page_rows.len());
            rows_of.push(rows);
        }
        let pages = (0..page_rows.len() as u32).collect();
        Batch { tokens, sentences: rows_of, page_rows, pages, sentence_pages }
    }

    /// The pages of a sentence.
    pub(crate) fn pages_of(&self, sentence: usize) -> &[u32] {
        &self.pages[self.sentence_pages[sentence].clone()]
    }
}
