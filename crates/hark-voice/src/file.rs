//! Sound files that say in their metadata that they are synthetic.

use std::io::Write;
use std::path::{Path, PathBuf};

use hark_media::{
    AudioSpec, CancelToken, Encoder, MediaError, Options, OutputFormat, SampleWriter, Tags, WavFormat, WavWriter,
};
use hark_watermark::DISCLOSURE;

use crate::error::VoiceError;

/// A format in which speech is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// WAV, 16 bits.
    Wav,
    /// FLAC, 16 bits; needs ffmpeg.
    Flac,
    /// MP3, 96 kb/s; needs ffmpeg.
    Mp3,
    /// Opus in Ogg, 48 kb/s; needs ffmpeg.
    Opus,
    /// 16-bit samples, little-endian, without a header: the only format that can't say what it is. It carries the watermark as all do.
    Pcm,
}

impl FileFormat {
    /// All formats, the default first.
    pub const ALL: [FileFormat; 5] =
        [FileFormat::Wav, FileFormat::Flac, FileFormat::Mp3, FileFormat::Opus, FileFormat::Pcm];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Wav => "wav",
            FileFormat::Flac => "flac",
            FileFormat::Mp3 => "mp3",
            FileFormat::Opus => "opus",
            FileFormat::Pcm => "pcm",
        }
    }

    /// The format of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        FileFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            FileFormat::Wav => "audio/wav",
            FileFormat::Flac => "audio/flac",
            FileFormat::Mp3 => "audio/mpeg",
            FileFormat::Opus => "audio/ogg",
            FileFormat::Pcm => "audio/pcm",
        }
    }

    /// Whether the program that writes it is there; nothing is started. `ffmpeg` is looked for on the search path when not given.
    pub fn check(self, ffmpeg: Option<&Path>) -> Result<(), VoiceError> {
        let options = Options { ffmpeg: ffmpeg.map(Path::to_owned), ..Options::default() };
        if self.encoded().is_none() || Encoder::is_available(&options) {
            return Ok(());
        }
        Err(VoiceError::NoEncoder { format: self.name() })
    }

    fn encoded(self) -> Option<OutputFormat> {
        match self {
            FileFormat::Wav | FileFormat::Pcm => None,
            FileFormat::Flac => Some(OutputFormat::Flac),
            FileFormat::Mp3 => Some(OutputFormat::Mp3 { kbps: 96 }),
            FileFormat::Opus => Some(OutputFormat::Opus { kbps: 48 }),
        }
    }
}

/// Where a file goes.
pub(crate) type Output = Box<dyn Write + Send>;

/// A file that is being written.
pub(crate) enum SpeechFile {
    /// WAV whose header has its length: it goes out at the end.
    Wav {
        spec: AudioSpec,
        samples: Vec<f32>,
        out: Option<Output>,
    },
    /// WAV that goes out as it is made, without its length.
    WavStream(WavWriter<Output>),
    Pcm {
        out: Output,
        bytes: Vec<u8>,
        frames: u64,
    },
    Encoded(Encoder),
}

/// What every file says of itself.
fn tags() -> Tags {
    Tags {
        comment: Some(DISCLOSURE.to_owned()),
        software: Some(concat!("hark ", env!("CARGO_PKG_VERSION")).to_owned()),
    }
}

impl SpeechFile {
    /// Begins a file. With `is_streamed` a WAV file goes out as it is made; its header then has no length. `ffmpeg` is looked for on the search path when not given.
    pub(crate) fn start(
        spec: AudioSpec,
        format: FileFormat,
        is_streamed: bool,
        ffmpeg: Option<PathBuf>,
        out: Output,
        cancel: &CancelToken,
    ) -> Result<Self, VoiceError> {
        if let Some(encoded) = format.encoded() {
            let options = Options { tags: tags(), cancel: cancel.clone(), ffmpeg, ..Options::default() };
            // Every format has the rates and the channel of speech, so what is left is a program that is missing or does not start.
            return Encoder::start(spec, encoded, out, &options).map(SpeechFile::Encoded).map_err(|error| {
                tracing::error!(format = format.name(), %error, "encoder.start_failed");
                VoiceError::NoEncoder { format: format.name() }
            });
        }
        Ok(match (format, is_streamed) {
            (FileFormat::Pcm, _) => SpeechFile::Pcm { out, bytes: Vec::new(), frames: 0 },
            (_, true) => SpeechFile::WavStream(WavWriter::endless(out, spec, WavFormat::S16, &tags())?),
            (_, false) => SpeechFile::Wav { spec, samples: Vec::new(), out: Some(out) },
        })
    }
}

impl SampleWriter for SpeechFile {
    fn write(&mut self, block: &[f32]) -> Result<(), MediaError> {
        match self {
            SpeechFile::Wav { samples, .. } => samples.extend_from_slice(block),
            SpeechFile::WavStream(wav) => wav.write(block)?,
            SpeechFile::Pcm { out, bytes, frames } => {
                bytes.clear();
                let sample = |sample: &f32| ((sample * 32768.0).round().clamp(-32768.0, 32767.0) as i16).to_le_bytes();
                bytes.extend(block.iter().flat_map(sample));
                out.write_all(bytes)?;
                *frames += block.len() as u64;
            }
            SpeechFile::Encoded(encoder) => encoder.write(block)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, MediaError> {
        match self {
            SpeechFile::Wav { spec, samples, out } => {
                let frames = samples.len() as u64;
                if let Some(out) = out.take() {
                    let mut wav = WavWriter::with_length_and_tags(out, *spec, WavFormat::S16, frames, &tags())?;
                    wav.write(samples)?;
                    wav.finish()?;
                }
                Ok(frames)
            }
            SpeechFile::WavStream(wav) => wav.finish(),
            SpeechFile::Pcm { out, frames, .. } => {
                out.flush()?;
                Ok(*frames)
            }
            SpeechFile::Encoded(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::Fault;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: FileFormat, is_streamed: bool) -> Vec<u8> {
        let (out, spec) = (Shared::default(), AudioSpec { rate: 24_000, channels: 1 });
        let token = CancelToken::default();
        let mut file = SpeechFile::start(spec, format, is_streamed, None, Box::new(out.clone()), &token).unwrap();
        let tone: Vec<f32> = (0..24_000).map(|at| (at as f32 * 0.1).sin() * 0.5).collect();
        tone.chunks(1000).for_each(|block| file.write(block).unwrap());
        assert_eq!(file.finish().unwrap(), 24_000);
        drop(file);
        std::mem::take(&mut out.0.lock().unwrap())
    }

    fn check(format: FileFormat, is_streamed: bool) {
        let bytes = written(format, is_streamed);
        let said = Tags::read(std::io::Cursor::new(&bytes)).unwrap();
        assert_eq!(said.comment.as_deref(), Some(DISCLOSURE), "{format:?}");
        assert!(said.software.unwrap().starts_with("hark "));
        let source = hark_media::Source::Reader(Box::new(std::io::Cursor::new(bytes)));
        let samples = hark_media::decode_all(source, &Options::default()).unwrap().0;
        // Encoders of MP3 and Opus may leave some hundredths of a second at the ends.
        assert!((samples.len() as f64 / 16_000.0 - 1.0).abs() < 0.12, "{format:?}: {} samples", samples.len());
        let level = (samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32).sqrt();
        assert!((level - 0.35).abs() < 0.05, "{format:?}: {level}");
    }

    #[test]
    fn a_wav_file_says_what_it_is_with_and_without_its_length() {
        check(FileFormat::Wav, false);
        check(FileFormat::Wav, true);
        let whole = written(FileFormat::Wav, false);
        assert_eq!(u32::from_le_bytes(whole[4..8].try_into().unwrap()) as usize, whole.len() - 8);
        assert_eq!(written(FileFormat::Wav, true)[4..8], [0xff; 4]);
        let pcm = written(FileFormat::Pcm, true);
        assert_eq!(pcm.len(), 48_000);
        assert!(whole.ends_with(&pcm));
    }

    #[test]
    #[ignore = "needs ffmpeg"]
    fn every_compressed_file_says_what_it_is() {
        for format in [FileFormat::Flac, FileFormat::Mp3, FileFormat::Opus] {
            check(format, true);
        }
    }

    #[test]
    fn a_format_whose_program_is_missing_is_a_matter_of_the_installation_and_nothing_is_written() {
        let (nowhere, token) = (PathBuf::from("/nowhere/ffmpeg"), CancelToken::default());
        for format in FileFormat::ALL {
            let (out, spec) = (Shared::default(), AudioSpec { rate: 24_000, channels: 1 });
            let started = SpeechFile::start(spec, format, false, Some(nowhere.clone()), Box::new(out.clone()), &token);
            let needs_program = format.encoded().is_some();
            for found in [started.map(drop), format.check(Some(&nowhere))] {
                assert_eq!(found.map_err(|error| error.fault()).err(), needs_program.then_some(Fault::Installation));
            }
            assert!(out.0.lock().unwrap().is_empty());
        }
        let message = FileFormat::Mp3.check(Some(&nowhere)).unwrap_err().to_string();
        assert!(message.starts_with("mp3 files need the program ffmpeg"), "{message}");
        assert!(FileFormat::Mp3.check(Some(Path::new("/proc/self/exe"))).is_ok());
    }

    #[test]
    fn formats_are_found_by_name() {
        for format in FileFormat::ALL {
            assert_eq!(FileFormat::of_name(format.name()), Some(format));
        }
        assert_eq!(FileFormat::of_name("aac"), None);
    }
}
