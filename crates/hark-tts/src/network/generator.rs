//! The generator (iSTFTNet): two upsamplings, each with three residual blocks of Snake activations, then the inverse transform.
//!
//! Nearly all of the time goes here: 48 GFLOP for a second of sound, in convolutions of 256 channels at 800 steps a second
//! and of 128 channels at 4,800. A convolution's epilogue adds the residual and gathers the moments that the next norm needs; norm,
//! Snake and rounding are one pass over memory before the next product.

use hark_compute::conv1d::{Conv1d, Moments, Precision};
use hark_compute::ops::Activation;
use hark_weights::FileError;

use super::decoder;
use super::graph::Graph;
use super::layers::{AdaptiveNorm, Affine, Convolution, Pass, Steps, Target, padded};
use super::residual::adaptive_norm;
use super::source::{BINS, Source};
use crate::TtsError;

const NODE: &str = "/decoder/decoder/generator";
const NAME: &str = "decoder.decoder.generator";
/// Taps of the residual blocks of a stage.
const KERNELS: [usize; 3] = [3, 7, 11];
/// Dilations of the first convolutions of a block.
const DILATIONS: [usize; 3] = [1, 3, 5];

/// An upsampling and what follows it.
struct Stage {
    channels: usize,
    rate: usize,
    upsample: Convolution,
    /// From the spectrum of the excitation to this stage's steps.
    source: Convolution,
    source_block: SnakeBlock,
    blocks: Vec<SnakeBlock>,
    /// Leaky ReLU before the upsampling.
    slope: f32,
}

/// A residual block of three pairs of convolutions.
struct SnakeBlock {
    pairs: Vec<[SnakeLayer; 2]>,
}

/// Norm, Snake and a convolution.
struct SnakeLayer {
    norm: AdaptiveNorm,
    alpha: Vec<f32>,
    inverse: Vec<f32>,
    conv: Convolution,
}

/// The generator's layers.
pub(crate) struct Generator {
    source: Source,
    stages: [Stage; 2],
    out: Convolution,
}

impl SnakeBlock {
    fn read(graph: &Graph, name: &str, channels: usize, taps: usize, precision: Precision) -> Result<Self, FileError> {
        let layer = |part: usize, index: usize, dilation: usize| {
            let alpha = graph.named(&format!("{NAME}.{name}.alpha{part}.{index}"), &[1, channels, 1])?;
            let node = format!("{NODE}/{name}/convs{part}.{index}");
            let conv = graph.convolution(&node, (channels, channels, taps), true, precision)?;
            Ok::<_, FileError>(SnakeLayer {
                norm: adaptive_norm(graph, &format!("{NAME}.{name}.adain{part}.{index}"), channels)?,
                inverse: alpha.iter().map(|alpha| 1.0 / alpha).collect(),
                alpha,
                conv: conv.dilated(dilation),
            })
        };
        let pair = |(index, dilation)| Ok([layer(1, index, dilation)?, layer(2, index, 1)?]);
        Ok(SnakeBlock { pairs: DILATIONS.into_iter().enumerate().map(pair).collect::<Result<_, FileError>>()? })
    }

    /// Adds the block's result to `total`, or writes it there; `inner` and `state` are workspaces.
    fn run(
        &self,
        pass: &mut Pass,
        style: &[f32],
        (x, x_moments): (&[f32], &Moments),
        [inner, state]: [&mut Vec<f32>; 2],
        (total, accumulate): (&mut [f32], bool),
    ) -> Result<(), TtsError> {
        let columns = self.pairs[0][0].conv.columns();
        let steps = x.len() / columns;
        inner.resize(x.len(), 0.0);
        state.resize(x.len(), 0.0);
        let mut moments = Moments::default();
        for (index, [first, second]) in self.pairs.iter().enumerate() {
            let from = if index == 0 { (x, x_moments) } else { (&state[..], &moments) };
            let affine = first.norm.affine(pass.compute, style, from.1);
            let mut inner_moments = Moments::default();
            let target = Target { moments: Some(&mut inner_moments), ..Target::new(inner, columns) };
            first.conv.run(pass, (from.0, columns, steps), &affine, first.snake(), target)?;
            let affine = second.norm.affine(pass.compute, style, &inner_moments);
            moments.clear();
            let target = if index + 1 == self.pairs.len() {
                Target { residual: Some((state, columns)), accumulate, ..Target::new(total, columns) }
            } else if index == 0 {
                Target { residual: Some((x, columns)), moments: Some(&mut moments), ..Target::new(state, columns) }
            } else {
                Target { accumulate: true, moments: Some(&mut moments), ..Target::new(state, columns) }
            };
            second.conv.run(pass, (inner, columns, steps), &affine, second.snake(), target)?;
        }
        Ok(())
    }

    fn memory(&self) -> u64 {
        self.pairs.iter().flatten().map(|layer| layer.conv.memory()).sum()
    }
}

impl SnakeLayer {
    fn snake(&self) -> Activation<'_> {
        Activation::Snake(&self.alpha, &self.inverse)
    }
}

/// A transposed convolution whose kernel is two strides long: an output step is a product of two neighbouring input steps.
fn upsampling(
    graph: &Graph,
    index: usize,
    (inputs, outputs): (usize, usize),
    rate: usize,
    precision: Precision,
) -> Result<Convolution, FileError> {
    let node = format!("{NODE}/ups.{index}/ConvTranspose");
    let weights = graph.constant(&node, 1, &[inputs, outputs, 2 * rate])?;
    let bias = graph.constant(&node, 2, &[outputs])?.repeat(rate);
    let conv = Conv1d::pack((rate * outputs, inputs, 2), Some(&bias), precision, |output, input, tap| {
        let place = output / outputs + if tap == 0 { rate } else { 0 };
        weights[(input * outputs + output % outputs) * 2 * rate + place]
    });
    Ok(Convolution::new(conv, inputs, 1))
}

impl Generator {
    pub(crate) fn read(graph: &Graph, precision: Precision) -> Result<Self, FileError> {
        let bins = 2 * BINS;
        let block = |name: String, channels, taps| SnakeBlock::read(graph, &name, channels, taps, precision);
        let stage = |index: usize, (inputs, channels): (usize, usize), rate: usize, slope: f32| {
            let (taps, stride) = if index == 0 { (12, 6) } else { (1, 1) };
            let source = format!("{NODE}/noise_convs.{index}");
            let source = graph.convolution(&source, (channels, bins, taps), true, Precision::Split)?;
            let blocks = KERNELS.into_iter().enumerate();
            let blocks =
                blocks.map(|(kernel, taps)| block(format!("resblocks.{}", 3 * index + kernel), channels, taps));
            Ok::<_, FileError>(Stage {
                channels,
                rate,
                upsample: upsampling(graph, index, (inputs, channels), rate, precision)?,
                source: source.strided(stride, if index == 0 { 3 } else { 0 }),
                source_block: block(format!("noise_res.{index}"), channels, [7, 11][index])?,
                blocks: blocks.collect::<Result<_, FileError>>()?,
                slope,
            })
        };
        Ok(Generator {
            source: Source::read(graph)?,
            stages: [stage(0, (decoder::OUT, 256), 10, 0.1)?, stage(1, (256, 128), 6, 0.1)?],
            out: graph.convolution(&format!("{NODE}/conv_post"), (bins, 128, 7), true, Precision::Split)?,
        })
    }

    /// The samples of what the decoder says, at 300 for each row.
    pub(crate) fn run(
        &self,
        pass: &mut Pass,
        style: &[f32],
        decoded: Steps,
        pitch: &[f32],
    ) -> Result<Vec<f32>, TtsError> {
        let excitation = self.source.excitation(pass.compute, pitch);
        let spectrum = self.source.spectrum(pass.compute, &excitation);
        let spectrum = self.spectrum_of(pass, style, decoded, &spectrum)?;
        Ok(self.source.samples(pass.compute, &spectrum))
    }

    /// The spectrum of the sound, given that of the excitation.
    fn spectrum_of(
        &self,
        pass: &mut Pass,
        style: &[f32],
        decoded: Steps,
        excitation: &Steps,
    ) -> Result<Steps, TtsError> {
        let mut x = decoded;
        // The first stage begins with one matrix, the next with the sum of three.
        let mut blocks = 1;
        for (index, stage) in self.stages.iter().enumerate() {
            x = stage.run(pass, style, &x, 1.0 / blocks as f32, excitation, index == 1)?;
            blocks = stage.blocks.len();
        }
        let affine = Affine::uniform(x.columns, 1.0 / blocks as f32);
        let mut out = Steps::zeroed(x.len(), self.out.columns());
        let target = Target::new(&mut out.data, self.out.columns());
        self.out.run(pass, (&x.data, x.columns, x.len()), &affine, Activation::LeakyRelu(0.01), target)?;
        Ok(out)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.stages.iter().map(Stage::memory).sum::<u64>() + self.out.memory()
    }
}

impl Stage {
    /// The sum of the blocks' results.
    fn run(
        &self,
        pass: &mut Pass,
        style: &[f32],
        x: &Steps,
        scale: f32,
        excitation: &Steps,
        is_last: bool,
    ) -> Result<Steps, TtsError> {
        let columns = padded(self.channels);
        let (mut inner, mut state) = (Vec::new(), Vec::new());
        let source = self.source.apply(pass, excitation, Activation::Identity)?;
        // The rows of an upsampling begin half a stride before the first step. The last stage has one step more, which mirrors
        // its third.
        let cut = self.rate / 2 - usize::from(is_last);
        let steps = source.len();
        let mut wide = vec![0f32; (x.len() + 1) * self.rate * columns];
        let target = &mut wide[cut * columns..][..steps * columns];
        let moments = source.moments();
        let workspaces = [&mut inner, &mut state];
        self.source_block.run(pass, style, (&source.data, &moments), workspaces, (target, false))?;
        let mirrored: Vec<f32> = target[..columns].iter().zip(&target[2 * columns..]).map(|(a, b)| a - b).collect();
        let affine = Affine::uniform(x.columns, scale);
        let target = Target { accumulate: true, ..Target::new(&mut wide, self.rate * columns) };
        self.upsample.run(pass, (&x.data, x.columns, x.len()), &affine, Activation::LeakyRelu(self.slope), target)?;
        let wide = &mut wide[cut * columns..][..steps * columns];
        if is_last {
            let (first, rest) = wide.split_at_mut(2 * columns);
            first[..columns]
                .iter_mut()
                .zip(rest.iter().zip(&mirrored))
                .for_each(|(to, (from, less))| *to = from + less);
        }
        let mut moments = Moments::default();
        moments.add(wide, columns);
        let mut total = Steps::zeroed(steps, columns);
        for (index, block) in self.blocks.iter().enumerate() {
            let workspaces = [&mut inner, &mut state];
            block.run(pass, style, (wide, &moments), workspaces, (&mut total.data, index > 0))?;
        }
        Ok(total)
    }

    fn memory(&self) -> u64 {
        let blocks = self.blocks.iter().chain([&self.source_block]);
        blocks.map(SnakeBlock::memory).sum::<u64>() + self.upsample.memory() + self.source.memory()
    }
}
