//! Retrieval: which passages of a source say something about a question.
//!
//! A source is cut into [`passages`]; they are ranked by their words ([`Bm25Index`]) and, where there are embeddings, by their
//! meaning ([`rank_by_cosine`]). Both rankings are fused by reciprocal rank ([`fuse`]), and passages that follow each other
//! are joined ([`join_neighbours`]). [`Retriever`] does all of it for one source.

mod bm25;
mod passage;
mod rank;
mod retriever;
mod terms;

pub use bm25::{Bm25Index, term_score, term_weight};
pub use passage::{Passage, passages};
pub use rank::{Ranked, fuse, join_neighbours, rank_by_cosine};
pub use retriever::Retriever;
pub use terms::{query_terms, terms};
