//! Every format people bring, made with ffmpeg, decoded through the crate and held against ffmpeg's own decoding.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use hark_media::{Decoder, Info, Limits, MediaError, Options, SAMPLE_RATE, Source, decode_all, write_wav_file};

/// Seconds of the test sound.
const SECONDS: f64 = 4.0;

fn ffmpeg(args: &[&str]) -> Vec<u8> {
    let output = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"])
        .args(args)
        .output()
        .expect("these tests need ffmpeg: install it with `apt install ffmpeg`");
    assert!(output.status.success(), "ffmpeg {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The folder with the test sound: voice-like harmonics that glide and pause on the left, a chirp from 100 Hz to 6 kHz on the right.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("formats");
        std::fs::create_dir_all(&folder).unwrap();
        let frames = (SECONDS * 44_100.0) as usize;
        let mut left = Vec::with_capacity(frames);
        let mut right = Vec::with_capacity(frames);
        let mut phase = 0.0f64;
        for i in 0..frames {
            let t = i as f64 / 44_100.0;
            phase += (120.0 + 40.0 * (1.3 * t).sin()) / 44_100.0;
            let loud = if t % 0.9 < 0.7 { (std::f64::consts::PI * (t % 0.9) / 0.7).sin() } else { 0.0 };
            let voice: f64 =
                (1..=20).map(|k| (std::f64::consts::TAU * phase * f64::from(k)).sin() / f64::from(k)).sum();
            left.push((0.3 * loud * voice) as f32);
            right.push((0.25 * (std::f64::consts::TAU * (100.0 * t + 5_900.0 / (2.0 * SECONDS) * t * t)).sin()) as f32);
        }
        write_wav_file(folder.join("left.wav"), &left, 44_100).unwrap();
        write_wav_file(folder.join("right.wav"), &right, 44_100).unwrap();
        let (left, right) = (folder.join("left.wav"), folder.join("right.wav"));
        ffmpeg(&[
            "-i",
            left.to_str().unwrap(),
            "-i",
            right.to_str().unwrap(),
            "-filter_complex",
            "[0][1]join=inputs=2:channel_layout=stereo",
            folder.join("sound.wav").to_str().unwrap(),
        ]);
        folder
    })
}

/// Makes `name` from the test sound (input 0), a test picture (1) and the chirp alone (2).
fn make(name: &str, args: &str) -> PathBuf {
    let path = folder().join(name);
    let sound = folder().join("sound.wav");
    let chirp = folder().join("right.wav");
    let picture = format!("testsrc=s=160x120:r=10:d={SECONDS}");
    let mut all = vec!["-i", sound.to_str().unwrap(), "-f", "lavfi", "-i", &picture, "-i", chirp.to_str().unwrap()];
    all.extend(args.split_whitespace());
    all.push(path.to_str().unwrap());
    ffmpeg(&all);
    path
}

/// What ffmpeg makes of the file, at 16 kHz in one channel. In 16 bits, because only there does its downmix keep within full scale.
fn reference(path: &Path, track: usize) -> Vec<f32> {
    let map = format!("0:a:{track}");
    ffmpeg(&["-i", path.to_str().unwrap(), "-map", &map, "-f", "s16le", "-ac", "1", "-ar", "16000", "-"])
        .chunks_exact(2)
        .map(|bytes| f32::from(i16::from_le_bytes(bytes.try_into().unwrap())) / 32_768.0)
        .collect()
}

fn decode(path: &Path) -> (Vec<f32>, Info, Vec<String>) {
    decode_all(Source::Path(path.to_owned()), &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Signal over difference in decibels, where both have samples.
fn likeness_db(ours: &[f32], theirs: &[f32]) -> f64 {
    let power = |samples: &mut dyn Iterator<Item = f32>| samples.map(|x| f64::from(x).powi(2)).sum::<f64>();
    let signal = power(&mut theirs.iter().copied());
    let difference = power(&mut ours.iter().zip(theirs).map(|(a, b)| a - b));
    10.0 * (signal / difference.max(1e-20)).log10()
}

/// Decodes `path` and holds it against ffmpeg: the same sound at the same time, `least_db` alike, and as long within 30 ms.
fn check(path: &Path, decoder: Decoder, least_db: f64) -> Info {
    let (ours, info, warnings) = decode(path);
    let theirs = reference(path, 0);
    let name = path.file_name().unwrap().to_string_lossy();
    assert_eq!(info.decoder, decoder, "{name}: {info:?}");
    assert_eq!(warnings, [""; 0], "{name}");
    let longer = (ours.len() as f64 - theirs.len() as f64) / f64::from(SAMPLE_RATE);
    assert!(longer.abs() < 0.03, "{name}: {longer:.3} s longer than ffmpeg's");
    let likeness = likeness_db(&ours, &theirs);
    assert!(likeness > least_db, "{name}: only {likeness:.1} dB alike");
    let seconds = ours.len() as f64 / f64::from(SAMPLE_RATE);
    assert!((seconds - SECONDS).abs() < 0.1, "{name}: {seconds:.3} s");
    if let Some(duration) = info.duration {
        assert!((duration - SECONDS).abs() < 0.3, "{name}: says {duration:.3} s");
    }
    info
}

/// The resamplers differ above 7 kHz, where the sound has little; lossy decoders agree to about the 16th bit.
const ALIKE: f64 = 45.0;

#[test]
#[ignore = "needs ffmpeg"]
fn uncompressed_and_lossless_audio_is_decoded_in_process_like_ffmpeg_does() {
    // The telephone carries the voice alone: the chirp leaves its band, and at its edge resamplers may differ.
    for (name, args) in [
        ("s16.wav", "-map 0 -c:a pcm_s16le"),
        ("s24.wav", "-map 0 -c:a pcm_s24le"),
        ("u8.wav", "-map 0 -c:a pcm_u8"),
        ("float96.wav", "-map 0 -ar 96000 -c:a pcm_f32le"),
        ("double.wav", "-map 0 -c:a pcm_f64le"),
        ("telephone.wav", "-map 0 -af pan=mono|c0=c0 -ar 8000 -c:a pcm_mulaw"),
        ("alaw.wav", "-map 0 -af pan=mono|c0=c0 -ar 8000 -c:a pcm_alaw"),
        ("surround.wav", "-map 0 -ac 6 -c:a pcm_s16le"),
        ("a.flac", "-map 0"),
        ("surround.flac", "-map 0 -ac 6"),
        ("flac22.flac", "-map 0 -ar 22050 -ac 1"),
        ("a.aiff", "-map 0"),
    ] {
        let info = check(&make(name, args), Decoder::InProcess, ALIKE);
        assert_eq!(info.channels, if name.contains("surround") { 6 } else { info.channels });
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn compressed_audio_is_decoded_in_process_like_ffmpeg_does() {
    for (name, args) in [
        ("a.mp3", "-map 0"),
        ("vbr.mp3", "-map 0 -q:a 4"),
        ("mono22.mp3", "-map 0 -ac 1 -ar 22050 -b:a 32k"),
        ("untagged.mp3", "-map 0 -write_xing 0 -id3v2_version 0"),
        ("cover.mp3", "-map 0 -map 1 -c:v mjpeg -frames:v 1 -disposition:v attached_pic -id3v2_version 3"),
        ("a.ogg", "-map 0 -c:a libvorbis"),
        ("low.ogg", "-map 0 -c:a libvorbis -q:a 0 -ac 1"),
        ("flac.ogg", "-map 0 -c:a flac -f ogg"),
        ("a.m4a", "-map 0 -aac_pns 0"),
        ("moov_first.m4a", "-map 0 -aac_pns 0 -movflags +faststart"),
        ("a.aac", "-map 0 -aac_pns 0"),
        ("a.mp4", "-map 0 -map 1 -c:v mpeg4 -c:a aac -aac_pns 0"),
        ("a.mov", "-map 0 -map 1 -c:v mpeg4 -c:a aac -aac_pns 0"),
    ] {
        check(&make(name, args), Decoder::InProcess, ALIKE);
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn the_rest_goes_through_ffmpeg_and_comes_out_the_same() {
    for (name, args) in [
        ("a.opus", "-map 0 -c:a libopus"),
        ("a.wma", "-map 0 -c:a wmav2"),
        ("a.webm", "-map 0 -map 1 -c:v libvpx -deadline realtime -c:a libopus"),
        ("vorbis.webm", "-map 0 -map 1 -c:v libvpx -deadline realtime -c:a libvorbis"),
        ("a.mkv", "-map 0 -map 1 -c:v mpeg4 -c:a aac"),
        ("surround.mkv", "-map 0 -map 1 -c:v mpeg4 -c:a ac3 -ac 6"),
        ("a.avi", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame"),
        ("a.wmv", "-map 0 -map 1 -c:v wmv2 -c:a wmav2"),
        ("a.mpg", "-map 0 -map 1 -r 25 -c:v mpeg2video -c:a mp2"),
        ("a.mpeg", "-map 0 -map 1 -r 25 -c:v mpeg1video -c:a mp2"),
        ("a.ts", "-map 0 -map 1 -c:v mpeg2video -r 25 -c:a aac"),
        ("a.mp2", "-map 0"),
        ("voice24.m4a", "-map 0 -ar 24000 -ac 1"),
        ("alac.m4a", "-map 0 -c:a alac"),
        ("fragmented.mp4", "-map 0 -map 1 -c:v mpeg4 -c:a aac -movflags +frag_keyframe+empty_moov"),
        ("a.caf", "-map 0 -c:a pcm_s16le"),
        ("a.au", "-map 0"),
    ] {
        check(&make(name, args), Decoder::Ffmpeg, ALIKE);
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn the_asked_track_is_read_and_others_are_refused() {
    for (name, decoder) in [("two.mp4", Decoder::InProcess), ("two.mkv", Decoder::Ffmpeg)] {
        let path = make(name, "-map 1 -map 0 -map 2 -c:v mpeg4 -c:a aac -aac_pns 0");
        for track in [0, 1] {
            let options = Options { track: Some(track), ..Options::default() };
            let (ours, info, _) = decode_all(Source::Path(path.clone()), &options).unwrap();
            assert_eq!((info.audio_tracks, info.decoder), (2, decoder));
            let likeness = likeness_db(&ours, &reference(&path, track));
            assert!(likeness > ALIKE, "{name} track {track}: {likeness:.1} dB");
        }
        let options = Options { track: Some(2), ..Options::default() };
        let refused = decode_all(Source::Path(path), &options);
        assert!(matches!(refused, Err(MediaError::NoSuchTrack { track: 2, tracks: 2 })), "{refused:?}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn audio_that_starts_late_keeps_its_time_in_the_film() {
    for name in ["late.mp4", "late.mkv"] {
        let sound = folder().join("sound.wav");
        let path = folder().join(name);
        ffmpeg(&[
            "-f",
            "lavfi",
            "-i",
            "testsrc=s=160x120:r=10:d=5",
            "-itsoffset",
            "1.5",
            "-i",
            sound.to_str().unwrap(),
            "-map",
            "0",
            "-map",
            "1",
            "-c:v",
            "mpeg4",
            "-c:a",
            "aac",
            path.to_str().unwrap(),
        ]);
        let (ours, _, _) = decode(&path);
        let seconds = ours.len() as f64 / f64::from(SAMPLE_RATE);
        assert!((seconds - 1.5 - SECONDS).abs() < 0.1, "{name}: {seconds}");
        assert!(ours[..22_000].iter().all(|x| x.abs() < 1e-3), "{name}: sound before its time");
        let (sound, _, _) = decode(&sound);
        let best = (22_400..25_600)
            .step_by(8)
            .max_by_key(|&lag| (sound.iter().zip(&ours[lag..]).map(|(a, b)| a * b).sum::<f32>() * 1e3) as i64)
            .unwrap();
        assert!((best as f64 / 16_000.0 - 1.5).abs() < 0.05, "{name}: starts at {best}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn pipes_give_what_files_give() {
    /// Gives a few bytes at a time, as pipes do.
    struct Trickle(Cursor<Vec<u8>>);
    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = buffer.len().min(4099);
            self.0.read(&mut buffer[..most])
        }
    }
    for (name, args) in [
        ("pipe.wav", "-map 0"),
        ("pipe.mp3", "-map 0"),
        ("pipe.flac", "-map 0"),
        ("pipe.ogg", "-map 0 -c:a libvorbis"),
        ("pipe.aac", "-map 0"),
        ("pipe.m4a", "-map 0"),
        ("pipe.opus", "-map 0 -c:a libopus"),
        ("pipe.webm", "-map 0 -map 1 -c:v libvpx -deadline realtime -c:a libopus"),
        ("pipe.wma", "-map 0 -c:a wmav2"),
        ("pipe.avi", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame"),
    ] {
        let path = make(name, args);
        let (file, _, _) = decode(&path);
        let reader = Trickle(Cursor::new(std::fs::read(&path).unwrap()));
        let (pipe, _, warnings) = decode_all(Source::Reader(Box::new(reader)), &Options::default()).unwrap();
        assert_eq!(warnings, [""; 0], "{name}");
        assert_eq!(file.len(), pipe.len(), "{name}");
        assert_eq!(file, pipe, "{name}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_source_that_seeks_gives_the_same_samples_as_the_file() {
    // How a recording is read that is encrypted at rest: its index may be anywhere, and nothing of it may come to disk.
    for (name, args, decoder) in [
        ("seek.wav", "-map 0", Decoder::InProcess),
        ("seek.aiff", "-map 0", Decoder::InProcess),
        ("seek.m4a", "-map 0", Decoder::InProcess),
        ("alac.m4a", "-map 0 -c:a alac", Decoder::Ffmpeg),
        ("faststart.m4a", "-map 0 -c:a alac -movflags +faststart", Decoder::Ffmpeg),
        ("video.mp4", "-map 0 -map 1 -c:v mpeg4 -c:a alac", Decoder::Ffmpeg),
        ("seek.caf", "-map 0 -c:a alac", Decoder::Ffmpeg),
        ("seek.avi", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame", Decoder::Ffmpeg),
        ("seek.webm", "-map 0 -map 1 -c:v libvpx -deadline realtime -c:a libopus", Decoder::Ffmpeg),
    ] {
        let path = make(name, args);
        let (file, _, _) = decode(&path);
        let source = Source::Seekable(Box::new(Cursor::new(std::fs::read(&path).unwrap())));
        let (seekable, info, warnings) = decode_all(source, &Options::default()).unwrap();
        assert_eq!(warnings, [""; 0], "{name}");
        assert_eq!(info.decoder, decoder, "{name}");
        assert_eq!(file, seekable, "{name}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_source_that_seeks_and_is_too_long_for_memory_is_read_from_front_to_back() {
    let path = make("long.avi", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame");
    let options = Options { limits: Limits { memory_bytes: 10, ..Limits::default() }, ..Options::default() };
    let source = Source::Seekable(Box::new(Cursor::new(std::fs::read(&path).unwrap())));
    let (samples, _, _) = decode_all(source, &options).unwrap();
    assert_eq!(samples.len(), decode(&path).0.len());
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_wav_written_to_a_pipe_without_its_length_is_read_to_the_end() {
    let sound = folder().join("sound.wav");
    let unknown = ffmpeg(&["-i", sound.to_str().unwrap(), "-f", "wav", "-"]);
    assert_eq!(unknown[4..8], [0xff; 4]);
    let mut zero = unknown.clone();
    zero[4..8].fill(0);
    let data = zero.windows(4).position(|tag| tag == b"data").unwrap();
    zero[data + 4..data + 8].fill(0);
    for bytes in [unknown, zero] {
        let (samples, info, warnings) =
            decode_all(Source::Reader(Box::new(Cursor::new(bytes))), &Options::default()).unwrap();
        assert_eq!(samples.len(), (SECONDS * 16_000.0) as usize, "{info:?}");
        // A length of zero is a recorder that never came back: ffmpeg may say so.
        assert!(info.decoder == Decoder::Ffmpeg || warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn files_joined_end_to_end_are_read_to_the_end() {
    for (name, args) in [("join.mp3", "-map 0"), ("join.ogg", "-map 0 -c:a libvorbis")] {
        let bytes = std::fs::read(make(name, args)).unwrap();
        let twice = folder().join(format!("twice_{name}"));
        std::fs::write(&twice, [&bytes[..], &bytes].concat()).unwrap();
        let (samples, info, _) = decode(&twice);
        let seconds = samples.len() as f64 / 16_000.0;
        assert!((seconds - 2.0 * SECONDS).abs() < 0.1, "{name}: {seconds} {info:?}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_written_wav_is_read_back_to_the_bit() {
    let samples: Vec<f32> = (0..16_000).map(|i| f32::from((i * 37 % 65_536 - 32_768) as i16) / 32_768.0).collect();
    let path = folder().join("back.wav");
    write_wav_file(&path, &samples, SAMPLE_RATE).unwrap();
    assert_eq!(decode(&path).0, samples);
}
