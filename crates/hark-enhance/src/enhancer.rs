//! The public interface: a loaded model, and streams of recordings through it.

use std::path::Path;
use std::sync::Arc;

use hark_compute::Compute;
use hark_compute::vector::Vectors;
use hark_media::{AudioStream, OutputChannels, SampleWriter};

use crate::channel::{Channel, Model};
use crate::limiter::Limiter;
use crate::network::Network;
use crate::spectrum::Analysis;
use crate::{EnhanceError, SAMPLE_RATE};

/// Channels of a recording at most; each takes about 10 MB.
pub const MAX_CHANNELS: usize = 32;
/// Samples beyond this many times full scale are no sound, and their squares would overflow.
const MAX_SAMPLE: f32 = 1e6;
/// From here on the noisy sound that stays is inaudible, and none is added.
const NO_LIMIT: f32 = 100.0;

/// How to enhance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// By how many dB noise is reduced at most, from 0 (not at all) to 100 (no limit, the default).
    pub strength: f32,
}

impl Default for Options {
    fn default() -> Self {
        Options { strength: NO_LIMIT }
    }
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Seconds that are done.
    pub done: f64,
    /// Seconds of the recording, where its container says it.
    pub total: Option<f64>,
}

/// What became of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Samples of each channel, as many as the recording has at 48 kHz.
    pub frames: u64,
    /// Channels.
    pub channels: usize,
}

impl Summary {
    /// The recording's length in seconds.
    pub fn seconds(&self) -> f64 {
        self.frames as f64 / f64::from(SAMPLE_RATE)
    }
}

/// A loaded model; clones share it.
#[derive(Clone)]
pub struct Enhancer {
    model: Arc<Model>,
    compute: Compute,
    vectors: Vectors,
}

impl Enhancer {
    /// Loads the model in `folder`, to run on the threads of `compute`.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, EnhanceError> {
        let model = Model { network: Network::load(folder)?, analysis: Analysis::new() };
        Ok(Enhancer { model: Arc::new(model), compute: compute.clone(), vectors: Vectors::of(compute.isa()) })
    }

    /// The rate and channels that [`Enhancer::enhance`] needs of an [`AudioStream`], put into its options.
    pub fn input_options(options: hark_media::Options) -> hark_media::Options {
        hark_media::Options { rate: SAMPLE_RATE, channels: OutputChannels::All, ..options }
    }

    /// Begins a recording of that many channels.
    pub fn stream(&self, channels: usize, options: &Options) -> Result<EnhanceStream, EnhanceError> {
        if !(1..=MAX_CHANNELS).contains(&channels) {
            return Err(EnhanceError::Channels { channels, most: MAX_CHANNELS });
        }
        let strength = options.strength;
        if !(0.0..=NO_LIMIT).contains(&strength) {
            return Err(EnhanceError::Strength { strength });
        }
        let limit = if strength < NO_LIMIT { 10f32.powf(-strength / 20.0) } else { 0.0 };
        Ok(EnhanceStream {
            enhancer: self.clone(),
            channels: (0..channels).map(|_| Channel::new(&self.model)).collect(),
            limit,
            limiter: Limiter::new(channels),
            interleaved: Vec::new(),
            taken: 0,
            given: 0,
            is_finished: false,
        })
    }

    /// Enhances a recording from start to end. `cancelled` is asked once for every block of about a second.
    ///
    /// The stream must have the rate and channels of [`Enhancer::input_options`].
    pub fn enhance(
        &self,
        audio: &mut AudioStream,
        out: &mut dyn SampleWriter,
        options: &Options,
        cancelled: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Summary, EnhanceError> {
        let spec = audio.spec();
        if spec.rate != SAMPLE_RATE {
            return Err(EnhanceError::Rate { rate: spec.rate });
        }
        let channels = usize::from(spec.channels);
        let mut stream = self.stream(channels, options)?;
        let (mut noisy, mut clean) = (Vec::new(), Vec::new());
        let mut frames = 0u64;
        while audio.read(&mut noisy)? > 0 {
            stream.push(&noisy, &mut clean, cancelled)?;
            noisy.clear();
            out.write(&clean)?;
            frames += (clean.len() / channels) as u64;
            clean.clear();
            progress(Progress { done: frames as f64 / f64::from(SAMPLE_RATE), total: audio.info().duration });
        }
        stream.finish(&mut clean, cancelled)?;
        out.write(&clean)?;
        frames += (clean.len() / channels) as u64;
        Ok(Summary { frames, channels })
    }
}

/// A recording on its way through the model.
pub struct EnhanceStream {
    enhancer: Enhancer,
    channels: Vec<Channel>,
    /// The share of the noisy sound that stays.
    limit: f32,
    limiter: Limiter,
    interleaved: Vec<f32>,
    /// Frames taken and given so far; as many are given as were taken.
    taken: u64,
    given: u64,
    is_finished: bool,
}

impl EnhanceStream {
    /// Takes interleaved samples at 48 kHz, and appends what is done of them and of those before them to `out`. The blocks may have
    /// any length; the result does not depend on it. After an error the stream is at its end.
    pub fn push(
        &mut self,
        interleaved: &[f32],
        out: &mut Vec<f32>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), EnhanceError> {
        let channels = self.channels.len();
        if self.is_finished || !interleaved.len().is_multiple_of(channels) {
            self.is_finished = true;
            return Err(EnhanceError::Frames { samples: interleaved.len(), channels });
        }
        // A NaN is not within any range.
        if let Some(at) = interleaved.iter().position(|sample| !(-MAX_SAMPLE..=MAX_SAMPLE).contains(sample)) {
            self.is_finished = true;
            let frame = self.taken + (at / channels) as u64;
            return Err(EnhanceError::Sample { frame, channel: at % channels, value: interleaved[at] });
        }
        self.taken += (interleaved.len() / channels) as u64;
        for (index, channel) in self.channels.iter_mut().enumerate() {
            channel.push(interleaved.iter().skip(index).step_by(channels).copied());
        }
        while self.channels[0].has_block() {
            self.run(out, cancelled)?;
        }
        Ok(())
    }

    /// Ends the recording: appends the rest, so that as many samples came out as went in.
    pub fn finish(&mut self, out: &mut Vec<f32>, cancelled: &dyn Fn() -> bool) -> Result<(), EnhanceError> {
        if self.is_finished {
            return Err(EnhanceError::Frames { samples: 0, channels: self.channels.len() });
        }
        self.channels.iter_mut().for_each(Channel::push_end);
        while self.waiting() > 0 {
            self.run(out, cancelled)?;
        }
        self.is_finished = true;
        self.limiter.finish(out);
        Ok(())
    }

    /// Frames that were taken and are not computed yet.
    fn waiting(&self) -> u64 {
        self.taken - self.given
    }

    /// Computes the next block of all channels.
    fn run(&mut self, out: &mut Vec<f32>, cancelled: &dyn Fn() -> bool) -> Result<(), EnhanceError> {
        if cancelled() {
            self.is_finished = true;
            return Err(EnhanceError::Cancelled);
        }
        let Enhancer { model, compute, vectors } = &self.enhancer;
        let limit = self.limit;
        match &mut self.channels[..] {
            [channel] => channel.run(model, compute, vectors, limit),
            channels => compute.parallel_chunks(channels, 1, |_, channel, worker| {
                channel[0].run(model, worker.compute(), vectors, limit);
            }),
        }
        // What comes out after the last sample is the silence that was put in.
        let done = (self.channels[0].output().len() as u64).min(self.waiting()) as usize;
        self.interleaved.clear();
        for frame in 0..done {
            self.interleaved.extend(self.channels.iter().map(|channel| channel.output()[frame]));
        }
        self.channels.iter_mut().for_each(|channel| channel.drop_output(done));
        self.limiter.process(&self.interleaved, out);
        self.given += done as u64;
        Ok(())
    }
}
