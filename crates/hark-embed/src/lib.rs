//! Text embeddings: sentences to vectors whose cosine says how alike their meanings are.
//!
//! In: a folder with `config.json`, `tokenizer.json` and `model.safetensors` of a BERT encoder as sentence-transformers publishes them (mean
//! pooling, normalized), and texts. Out: unit vectors, in the order of the texts, with the number of tokens of each. None of its business: how texts
//! are cut, stored or searched.

mod config;
mod encoder;
mod error;
mod tokenizer;

pub use encoder::{Embedder, Embedding};
pub use error::EmbedError;
pub use tokenizer::Tokenizer;
