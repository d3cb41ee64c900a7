//! The network over one block of frames of one channel: features in, band gains and filter taps out.

use std::path::Path;

use hark_compute::Compute;
use hark_compute::buffer::Buffer;
use hark_compute::vector::{LINE, PackedF32, Vectors};
use hark_weights::FileError;
use hark_weights::onnx::OnnxModel;
use realfft::num_complex::Complex32;

use crate::archive::Graphs;
use crate::layers::{CHANNELS, GroupedLinear, Gru, GruSpace, MAP, Separable, Skip, Spacing, UNITS, constant};
use crate::spectrum::{BANDS, DF_BINS};
use crate::{BLOCK, EnhanceError};

/// Taps of the deep filter, over as many frames.
pub(crate) const ORDER: usize = 5;
/// Numbers of a bin's taps: real and imaginary parts.
const TAPS: usize = 2 * ORDER;
/// Width of the embedding: 8 positions of 64 channels.
const EMBEDDING: usize = 8 * CHANNELS;
/// Frames that the first convolutions see, the current one last.
const HISTORY: usize = 3;
/// Real and imaginary part.
const PARTS: usize = 2;
/// Rows of the filter pathway's product: five outputs of each of five frames, to whole panels.
const PATHWAY_ROWS: usize = 32;

/// The first convolution over the normalized bins, whose depthwise and 1×1 part are multiplied into one: 18 inputs a position.
const DF_INPUTS: usize = 3 * PARTS * HISTORY;
const ERB_INPUTS: usize = 3 * HISTORY;

/// The weights, packed for the kernels.
pub(crate) struct Network {
    encoder: Encoder,
    erb: ErbDecoder,
    df: DfDecoder,
}

struct Encoder {
    erb_first: PackedF32,
    erb_first_bias: Vec<f32>,
    erb: [Separable; 3],
    df_first: PackedF32,
    df_first_bias: Vec<f32>,
    df_second: Separable,
    df_linear: GroupedLinear,
    linear_in: GroupedLinear,
    gru: Gru,
    linear_out: GroupedLinear,
}

struct ErbDecoder {
    linear_in: GroupedLinear,
    grus: [Gru; 2],
    linear_out: GroupedLinear,
    /// Of the feature maps of 8, 8, 16 and 32 positions.
    skips: [Skip; 4],
    convolutions: [Separable; 3],
    /// One row for each of three taps.
    last: PackedF32,
    last_bias: f32,
}

struct DfDecoder {
    linear_in: GroupedLinear,
    grus: [Gru; 2],
    skip: GroupedLinear,
    out: GroupedLinear,
    /// The pathway from the first convolution: two groups of 32 channels, row `frame * 5 + output`.
    pathway: [PackedF32; 2],
    mix: PackedF32,
    mix_bias: Vec<f32>,
}

impl Network {
    /// Reads the model in `folder`.
    pub(crate) fn load(folder: &Path) -> Result<Self, EnhanceError> {
        let graphs = Graphs::load(folder)?;
        let read = || -> Result<Self, FileError> {
            Ok(Network {
                encoder: Encoder::read(&graphs.encoder)?,
                erb: ErbDecoder::read(&graphs.erb_decoder)?,
                df: DfDecoder::read(&graphs.df_decoder)?,
            })
        };
        read().map_err(|error| EnhanceError::of_graph(&error, &graphs.path))
    }

    /// Runs the network over the first `frames` features that were put into the state. The results are in its
    /// [`State::gains`] and [`State::taps`].
    pub(crate) fn run(&self, compute: &Compute, vectors: &Vectors, frames: usize, state: &mut State) {
        self.encoder.run(compute, vectors, frames, &mut state.encoder);
        let encoder = &state.encoder;
        let mut decoders = [Decoder::Erb(&mut state.erb), Decoder::Df(&mut state.df)];
        compute.parallel_chunks(&mut decoders, 1, |_, decoder, _| match &mut decoder[0] {
            Decoder::Erb(state) => self.erb.run(vectors, encoder, frames, state),
            Decoder::Df(state) => self.df.run(vectors, encoder, frames, state),
        });
        state.encoder.keep_history(frames);
    }
}

enum Decoder<'a> {
    Erb(&'a mut ErbState),
    Df(&'a mut DfState),
}

/// What the network remembers of one channel, and its workspace.
pub(crate) struct State {
    encoder: EncoderState,
    erb: ErbState,
    df: DfState,
}

/// Feature maps of the encoder and its hidden state.
struct EncoderState {
    /// `[BANDS + 2][HISTORY][BLOCK]`: each feature at its frame and the two after it; a zero position at both ends.
    erb_features: Buffer<f32>,
    /// `[DF_BINS + 2][PARTS][HISTORY][BLOCK]`.
    df_features: Buffer<f32>,
    /// Feature maps of 32, 16, 8 and 8 positions.
    erb: [Buffer<f32>; 4],
    df_first: Buffer<f32>,
    df_second: Buffer<f32>,
    combined: Buffer<f32>,
    narrow: Buffer<f32>,
    recurrent: Buffer<f32>,
    embedding: Buffer<f32>,
    hidden: [f32; UNITS],
    gru: GruSpace,
}

struct ErbState {
    narrow: [Buffer<f32>; 2],
    /// Feature maps of 8, 8, 16 and 32 positions.
    maps: [Buffer<f32>; 4],
    taps: Buffer<f32>,
    gains: Buffer<f32>,
    hidden: [[f32; UNITS]; 2],
    gru: GruSpace,
}

struct DfState {
    narrow: [Buffer<f32>; 2],
    skip: Buffer<f32>,
    taps: Buffer<f32>,
    /// `[DF_BINS][2][PATHWAY_ROWS]` of the last four frames.
    history: Vec<[f32; ORDER - 1]>,
    hidden: [[f32; UNITS]; 2],
    gru: GruSpace,
}

impl State {
    pub(crate) fn new(network: &Network) -> Self {
        let rows = |count: usize| Buffer::zeroed(count * BLOCK);
        let maps = |positions: usize| rows(positions * CHANNELS);
        State {
            encoder: EncoderState {
                erb_features: rows((BANDS + 2) * HISTORY),
                df_features: rows((DF_BINS + 2) * PARTS * HISTORY),
                erb: [maps(32), maps(16), maps(8), maps(8)],
                df_first: maps(96),
                df_second: maps(48),
                combined: rows(EMBEDDING),
                narrow: rows(UNITS),
                recurrent: rows(UNITS),
                embedding: rows(EMBEDDING),
                hidden: [0.0; UNITS],
                gru: GruSpace::new(),
            },
            erb: ErbState {
                narrow: [rows(UNITS), rows(UNITS)],
                maps: [maps(8), maps(8), maps(16), maps(32)],
                taps: rows(BANDS * LINE),
                gains: rows(BANDS),
                hidden: [[0.0; UNITS]; 2],
                gru: GruSpace::new(),
            },
            df: DfState {
                narrow: [rows(UNITS), rows(UNITS)],
                skip: rows(UNITS),
                taps: Buffer::zeroed(network.df.out.output_len()),
                history: vec![[0.0; ORDER - 1]; DF_BINS * 2 * PATHWAY_ROWS],
                hidden: [[0.0; UNITS]; 2],
                gru: GruSpace::new(),
            },
        }
    }

    /// Puts in the features of one frame.
    pub(crate) fn set_features(&mut self, frame: usize, erb: &[f32; BANDS], complex: &[Complex32; DF_BINS]) {
        let state = &mut self.encoder;
        for back in 0..HISTORY.min(BLOCK - frame) {
            // A later frame finds this one in the row of an earlier tap.
            let tap = HISTORY - 1 - back;
            for (band, feature) in erb.iter().enumerate() {
                state.erb_features[((band + 1) * HISTORY + tap) * BLOCK + frame + back] = *feature;
            }
            for (bin, feature) in complex.iter().enumerate() {
                let row = (bin + 1) * PARTS * HISTORY + tap;
                state.df_features[row * BLOCK + frame + back] = feature.re;
                state.df_features[(row + HISTORY) * BLOCK + frame + back] = feature.im;
            }
        }
    }

    /// The gain of each band at a frame.
    pub(crate) fn gains(&self, frame: usize) -> impl Iterator<Item = f32> + '_ {
        self.erb.gains.iter().skip(frame).step_by(BLOCK).copied()
    }

    /// The filter taps of a bin at a frame, the oldest frame's first.
    pub(crate) fn taps(&self, frame: usize, bin: usize) -> [Complex32; ORDER] {
        std::array::from_fn(|tap| {
            let at = (bin * TAPS + 2 * tap) * BLOCK + frame;
            Complex32::new(self.df.taps[at], self.df.taps[at + BLOCK])
        })
    }
}

impl EncoderState {
    /// Puts the features of the last two of `frames` frames before the next block.
    fn keep_history(&mut self, frames: usize) {
        if frames < BLOCK {
            // Only the last block is short.
            return;
        }
        for features in [&mut self.erb_features, &mut self.df_features] {
            for rows in features.chunks_mut(HISTORY * BLOCK) {
                // The newest tap's row has every frame at its own place.
                let (before_last, last) = (rows[HISTORY * BLOCK - 2], rows[HISTORY * BLOCK - 1]);
                (rows[0], rows[1], rows[BLOCK]) = (before_last, last, last);
            }
        }
    }
}

impl Encoder {
    fn read(model: &OnnxModel) -> Result<Self, FileError> {
        let first = constant(model, "/erb_conv0/1/Conv", 1, &[CHANNELS, 1, HISTORY, 3])?;
        let depthwise = constant(model, "/df_conv0/1/Conv", 1, &[CHANNELS, 1, HISTORY, 3])?;
        let pointwise = constant(model, "/df_conv0/2/Conv", 1, &[CHANNELS, CHANNELS, 1, 1])?;
        // Input `k` of a position is (neighbour, part, frame); a part is the input of half the channels.
        let df_weight = |row: usize, k: usize| {
            let (neighbour, part, frame) = (k / (PARTS * HISTORY), k / HISTORY % PARTS, k % HISTORY);
            let channels = part * CHANNELS / PARTS..(part + 1) * CHANNELS / PARTS;
            let product = |channel: usize| {
                let tap = depthwise[(channel * HISTORY + frame) * 3 + neighbour];
                f64::from(pointwise[row * CHANNELS + channel]) * f64::from(tap)
            };
            channels.map(product).sum::<f64>() as f32
        };
        let erb_weight = |row: usize, k: usize| first[(row * HISTORY + k % HISTORY) * 3 + k / HISTORY];
        Ok(Encoder {
            erb_first: PackedF32::pack(CHANNELS, ERB_INPUTS, LINE, erb_weight),
            erb_first_bias: constant(model, "/erb_conv0/1/Conv", 2, &[CHANNELS])?,
            erb: [
                Separable::read(model, ["/erb_conv1/0/Conv", "/erb_conv1/1/Conv"], Spacing::Down)?,
                Separable::read(model, ["/erb_conv2/Conv", "/erb_conv2/Conv_1"], Spacing::Down)?,
                Separable::read(model, ["/erb_conv3/0/Conv", "/erb_conv3/1/Conv"], Spacing::Same)?,
            ],
            df_first: PackedF32::pack(CHANNELS, DF_INPUTS, LINE, df_weight),
            df_first_bias: constant(model, "/df_conv0/2/Conv", 2, &[CHANNELS])?,
            df_second: Separable::read(model, ["/df_conv1/Conv", "/df_conv1/Conv_1"], Spacing::Down)?,
            df_linear: GroupedLinear::read(model, "df_fc_emb.0.weight", [32, 96, 16], true)?,
            linear_in: GroupedLinear::read(model, "emb_gru.linear_in.0.weight", [16, 32, 16], true)?,
            gru: Gru::read(model, "/emb_gru/GRU")?,
            linear_out: GroupedLinear::read(model, "emb_gru.linear_out.0.weight", [16, 16, 32], true)?,
        })
    }

    fn run(&self, compute: &Compute, vectors: &Vectors, frames: usize, state: &mut EncoderState) {
        let EncoderState { erb_features, df_features, erb, df_first, df_second, .. } = state;
        compute.parallel_chunks(df_first, MAP, |position, out, _| {
            let (left, input) =
                (self.df_first.columns(0, DF_INPUTS), &df_features[position * PARTS * HISTORY * BLOCK..]);
            vectors.gemm(left, input, BLOCK, BLOCK, Some(&self.df_first_bias), out);
        });
        compute.parallel_chunks(df_second, MAP, |position, out, _| {
            self.df_second.apply(vectors, df_first, position, out);
        });
        compute.parallel_chunks(&mut erb[0], MAP, |position, out, _| {
            let (left, input) = (self.erb_first.columns(0, ERB_INPUTS), &erb_features[position * HISTORY * BLOCK..]);
            vectors.gemm(left, input, BLOCK, BLOCK, Some(&self.erb_first_bias), out);
        });
        for (layer, convolution) in self.erb.iter().enumerate() {
            let (input, out) = erb.split_at_mut(layer + 1);
            compute.parallel_chunks(&mut out[0], MAP, |position, out, _| {
                convolution.apply(vectors, &input[layer], position, out);
            });
        }
        self.df_linear.apply(vectors, df_second, &mut state.combined);
        state.combined.iter_mut().zip(state.erb[3].iter()).for_each(|(sum, x)| *sum += x);
        self.linear_in.apply(vectors, &state.combined, &mut state.narrow);
        let EncoderState { narrow, recurrent, hidden, gru, .. } = state;
        self.gru.run(vectors, narrow, frames, hidden, recurrent, gru);
        self.linear_out.apply(vectors, &state.recurrent, &mut state.embedding);
    }
}

impl ErbDecoder {
    fn read(model: &OnnxModel) -> Result<Self, FileError> {
        let last = constant(model, "/conv0_out/0/Conv", 1, &[1, CHANNELS, 1, 3])?;
        let last_weight = |row: usize, k: usize| if row < 3 { last[k * 3 + row] } else { 0.0 };
        Ok(ErbDecoder {
            linear_in: GroupedLinear::read(model, "emb_gru.linear_in.0.weight", [16, 32, 16], true)?,
            grus: [Gru::read(model, "/emb_gru/GRU")?, Gru::read(model, "/emb_gru/GRU_1")?],
            linear_out: GroupedLinear::read(model, "emb_gru.linear_out.0.weight", [16, 16, 32], true)?,
            skips: [
                Skip::read(model, "/conv3p/0/Conv")?,
                Skip::read(model, "/conv2p/Conv")?,
                Skip::read(model, "/conv1p/Conv")?,
                Skip::read(model, "/conv0p/Conv")?,
            ],
            convolutions: [
                Separable::read(model, ["/convt3/Conv", "/convt3/Conv_1"], Spacing::Same)?,
                Separable::read(model, ["/convt2/0/ConvTranspose", "/convt2/1/Conv"], Spacing::Up)?,
                Separable::read(model, ["/convt1/ConvTranspose", "/convt1/Conv"], Spacing::Up)?,
            ],
            last: PackedF32::pack(LINE, CHANNELS, LINE, last_weight),
            last_bias: constant(model, "/conv0_out/0/Conv", 2, &[1])?[0],
        })
    }

    fn run(&self, vectors: &Vectors, encoder: &EncoderState, frames: usize, state: &mut ErbState) {
        let ErbState { narrow: [a, b], maps, taps, gains, hidden, gru } = state;
        self.linear_in.apply(vectors, &encoder.embedding, a);
        self.grus[0].run(vectors, a, frames, &mut hidden[0], b, gru);
        self.grus[1].run(vectors, b, frames, &mut hidden[1], a, gru);
        self.linear_out.apply(vectors, a, &mut maps[0]);
        self.skips[0].add(&encoder.erb[3], &mut maps[0]);
        for (layer, convolution) in self.convolutions.iter().enumerate() {
            let (input, out) = maps.split_at_mut(layer + 1);
            for (position, out) in out[0].chunks_mut(MAP).enumerate() {
                convolution.apply(vectors, &input[layer], position, out);
            }
            self.skips[layer + 1].add(&encoder.erb[2 - layer], &mut out[0]);
        }
        // Each position gives its share to itself and its two neighbours.
        for (input, out) in maps[3].chunks(MAP).zip(taps.chunks_mut(LINE * BLOCK)) {
            vectors.gemm(self.last.columns(0, CHANNELS), input, BLOCK, BLOCK, None, out);
        }
        for (band, gains) in gains.chunks_mut(BLOCK).enumerate() {
            gains.fill(self.last_bias);
            for tap in 0..3 {
                let Some(from) = (band + tap).checked_sub(1).filter(|from| *from < BANDS) else { continue };
                let share = &taps[(from * LINE + tap) * BLOCK..][..BLOCK];
                gains.iter_mut().zip(share).for_each(|(gain, share)| *gain += share);
            }
        }
        vectors.sigmoid(gains);
    }
}

impl DfDecoder {
    fn read(model: &OnnxModel) -> Result<Self, FileError> {
        let pathway = constant(model, "/df_convp/df_convp.1/Conv", 1, &[TAPS, CHANNELS / 2, ORDER, 1])?;
        let mix = constant(model, "/df_convp/df_convp.2/Conv", 1, &[TAPS, TAPS, 1, 1])?;
        let mut mix_bias = constant(model, "/df_convp/df_convp.2/Conv", 2, &[TAPS])?;
        mix_bias.resize(LINE, 0.0);
        let group = |group: usize| {
            PackedF32::pack(PATHWAY_ROWS, CHANNELS / 2, LINE, |row, channel| {
                let (frame, output) = (row / ORDER, group * ORDER + row % ORDER);
                if frame < ORDER { pathway[(output * CHANNELS / 2 + channel) * ORDER + frame] } else { 0.0 }
            })
        };
        Ok(DfDecoder {
            linear_in: GroupedLinear::read(model, "df_gru.linear_in.0.weight", [8, 64, 32], true)?,
            grus: [Gru::read(model, "/df_gru/gru/GRU")?, Gru::read(model, "/df_gru/gru/GRU_1")?],
            skip: GroupedLinear::read(model, "df_skip.weight", [16, 32, 16], false)?,
            out: GroupedLinear::read(model, "df_out.0.weight", [16, 16, 60], false)?,
            pathway: [group(0), group(1)],
            mix: PackedF32::pack(LINE, TAPS, LINE, |row, k| if row < TAPS { mix[row * TAPS + k] } else { 0.0 }),
            mix_bias,
        })
    }

    fn run(&self, vectors: &Vectors, encoder: &EncoderState, frames: usize, state: &mut DfState) {
        let DfState { narrow: [a, b], skip, taps, history, hidden, gru } = state;
        self.linear_in.apply(vectors, &encoder.embedding, a);
        self.grus[0].run(vectors, a, frames, &mut hidden[0], b, gru);
        self.grus[1].run(vectors, b, frames, &mut hidden[1], a, gru);
        self.skip.apply(vectors, &encoder.embedding, skip);
        a.iter_mut().zip(skip.iter()).for_each(|(sum, x)| *sum += x);
        self.out.apply(vectors, a, taps);
        vectors.tanh(taps);
        for (bin, taps) in taps.chunks_exact_mut(TAPS * BLOCK).take(DF_BINS).enumerate() {
            let input = &encoder.df_first[bin * MAP..][..MAP];
            let history = &mut history[bin * 2 * PATHWAY_ROWS..][..2 * PATHWAY_ROWS];
            self.add_pathway(vectors, input, history, taps);
        }
    }

    /// Adds the share of the first convolution at one bin, of this frame and the four before it.
    fn add_pathway(&self, vectors: &Vectors, input: &[f32], history: &mut [[f32; ORDER - 1]], taps: &mut [f32]) {
        let mut sums = [0f32; TAPS * BLOCK];
        for (group, weights) in self.pathway.iter().enumerate() {
            let mut products = [0f32; PATHWAY_ROWS * BLOCK];
            let input = &input[group * MAP / 2..];
            vectors.gemm(weights.columns(0, CHANNELS / 2), input, BLOCK, BLOCK, None, &mut products);
            let rows = products.chunks(BLOCK).zip(&mut history[group * PATHWAY_ROWS..]);
            for (row, (products, kept)) in rows.take(ORDER * ORDER).enumerate() {
                let (back, output) = (ORDER - 1 - row / ORDER, group * ORDER + row % ORDER);
                let sums = &mut sums[output * BLOCK..][..BLOCK];
                sums[..back].iter_mut().zip(&kept[ORDER - 1 - back..]).for_each(|(sum, x)| *sum += x);
                sums[back..].iter_mut().zip(products).for_each(|(sum, x)| *sum += x);
                kept.copy_from_slice(&products[BLOCK - (ORDER - 1)..]);
            }
        }
        let mut mixed = [0f32; LINE * BLOCK];
        vectors.gemm(self.mix.columns(0, TAPS), &sums, BLOCK, BLOCK, Some(&self.mix_bias), &mut mixed);
        taps.iter_mut().zip(&mixed).for_each(|(tap, x)| *tap += x);
    }
}
