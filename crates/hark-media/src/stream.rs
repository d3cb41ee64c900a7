use std::path::PathBuf;

use crate::convert::Converter;
use crate::decode::{Failure, InProcess};
use crate::ffmpeg::{self, Ffmpeg};
use crate::full_scale::{FullScale, is_float};
use crate::input::{Input, Source};
use crate::mp4;
use crate::resample::{OUTPUT_RATES, RATES};
use crate::sniff::{self, Container};
use crate::watch::Watch;
use crate::{AudioSpec, Block, Info, MediaError, Options, OutputChannels};

/// A file that ends this much before its own length is reported; less is rounding and encoder padding.
const EARLY_SECONDS: f64 = 0.5;
const EARLY_SHARE: f64 = 0.01;
/// Channels that are in opposite phase for at least this long are reported; less may be an effect.
const OPPOSITE_SECONDS: f64 = 1.0;

/// Audio of one track at the rate and channels that were asked for, read block by block.
pub struct AudioStream {
    backend: Backend,
    /// The source, to start over with ffmpeg when the in-process decoder meets what it cannot do; None when it cannot be read again.
    again: Option<Input>,
    container: Container,
    options: Options,
    info: Info,
    block: Block,
    spec: AudioSpec,
    converter: Converter,
    /// Set for samples that may be on another scale.
    full_scale: Option<FullScale>,
    /// Frames given so far, and of the current backend's those still to drop because the last one gave them.
    given: u64,
    drop: u64,
    ended: bool,
    watch: Watch,
    /// Seconds up to which the budget need not be asked again.
    granted: f64,
    warnings: Vec<String>,
}

enum Backend {
    InProcess(Box<InProcess>),
    Ffmpeg(Box<Ffmpeg>),
}

impl AudioStream {
    /// Recognizes `source` by its content and prepares its audio.
    pub fn open(source: Source, options: &Options) -> Result<Self, MediaError> {
        if !OUTPUT_RATES.contains(&options.rate) {
            let (low, high) = OUTPUT_RATES.into_inner();
            let rate = options.rate;
            return Err(MediaError::Output(format!("a rate of {rate} Hz; {low} to {high} Hz can be given")));
        }
        let watch = Watch::new(options);
        watch.check()?;
        let (mut input, head) = Input::open(source)?;
        if head.is_empty() {
            return Err(MediaError::Empty);
        }
        let container = sniff::sniff(&head);
        if container == Container::Text {
            return Err(MediaError::Unrecognized("it is text".into()));
        }
        if !container.streams() {
            input = input.spooled(options.limits.spool_bytes, &watch)?;
        }
        let cut_short = container == Container::Avi && is_cut_short(&input, &head)?;
        let mut why = None;
        if container.in_process() {
            let attempt = input.again()?.ok_or_else(too_far)?;
            let opened = InProcess::open(attempt, container, options);
            // A source that can't be read any more looks damaged to a decoder.
            watch.check()?;
            match opened {
                Ok(decoder) => {
                    // Files are kept for a second try; a stream from here on runs away.
                    let again = match input {
                        Input::File(_) | Input::Seekable(_) => Some(input),
                        Input::Stream(stream) => {
                            stream.accept();
                            None
                        }
                    };
                    let info = decoder.info().clone();
                    return Self::new(Backend::InProcess(Box::new(decoder)), again, container, options, info);
                }
                Err(Failure::Media(error)) => return Err(error),
                Err(Failure::Unsupported(reason)) => {
                    tracing::debug!(reason, container = container.name(), "media.ffmpeg_fallback");
                    why = Some(reason);
                }
            }
        }
        let input = input.again()?.ok_or_else(too_far)?;
        let track_seconds = if container == Container::Mp4 { mp4_seconds(&input, options)? } else { None };
        let mut child = open_ffmpeg(input, container, options, why)?;
        if let Some(seconds) = track_seconds {
            child.set_duration(seconds);
        }
        let info = child.info().clone();
        let backend = Backend::Ffmpeg(Box::new(child));
        let mut stream = Self::new(backend, None, container, options, info)?;
        if cut_short {
            let warning = "the file ends early: it is shorter than its header says";
            stream.warnings.push(warning.into());
        }
        Ok(stream)
    }

    fn new(
        backend: Backend,
        again: Option<Input>,
        container: Container,
        options: &Options,
        info: Info,
    ) -> Result<Self, MediaError> {
        if let (Some(limit), Some(duration)) = (options.limits.max_seconds, info.duration)
            && duration > limit + EARLY_SECONDS
        {
            return Err(MediaError::TooLong { limit });
        }
        // A track that changes its channels later is made to fit those it began with.
        let channels = match options.channels {
            OutputChannels::Mono => 1,
            OutputChannels::All => info.channels.max(1),
        };
        let spec = AudioSpec { rate: options.rate, channels };
        Ok(AudioStream {
            backend,
            again,
            container,
            options: options.clone(),
            block: Block::default(),
            spec,
            converter: Converter::new(spec),
            full_scale: is_float(&info.codec).then(FullScale::default),
            info,
            given: 0,
            drop: 0,
            ended: false,
            watch: Watch::new(options),
            granted: 0.0,
            warnings: Vec::new(),
        })
    }

    /// What the source turned out to be.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The rate and channels of the samples that are read.
    pub fn spec(&self) -> AudioSpec {
        self.spec
    }

    /// What is wrong with the source, as far as it has been read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Appends the next block, about a second, channels interleaved, and says how many samples it has; 0 is the end.
    pub fn read(&mut self, out: &mut Vec<f32>) -> Result<usize, MediaError> {
        let from = out.len();
        let second = self.spec.rate as usize * usize::from(self.spec.channels);
        while !self.ended && out.len() - from < second {
            let advanced = self.advance();
            // A source that can't be read any more looks damaged, or at its end, to a decoder.
            self.watch.check()?;
            if advanced? {
                self.convert(out)?;
                self.check_length()?;
            } else {
                self.ended = true;
                self.flush(out);
                self.check_length()?;
                self.conclude()?;
            }
        }
        if let Some(limit) = self.options.limits.max_seconds
            && self.seconds() > limit + EARLY_SECONDS
        {
            return Err(MediaError::TooLong { limit });
        }
        // A damaged file may decode to numbers whose sums overflow.
        out[from..].iter_mut().filter(|sample| !sample.is_finite()).for_each(|sample| *sample = 0.0);
        Ok(out.len() - from)
    }

    /// Asks the budget when the audio passes what was granted so far.
    fn check_length(&mut self) -> Result<(), MediaError> {
        let seconds = self.seconds();
        if seconds > self.granted {
            self.granted = self.options.budget.grant(seconds)?;
        }
        Ok(())
    }

    fn seconds(&self) -> f64 {
        self.given as f64 / f64::from(self.spec.rate)
    }

    /// Gets the next block from the backend, from ffmpeg if the first one gives up; false at the end.
    fn advance(&mut self) -> Result<bool, MediaError> {
        match &mut self.backend {
            Backend::Ffmpeg(child) => child.next(&mut self.block),
            Backend::InProcess(decoder) => match decoder.next(&mut self.block) {
                Ok(more) => Ok(more),
                Err(Failure::Media(error)) => Err(error),
                Err(Failure::Unsupported(reason)) => self.start_over(reason),
            },
        }
    }

    /// Decodes the source again with ffmpeg, dropping what was given already.
    fn start_over(&mut self, reason: String) -> Result<bool, MediaError> {
        let child = match self.again.take() {
            None => Err(MediaError::Decode { container: self.info.container.clone(), reason: reason.clone() }),
            Some(input) => open_ffmpeg(input, self.container, &self.options, Some(reason.clone())),
        };
        match child {
            Ok(child) => {
                tracing::debug!(reason, at = self.seconds(), "media.ffmpeg_restarted");
                self.info = child.info().clone();
                self.backend = Backend::Ffmpeg(Box::new(child));
                // What the resampler has not given yet is dropped with it: ffmpeg gives it again.
                self.converter = Converter::new(self.spec);
                self.full_scale = self.full_scale.take().map(|_| FullScale::default());
                self.drop = self.given;
                self.advance()
            }
            Err(error) => {
                self.warnings
                    .push(format!("the rest could not be decoded after {:.1} s: {reason} ({error})", self.seconds()));
                Ok(false)
            }
        }
    }

    /// Mixes and resamples the current block onto `out`.
    fn convert(&mut self, out: &mut Vec<f32>) -> Result<(), MediaError> {
        if self.block.samples.is_empty() {
            return Ok(());
        }
        if !RATES.contains(&self.block.rate) {
            return Err(MediaError::Decode {
                container: self.info.container.clone(),
                reason: format!("a sample rate of {} Hz", self.block.rate),
            });
        }
        match &mut self.full_scale {
            None => {
                let before = out.len();
                self.converter.push(&self.block, out);
                self.count(out, before);
            }
            Some(scale) => {
                let ready = scale.push(std::mem::take(&mut self.block));
                self.convert_scaled(ready, out);
            }
        }
        Ok(())
    }

    /// Mixes and resamples blocks whose scale is known onto `out`.
    fn convert_scaled(&mut self, blocks: Vec<Block>, out: &mut Vec<f32>) {
        for block in blocks {
            let before = out.len();
            self.converter.push(&block, out);
            self.count(out, before);
        }
    }

    /// Ends the conversion.
    fn flush(&mut self, out: &mut Vec<f32>) {
        let held = self.full_scale.as_mut().map(FullScale::finish).unwrap_or_default();
        self.convert_scaled(held, out);
        let before = out.len();
        self.converter.finish(out);
        self.count(out, before);
    }

    /// Removes from `out[before..]` what an earlier backend has given already and counts the rest.
    fn count(&mut self, out: &mut Vec<f32>, before: usize) {
        let channels = usize::from(self.spec.channels);
        let count = self.drop.min(((out.len() - before) / channels) as u64);
        out.drain(before..before + count as usize * channels);
        self.drop -= count;
        self.given += ((out.len() - before) / channels) as u64;
    }

    /// Reports what had to be mended before it could be heard.
    fn report_mended(&mut self) {
        let opposite = self.converter.opposite_frames() as f64 / f64::from(self.info.sample_rate.max(1));
        if opposite >= OPPOSITE_SECONDS {
            self.warnings.push(format!(
                "the two channels are in opposite phase for {opposite:.1} s: they were subtracted, since a mean would cancel them"
            ));
        }
        if let Some(scale) = self.full_scale.as_ref().and_then(FullScale::found) {
            self.warnings
                .push(format!("the samples are numbers up to {scale}, where full scale is 1: they were divided"));
        }
    }

    /// Looks back when the source has ended: did it hold what it promised?
    fn conclude(&mut self) -> Result<(), MediaError> {
        let seconds = self.seconds();
        self.report_mended();
        let knows = match &self.backend {
            Backend::InProcess(decoder) => {
                if decoder.broken() > 0 {
                    self.warnings.push(format!("damaged packets replaced by silence: {}", decoder.broken()));
                }
                decoder.knows_duration()
            }
            Backend::Ffmpeg(child) => {
                let ending = child.ending();
                if seconds == 0.0 {
                    let reason = ending.complaint.map(|complaint| complaint.to_string()).or(ending.trouble);
                    return Err(MediaError::Decode {
                        container: self.info.container.clone(),
                        reason: reason.unwrap_or_else(|| "it holds no samples".into()),
                    });
                }
                if let Some(trouble) = ending.trouble {
                    self.warnings.push(format!("decoding stopped after {seconds:.1} s: {trouble}"));
                } else if let Some(complaint) = ending.complaint {
                    let count = ending.complaint_count;
                    self.warnings.push(format!("the decoder complained {count} times, first: {complaint}"));
                }
                child.knows_duration()
            }
        };
        if let Some(duration) = self.info.duration.filter(|_| knows)
            && seconds < duration * (1.0 - EARLY_SHARE) - EARLY_SECONDS
        {
            self.warnings.push(format!("the file ends early: {seconds:.1} s of about {duration:.1} s could be read"));
        }
        Ok(())
    }
}

/// Reads all of a source: its samples, what it is, and what is wrong with it.
pub fn decode_all(source: Source, options: &Options) -> Result<(Vec<f32>, Info, Vec<String>), MediaError> {
    let mut stream = AudioStream::open(source, options)?;
    let mut samples = Vec::new();
    while stream.read(&mut samples)? > 0 {}
    Ok((samples, stream.info.clone(), stream.warnings))
}

fn open_ffmpeg(
    input: Input,
    container: Container,
    options: &Options,
    why: Option<String>,
) -> Result<Ffmpeg, MediaError> {
    let program: PathBuf = ffmpeg::find(options.ffmpeg.as_deref()).ok_or_else(|| match container {
        // Nobody can say whether ffmpeg would know it, so it is not blamed on ffmpeg alone.
        Container::Unknown => MediaError::FfmpegMissing { why: "a format that is not built in".into() },
        known => MediaError::FfmpegMissing {
            why: match why {
                Some(reason) => format!("this {} file ({reason})", known.name()),
                None => format!("{} files", known.name()),
            },
        },
    })?;
    let input = input.for_child(container.streams(), container == Container::Mp4, options.limits.memory_bytes)?;
    Ffmpeg::open(&program, input, container, options)
}

/// The length of the wanted track by the index of an MP4 file: ffmpeg gives that of the longest track.
fn mp4_seconds(input: &Input, options: &Options) -> Result<Option<f64>, MediaError> {
    let movie = match input.again()? {
        Some(Input::File(mut file)) => mp4::movie(&mut file),
        Some(Input::Seekable(mut source)) => mp4::movie(&mut source),
        _ => Ok(None),
    };
    // A damaged index is ffmpeg's to complain about.
    let movie = movie.ok().flatten().filter(|movie| !movie.intricate);
    let track = movie.as_ref().and_then(|movie| movie.audio.get(options.track.unwrap_or(0)));
    Ok(track.and_then(mp4::AudioTrack::presented_seconds))
}

/// Whether a RIFF file is shorter than its header says. Of AVI files ffmpeg gives the length it finds, not the one promised.
fn is_cut_short(input: &Input, head: &[u8]) -> Result<bool, MediaError> {
    let (Some(length), Some(Ok(size))) = (input.length()?, head.get(4..8).map(TryInto::try_into)) else {
        return Ok(false);
    };
    let promised = u32::from_le_bytes(size);
    Ok(promised != u32::MAX && u64::from(promised) + 8 > length + 1)
}

fn too_far() -> MediaError {
    MediaError::Limit("the stream ran on while its format was looked for".into())
}
