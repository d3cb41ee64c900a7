//! Residual blocks with adaptive instance norm and leaky ReLU, of the prosody predictor and the decoder.

use hark_compute::conv1d::{Moments, Precision};
use hark_compute::ops::Activation;
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::{AdaptiveNorm, Affine, Convolution, Pass, STYLE, Steps, Target, padded};
use crate::TtsError;

const SLOPE: f32 = 0.2;

/// The names of a block: of its nodes and of its weights.
pub(crate) struct Place<'a> {
    pub(crate) node: &'a str,
    pub(crate) weights: &'a str,
}

/// A transposed convolution of each channel by itself, which doubles the steps.
struct Doubling {
    /// Three taps of each channel.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

/// `(conv2(act(norm2(conv1(act(norm1(x)))))) + shortcut(x)) / √2`; in one that doubles the steps, conv1 looks at doubled ones.
pub(crate) struct ResidualBlock {
    norms: [AdaptiveNorm; 2],
    convolutions: [Convolution; 2],
    shortcut: Option<Convolution>,
    doubling: Option<Doubling>,
}

/// Reads an adaptive norm by the name of its module.
pub(crate) fn adaptive_norm(graph: &Graph, name: &str, channels: usize) -> Result<AdaptiveNorm, FileError> {
    let weights = graph.named(&format!("{name}.fc.weight"), &[2 * channels, STYLE])?;
    Ok(AdaptiveNorm::new(&weights, graph.named(&format!("{name}.fc.bias"), &[2 * channels])?, channels))
}

impl ResidualBlock {
    /// Reads a block; one whose outputs are as many as its inputs and which does not double has no layer in its shortcut.
    pub(crate) fn read(
        graph: &Graph,
        place: Place,
        (inputs, outputs): (usize, usize),
        doubles: bool,
        precision: Precision,
    ) -> Result<Self, FileError> {
        let Place { node, weights } = place;
        let conv = |name: &str, shape: (usize, usize, usize), has_bias: bool| {
            graph.convolution(&format!("{node}/{name}"), shape, has_bias, precision)
        };
        let doubling = if doubles {
            let pool = format!("{node}/pool/ConvTranspose");
            let weights = graph.constant(&pool, 1, &[inputs, 1, 3])?;
            Some(Doubling { weights, bias: graph.constant(&pool, 2, &[inputs])? })
        } else {
            None
        };
        let shortcut = if inputs != outputs { Some(conv("conv1x1", (outputs, inputs, 1), false)?) } else { None };
        Ok(ResidualBlock {
            norms: [
                adaptive_norm(graph, &format!("{weights}.norm1"), inputs)?,
                adaptive_norm(graph, &format!("{weights}.norm2"), outputs)?,
            ],
            convolutions: [conv("conv1", (outputs, inputs, 3), true)?, conv("conv2", (outputs, outputs, 3), true)?],
            shortcut,
            doubling,
        })
    }

    /// Writes the result into `out`, rows `stride` apart.
    pub(crate) fn run(
        &self,
        pass: &mut Pass,
        style: &[f32],
        x: &Steps,
        out: &mut [f32],
        stride: usize,
    ) -> Result<(), TtsError> {
        let [norm1, norm2] = &self.norms;
        let [conv1, conv2] = &self.convolutions;
        let affine = norm1.affine(pass.compute, style, &x.moments());
        let mut moments = Moments::default();
        let doubled = self.doubling.as_ref().map(|doubling| doubling.apply(x, &affine));
        let steps = doubled.as_ref().map_or(x.len(), Steps::len);
        let mut inner = Steps::zeroed(steps, conv1.columns());
        let columns = inner.columns;
        let target = Target { moments: Some(&mut moments), ..Target::new(&mut inner.data, columns) };
        match &doubled {
            Some(doubled) => {
                let unchanged = Affine::uniform(doubled.columns, 1.0);
                conv1.run(pass, (&doubled.data, x.columns, steps), &unchanged, Activation::Identity, target)?;
            }
            None => conv1.run(pass, (&x.data, x.columns, steps), &affine, Activation::LeakyRelu(SLOPE), target)?,
        }
        let affine = norm2.affine(pass.compute, style, &moments);
        let mut residual = match &self.shortcut {
            Some(shortcut) => Some(shortcut.apply(pass, x, Activation::Identity)?),
            None => None,
        };
        if let (Some(residual), true) = (&mut residual, doubled.is_some()) {
            let rows = residual.data.chunks_exact(residual.columns);
            residual.data = rows.flat_map(|row| row.iter().chain(row).copied()).collect();
        }
        let residual = residual.as_ref().unwrap_or(x);
        let target = Target {
            residual: Some((&residual.data, residual.columns)),
            scale: std::f32::consts::FRAC_1_SQRT_2,
            ..Target::new(out, stride)
        };
        conv2.run(pass, (&inner.data, inner.columns, steps), &affine, Activation::LeakyRelu(SLOPE), target)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.convolutions.iter().chain(&self.shortcut).map(Convolution::memory).sum()
    }
}

impl Doubling {
    /// Twice the steps of `leaky_relu(affine(x))`: kernel 3, stride 2, padding 1, output padding 1.
    fn apply(&self, x: &Steps, affine: &Affine) -> Steps {
        let channels = self.bias.len();
        let activated = |step: usize, channel: usize| {
            let x = x.row(step)[channel] * affine.scale[channel] + affine.shift[channel];
            if x < 0.0 { x * SLOPE } else { x }
        };
        let mut out = Steps::zeroed(2 * x.len(), padded(channels));
        for step in 0..x.len() {
            for channel in 0..channels {
                let [before, here, after] = [0, 1, 2].map(|tap| self.weights[channel * 3 + tap]);
                let now = activated(step, channel);
                let next = if step + 1 < x.len() { activated(step + 1, channel) } else { 0.0 };
                out.row_mut(2 * step)[channel] = here * now + self.bias[channel];
                out.row_mut(2 * step + 1)[channel] = after * now + before * next + self.bias[channel];
            }
        }
        out
    }
}
