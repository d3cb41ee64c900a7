//! Recordings that are wired, written or spoken unusually. Needs whisper-tiny, silero-vad and recorded speech, some tests ffmpeg and espeak-ng.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use hark_media::Source;
use hark_speech::{Channels, Compute, LoadOptions, Request, Speakers, Transcriber, Transcription};

fn models() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("HARK_MODELS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").expect("a home").join(".cache"));
        cache.join("hark/models")
    })
}

static TRANSCRIBER: LazyLock<Transcriber> = LazyLock::new(|| {
    let mut options = LoadOptions::new(models().join("whisper-tiny"), models().join("silero-vad"));
    options.compute = Some(Compute::from_options(Some(2), None));
    Transcriber::load(&options).expect("`./hark test` installs the models that tests need")
});

fn transcribed(source: Source, request: &Request) -> Transcription {
    TRANSCRIBER.transcribe(source, request, &mut |_| {}).expect("the recording is heard")
}

/// The samples of a recorded text, 16 kHz mono, at most so many seconds.
fn recorded(name: &str, seconds: usize) -> Vec<f32> {
    let path = models().join("test-sounds-moonshine").join(name);
    let (mut samples, ..) =
        hark_media::decode_all(Source::Path(path), &Default::default()).expect("`./hark test` installs it");
    samples.truncate(seconds * hark_media::SAMPLE_RATE as usize);
    samples
}

/// A WAV file of 32-bit floats.
fn wav(channels: u16, samples: &[f32]) -> Vec<u8> {
    let (rate, frame) = (hark_media::SAMPLE_RATE, 4 * u32::from(channels));
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let size = data.len() as u32;
    [
        &b"RIFF"[..],
        &(36 + size).to_le_bytes(),
        b"WAVEfmt \x10\0\0\0\x03\0",
        &channels.to_le_bytes(),
        &rate.to_le_bytes(),
        &(rate * frame).to_le_bytes(),
        &(frame as u16).to_le_bytes(),
        b"\x20\0data",
        &size.to_le_bytes(),
        &data,
    ]
    .concat()
}

fn seekable(bytes: Vec<u8>) -> Source {
    Source::Seekable(Box::new(Cursor::new(bytes)))
}

fn stereo(left: &[f32], right: &[f32]) -> Vec<u8> {
    let frames =
        (0..left.len().max(right.len())).flat_map(|at| [left, right].map(|side| side.get(at).copied().unwrap_or(0.0)));
    wav(2, &frames.collect::<Vec<_>>())
}

fn warns(done: &Transcription, what: &str) -> bool {
    done.result.warnings.iter().any(|warning| warning.contains(what))
}

fn english() -> Request {
    Request { language: Some("en".into()), ..Request::default() }
}

#[test]
#[ignore = "needs models"]
fn channels_in_opposite_phase_give_the_words_of_one_and_that_is_said() {
    let speech = recorded("beckett.wav", 30);
    let plain = transcribed(seekable(wav(1, &speech)), &english());
    let opposite: Vec<f32> = speech.iter().map(|sample| -sample).collect();
    let done = transcribed(seekable(stereo(&speech, &opposite)), &english());
    assert!(!plain.result.text.is_empty());
    assert_eq!(done.result.text, plain.result.text);
    assert!(warns(&done, "opposite phase") && plain.result.warnings.is_empty(), "{:?}", done.result.warnings);
}

#[test]
#[ignore = "needs models"]
fn float_samples_on_the_scale_of_16_bits_give_the_same_words_and_that_is_said() {
    let speech = recorded("beckett.wav", 30);
    let plain = transcribed(seekable(wav(1, &speech)), &english());
    let loud: Vec<f32> = speech.iter().map(|sample| sample * 32_768.0).collect();
    let done = transcribed(seekable(wav(1, &loud)), &english());
    assert_eq!(done.result.text, plain.result.text);
    assert!(warns(&done, "numbers up to 32768"), "{:?}", done.result.warnings);
}

#[test]
#[ignore = "needs models"]
fn a_recording_without_words_says_why() {
    let tone: Vec<f32> = (0..80_000).map(|n| 0.3 * (n as f32 * 0.1).sin()).collect();
    for (samples, reason) in [(vec![0.0; 80_000], "silent"), (tone, "no speech was found")] {
        let done = transcribed(seekable(wav(1, &samples)), &english());
        assert_eq!(done.result.text, "");
        assert!(warns(&done, reason), "{:?}", done.result.warnings);
    }
}

#[test]
#[ignore = "needs models"]
fn the_sides_of_a_call_are_two_speakers_and_ordinary_stereo_is_mixed() {
    let text = recorded("two_cities.wav", 60);
    let (first, second) = text.split_at(text.len() / 2);
    // One speaks, then the other; the last word of the first and the first of the second may fall on the cut.
    let left = first.to_vec();
    let right = [&vec![0.0; first.len()], second].concat();
    let diarized = Request { speakers: Speakers::Off, channels: Channels::Separate, ..english() };
    let done = transcribed(seekable(stereo(&left, &right)), &diarized);
    assert_eq!(done.result.speakers, ["SPEAKER_00", "SPEAKER_01"]);
    let half = first.len() as f64 / 16_000.0;
    for segment in &done.result.segments {
        let is_first = segment.speaker.as_deref() == Some("SPEAKER_00");
        assert_eq!(is_first, (segment.start + segment.end) / 2.0 < half, "{segment:?}");
    }
    assert!(done.result.segments.windows(2).all(|pair| pair[0].start <= pair[1].start));
    assert!(done.result.text.split_whitespace().count() > 100, "{}", done.result.text);

    // Found out without being told; nobody asked for speakers.
    let found = transcribed(seekable(stereo(&left, &right)), &english());
    assert!(warns(&found, "share nothing"), "{:?}", found.result.warnings);
    assert_eq!((found.result.text, found.result.speakers), (done.result.text, Vec::new()));
    // Asked not to, and where both sides hear both.
    let mono = transcribed(seekable(stereo(&left, &right)), &Request { channels: Channels::Mono, ..english() });
    assert!(mono.result.warnings.is_empty(), "{:?}", mono.result.warnings);
    let (near, far): (Vec<f32>, Vec<f32>) = left.iter().map(|x| (x * 0.9, x * 0.5)).unzip();
    let room = transcribed(seekable(stereo(&near, &far)), &english());
    let mixed = transcribed(seekable(stereo(&near, &far)), &Request { channels: Channels::Mono, ..english() });
    assert_eq!((&room.result.text, room.result.warnings.len()), (&mixed.result.text, 0));
}

#[test]
#[ignore = "needs models and ffmpeg"]
fn a_silent_first_track_leaves_the_words_to_the_second() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (speech, film) = (folder.join("second.wav"), folder.join("tracks.mkv"));
    std::fs::write(&speech, wav(1, &recorded("beckett.wav", 20))).unwrap();
    let made = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-y", "-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-i"])
        .arg(&speech)
        .args(["-map", "0:a", "-map", "1:a", "-shortest", "-c:a", "pcm_s16le"])
        .arg(&film)
        .status();
    assert!(made.expect("these tests need ffmpeg").success());
    let open = |path: &Path| Source::Path(path.to_owned());
    let plain = transcribed(open(&speech), &english());
    let done = transcribed(open(&film), &english());
    assert_eq!(done.result.text, plain.result.text);
    assert!(warns(&done, "track 1"), "{:?}", done.result.warnings);
    // A track that was asked for is that track, and a pipe can't be read again.
    let media = hark_media::Options { track: Some(0), ..Default::default() };
    let first = transcribed(open(&film), &Request { media, ..english() });
    assert!(first.result.text.is_empty() && warns(&first, "silent"), "{:?}", first.result.warnings);
    let pipe = Source::Reader(Box::new(std::fs::File::open(&film).unwrap()));
    let piped = transcribed(pipe, &english());
    assert!(piped.result.text.is_empty() && warns(&piped, "can't be read twice"), "{:?}", piped.result.warnings);
}
