//! WAV files of any rate, channels and length, written as a stream.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use crate::{AudioSpec, MediaError, SampleWriter, Tags};

/// How samples are stored in a WAV file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WavFormat {
    /// 16-bit integers.
    S16,
    /// 24-bit integers.
    S24,
    /// 32-bit floats, which may lie beyond ±1.
    F32,
}

impl WavFormat {
    fn bytes(self) -> u16 {
        match self {
            Self::S16 => 2,
            Self::S24 => 3,
            Self::F32 => 4,
        }
    }
}

/// Samples converted at once.
const BLOCK: usize = 4096;
/// RF64 carries sizes beyond 32 bits in a chunk of this many bytes.
const DS64: u32 = 28;

/// Puts another header in the place of the first.
type RewriteHeader<W> = fn(&mut W, &[u8]) -> io::Result<()>;

/// Writes a WAV file block by block. Past 4 GiB it is an RF64 file, as EBU Tech 3306 says.
pub struct WavWriter<W> {
    writer: W,
    spec: AudioSpec,
    format: WavFormat,
    /// Frames that the header announced; none when it is written again at the end, or has no length.
    announced: Option<u64>,
    rewrite_header: Option<RewriteHeader<W>>,
    /// The chunk of the metadata, empty without any.
    info: Vec<u8>,
    frames: u64,
    is_finished: bool,
    bytes: Vec<u8>,
}

impl<W: Write + Seek> WavWriter<W> {
    /// A file of any length: `finish` writes its header again, at the place where it began.
    pub fn new(writer: W, spec: AudioSpec, format: WavFormat) -> Result<Self, MediaError> {
        Self::with_tags(writer, spec, format, &Tags::default())
    }

    /// As [`WavWriter::new`], with metadata before the samples.
    pub fn with_tags(mut writer: W, spec: AudioSpec, format: WavFormat, tags: &Tags) -> Result<Self, MediaError> {
        check(spec, format)?;
        let info = tags.wav_chunk();
        writer.write_all(&header(spec, format, 0, true, &info))?;
        Ok(Self::with(writer, spec, format, info, None, Some(rewrite)))
    }
}

/// Overwrites the header and goes back to the end.
fn rewrite<W: Write + Seek>(writer: &mut W, header: &[u8]) -> io::Result<()> {
    let end = writer.stream_position()?;
    writer.seek(SeekFrom::Start(0))?;
    writer.write_all(header)?;
    writer.seek(SeekFrom::Start(end))?;
    Ok(())
}

impl<W: Write> WavWriter<W> {
    /// A file of this many frames, for writers that can't seek; `finish` fails if another number was written.
    pub fn with_length(writer: W, spec: AudioSpec, format: WavFormat, frames: u64) -> Result<Self, MediaError> {
        Self::with_length_and_tags(writer, spec, format, frames, &Tags::default())
    }

    /// As [`WavWriter::with_length`], with metadata before the samples.
    pub fn with_length_and_tags(
        mut writer: W,
        spec: AudioSpec,
        format: WavFormat,
        frames: u64,
        tags: &Tags,
    ) -> Result<Self, MediaError> {
        check(spec, format)?;
        let info = tags.wav_chunk();
        writer.write_all(&header(spec, format, frames, false, &info))?;
        Ok(Self::with(writer, spec, format, info, Some(frames), None))
    }

    /// A file whose length is not known, for writers that can't seek: whoever hands it on puts [`wav_header`] in the place of its first bytes.
    pub fn without_length(mut writer: W, spec: AudioSpec, format: WavFormat) -> Result<Self, MediaError> {
        writer.write_all(&wav_header(spec, format, 0)?)?;
        Ok(Self::with(writer, spec, format, Vec::new(), None, None))
    }

    /// A file whose length nobody knows yet, for writers that can't seek: its sizes are the largest, which readers take for "to the end".
    pub fn endless(mut writer: W, spec: AudioSpec, format: WavFormat, tags: &Tags) -> Result<Self, MediaError> {
        check(spec, format)?;
        let info = tags.wav_chunk();
        let mut header = header(spec, format, 0, false, &info);
        let sizes = [4, header.len() - 4];
        sizes.into_iter().for_each(|at| header[at..at + 4].fill(0xff));
        writer.write_all(&header)?;
        Ok(Self::with(writer, spec, format, info, None, None))
    }

    fn with(
        writer: W,
        spec: AudioSpec,
        format: WavFormat,
        info: Vec<u8>,
        announced: Option<u64>,
        rewrite_header: Option<RewriteHeader<W>>,
    ) -> Self {
        let bytes = Vec::with_capacity(BLOCK * usize::from(format.bytes()));
        WavWriter { writer, spec, format, info, announced, rewrite_header, frames: 0, is_finished: false, bytes }
    }

    /// The writer, once `finish` has completed the file.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

impl<W: Write> SampleWriter for WavWriter<W> {
    /// Takes whole frames; integers clip beyond ±1.
    fn write(&mut self, interleaved: &[f32]) -> Result<(), MediaError> {
        let channels = usize::from(self.spec.channels);
        if self.is_finished || !interleaved.len().is_multiple_of(channels) {
            return Err(MediaError::Output("samples that are no whole frames, or come after the end".into()));
        }
        for samples in interleaved.chunks(BLOCK) {
            self.bytes.clear();
            // 2^15 and 2^23 both ways, as every decoder here scales integers; +1.0 clips to the largest.
            match self.format {
                WavFormat::S16 => self.bytes.extend(
                    samples
                        .iter()
                        .flat_map(|&sample| ((sample * 32768.0).round().clamp(-32768.0, 32767.0) as i16).to_le_bytes()),
                ),
                WavFormat::S24 => self.bytes.extend(samples.iter().flat_map(|&sample| {
                    let [a, b, c, _] =
                        ((sample * 8_388_608.0).round().clamp(-8_388_608.0, 8_388_607.0) as i32).to_le_bytes();
                    [a, b, c]
                })),
                WavFormat::F32 => self.bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes())),
            }
            self.writer.write_all(&self.bytes)?;
        }
        self.frames += (interleaved.len() / channels) as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, MediaError> {
        if self.is_finished {
            return Ok(self.frames);
        }
        self.is_finished = true;
        if data_bytes(self.spec, self.format, self.frames) % 2 == 1 {
            self.writer.write_all(&[0])?;
        }
        match (self.announced, self.rewrite_header) {
            (Some(announced), _) if announced != self.frames => {
                let frames = self.frames;
                return Err(MediaError::Output(format!("{announced} frames were announced, {frames} were written")));
            }
            (None, Some(rewrite)) => {
                rewrite(&mut self.writer, &header(self.spec, self.format, self.frames, true, &self.info))?;
            }
            _ => {}
        }
        self.writer.flush()?;
        Ok(self.frames)
    }
}

/// The header of a file of this many frames that [`WavWriter::without_length`] wrote: as long as the one it begins with.
pub fn wav_header(spec: AudioSpec, format: WavFormat, frames: u64) -> Result<Vec<u8>, MediaError> {
    check(spec, format)?;
    Ok(header(spec, format, frames, true, &[]))
}

fn check(spec: AudioSpec, format: WavFormat) -> Result<(), MediaError> {
    let frame = u32::from(spec.channels) * u32::from(format.bytes());
    // The header has 16 bits for a frame and 32 for a second.
    if spec.channels == 0 || spec.rate == 0 || frame > u32::from(u16::MAX) || spec.rate.checked_mul(frame).is_none() {
        let AudioSpec { rate, channels } = spec;
        return Err(MediaError::Output(format!("a WAV file of {channels} channels at {rate} Hz")));
    }
    Ok(())
}

fn data_bytes(spec: AudioSpec, format: WavFormat, frames: u64) -> u64 {
    frames.saturating_mul(u64::from(spec.channels) * u64::from(format.bytes()))
}

/// Everything before the samples. With `reserve` there is room for the sizes of RF64 whatever the length is, so that the header
/// stays as long when it is written again.
fn header(spec: AudioSpec, format: WavFormat, frames: u64, reserve: bool, info: &[u8]) -> Vec<u8> {
    let (channels, bytes) = (spec.channels, format.bytes());
    let data = data_bytes(spec, format, frames);
    let is_float = format == WavFormat::F32;
    // Plain readers know formats 1 and 3; more than two channels or 16 bits are said with positions and valid bits.
    let is_extensible = channels > 2 || format == WavFormat::S24;
    let tag: u16 = match (is_extensible, is_float) {
        (true, _) => 0xfffe,
        (false, true) => 3,
        (false, false) => 1,
    };
    let mut rest = Vec::with_capacity(80);
    let extra: u32 = if is_extensible {
        24
    } else if is_float {
        2
    } else {
        0
    };
    rest.extend_from_slice(b"fmt ");
    rest.extend_from_slice(&(16 + extra).to_le_bytes());
    rest.extend_from_slice(&tag.to_le_bytes());
    rest.extend_from_slice(&channels.to_le_bytes());
    rest.extend_from_slice(&spec.rate.to_le_bytes());
    rest.extend_from_slice(&(spec.rate * u32::from(channels) * u32::from(bytes)).to_le_bytes());
    rest.extend_from_slice(&(channels * bytes).to_le_bytes());
    rest.extend_from_slice(&(8 * bytes).to_le_bytes());
    if extra > 0 {
        rest.extend_from_slice(&(extra as u16 - 2).to_le_bytes());
    }
    if is_extensible {
        rest.extend_from_slice(&(8 * bytes).to_le_bytes());
        rest.extend_from_slice(&speaker_mask(channels).to_le_bytes());
        rest.extend_from_slice(&[if is_float { 3 } else { 1 }, 0]);
        rest.extend_from_slice(b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71");
    }
    if is_float {
        rest.extend_from_slice(b"fact\x04\x00\x00\x00");
        rest.extend_from_slice(&u32::try_from(frames).unwrap_or(u32::MAX).to_le_bytes());
    }
    rest.extend_from_slice(info);
    rest.extend_from_slice(b"data");

    let padded = data.saturating_add(data % 2);
    let riff = |ds64: u64| padded.saturating_add(4 + ds64 + rest.len() as u64 + 4);
    let is_rf64 = riff(u64::from(DS64) + 8) > u64::from(u32::MAX);
    let has_room = is_rf64 || reserve;
    let riff = riff(if has_room { u64::from(DS64) + 8 } else { 0 });
    let mut out = Vec::with_capacity(rest.len() + 64);
    out.extend_from_slice(if is_rf64 { b"RF64" } else { b"RIFF" });
    out.extend_from_slice(&(if is_rf64 { u32::MAX } else { riff as u32 }).to_le_bytes());
    out.extend_from_slice(b"WAVE");
    if has_room {
        out.extend_from_slice(if is_rf64 { b"ds64" } else { b"JUNK" });
        out.extend_from_slice(&DS64.to_le_bytes());
        let sizes = if is_rf64 { [riff, data, frames] } else { [0; 3] };
        sizes.iter().for_each(|size| out.extend_from_slice(&size.to_le_bytes()));
        out.extend_from_slice(&[0; 4]);
    }
    out.extend_from_slice(&rest);
    out.extend_from_slice(&(if is_rf64 { u32::MAX } else { data as u32 }).to_le_bytes());
    out
}

/// The usual speaker positions of so many channels, as bits of `WAVEFORMATEXTENSIBLE`.
fn speaker_mask(channels: u16) -> u32 {
    match channels {
        1 => 0x4,
        2 => 0x3,
        3 => 0x7,
        4 => 0x33,
        5 => 0x37,
        6 => 0x3f,
        7 => 0x70f,
        8 => 0x63f,
        _ => 0,
    }
}

/// Writes mono samples as a 16-bit PCM WAV file; values beyond ±1 are clipped.
pub fn write_wav(writer: impl Write, samples: &[f32], sample_rate: u32) -> io::Result<()> {
    let spec = AudioSpec { rate: sample_rate, channels: 1 };
    let mut wav = WavWriter::with_length(writer, spec, WavFormat::S16, samples.len() as u64).map_err(into_io)?;
    wav.write(samples).and_then(|()| wav.finish()).map_err(into_io)?;
    Ok(())
}

fn into_io(error: MediaError) -> io::Error {
    match error {
        MediaError::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    }
}

/// Writes mono samples as a 16-bit PCM WAV file at `path`.
pub fn write_wav_file(path: impl AsRef<Path>, samples: &[f32], sample_rate: u32) -> io::Result<()> {
    write_wav(BufWriter::new(File::create(path)?), samples, sample_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_mono_file_has_the_header_that_every_reader_knows() {
        let mut bytes = Vec::new();
        write_wav(&mut bytes, &[0.0, 0.5, -1.0, 2.0], 16_000).unwrap();
        assert_eq!(bytes.len(), 44 + 8);
        assert_eq!(&bytes[..4], b"RIFF");
        assert_eq!(u32::from_le_bytes(bytes[4..8].try_into().unwrap()), 36 + 8);
        assert_eq!(&bytes[36..40], b"data");
        assert_eq!(&bytes[44..], [0, 0, 0, 0x40, 0, 0x80, 0xff, 0x7f]);
    }

    #[test]
    fn a_file_without_its_length_is_read_to_its_end() {
        let spec = AudioSpec { rate: 16_000, channels: 1 };
        let mut wav = WavWriter::endless(Vec::new(), spec, WavFormat::S16, &Tags::default()).unwrap();
        let ramp: Vec<f32> = (0..16_000).map(|at| at as f32 / 32_768.0).collect();
        ramp.chunks(999).for_each(|block| wav.write(block).unwrap());
        assert_eq!(wav.finish().unwrap(), 16_000);
        let bytes = wav.into_inner();
        assert_eq!((bytes.len(), &bytes[4..8], &bytes[40..44]), (44 + 32_000, &[0xff; 4][..], &[0xff; 4][..]));
        let source = crate::Source::Reader(Box::new(io::Cursor::new(bytes)));
        let read = crate::decode_all(source, &Default::default()).unwrap().0;
        assert_eq!(read.len(), ramp.len());
        assert!(read.iter().zip(&ramp).all(|(one, two)| (one - two).abs() < 1e-4));
    }

    #[test]
    fn a_header_keeps_its_length_as_the_file_grows_past_four_gigabytes() {
        for (channels, format) in [(1, WavFormat::S16), (2, WavFormat::F32), (6, WavFormat::S24)] {
            let spec = AudioSpec { rate: 48_000, channels };
            let short = header(spec, format, 0, true, &[]);
            let frame = u64::from(channels * format.bytes());
            let long = header(spec, format, (1 << 32) / frame + 1, true, &[]);
            assert_eq!(short.len(), long.len());
            assert_eq!((&short[..4], &short[12..16]), (&b"RIFF"[..], &b"JUNK"[..]));
            assert_eq!((&long[..4], &long[12..16]), (&b"RF64"[..], &b"ds64"[..]));
            let number = |at: usize| u64::from_le_bytes(long[at..at + 8].try_into().unwrap());
            let data = ((1u64 << 32) / frame + 1) * frame;
            assert_eq!((number(28), number(36)), (data, data / frame));
            assert_eq!(number(20), data + data % 2 + long.len() as u64 - 8);
            assert_eq!(long[long.len() - 4..], [0xff; 4]);
        }
    }

    #[test]
    fn a_file_without_its_length_and_its_header_make_the_file_of_a_writer_that_seeks() {
        for (channels, format) in [(1, WavFormat::S16), (2, WavFormat::S24), (3, WavFormat::F32)] {
            let spec = AudioSpec { rate: 48_000, channels };
            let samples = [0.25; 30];
            let mut streamed = WavWriter::without_length(Vec::new(), spec, format).unwrap();
            streamed.write(&samples).unwrap();
            let frames = streamed.finish().unwrap();
            let mut streamed = streamed.into_inner();
            let header = wav_header(spec, format, frames).unwrap();
            streamed[..header.len()].copy_from_slice(&header);
            let mut whole = WavWriter::new(io::Cursor::new(Vec::new()), spec, format).unwrap();
            whole.write(&samples).unwrap();
            whole.finish().unwrap();
            assert!(streamed == whole.into_inner().into_inner(), "{channels} channels of {format:?}");
        }
        assert!(wav_header(AudioSpec { rate: 48_000, channels: 0 }, WavFormat::S16, 1).is_err());
    }

    /// Needs ffmpeg.
    #[test]
    #[ignore = "needs ffmpeg"]
    fn ffmpeg_reads_the_length_of_a_file_past_four_gigabytes() {
        let spec = AudioSpec { rate: 48_000, channels: 2 };
        let frames = 3u64 << 29;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let header = header(spec, WavFormat::S16, frames, true, &[]);
        file.write_all(&header).unwrap();
        file.as_file().set_len(header.len() as u64 + 4 * frames).unwrap();
        let output = std::process::Command::new("ffprobe")
            .args(["-v", "error", "-show_entries", "stream=duration_ts", "-of", "csv=p=0"])
            .arg(file.path())
            .output()
            .expect("this test needs ffmpeg: install it with `apt install ffmpeg`");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), frames.to_string());
    }

    #[test]
    fn lengths_that_do_not_match_and_impossible_specs_are_errors() {
        let spec = AudioSpec { rate: 8_000, channels: 2 };
        let mut wav = WavWriter::with_length(Vec::new(), spec, WavFormat::S16, 3).unwrap();
        wav.write(&[0.0; 4]).unwrap();
        assert!(matches!(wav.write(&[0.0]), Err(MediaError::Output(_))));
        assert!(matches!(wav.finish(), Err(MediaError::Output(_))));
        for (rate, channels) in [(0, 1), (8_000, 0), (8_000, 20_000), (u32::MAX, 2)] {
            let wav = WavWriter::with_length(Vec::new(), AudioSpec { rate, channels }, WavFormat::F32, 1);
            assert!(matches!(wav, Err(MediaError::Output(_))), "{channels} channels at {rate} Hz");
        }
    }
}
