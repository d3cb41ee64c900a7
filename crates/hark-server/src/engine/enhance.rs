//! The noise reduction model of the engine, and the sound that it writes.

use std::io::Write;
use std::path::Path;

use hark_enhance::{EnhanceError, Enhancer, Fault, Options};
use hark_media::{
    AudioSpec, AudioStream, Encoder, MediaError, OutputFormat, SampleWriter, Source, WavFormat, WavWriter,
};
use hark_models::Role as ModelRole;
use hark_speech::CancelToken;
use serde::{Deserialize, Serialize};

use super::registry::{InUse, ModelSpec, Resident};
use super::{Dependency, EngineError, Enhance, SpeechEngine};

/// Bytes of a sound as they are made, from a thread that may block.
pub type SoundOutput = Box<dyn Write + Send>;

/// The format of a sound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SoundFormat {
    /// WAV, 16 bits.
    #[default]
    Wav,
    /// FLAC, 16 bits.
    Flac,
    /// MP3.
    Mp3,
    /// Opus in Ogg.
    Ogg,
}

impl From<SoundFormat> for hark_voice::FileFormat {
    fn from(format: SoundFormat) -> Self {
        match format {
            SoundFormat::Wav => Self::Wav,
            SoundFormat::Flac => Self::Flac,
            SoundFormat::Mp3 => Self::Mp3,
            SoundFormat::Ogg => Self::Opus,
        }
    }
}

impl SoundFormat {
    /// All formats, the default first.
    pub const ALL: [SoundFormat; 4] = [SoundFormat::Wav, SoundFormat::Flac, SoundFormat::Mp3, SoundFormat::Ogg];

    /// The name in the database.
    pub fn name(self) -> &'static str {
        match self {
            SoundFormat::Wav => "wav",
            SoundFormat::Flac => "flac",
            SoundFormat::Mp3 => "mp3",
            SoundFormat::Ogg => "ogg",
        }
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            SoundFormat::Wav => "audio/wav",
            SoundFormat::Flac => "audio/flac",
            SoundFormat::Mp3 => "audio/mpeg",
            SoundFormat::Ogg => "audio/ogg",
        }
    }

    /// The header that belongs in the place of the first bytes of a sound of this length, for a format whose header has the length.
    pub(crate) fn header(self, channels: u16, frames: u64) -> Result<Option<Vec<u8>>, MediaError> {
        match self {
            SoundFormat::Wav => hark_media::wav_header(spec(channels), WAV, frames).map(Some),
            SoundFormat::Flac | SoundFormat::Mp3 | SoundFormat::Ogg => Ok(None),
        }
    }

    /// The encoder's format; none for WAV, which needs none. The rates are those of `hark enhance`.
    fn encoded(self) -> Option<OutputFormat> {
        match self {
            SoundFormat::Wav => None,
            SoundFormat::Flac => Some(OutputFormat::Flac),
            SoundFormat::Mp3 => Some(OutputFormat::Mp3 { kbps: 192 }),
            SoundFormat::Ogg => Some(OutputFormat::Opus { kbps: 96 }),
        }
    }

    /// Whether the program that writes it is there; nothing is started. `ffmpeg` is looked for on the search path when not given.
    pub(super) fn check(self, ffmpeg: Option<&Path>) -> Result<(), EngineError> {
        let options = hark_media::Options { ffmpeg: ffmpeg.map(Path::to_owned), ..hark_media::Options::default() };
        if self.encoded().is_none() || Encoder::is_available(&options) {
            return Ok(());
        }
        Err(EngineError::NoEncoder(self.media_type()))
    }

    /// Starts to write a sound.
    fn writer(
        self,
        spec: AudioSpec,
        out: SoundOutput,
        cancel: &CancelToken,
    ) -> Result<Box<dyn SampleWriter>, EngineError> {
        let Some(format) = self.encoded() else {
            return Ok(Box::new(WavWriter::without_length(out, spec, WAV).map_err(of_media)?));
        };
        let (channels, most) = (spec.channels, format.max_channels());
        if channels > most {
            return Err(EngineError::Unusable(format!(
                "the recording has {channels} channels and {} takes {most}: ask for audio/wav",
                self.media_type()
            )));
        }
        let options = hark_media::Options { cancel: cancel.clone(), ..hark_media::Options::default() };
        // The channels fit and the rate is one of every format, so what is left is a missing program.
        let encoder = Encoder::start(spec, format, out, &options)
            .map_err(|error| EngineError::unavailable(Dependency::Decoder, error))?;
        Ok(Box::new(encoder))
    }
}

/// How the samples of a WAV file are stored.
const WAV: WavFormat = WavFormat::S16;
/// The model in memory, as a multiple of its compressed file: weights as floats, some of them packed again, and the workspace of a stream.
const MEMORY_FACTOR: u64 = 8;

fn spec(channels: u16) -> AudioSpec {
    AudioSpec { rate: hark_enhance::SAMPLE_RATE, channels }
}

/// The options of noise reduction, stored with its job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnhanceWork {
    /// By how many dB noise is reduced at most; no limit when not given.
    pub strength: Option<f32>,
    /// The format of the result.
    pub format: SoundFormat,
    /// Maximum bytes of recordings that the account may store; no limit when not given.
    pub max_storage: Option<u64>,
    /// The budget of audio that may be decoded, whatever duration the container claims.
    #[serde(skip)]
    pub budget: hark_media::Budget,
}

/// What became of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Enhanced {
    /// The model that ran.
    pub model: String,
    /// Samples of each channel, as many as the recording has at 48 kHz.
    pub frames: u64,
    /// Channels.
    pub channels: u16,
}

impl Enhanced {
    /// The length in seconds.
    pub fn seconds(&self) -> f64 {
        self.frames as f64 / f64::from(hark_enhance::SAMPLE_RATE)
    }
}

/// The loaded model.
struct EnhanceModel {
    enhancer: Enhancer,
    bytes: u64,
}

impl Resident for EnhanceModel {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A recording at 48 kHz with all its channels.
pub(super) fn open(source: Source, work: &EnhanceWork, cancel: &CancelToken) -> Result<AudioStream, EngineError> {
    let options =
        hark_media::Options { budget: work.budget.clone(), cancel: cancel.clone(), ..hark_media::Options::default() };
    AudioStream::open(source, &Enhancer::input_options(options)).map_err(of_media)
}

/// Writes what `fill` makes of a recording; none of it is in memory for longer than a moment.
pub(super) fn write(
    audio: &mut AudioStream,
    work: &EnhanceWork,
    out: SoundOutput,
    cancel: &CancelToken,
    fill: impl FnOnce(&mut AudioStream, &mut dyn SampleWriter) -> Result<(), EngineError>,
) -> Result<(u64, u16), EngineError> {
    let channels = audio.spec().channels;
    let mut writer = work.format.writer(spec(channels), out, cancel)?;
    fill(audio, &mut *writer)?;
    let frames = writer.finish().map_err(of_media)?;
    if frames == 0 {
        return Err(EngineError::Unusable("the file holds no sound".to_owned()));
    }
    Ok((frames, channels))
}

impl SpeechEngine {
    fn enhancer(&self, name: &str) -> Result<InUse<EnhanceModel>, EngineError> {
        let (folder, bytes) = self.folder(name)?;
        let bytes = bytes * MEMORY_FACTOR;
        self.get(ModelSpec { name, bytes, is_counted: false }, || {
            let enhancer = Enhancer::load(&self.compute, &folder).map_err(of_enhancer)?;
            Ok(EnhanceModel { enhancer, bytes })
        })
    }
}

impl Enhance for SpeechEngine {
    fn check_enhance(&self) -> Result<(), EngineError> {
        self.check_installed(&[ModelRole::Enhance])
    }

    fn enhance(
        &self,
        source: Source,
        work: &EnhanceWork,
        out: SoundOutput,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Enhanced, EngineError> {
        let name = self.name_for(ModelRole::Enhance)?;
        let model = self.enhancer(name)?;
        let options = work.strength.map_or_else(Options::default, |strength| Options { strength });
        let mut audio = open(source, work, cancel)?;
        let (frames, channels) = write(&mut audio, work, out, cancel, |audio, writer| {
            let mut report = |so_far: hark_enhance::Progress| progress(so_far.done, so_far.total);
            let done = model.enhancer.enhance(audio, writer, &options, &|| cancel.is_cancelled(), &mut report);
            done.map(drop).map_err(of_enhancer)
        })?;
        for warning in audio.warnings() {
            tracing::info!(warning, "recording.warning");
        }
        Ok(Enhanced { model: name.to_owned(), frames, channels })
    }
}

fn of_media(error: MediaError) -> EngineError {
    of_enhancer(EnhanceError::Media(error))
}

fn of_enhancer(error: EnhanceError) -> EngineError {
    match (&error, error.fault()) {
        (_, Fault::Cancelled) => EngineError::Cancelled,
        (_, Fault::Request) => EngineError::Unusable(error.to_string()),
        (EnhanceError::Media(MediaError::FfmpegMissing { .. }), _) => {
            EngineError::unavailable(Dependency::Decoder, error)
        }
        (EnhanceError::Media(MediaError::Io(_)), _) => EngineError::unavailable(Dependency::Recordings, error),
        // The recording may be the cause, so the attempt counts.
        (EnhanceError::Media(_), _) => EngineError::Failed(error.to_string()),
        (_, Fault::Installation) => EngineError::unavailable(Dependency::Engine, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_whose_program_is_missing_is_named_with_one_that_needs_none() {
        let nowhere = Path::new("/nowhere/ffmpeg");
        assert!(SoundFormat::Wav.check(Some(nowhere)).is_ok());
        for format in [SoundFormat::Flac, SoundFormat::Mp3, SoundFormat::Ogg] {
            let message = format.check(Some(nowhere)).unwrap_err().to_string();
            assert!(message.contains(format.media_type()) && message.ends_with("ask for audio/wav"), "{message}");
            assert!(format.check(Some(Path::new("/proc/self/exe"))).is_ok());
        }
    }
}
