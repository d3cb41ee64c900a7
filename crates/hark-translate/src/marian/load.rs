//! Weights of a model file to layers, every shape checked.

use std::path::Path;

use hark_compute::Compute;
use hark_weights::marian::MarianModel;
use hark_weights::{Dtype, FileError, Quantization, Tensor, WeightsFile};

use super::linear::{AddNorm, LayerNorm, Linear};
use super::transformer::{CrossAttention, EncoderLayer, FeedForward, Transformer};
use super::{Config, DecoderLayer, Embeddings, Marian};
use crate::TranslateError;

/// As Marian has it.
const NORM_EPSILON: f32 = 1e-6;
/// Most words of a vocabulary.
const MAX_WORDS: usize = 1 << 20;

pub(super) fn load(compute: &Compute, path: &Path) -> Result<Marian, TranslateError> {
    let file = WeightsFile::open(path)?;
    let model = MarianModel::read(&file)?;
    let config = Config::parse(&model.config).map_err(|what| file.unsupported(what))?;
    let loader = Loader { compute, file: &file, model: &model, config: &config };
    let (source, target) = match model.tensors.contains("Wemb") {
        true => ("Wemb", "Wemb"),
        false => ("encoder_Wemb", "decoder_Wemb"),
    };
    let (source_embeddings, target_embeddings) = (loader.embeddings(source)?, loader.embeddings(target)?);
    let encoder = (1..=config.encoder_layers).map(|layer| loader.encoder_layer(layer)).collect::<Result<_, _>>()?;
    let decoder = (1..=config.decoder_layers).map(|layer| loader.decoder_layer(layer)).collect::<Result<_, _>>()?;
    let output = loader.output(&target_embeddings.table)?;
    let transformer = Transformer { compute: compute.clone(), config };
    Ok(Marian { transformer, source_embeddings, target_embeddings, encoder, decoder, output })
}

struct Loader<'a> {
    compute: &'a Compute,
    file: &'a WeightsFile,
    model: &'a MarianModel,
    config: &'a Config,
}

impl Loader<'_> {
    fn encoder_layer(&self, layer: usize) -> Result<EncoderLayer, TranslateError> {
        let name = |part: &str| format!("encoder_l{layer}_{part}");
        Ok(EncoderLayer {
            qkv: [
                self.square(&name("self_Wq"), Some(&name("self_bq")))?,
                self.square(&name("self_Wk"), Some(&name("self_bk")))?,
                self.square(&name("self_Wv"), Some(&name("self_bv")))?,
            ],
            attention_output: self.attention_output(&name("self"))?,
            feed_forward: self.feed_forward(&name("ffn"))?,
        })
    }

    fn decoder_layer(&self, layer: usize) -> Result<DecoderLayer, TranslateError> {
        let name = |part: &str| format!("decoder_l{layer}_{part}");
        Ok(DecoderLayer {
            recurrent: [self.square(&name("rnn_Wf"), Some(&name("rnn_bf")))?, self.square(&name("rnn_W"), None)?],
            recurrent_norm: self.norm(&name("rnn_ffn"))?,
            cross_attention: CrossAttention {
                query: self.square(&name("context_Wq"), Some(&name("context_bq")))?,
                key_value: [
                    self.square(&name("context_Wk"), Some(&name("context_bk")))?,
                    self.square(&name("context_Wv"), Some(&name("context_bv")))?,
                ],
                output: self.attention_output(&name("context"))?,
            },
            feed_forward: self.feed_forward(&name("ffn"))?,
        })
    }

    fn attention_output(&self, name: &str) -> Result<AddNorm, TranslateError> {
        let linear = self.square(&format!("{name}_Wo"), Some(&format!("{name}_bo")))?;
        Ok(AddNorm { linear, norm: self.norm(&format!("{name}_Wo"))? })
    }

    fn feed_forward(&self, name: &str) -> Result<FeedForward, TranslateError> {
        let (width, inner) = (self.config.width, self.config.inner);
        let linear = self.linear(&format!("{name}_W2"), Some(&format!("{name}_b2")), width, inner)?;
        Ok(FeedForward {
            inner: self.linear(&format!("{name}_W1"), Some(&format!("{name}_b1")), inner, width)?,
            outer: AddNorm { linear, norm: self.norm(&format!("{name}_ffn"))? },
        })
    }

    fn norm(&self, name: &str) -> Result<LayerNorm, TranslateError> {
        let width = self.config.width;
        let gain = self.vector(&format!("{name}_ln_scale"), width)?;
        Ok(LayerNorm { gain, shift: self.vector(&format!("{name}_ln_bias"), width)?, epsilon: NORM_EPSILON })
    }

    fn square(&self, name: &str, bias: Option<&str>) -> Result<Linear, TranslateError> {
        self.linear(name, bias, self.config.width, self.config.width)
    }

    fn linear(&self, name: &str, bias: Option<&str>, outputs: usize, inputs: usize) -> Result<Linear, TranslateError> {
        let matrix = self.matrix(name)?;
        if matrix.shape() != [outputs, inputs] {
            return Err(self.wrong_shape(name, &matrix).into());
        }
        let bias = match bias {
            Some(name) => self.vector(name, outputs)?,
            None => vec![0.0; outputs],
        };
        Linear::pack(self.compute, &matrix, 0..outputs, bias).ok_or(TranslateError::OutOfMemory)
    }

    /// A matrix of a type that can be packed.
    fn matrix(&self, name: &str) -> Result<Tensor, FileError> {
        let matrix = self.model.tensors.get(name)?;
        match (matrix.dtype(), matrix.quantization()) {
            (Dtype::I8, Quantization::PerTensor { .. }) => Ok(matrix.clone()),
            (Dtype::F32, Quantization::None) => {
                matrix.to_finite_f32()?;
                Ok(matrix.clone())
            }
            (dtype, _) => Err(self.file.unsupported(format!("{name} has type {dtype:?}"))),
        }
    }

    fn embeddings(&self, name: &str) -> Result<Embeddings, FileError> {
        let table = self.matrix(name)?;
        match table.shape() {
            [words, width] if *width == self.config.width && (2..=MAX_WORDS).contains(words) => {
                Ok(Embeddings { table })
            }
            _ => Err(self.wrong_shape(name, &table)),
        }
    }

    /// The projection to the words of the target, which shares the weights of their embeddings.
    fn output(&self, table: &Tensor) -> Result<Vec<Linear>, TranslateError> {
        let bias = self.vector("decoder_ff_logit_out_b", table.rows())?;
        Linear::stretches(self.compute, table, &bias).ok_or(TranslateError::OutOfMemory)
    }

    /// A vector, stored as a row.
    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, FileError> {
        self.model.tensors.floats(name, &[1, length])
    }

    fn wrong_shape(&self, name: &str, tensor: &Tensor) -> FileError {
        self.file.damaged(format!("{name} has the shape {:?}", tensor.shape()))
    }
}
