//! The weights of a checkpoint on the device.

use std::str::FromStr;

use hark_whisper::backend::{BackendError, TokenMap};
use hark_whisper::weights::{Checkpoint, WeightsError};

use crate::device::{Device, DeviceTokens, LinearWeights, NormWeights, as_bytes, bytes_of_bf16, to_fp8};

/// Rows of a weight whose number of outputs is a multiple of this let products use their widest stores.
const OUTPUT_ALIGNMENT: usize = 8;

/// Why weights did not reach the device.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// They could not be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BackendError),
}

/// Which numbers are rounded to e4m3 where the device can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// None: weights, keys and values are bf16.
    Bf16,
    /// Keys and values of windows.
    #[default]
    Fp8Windows,
    /// Also the products of the encoder, but for those of attention.
    Fp8,
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bf16" => Ok(Precision::Bf16),
            "fp8-windows" => Ok(Precision::Fp8Windows),
            "fp8" => Ok(Precision::Fp8),
            _ => Err(format!("{text} is no precision: give bf16, fp8-windows or fp8")),
        }
    }
}

/// The format of a layer's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Bf16,
    Fp8,
}

/// What every layer has.
pub struct Mlp<B> {
    pub norm: NormWeights<B>,
    pub up: LinearWeights<B>,
    pub down: LinearWeights<B>,
}

/// Self-attention of a layer.
pub struct SelfAttention<B> {
    pub norm: NormWeights<B>,
    pub query_key_value: LinearWeights<B>,
    pub out: LinearWeights<B>,
}

/// Cross-attention of a layer.
pub struct CrossAttention<B> {
    pub norm: NormWeights<B>,
    pub query: LinearWeights<B>,
    pub key_value: LinearWeights<B>,
    pub out: LinearWeights<B>,
}

pub struct EncoderLayer<B> {
    pub attention: SelfAttention<B>,
    pub mlp: Mlp<B>,
}

pub struct DecoderLayer<B> {
    pub attention: SelfAttention<B>,
    pub cross: CrossAttention<B>,
    pub mlp: Mlp<B>,
}

/// All weights.
pub struct NetworkWeights<B> {
    pub convolutions: [LinearWeights<B>; 2],
    /// f32 `[frames][width]`.
    pub encoder_positions: B,
    pub encoder: Vec<EncoderLayer<B>>,
    pub encoder_norm: NormWeights<B>,
    /// bf16 `[tokens][width]`: embeds tokens, and makes logits.
    pub embedding: LinearWeights<B>,
    /// f32 `[positions][width]`.
    pub decoder_positions: B,
    pub decoder: Vec<DecoderLayer<B>>,
    pub decoder_norm: NormWeights<B>,
    pub tokens: DeviceTokens<B>,
    /// Bytes of all of it.
    pub bytes: u64,
}

/// Reads tensors and puts them on the device.
struct Loader<'a, D: Device> {
    device: &'a D,
    checkpoint: &'a Checkpoint,
    bytes: u64,
}

impl<D: Device> Loader<'_, D> {
    fn put(&mut self, bytes: &[u8]) -> Result<D::Buffer, LoadError> {
        let buffer = self.device.allocate(bytes.len().max(1))?;
        self.device.upload(bytes, &buffer)?;
        self.bytes += bytes.len() as u64;
        Ok(buffer)
    }

    fn floats(&mut self, name: &str) -> Result<D::Buffer, LoadError> {
        let numbers = self.checkpoint.tensor(name)?;
        self.put(as_bytes(&numbers))
    }

    fn norm(&mut self, name: &str) -> Result<NormWeights<D::Buffer>, LoadError> {
        Ok(NormWeights { gain: self.floats(&format!("{name}.weight"))?, bias: self.floats(&format!("{name}.bias"))? })
    }

    fn layer(
        &mut self,
        mut weights: Vec<f32>,
        mut bias: Option<Vec<f32>>,
        inputs: usize,
        format: Format,
    ) -> Result<LinearWeights<D::Buffer>, LoadError> {
        let outputs = (weights.len() / inputs).next_multiple_of(OUTPUT_ALIGNMENT);
        weights.resize(outputs * inputs, 0.0);
        let (weight, scales) = match format {
            Format::Bf16 => (self.put(&bytes_of_bf16(&weights))?, None),
            Format::Fp8 => {
                let (numbers, scales) = to_fp8(&weights, inputs);
                (self.put(&numbers)?, Some(self.put(as_bytes(&scales))?))
            }
        };
        if let Some(bias) = &mut bias {
            bias.resize(outputs, 0.0);
        }
        let bias_f32 = bias.as_ref().map(|bias| self.put(as_bytes(bias))).transpose()?;
        let bias_bf16 = bias.as_ref().map(|bias| self.put(&bytes_of_bf16(bias))).transpose()?;
        Ok(LinearWeights { weight, scales, bias_f32, bias_bf16, outputs, inputs })
    }

    /// Several layers with the same input as one, their outputs side by side.
    fn stacked(&mut self, names: &[String], format: Format) -> Result<LinearWeights<D::Buffer>, LoadError> {
        let (mut weights, mut bias, mut inputs) = (Vec::new(), Vec::new(), 0);
        for name in names {
            let shape = self.checkpoint.shape(&format!("{name}.weight"))?;
            inputs = shape[1];
            weights.extend(self.checkpoint.tensor(&format!("{name}.weight"))?);
            let bias_name = format!("{name}.bias");
            match self.checkpoint.has(&bias_name) {
                true => bias.extend(self.checkpoint.tensor(&bias_name)?),
                false => bias.resize(bias.len() + shape[0], 0.0),
            }
        }
        self.layer(weights, Some(bias), inputs, format)
    }

    fn linear(&mut self, name: String, format: Format) -> Result<LinearWeights<D::Buffer>, LoadError> {
        self.stacked(&[name], format)
    }

    /// A convolution of width 3 as a linear layer over three neighbouring frames.
    fn convolution(&mut self, name: &str) -> Result<LinearWeights<D::Buffer>, LoadError> {
        let shape = self.checkpoint.shape(&format!("{name}.weight"))?;
        let (outputs, channels) = (shape[0], shape[1]);
        let weights = self.checkpoint.tensor(&format!("{name}.weight"))?;
        let mut unrolled = vec![0f32; weights.len()];
        for output in 0..outputs {
            for channel in 0..channels {
                for tap in 0..3 {
                    unrolled[(output * 3 + tap) * channels + channel] =
                        weights[(output * channels + channel) * 3 + tap];
                }
            }
        }
        let bias = self.checkpoint.tensor(&format!("{name}.bias"))?;
        self.layer(unrolled, Some(bias), 3 * channels, Format::Bf16)
    }

    fn self_attention(&mut self, block: &str, format: Format) -> Result<SelfAttention<D::Buffer>, LoadError> {
        let of = |part: &str| format!("{block}.attn.{part}");
        Ok(SelfAttention {
            norm: self.norm(&format!("{block}.attn_ln"))?,
            query_key_value: self.stacked(&["query", "key", "value"].map(of), format)?,
            out: self.linear(of("out"), Format::Bf16)?,
        })
    }

    fn cross_attention(&mut self, block: &str) -> Result<CrossAttention<D::Buffer>, LoadError> {
        let of = |part: &str| format!("{block}.cross_attn.{part}");
        Ok(CrossAttention {
            norm: self.norm(&format!("{block}.cross_attn_ln"))?,
            query: self.linear(of("query"), Format::Bf16)?,
            key_value: self.stacked(&["key", "value"].map(of), Format::Bf16)?,
            out: self.linear(of("out"), Format::Bf16)?,
        })
    }

    fn mlp(&mut self, block: &str, format: Format) -> Result<Mlp<D::Buffer>, LoadError> {
        Ok(Mlp {
            norm: self.norm(&format!("{block}.mlp_ln"))?,
            up: self.linear(format!("{block}.mlp.0"), format)?,
            down: self.linear(format!("{block}.mlp.2"), format)?,
        })
    }

    fn tokens(&mut self, map: TokenMap) -> Result<DeviceTokens<D::Buffer>, LoadError> {
        let vocabulary = self.checkpoint.dims.n_vocab;
        let mut marks = vec![0u8; vocabulary];
        for (list, bit) in [(&map.suppress_tokens, 1), (&map.begin_suppress_tokens, 2)] {
            for &token in list.iter().filter(|token| (**token as usize) < vocabulary) {
                marks[token as usize] |= bit;
            }
        }
        let marks = self.put(&marks)?;
        let languages = self.put(as_bytes(&map.languages))?;
        Ok(DeviceTokens { marks, languages, map, vocabulary })
    }
}

/// Reads all weights and puts them on the device.
pub fn load<D: Device>(
    device: &D,
    checkpoint: &Checkpoint,
    map: TokenMap,
    precision: Precision,
) -> Result<NetworkWeights<D::Buffer>, LoadError> {
    let format = if precision == Precision::Fp8 { Format::Fp8 } else { Format::Bf16 };
    let dims = checkpoint.dims;
    let mut loader = Loader { device, checkpoint, bytes: 0 };
    let convolutions = [loader.convolution("encoder.conv1")?, loader.convolution("encoder.conv2")?];
    let encoder_positions = loader.floats("encoder.positional_embedding")?;
    let mut encoder = Vec::with_capacity(dims.n_audio_layer);
    for index in 0..dims.n_audio_layer {
        let block = format!("encoder.blocks.{index}");
        let (attention, mlp) = (loader.self_attention(&block, format)?, loader.mlp(&block, format)?);
        encoder.push(EncoderLayer { attention, mlp });
    }
    let encoder_norm = loader.norm("encoder.ln_post")?;
    let embedding = checkpoint.tensor("decoder.token_embedding.weight")?;
    let embedding = loader.layer(embedding, None, dims.n_text_state, Format::Bf16)?;
    let decoder_positions = loader.floats("decoder.positional_embedding")?;
    let mut decoder = Vec::with_capacity(dims.n_text_layer);
    for index in 0..dims.n_text_layer {
        let block = format!("decoder.blocks.{index}");
        decoder.push(DecoderLayer {
            attention: loader.self_attention(&block, Format::Bf16)?,
            cross: loader.cross_attention(&block)?,
            mlp: loader.mlp(&block, Format::Bf16)?,
        });
    }
    let decoder_norm = loader.norm("decoder.ln")?;
    let tokens = loader.tokens(map)?;
    let bytes = loader.bytes;
    Ok(NetworkWeights {
        convolutions,
        encoder_positions,
        encoder,
        encoder_norm,
        embedding,
        decoder_positions,
        decoder,
        decoder_norm,
        tokens,
        bytes,
    })
}
