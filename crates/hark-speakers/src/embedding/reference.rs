//! The reference implementation of the embedding network, in plain float32: tests compare the fast one with it.

use std::path::Path;

use hark_compute::Isa;

use super::weights::{self, BLOCKS, BOTTLENECK, CONTEXT, FIRST, FIRST_TAPS, GROWTH, LAST, PLANES, SEGMENT, Tensors};
use super::{EMBEDDING_WIDTH, l2_normalized, subtract_mean};
use crate::SpeakersError;
use crate::fbank::{BINS, FilterBank, STEP, frames_in};
use hark_compute::ops::Ops;

/// The network with the weights of the file.
pub struct ReferenceEmbedder {
    tensors: Tensors,
}

/// `[channel][bin][step]`.
type Planes = Vec<Vec<Vec<f32>>>;
/// `[channel][step]`.
type Channels = Vec<Vec<f32>>;

impl ReferenceEmbedder {
    /// Reads the network from its folder.
    pub fn load(folder: &Path) -> Result<Self, SpeakersError> {
        // Checks names and shapes of all tensors.
        weights::load(folder, |tensors| {
            super::Head::pack(tensors)?;
            super::Dense::pack(tensors).map(|_| ())
        })?;
        let tensors = weights::load(folder, |tensors| Ok(tensors.clone()))?;
        Ok(ReferenceEmbedder { tensors })
    }

    /// The equivalent of [`super::Embedder::embed`] for one piece of at least 0.1 s.
    pub fn embed(&self, samples: &[f32]) -> [f32; EMBEDDING_WIDTH] {
        let bank = FilterBank::new(Ops::of(Isa::Portable));
        let mut workspace = bank.workspace();
        let mut frames = vec![[0f32; BINS]; frames_in(samples.len())];
        for (index, frame) in frames.iter_mut().enumerate() {
            bank.frame(&mut workspace, &samples[index * STEP..], frame);
        }
        subtract_mean(&mut frames);
        let plane = (0..BINS).map(|bin| frames.iter().map(|frame| frame[bin]).collect()).collect();
        let planes = self.head(vec![plane]);
        let lines: Channels = planes.into_iter().flatten().collect();
        let mut x = self.convolve(&lines, "xvector.tdnn.linear", FIRST, FIRST_TAPS, 2, 1, 2, false);
        self.normalize(&mut x, "xvector.tdnn.nonlinear.batchnorm");
        for (number, (layers, dilation)) in BLOCKS.into_iter().enumerate() {
            for layer in 1..=layers {
                let added = self.layer(&x, &format!("xvector.block{}.tdnnd{layer}", number + 1), dilation);
                x.extend(added);
            }
            let name = format!("xvector.transit{}", number + 1);
            self.normalize(&mut x, &format!("{name}.nonlinear.batchnorm"));
            let half = x.len() / 2;
            x = self.convolve(&x, &format!("{name}.linear"), half, 1, 1, 1, 0, false);
        }
        self.normalize(&mut x, "xvector.out_nonlinear.batchnorm");
        assert_eq!(x.len(), LAST, "the channels at the end");
        let mean = |line: &[f32]| line.iter().sum::<f32>() / line.len() as f32;
        let deviation = |line: &[f32]| {
            let mean = mean(line);
            let squares: f32 = line.iter().map(|x| (x - mean) * (x - mean)).sum();
            (squares / (line.len() as f32 - 1.0).max(1.0)).sqrt()
        };
        let statistics: Channels =
            x.iter().map(|line| vec![mean(line)]).chain(x.iter().map(|line| vec![deviation(line)])).collect();
        let out = self.convolve(&statistics, "xvector.dense.linear", EMBEDDING_WIDTH, 1, 1, 1, 0, false);
        let means = self.get("xvector.dense.nonlinear.batchnorm.running_mean", &[EMBEDDING_WIDTH]);
        let variances = self.get("xvector.dense.nonlinear.batchnorm.running_var", &[EMBEDDING_WIDTH]);
        l2_normalized(std::array::from_fn(|index| (out[index][0] - means[index]) / (variances[index] + 1e-5).sqrt()))
    }

    fn get(&self, name: &str, shape: &[usize]) -> &[f32] {
        self.tensors.get(name, shape).expect("the tensors were checked")
    }

    fn head(&self, x: Planes) -> Planes {
        let mut x = self.relu(self.plane_norm(self.plane(&x, "head.conv1", 3, 1), "head.bn1"));
        for layer in ["head.layer1", "head.layer2"] {
            for (number, stride) in [(0, 2), (1, 1)] {
                let part = |part: &str| format!("{layer}.{number}.{part}");
                let y = self.relu(self.plane_norm(self.plane(&x, &part("conv1"), 3, stride), &part("bn1")));
                let mut y = self.plane_norm(self.plane(&y, &part("conv2"), 3, 1), &part("bn2"));
                if stride == 2 {
                    x = self.plane_norm(self.plane(&x, &part("shortcut.0"), 1, stride), &part("shortcut.1"));
                }
                let numbers = y.iter_mut().flatten().flatten();
                numbers.zip(x.iter().flatten().flatten()).for_each(|(y, x)| *y += x);
                x = self.relu(y);
            }
        }
        self.relu(self.plane_norm(self.plane(&x, "head.conv2", 3, 2), "head.bn2"))
    }

    /// A convolution of `size` × `size` with `stride` over frequency.
    fn plane(&self, x: &Planes, name: &str, size: usize, stride: usize) -> Planes {
        let weights = self.get(&format!("{name}.weight"), &[PLANES, x.len(), size, size]);
        let (lines, steps) = (x[0].len(), x[0][0].len());
        let (inputs, padding) = (x.len(), size / 2);
        let mut out = vec![vec![vec![0f32; steps]; lines / stride]; PLANES];
        for (channel, out) in out.iter_mut().enumerate() {
            for (line, out) in out.iter_mut().enumerate() {
                for (input, x) in x.iter().enumerate() {
                    for row in 0..size {
                        let Some(x) = (line * stride + row).checked_sub(padding).and_then(|line| x.get(line)) else {
                            continue;
                        };
                        for tap in 0..size {
                            let weight = weights[((channel * inputs + input) * size + row) * size + tap];
                            for (at, out) in out.iter_mut().enumerate() {
                                if let Some(x) = (at + tap).checked_sub(padding).and_then(|at| x.get(at)) {
                                    *out += weight * x;
                                }
                            }
                        }
                    }
                }
            }
        }
        out
    }

    fn plane_norm(&self, mut x: Planes, name: &str) -> Planes {
        let norm = weights::Norm::read(&self.tensors, name, PLANES).expect("the tensors were checked");
        for ((plane, gain), shift) in x.iter_mut().zip(&norm.gain).zip(&norm.shift) {
            plane.iter_mut().flatten().for_each(|x| *x = *x * gain + shift);
        }
        x
    }

    fn relu(&self, mut x: Planes) -> Planes {
        x.iter_mut().flatten().flatten().for_each(|x| *x = x.max(0.0));
        x
    }

    /// Batch norm and ReLU.
    fn normalize(&self, x: &mut Channels, name: &str) {
        let norm = weights::Norm::read(&self.tensors, name, x.len()).expect("the tensors were checked");
        for ((line, gain), shift) in x.iter_mut().zip(&norm.gain).zip(&norm.shift) {
            line.iter_mut().for_each(|x| *x = (*x * gain + shift).max(0.0));
        }
    }

    fn convolve(
        &self,
        x: &Channels,
        name: &str,
        outputs: usize,
        taps: usize,
        stride: usize,
        dilation: usize,
        padding: usize,
        biased: bool,
    ) -> Channels {
        let weights = self.get(&format!("{name}.weight"), &[outputs, x.len(), taps]);
        let inputs = x.len();
        let steps = (x[0].len() + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
        let mut out = vec![vec![0f32; steps]; outputs];
        for (output, line) in out.iter_mut().enumerate() {
            if biased {
                line.fill(self.get(&format!("{name}.bias"), &[outputs])[output]);
            }
            for (input, x) in x.iter().enumerate() {
                for tap in 0..taps {
                    let weight = weights[(output * inputs + input) * taps + tap];
                    for (at, out) in line.iter_mut().enumerate() {
                        if let Some(x) = (at * stride + tap * dilation).checked_sub(padding).and_then(|at| x.get(at)) {
                            *out += weight * x;
                        }
                    }
                }
            }
        }
        out
    }

    fn layer(&self, x: &Channels, name: &str, dilation: usize) -> Channels {
        let part = |part: &str| format!("{name}.{part}");
        let mut x = x.clone();
        self.normalize(&mut x, &part("nonlinear1.batchnorm"));
        let mut bottleneck = self.convolve(&x, &part("linear1"), BOTTLENECK, 1, 1, 1, 0, false);
        self.normalize(&mut bottleneck, &part("nonlinear2.batchnorm"));
        let mut local =
            self.convolve(&bottleneck, &part("cam_layer.linear_local"), GROWTH, 3, 1, dilation, dilation, false);
        let steps = bottleneck[0].len();
        for first in (0..steps).step_by(SEGMENT) {
            let end = steps.min(first + SEGMENT);
            let mean = |line: &[f32]| line.iter().sum::<f32>() / line.len() as f32;
            let context: Channels = bottleneck.iter().map(|line| vec![mean(line) + mean(&line[first..end])]).collect();
            let mut context = self.convolve(&context, &part("cam_layer.linear1"), CONTEXT, 1, 1, 1, 0, true);
            context.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
            let mask = self.convolve(&context, &part("cam_layer.linear2"), GROWTH, 1, 1, 1, 0, true);
            for (line, mask) in local.iter_mut().zip(mask) {
                line[first..end].iter_mut().for_each(|x| *x /= 1.0 + (-mask[0]).exp());
            }
        }
        local
    }
}
