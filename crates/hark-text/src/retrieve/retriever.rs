//! The passages of one source, ready to be searched.

use std::ops::Range;

use super::bm25::Bm25Index;
use super::passage::{Passage, passages};
use super::rank::{Ranked, fuse, rank_by_cosine};
use super::terms::query_terms;
use crate::source::Source;

/// Ranks of each kind that are fused: what stands further back says nothing about the question.
const FUSED: usize = 50;

/// The passages of a source with their index, and their vectors where there are embeddings.
#[derive(Debug, Clone)]
pub struct Retriever {
    passages: Vec<Passage>,
    index: Bm25Index,
    vectors: Vec<Vec<f32>>,
}

impl Retriever {
    /// Cuts a source into passages and indexes their words.
    pub fn new(source: &Source) -> Self {
        let passages = passages(source);
        let index = Bm25Index::new(passages.iter().map(|passage| passage.text(source)));
        Retriever { passages, index, vectors: Vec::new() }
    }

    /// The same with a vector for each passage; vectors of another number are not used.
    pub fn with_vectors(mut self, vectors: Vec<Vec<f32>>) -> Self {
        if vectors.len() == self.passages.len() {
            self.vectors = vectors;
        }
        self
    }

    /// The passages in order.
    pub fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// The texts to embed, one for each passage.
    pub fn texts(&self, source: &Source) -> Vec<String> {
        self.passages.iter().map(|passage| passage.text(source)).collect()
    }

    /// Whether passages are ranked by meaning too.
    pub fn has_vectors(&self) -> bool {
        !self.vectors.is_empty()
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let numbers: usize = self.vectors.iter().map(Vec::len).sum();
        self.passages.len() * size_of::<Passage>() + self.index.bytes() + numbers * size_of::<f32>()
    }

    /// Passages that say something about a question, best first, by their words and (with the question's vector) their meaning. Where no word of
    /// the question occurs and there are no vectors, passages from everywhere: the question is about the whole.
    pub fn rank(&self, question: &str, vector: Option<&[f32]>) -> Vec<Ranked> {
        let mut by_words = self.index.rank(&query_terms(question));
        by_words.truncate(FUSED);
        let mut rankings = vec![by_words];
        if let Some(vector) = vector
            && self.has_vectors()
        {
            let mut by_meaning = rank_by_cosine(vector, &self.vectors);
            by_meaning.truncate(FUSED);
            rankings.push(by_meaning);
        }
        let fused = fuse(&rankings);
        if fused.is_empty() { spread(self.passages.len()) } else { fused }
    }

    /// The units and bytes of passages that follow each other.
    pub fn run(&self, passages: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
        let run = self.passages.get(passages)?;
        let (first, last) = (run.first()?, run.last()?);
        Some((first.units.start..last.units.end, first.span.start..last.span.end))
    }
}

/// All passages in an order whose every beginning is spread over the whole: first, last, middle, quarters.
fn spread(count: usize) -> Vec<Ranked> {
    let mut order: Vec<usize> = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    let mut parts = 1;
    while order.len() < count {
        for part in 0..=parts {
            let at = part * (count - 1) / parts;
            if !std::mem::replace(&mut seen[at], true) {
                order.push(at);
            }
        }
        parts *= 2;
    }
    order.into_iter().enumerate().map(|(rank, index)| Ranked { index, score: 1.0 / (rank as f64 + 1.0) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        let part = |subject: &str| format!("Here we talk about the {subject} and say what there is to say. ").repeat(8);
        Source::from_text(&["garden", "invoice", "football", "holiday"].map(part).concat())
    }

    #[test]
    fn words_and_meaning_are_fused() {
        let source = source();
        let retriever = Retriever::new(&source);
        let best = retriever.rank("Who pays the invoices?", None)[0].index;
        assert!(retriever.passages()[best].text(&source).contains("invoice"));
        // Vectors that point at the last passage alone.
        let mut vectors = vec![vec![0.0f32, 1.0]; retriever.passages().len()];
        let last = vectors.len() - 1;
        vectors[last] = vec![1.0, 0.0];
        let retriever = retriever.with_vectors(vectors);
        assert_eq!(retriever.rank("", Some(&[1.0, 0.0]))[0].index, last);
        let ranked = retriever.rank("invoice", Some(&[1.0, 0.0]));
        let first: Vec<usize> = ranked.iter().take(2).map(|ranked| ranked.index).collect();
        assert!(first.contains(&best) && first.contains(&last), "{first:?}");
    }

    #[test]
    fn vectors_of_another_number_are_not_used() {
        let retriever = Retriever::new(&source()).with_vectors(vec![vec![1.0]]);
        assert!(!retriever.has_vectors());
    }

    #[test]
    fn a_question_without_a_known_word_gets_passages_from_everywhere() {
        let source = Source::from_text(&"This is a sentence of eight words here. ".repeat(200));
        let ranked = Retriever::new(&source).rank("zebra", None);
        let count = ranked.len();
        let mut all: Vec<usize> = ranked.iter().map(|ranked| ranked.index).collect();
        assert_eq!(all[..2], [0, count - 1]);
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>());
        assert!(spread(0).is_empty());
        assert_eq!(spread(1).len(), 1);
    }
}
