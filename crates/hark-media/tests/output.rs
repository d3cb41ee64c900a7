//! Tones of several rates and channels in and out: read at any rate, written as WAV and through ffmpeg, and read back. Needs ffmpeg.

use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use hark_media::{
    AudioSpec, AudioStream, CancelToken, Decoder, Encoder, MediaError, Options, OutputChannels, OutputFormat,
    SampleWriter, Source, Tags, WavFormat, WavWriter, decode_all,
};

const SECOND: f64 = 1.0;

/// Channel `c` is a tone of `300 + 200·c` Hz at a level of its own.
fn tone(spec: AudioSpec, frames: usize) -> Vec<f32> {
    let sample = |frame: usize, channel: u16| {
        let t = frame as f64 / f64::from(spec.rate);
        let hertz = 300.0 + 200.0 * f64::from(channel);
        (level(channel) * (std::f64::consts::TAU * hertz * t).sin()) as f32
    };
    (0..frames).flat_map(|frame| (0..spec.channels).map(move |channel| sample(frame, channel))).collect()
}

fn level(channel: u16) -> f64 {
    0.8 / f64::from(channel + 1)
}

fn wav(spec: AudioSpec, format: WavFormat, frames: usize) -> Vec<u8> {
    let mut writer = WavWriter::new(Cursor::new(Vec::new()), spec, format).unwrap();
    // Blocks of an odd number of frames.
    for block in tone(spec, frames).chunks(7_777 * usize::from(spec.channels)) {
        writer.write(block).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), frames as u64);
    writer.into_inner().into_inner()
}

/// Power of what differs, in decibels against full scale, the first and last 50 ms left out: there the tones are cut off.
fn difference_db(spec: AudioSpec, a: &[f32], b: &[f32]) -> f64 {
    let edge = spec.rate as usize / 20 * usize::from(spec.channels);
    let pairs = a[edge..a.len() - edge].iter().zip(&b[edge..]);
    let power: f64 = pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum();
    10.0 * (power / (a.len() - 2 * edge) as f64).max(1e-30).log10()
}

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("output");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn ffmpeg(from: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-i"])
        .arg(from)
        .args(arguments)
        .output()
        .expect("these tests need ffmpeg: install it with `apt install ffmpeg`");
    assert!(output.status.success(), "ffmpeg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn options(rate: u32, channels: OutputChannels) -> Options {
    Options { rate, channels, ..Options::default() }
}

fn bytes(bytes: Vec<u8>) -> Source {
    Source::Seekable(Box::new(Cursor::new(bytes)))
}

const RATES: [u32; 4] = [8_000, 22_050, 44_100, 48_000];

#[test]
#[ignore = "needs ffmpeg"]
fn tones_are_read_at_any_rate_with_all_their_channels_by_both_decoders() {
    for from in RATES {
        for channels in [1, 2, 6] {
            let spec = AudioSpec { rate: from, channels };
            let frames = (SECOND * f64::from(from)) as usize + 1;
            let name = folder().join(format!("{from}-{channels}.wav"));
            std::fs::write(&name, wav(spec, WavFormat::F32, frames)).unwrap();
            let packed = name.with_extension("wv");
            ffmpeg(&name, &["-c:a", "wavpack", packed.to_str().unwrap()]);
            for (path, decoder) in [(&name, Decoder::InProcess), (&packed, Decoder::Ffmpeg)] {
                for to in [16_000, 24_000, 44_100, 48_000] {
                    let what = format!("{from} to {to} Hz, {channels} channels, {decoder:?}");
                    let (samples, info, warnings) =
                        decode_all(Source::Path(path.clone()), &options(to, OutputChannels::All)).unwrap();
                    assert_eq!((info.decoder, info.sample_rate, info.channels), (decoder, from, channels), "{what}");
                    assert!(warnings.is_empty(), "{what}: {warnings:?}");
                    let expected = (frames as u64 * u64::from(to)).div_ceil(u64::from(from)) as usize;
                    assert_eq!(samples.len(), expected * usize::from(channels), "{what}");
                    let out = AudioSpec { rate: to, channels };
                    let difference = difference_db(out, &samples, &tone(out, expected));
                    assert!(difference < -80.0, "{what}: {difference:.1} dB");
                }
            }
        }
    }
}

#[test]
fn a_stream_says_its_rate_and_channels_and_mono_is_the_mix_of_all() {
    let spec = AudioSpec { rate: 48_000, channels: 2 };
    let file = wav(spec, WavFormat::S24, 48_000);
    let stream = AudioStream::open(bytes(file.clone()), &options(24_000, OutputChannels::All)).unwrap();
    assert_eq!(stream.spec(), AudioSpec { rate: 24_000, channels: 2 });
    let (all, ..) = decode_all(bytes(file.clone()), &options(24_000, OutputChannels::All)).unwrap();
    let (mono, ..) = decode_all(bytes(file.clone()), &options(24_000, OutputChannels::Mono)).unwrap();
    assert_eq!(mono.len() * 2, all.len());
    for (frame, mixed) in all.chunks_exact(2).zip(&mono) {
        assert!(((frame[0] + frame[1]) / 2.0 - mixed).abs() < 1e-5);
    }
    for rate in [0, 7_999, 192_001] {
        let refused = AudioStream::open(bytes(file.clone()), &options(rate, OutputChannels::Mono)).err();
        assert!(matches!(refused, Some(MediaError::Output(_))), "{rate}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn wav_files_of_every_kind_are_what_ffmpeg_reads() {
    for (format, exact) in
        [(WavFormat::S16, 2.0 / 65_536.0), (WavFormat::S24, 2.0 / 16_777_216.0), (WavFormat::F32, 0.0)]
    {
        for channels in [1, 2, 3, 6, 8] {
            for rate in [8_000, 44_100, 192_000] {
                let spec = AudioSpec { rate, channels };
                let path = folder().join(format!("{format:?}-{channels}-{rate}.wav"));
                std::fs::write(&path, wav(spec, format, 4_001)).unwrap();
                let raw = ffmpeg(&path, &["-f", "f32le", "-c:a", "pcm_f32le", "-"]);
                let read: Vec<f32> = raw.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
                let written = tone(spec, 4_001);
                assert_eq!(read.len(), written.len(), "{format:?}, {spec:?}");
                let worst = read.iter().zip(&written).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst <= exact, "{format:?}, {spec:?}: {worst}");
            }
        }
    }
}

/// Bytes that can be read while the encoder owns the writer.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn encoded(spec: AudioSpec, format: OutputFormat, frames: usize) -> Vec<u8> {
    encoded_sound(spec, format, &tone(spec, frames))
}

fn encoded_sound(spec: AudioSpec, format: OutputFormat, sound: &[f32]) -> Vec<u8> {
    let out = Shared::default();
    let mut encoder = Encoder::start(spec, format, out.clone(), &Options::default()).unwrap();
    for block in sound.chunks(10_001 * usize::from(spec.channels)) {
        encoder.write(block).unwrap();
    }
    assert_eq!(encoder.finish().unwrap(), sound.len() as u64 / u64::from(spec.channels));
    assert!(matches!(encoder.write(&[0.0; 8]), Err(MediaError::Output(_))));
    drop(encoder);
    std::mem::take(&mut *out.0.lock().unwrap())
}

#[test]
#[ignore = "needs ffmpeg"]
fn flac_gives_back_every_sample() {
    for (rate, channels) in [(8_000, 1), (22_050, 2), (44_100, 2), (48_000, 6), (96_000, 1)] {
        let spec = AudioSpec { rate, channels };
        let frames = rate as usize + 1;
        let file = encoded(spec, OutputFormat::Flac, frames);
        assert_eq!(&file[..4], b"fLaC");
        let (samples, info, warnings) = decode_all(bytes(file), &options(rate, OutputChannels::All)).unwrap();
        assert_eq!((info.codec.as_str(), info.sample_rate, info.channels), ("flac", rate, channels));
        assert!(warnings.is_empty(), "{warnings:?}");
        let written = tone(spec, frames);
        assert_eq!(samples.len(), written.len(), "{spec:?}");
        let worst = samples.iter().zip(&written).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 2.0 / 65_536.0, "{spec:?}: {worst}");
    }
}

/// The level of one channel in the middle of the audio.
fn level_of(samples: &[f32], channels: usize, channel: usize) -> f64 {
    let plane: Vec<f64> = samples.iter().skip(channel).step_by(channels).map(|&sample| f64::from(sample)).collect();
    let middle = &plane[plane.len() / 4..plane.len() * 3 / 4];
    (2.0 * middle.iter().map(|sample| sample * sample).sum::<f64>() / middle.len() as f64).sqrt()
}

#[test]
#[ignore = "needs ffmpeg"]
fn mp3_and_opus_keep_levels_channels_and_lengths() {
    // Rate, channels, format, rate of the file, most frames more than were written.
    for (rate, channels, format, file_rate, more) in [
        (44_100, 2, OutputFormat::Mp3 { kbps: 192 }, 44_100, 3 * 1152),
        (24_000, 1, OutputFormat::Mp3 { kbps: 64 }, 24_000, 3 * 1152),
        (96_000, 1, OutputFormat::Mp3 { kbps: 128 }, 48_000, 3 * 1152),
        (24_000, 1, OutputFormat::Opus { kbps: 48 }, 48_000, 0),
        (22_050, 2, OutputFormat::Opus { kbps: 128 }, 48_000, 0),
        (48_000, 6, OutputFormat::Opus { kbps: 384 }, 48_000, 0),
    ] {
        let spec = AudioSpec { rate, channels };
        let frames = 2 * rate as usize;
        let file = encoded(spec, format, frames);
        let (samples, info, _) = decode_all(bytes(file), &options(file_rate, OutputChannels::All)).unwrap();
        assert_eq!((info.sample_rate, info.channels), (file_rate, channels), "{format:?}");
        let (count, expected) = (samples.len() / usize::from(channels), frames * file_rate as usize / rate as usize);
        assert!((expected..=expected + more).contains(&count), "{format:?}: {count} frames of {expected}");
        for channel in 0..channels {
            let (found, wanted) = (level_of(&samples, channels.into(), channel.into()), level(channel));
            assert!((found / wanted - 1.0).abs() < 0.1, "{format:?} channel {channel}: {found:.3} of {wanted:.3}");
        }
    }
}

/// The level of a tone in one channel.
fn tone_in(samples: &[f32], spec: AudioSpec, channel: usize, hertz: f64) -> f64 {
    let plane: Vec<f64> =
        samples.iter().skip(channel).step_by(spec.channels.into()).map(|&sample| f64::from(sample)).collect();
    let middle = &plane[plane.len() / 4..plane.len() * 3 / 4];
    let angle = |at: usize| std::f64::consts::TAU * hertz * at as f64 / f64::from(spec.rate);
    let sum = |part: fn(f64) -> f64| middle.iter().enumerate().map(|(at, x)| x * part(angle(at))).sum::<f64>();
    2.0 * sum(f64::cos).hypot(sum(f64::sin)) / middle.len() as f64
}

#[test]
#[ignore = "needs ffmpeg"]
fn one_to_eight_channels_keep_their_order_in_flac_and_opus() {
    for channels in 1..=8 {
        let spec = AudioSpec { rate: 48_000, channels };
        // The fourth of seven is the low-frequency channel, of which Opus keeps little more than this.
        let hertz =
            |channel: u16| if (channels, channel) == (7, 3) { 60.0 } else { 300.0 + 200.0 * f64::from(channel) };
        let frames = 48_000;
        let wave = |at: usize, channel| (std::f64::consts::TAU * hertz(channel) * at as f64 / 48_000.0).sin();
        let sound: Vec<f32> =
            (0..frames).flat_map(|at| (0..channels).map(move |channel| (0.3 * wave(at, channel)) as f32)).collect();
        for format in [OutputFormat::Flac, OutputFormat::Opus { kbps: 64 * u32::from(channels) }] {
            let file = encoded_sound(spec, format, &sound);
            let (samples, info, _) = decode_all(bytes(file.clone()), &options(48_000, OutputChannels::All)).unwrap();
            assert_eq!(info.channels, channels, "{format:?}");
            for found_in in 0..channels {
                for sent_in in 0..channels {
                    let level = tone_in(&samples, spec, found_in.into(), hertz(sent_in));
                    let wanted = if found_in == sent_in { 0.3 } else { 0.0 };
                    let what =
                        format!("{format:?}, {channels} channels: {level:.3} of channel {sent_in} in {found_in}");
                    assert!((level - wanted).abs() < 0.03, "{what}");
                }
            }
            // Every channel is heard in the mix, but the low-frequency one.
            let (mono, ..) = decode_all(bytes(file), &options(48_000, OutputChannels::Mono)).unwrap();
            for channel in (0..channels).filter(|channel| channels < 6 || *channel != 3) {
                let level = tone_in(&mono, AudioSpec { rate: 48_000, channels: 1 }, 0, hertz(channel));
                assert!(level > 0.02, "{format:?}, {channels} channels: {level:.3} of channel {channel} in the mix");
            }
        }
    }
}

#[test]
fn what_a_format_cannot_carry_is_refused_before_a_child_starts() {
    for (rate, channels, format) in [
        (44_100, 3, OutputFormat::Mp3 { kbps: 128 }),
        (44_100, 9, OutputFormat::Flac),
        (44_100, 0, OutputFormat::Flac),
        (1_000, 1, OutputFormat::Opus { kbps: 32 }),
    ] {
        let refused = Encoder::start(AudioSpec { rate, channels }, format, io::sink(), &Options::default()).err();
        assert!(matches!(refused, Some(MediaError::Output(_))), "{format:?}: {refused:?}");
    }
    let missing = Options { ffmpeg: Some("/nowhere/ffmpeg".into()), ..Options::default() };
    let spec = AudioSpec { rate: 48_000, channels: 1 };
    let refused = Encoder::start(spec, OutputFormat::Flac, io::sink(), &missing).err();
    assert!(refused.is_some_and(|error| error.to_string().contains("needs ffmpeg")));
}

/// A writer whose disk is full.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn an_encoder_ends_when_it_is_called_off_or_its_output_or_program_fails() {
    let spec = AudioSpec { rate: 48_000, channels: 2 };
    let block = tone(spec, 48_000);

    let cancel = CancelToken::default();
    let options = Options { cancel: cancel.clone(), ..Options::default() };
    let mut encoder = Encoder::start(spec, OutputFormat::Flac, io::sink(), &options).unwrap();
    encoder.write(&block).unwrap();
    cancel.cancel();
    assert!(matches!(encoder.write(&block), Err(MediaError::Cancelled)));
    assert!(matches!(encoder.finish(), Err(MediaError::Cancelled)));

    let mut encoder = Encoder::start(spec, OutputFormat::Flac, Full, &Options::default()).unwrap();
    let failed = (0..1000).find_map(|_| encoder.write(&block).err()).or_else(|| encoder.finish().err());
    assert!(failed.is_some_and(|error| error.to_string().contains("no space left")));

    let options = Options { ffmpeg: Some("/bin/false".into()), ..Options::default() };
    let mut encoder = Encoder::start(spec, OutputFormat::Flac, io::sink(), &options).unwrap();
    let failed = (0..1000).find_map(|_| encoder.write(&block).err()).or_else(|| encoder.finish().err());
    assert!(matches!(failed, Some(MediaError::Output(_))), "{failed:?}");
}

#[test]
#[ignore = "needs ffmpeg"]
fn tags_are_read_back_from_every_encoded_format() {
    let spec = AudioSpec { rate: 48_000, channels: 1 };
    let tags = Tags { comment: Some("synthetic speech: été".into()), software: Some("hark".into()) };
    for format in [OutputFormat::Flac, OutputFormat::Mp3 { kbps: 64 }, OutputFormat::Opus { kbps: 24 }] {
        let out = Shared::default();
        let options = Options { tags: tags.clone(), ..Options::default() };
        let mut encoder = Encoder::start(spec, format, out.clone(), &options).unwrap();
        encoder.write(&tone(spec, 48_000)).and_then(|()| encoder.finish()).unwrap();
        let file = std::mem::take(&mut *out.0.lock().unwrap());
        assert_eq!(Tags::read(io::Cursor::new(file)).unwrap(), tags, "{format:?}");
        assert_eq!(Tags::read(io::Cursor::new(encoded(spec, format, 4_800))).unwrap().comment, None);
    }
}
