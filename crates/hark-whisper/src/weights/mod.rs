//! One in-memory view of a Whisper checkpoint, whatever file it came from.
//!
//! In come CTranslate2, Hugging Face safetensors, ggml or quantized ONNX files, read by `hark-weights`; out go
//! tensors in `f32` under OpenAI's names and shapes, the vocabulary and the facts of generation. How the
//! tensors are packed for a kernel, and where files are downloaded from, is none of its business.
//!
//! Files may be hostile: the sizes of the network are bounded before anything is made of them.

mod alignment;
mod ct2;
mod error;
mod folder;
mod names;
mod onnx;
mod source;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hark_weights::FileError;

pub use crate::tokenizer::Vocabulary;
pub use error::WeightsError;
pub use names::canonical_tensors;
use source::Source;

/// The sizes of a Whisper network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// Mel channels: 80, or 128 since large-v3.
    pub n_mels: usize,
    /// Encoder positions of a 30 s window: 1500.
    pub n_audio_ctx: usize,
    /// Width of the encoder.
    pub n_audio_state: usize,
    /// Attention heads of an encoder layer.
    pub n_audio_head: usize,
    /// Encoder layers.
    pub n_audio_layer: usize,
    /// Most tokens the decoder can hold: 448.
    pub n_text_ctx: usize,
    /// Width of the decoder.
    pub n_text_state: usize,
    /// Attention heads of a decoder layer.
    pub n_text_head: usize,
    /// Decoder layers.
    pub n_text_layer: usize,
    /// Tokens, text and special.
    pub n_vocab: usize,
}

/// The kind of file a checkpoint came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// CTranslate2 `model.bin`.
    CTranslate2,
    /// Hugging Face safetensors, single or sharded.
    Safetensors,
    /// whisper.cpp's ggml `.bin`.
    Ggml,
    /// ONNX graphs as transformers.js uses them.
    Onnx,
    /// Made in memory, for tests and benchmarks.
    Generated,
}

type Generator = Box<dyn Fn(&str, &[usize]) -> Vec<f32> + Send + Sync>;

/// A Whisper checkpoint: its sizes, its vocabulary and its tensors.
pub struct Checkpoint {
    /// The sizes of the network.
    pub dims: Dims,
    /// The file format it was read from.
    pub format: Format,
    /// Cross-attention heads `(layer, head)` that follow the audio in time.
    pub alignment_heads: Vec<(usize, usize)>,
    /// What the tokenizer is built from.
    pub vocabulary: Vocabulary,
    /// Tokens the checkpoint's files say never to sample, where they say so.
    pub suppress_tokens: Option<Vec<u32>>,
    /// Tokens the checkpoint's files say never to sample first, where they say so.
    pub begin_suppress_tokens: Option<Vec<u32>>,
    tensors: HashMap<String, Source>,
    /// The weights file, the first of several, for errors.
    file: PathBuf,
    generator: Option<Generator>,
}

/// What a format's reader found, before it is checked against the shape of a Whisper network.
struct Found {
    format: Format,
    file: PathBuf,
    tensors: HashMap<String, Source>,
    audio_heads: Option<usize>,
    text_heads: Option<usize>,
    vocabulary: Option<Vec<Vec<u8>>>,
    facts: folder::Facts,
}

impl Checkpoint {
    /// Opens the checkpoint in a folder, or a single weights file with its companions beside it.
    pub fn open(folder_or_file: &Path) -> Result<Self, WeightsError> {
        let found = folder::find(folder_or_file)?;
        Self::check(found, folder_or_file)
    }

    /// Makes a checkpoint whose tensors come from `generator(name, shape)` each time they are asked for.
    pub fn generated(
        dims: Dims,
        vocabulary: Vocabulary,
        generator: impl Fn(&str, &[usize]) -> Vec<f32> + Send + Sync + 'static,
    ) -> Self {
        let tensors =
            canonical_tensors(&dims).into_iter().map(|(name, shape)| (name, Source::Generated { shape })).collect();
        Self {
            dims,
            format: Format::Generated,
            alignment_heads: alignment::heads(&dims),
            vocabulary,
            suppress_tokens: None,
            begin_suppress_tokens: None,
            tensors,
            file: "the model".into(),
            generator: Some(Box::new(generator)),
        }
    }

    /// Whether this checkpoint has the tensor of that OpenAI name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, WeightsError> {
        Ok(self.find(name)?.shape().to_vec())
    }

    /// A whole tensor, dequantized, row-major.
    pub fn tensor(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let tensor = self.find(name)?;
        let values = match &self.generator {
            Some(generator) => generator(name, tensor.shape()),
            None => {
                let mut values = vec![0.0; tensor.shape().iter().product()];
                tensor.read(0..tensor.shape()[0], &mut values);
                values
            }
        };
        // Quantized to int8, a NaN would become a number; counted without a branch, so that the loop vectorizes.
        let not_finite = values.iter().fold(0u32, |count, value| count + u32::from(!value.is_finite()));
        if not_finite > 0 {
            return Err(WeightsError::damaged(&self.file, format!("{name} has numbers that are not finite")));
        }
        Ok(values)
    }

    /// Some rows (along the first dimension) of a tensor, dequantized into `out`.
    ///
    /// # Panics
    /// When the rows are not in the tensor or `out` has another length than they need.
    pub fn rows(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let tensor = self.find(name)?;
        let columns = tensor.columns();
        assert!(rows.start <= rows.end && rows.end <= tensor.shape()[0], "rows outside {name}");
        assert_eq!(out.len(), rows.len() * columns, "length of rows of {name}");
        match &self.generator {
            Some(generator) => {
                let all = generator(name, tensor.shape());
                out.copy_from_slice(&all[rows.start * columns..rows.end * columns]);
            }
            None => tensor.read(rows, out),
        }
        Ok(())
    }

    /// The error that this checkpoint is sound, but not of a kind that can be run.
    pub(crate) fn unsupported(&self, what: impl Into<String>) -> WeightsError {
        FileError::unsupported(&self.file, what).into()
    }

    fn find(&self, name: &str) -> Result<&Source, WeightsError> {
        self.tensors
            .get(name)
            .ok_or_else(|| WeightsError::MissingTensor { path: self.file.clone(), name: name.to_owned() })
    }

    /// Checks that every tensor of the network is there in its shape, and fills in the published facts.
    fn check(mut found: Found, path: &Path) -> Result<Self, WeightsError> {
        names::add_missing_positions(&mut found.tensors);
        let dims = names::measure(&found.tensors, found.audio_heads, found.text_heads)
            .map_err(|what| WeightsError::damaged(path, what))?;

        let mut tensors = HashMap::new();
        for (name, shape) in canonical_tensors(&dims) {
            let Some(tensor) = found.tensors.remove(&name) else {
                return Err(WeightsError::MissingTensor { path: path.to_owned(), name });
            };
            tensors.insert(name, tensor.reshaped(&shape)?);
        }

        let vocabulary = match found.vocabulary {
            Some(tokens) => Vocabulary::from_tokens(dims.n_vocab, tokens),
            None => {
                let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
                Vocabulary::open(folder, dims.n_vocab)
            }
        }?;
        let in_vocabulary =
            |ids: Vec<u32>| -> Vec<u32> { ids.into_iter().filter(|id| (*id as usize) < dims.n_vocab).collect() };
        let heads: Vec<_> = found
            .facts
            .alignment_heads
            .unwrap_or_default()
            .into_iter()
            .filter(|(layer, head)| *layer < dims.n_text_layer && *head < dims.n_text_head)
            .collect();
        tracing::debug!(?path, ?found.format, ?dims, "model.opened");
        Ok(Self {
            dims,
            format: found.format,
            alignment_heads: if heads.is_empty() { alignment::heads(&dims) } else { heads },
            vocabulary,
            suppress_tokens: found.facts.suppress_tokens.map(in_vocabulary),
            begin_suppress_tokens: found.facts.begin_suppress_tokens.map(in_vocabulary),
            tensors,
            file: found.file,
            generator: None,
        })
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("format", &self.format).field("dims", &self.dims).finish_non_exhaustive()
    }
}
