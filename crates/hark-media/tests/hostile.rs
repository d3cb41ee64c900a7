//! Files that are cut, damaged, empty, not audio at all, or mean harm.

use std::io::Cursor;
use std::process::Command;

use hark_media::{AudioStream, Limits, MediaError, Options, Source, decode_all};

fn make(extension: &str, args: &str) -> Vec<u8> {
    // Tests that run at the same time make the same files.
    let file = tempfile::Builder::new().suffix(&format!(".{extension}")).tempfile().unwrap();
    let path = file.path();
    let status = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"])
        .args(["-f", "lavfi", "-i", "aevalsrc=0.3*sin(2*PI*(300*t+100*t*t))|0.2*sin(500*t):s=44100:d=6"])
        .args(["-f", "lavfi", "-i", "testsrc=s=64x64:r=10:d=6"])
        .args(args.split_whitespace())
        .arg(path)
        .status()
        .expect("these tests need ffmpeg: install it with `apt install ffmpeg`");
    assert!(status.success(), "ffmpeg could not make {}", path.display());
    std::fs::read(path).unwrap()
}

fn decode(bytes: &[u8]) -> Result<(Vec<f32>, hark_media::Info, Vec<String>), MediaError> {
    // Through a file, as uploads come.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    decode_all(Source::Path(file.path().to_owned()), &Options::default())
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_truncated_file_gives_what_it_holds_and_a_warning() {
    for (extension, args) in [
        ("wav", "-map 0"),
        ("mp3", "-map 0"),
        ("flac", "-map 0"),
        ("m4a", "-map 0 -movflags +faststart"),
        ("mkv", "-map 0 -map 1 -c:v mpeg4 -c:a aac"),
        ("wma", "-map 0 -c:a wmav2"),
        ("avi", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame"),
    ] {
        let whole = make(extension, args);
        let (samples, info, warnings) = decode(&whole[..whole.len() / 2]).unwrap();
        let seconds = samples.len() as f64 / 16_000.0;
        assert!((1.5..4.5).contains(&seconds), "{extension}: {seconds} s, {info:?}");
        // An ASF file may not know its length, but what ffmpeg found broken is told.
        assert!(
            warnings.iter().any(|warning| warning.contains("ends early") || extension == "wma"),
            "{extension}: {warnings:?}, {info:?}"
        );
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn sound_that_is_shorter_than_its_picture_does_not_end_early() {
    for (extension, args) in [
        ("mkv", "-map 0 -map 1 -c:v mpeg4 -c:a libopus -af atrim=0:2"),
        ("mp4", "-map 0 -map 1 -c:v mpeg4 -c:a aac -ar 16000 -af atrim=0:2"),
        ("mov", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame -af atrim=0:2"),
        ("ts", "-map 0 -map 1 -c:v mpeg2video -r 25 -c:a mp2 -af atrim=0:2"),
        ("avi", "-map 0 -map 1 -c:v mpeg4 -c:a libmp3lame -af atrim=0:2"),
    ] {
        let (samples, _, warnings) = decode(&make(extension, args)).unwrap();
        let seconds = samples.len() as f64 / 16_000.0;
        assert!((1.8..2.3).contains(&seconds), "{extension}: {seconds} s");
        assert!(warnings.is_empty(), "{extension}: {warnings:?}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn what_is_not_audio_is_refused_with_its_own_reason() {
    assert!(matches!(decode(b""), Err(MediaError::Empty)));
    assert!(matches!(decode(b"Dear Sir or Madam,\n"), Err(MediaError::Unrecognized(_))));
    let noise: Vec<u8> = (0u32..100_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert!(matches!(decode(&noise), Err(MediaError::Unrecognized(_))), "{:?}", decode(&noise).map(|_| ()));
    for (extension, codec) in [("mp4", "mpeg4"), ("mkv", "mpeg4"), ("avi", "mpeg4"), ("webm", "libvpx")] {
        let film = make(extension, &format!("-map 1 -an -c:v {codec}"));
        assert!(matches!(decode(&film), Err(MediaError::NoAudio { .. })), "{extension}");
    }
    let folder = decode_all(Source::Path(std::env::temp_dir()), &Options::default());
    assert!(matches!(folder, Err(MediaError::Io(_))));
    let absent = decode_all(Source::Path("no/such/file.mp3".into()), &Options::default());
    assert!(matches!(absent, Err(MediaError::Io(_))));
}

#[test]
fn a_rate_that_nothing_has_is_refused_when_the_file_is_opened() {
    let mut bytes = Vec::new();
    hark_media::write_wav(&mut bytes, &[0.1; 16_000], 16_000).unwrap();
    for rate in [0, 1, u32::MAX] {
        bytes[24..28].copy_from_slice(&rate.to_le_bytes());
        let source = Source::Reader(Box::new(Cursor::new(bytes.clone())));
        let error = AudioStream::open(source, &Options::default()).err().expect("an error");
        assert!(error.to_string().contains("sample rate"), "{rate}: {error}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn playlists_cannot_make_ffmpeg_open_other_files() {
    let secret = tempfile::NamedTempFile::with_suffix(".wav").unwrap();
    std::fs::write(secret.path(), make("wav", "-map 0")).unwrap();
    let path = secret.path().display();
    let playlists = [
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\nfile://{path}\n#EXT-X-ENDLIST\n"),
        format!("ffconcat version 1.0\nfile '{path}'\n"),
        // A byte of binary gets them past the look for text; the list of demuxers must stop them.
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:6\n#\u{1}\n#EXTINF:6,\nfile://{path}\n#EXT-X-ENDLIST\n"),
        format!("ffconcat version 1.0\n#\u{1}\nfile '{path}'\n"),
    ];
    for playlist in playlists {
        let refused = decode(playlist.as_bytes());
        let Err(error @ MediaError::Unrecognized(_)) = refused else { panic!("{playlist}: {:?}", refused.map(|_| ())) };
        assert!(!error.to_string().contains("whitelist"), "words of ffmpeg: {error}");
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_missing_ffmpeg_matters_only_where_it_is_needed() {
    let options = Options { ffmpeg: Some("/nonexistent/ffmpeg".into()), ..Options::default() };
    let open = |bytes: Vec<u8>| AudioStream::open(Source::Reader(Box::new(Cursor::new(bytes))), &options);
    for (extension, args) in [("wav", "-map 0"), ("mp3", "-map 0"), ("m4a", "-map 0"), ("flac", "-map 0")] {
        assert!(open(make(extension, args)).is_ok(), "{extension}");
    }
    let error = open(make("opus", "-map 0 -c:a libopus")).err().unwrap();
    assert!(matches!(error, MediaError::FfmpegMissing { .. }));
    assert!(error.to_string().contains("apt install ffmpeg"), "{error}");
}

#[test]
#[ignore = "needs ffmpeg"]
fn audio_beyond_the_limit_is_refused_in_files_and_in_pipes() {
    let limits = Limits { max_seconds: Some(3.0), ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    for (extension, args) in [("wav", "-map 0"), ("opus", "-map 0 -c:a libopus"), ("aac", "-map 0")] {
        let bytes = make(extension, args);
        let refused = decode_all(Source::Reader(Box::new(Cursor::new(bytes))), &options);
        assert!(matches!(refused, Err(MediaError::TooLong { .. })), "{extension}: {:?}", refused.map(|_| ()));
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_gets_no_more_memory_than_allowed() {
    let opus = make("opus", "-map 0 -c:a libopus");
    let run = |limits: Limits| {
        let options = Options { limits, ..Options::default() };
        decode_all(Source::Reader(Box::new(Cursor::new(opus.clone()))), &options)
    };
    assert!(run(Limits { ffmpeg_memory_bytes: 30 << 20, ..Limits::default() }).is_err(), "ffmpeg ran in 30 MB");
    assert!(run(Limits::default()).is_ok());
}

#[test]
#[ignore = "needs ffmpeg"]
fn damaged_files_never_bring_the_process_down() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    // In-process formats get most tries: there a panic would be ours.
    for (extension, args, tries) in [
        ("wav", "-map 0", 60),
        ("mp3", "-map 0", 60),
        ("flac", "-map 0", 60),
        ("ogg", "-map 0 -c:a libvorbis", 60),
        ("m4a", "-map 0", 60),
        ("aac", "-map 0", 60),
        ("aiff", "-map 0", 40),
        ("opus", "-map 0 -c:a libopus", 3),
        ("mkv", "-map 0 -map 1 -c:v mpeg4 -c:a aac", 3),
        ("wma", "-map 0 -c:a wmav2", 3),
    ] {
        let sound = make(extension, &format!("-t 1 {args}"));
        for _ in 0..tries {
            let mut bytes = sound.clone();
            if random(3) == 0 {
                bytes.truncate(1 + random(bytes.len() - 1));
            }
            // Headers are hit as often as the rest, though they are small.
            let reach = if random(2) == 0 { bytes.len().min(512) } else { bytes.len() };
            for _ in 0..1 + random(20) {
                bytes[random(reach)] = random(256) as u8;
            }
            // Short of ten minutes: a header can ask for hours of silence, which is its right but not worth waiting for.
            let limits = Limits { max_seconds: Some(600.0), ..Limits::default() };
            let options = Options {
                limits,
                // A missing program keeps the in-process tries in process.
                ffmpeg: (tries > 3).then(|| "/nonexistent/ffmpeg".into()),
                ..Options::default()
            };
            // Decoders take other turns where they can seek.
            let file = tempfile::NamedTempFile::new().unwrap();
            let source = if random(2) == 0 {
                std::fs::write(file.path(), bytes).unwrap();
                Source::Path(file.path().to_owned())
            } else {
                Source::Reader(Box::new(Cursor::new(bytes)))
            };
            if let Ok((samples, _, _)) = decode_all(source, &options) {
                assert!(samples.iter().all(|sample| sample.is_finite()), "{extension}");
            }
        }
    }
}
