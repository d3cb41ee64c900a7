//! The installed models: what is spoken, how a voice is matched, and what is refused. Needs kokoro-82m, misaki-en, silero-vad, campplus-zh-en, test-sounds-meetings.

mod support;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hark_media::{CancelToken, Options, Source, decode_all};
use hark_speech::Compute;
use hark_voice::{
    Fault, FileFormat, Key, Marker, Narrator, NarratorOptions, Reference, SpeechRequest, VoiceChoice, VoiceError,
};
use support::{Shared, model, of_samples, reference, request};

/// One for all tests: loading it takes a while.
static NARRATOR: LazyLock<Narrator> = LazyLock::new(|| {
    let options = NarratorOptions {
        dictionary: Some(model("misaki-en")),
        matching: Some((model("silero-vad"), model("campplus-zh-en"))),
        match_time: Duration::from_secs(3),
        // A machine without espeak-ng and ffmpeg.
        espeak: Some(PathBuf::from("/nowhere/espeak-ng")),
        ffmpeg: Some(PathBuf::from("/nowhere/ffmpeg")),
        ..NarratorOptions::new(model("kokoro-82m"))
    };
    Narrator::load(&Compute::from_options(Some(2), None), options).unwrap()
});

fn refused(request: &SpeechRequest<'_>) -> VoiceError {
    NARRATOR.prepare(request, &CancelToken::default()).map(drop).unwrap_err()
}

#[test]
#[ignore = "needs models"]
fn without_espeak_only_english_and_japanese_are_spoken_and_the_rest_names_them() {
    assert_eq!(NARRATOR.languages(), ["en", "ja"]);
    for (language, name) in [("de", "German"), ("zh", "Chinese"), ("es", "Spanish")] {
        let error = refused(&SpeechRequest { language: Some(language), ..request("a", VoiceChoice::Default) });
        assert_eq!(error.fault(), Fault::Installation);
        let text = error.to_string();
        assert!(text.starts_with(name) && text.ends_with("en, ja"), "{text}");
    }
    let unknown = refused(&SpeechRequest { language: Some("tlh"), ..request("a", VoiceChoice::Default) });
    assert_eq!(unknown.fault(), Fault::Request);
    let speed = refused(&SpeechRequest { speed: 2.5, ..request("a", VoiceChoice::Default) });
    assert!(speed.to_string().contains("0.5 to 2"), "{speed}");
    let long = refused(&SpeechRequest { max_characters: 3, ..request("four", VoiceChoice::Default) });
    assert!(long.to_string().contains("4 characters"), "{long}");
    assert!(refused(&request("a", VoiceChoice::Named("nobody"))).to_string().contains("af_heart"));
}

#[test]
#[ignore = "needs models"]
fn a_voice_whose_language_can_not_be_spoken_reads_english_where_no_language_is_known() {
    let spoken = |text: &str, voice: &str| {
        let prepared = NARRATOR.prepare(&request(text, VoiceChoice::Named(voice)), &CancelToken::default());
        prepared.map(|script| (script.language(), script.voice())).map_err(|error| error.fault())
    };
    for voice in ["zf_xiaobei", "ef_dora"] {
        assert_eq!(spoken("Hi.", voice), Ok(("en", format!("preset; name={voice}"))));
    }
    // English would leave out what the text is made of.
    assert_eq!(spoken("你好", "zf_xiaobei"), Err(Fault::Installation));
    assert_eq!(spoken("こんにちは", "jf_alpha"), Ok(("ja", "preset; name=jf_alpha".to_owned())));
}

#[test]
#[ignore = "needs models"]
fn a_file_that_can_not_be_begun_is_an_error_before_there_is_said_to_be_something_to_hear() {
    let (token, marker, out) = (CancelToken::default(), Marker::new(Key::new([3; 32]), None), Shared::default());
    let script = NARRATOR.prepare(&request("Good morning.", VoiceChoice::Default), &token).unwrap();
    let (file, payload, mut sounds) = (Box::new(out.clone()), marker.payload(b"x", 0), 0);
    let spoken = NARRATOR.speak(&script, FileFormat::Mp3, true, &marker, &payload, file, &mut || sounds += 1, &token);
    assert_eq!(spoken.unwrap_err().fault(), Fault::Installation);
    assert_eq!((sounds, out.bytes().len()), (0, 0));
}

#[test]
#[ignore = "needs models"]
fn a_text_is_spoken_by_the_voice_that_is_named_at_the_speed_that_is_wanted_and_marked() {
    let (token, marker) = (CancelToken::default(), Marker::new(Key::new([3; 32]), Some(9)));
    let text =
        "Good morning, everybody. Twelve people came to the meeting, and all of them stayed until the end of it.";
    let mut lengths = Vec::new();
    for speed in [1.0, 1.5] {
        let wanted = SpeechRequest { speed, is_streamed: true, ..request(text, VoiceChoice::Named("fable")) };
        let script = NARRATOR.prepare(&wanted, &token).unwrap();
        assert_eq!((script.voice().to_string().as_str(), script.language()), ("preset; name=bm_fable", "en"));
        let (out, payload) = (Shared::default(), marker.payload(b"x", 1_795_000_000));
        let mut sounds = 0;
        let mut first = || sounds += 1;
        let file = Box::new(out.clone());
        let spoken =
            NARRATOR.speak(&script, FileFormat::Wav, true, &marker, &payload, file, &mut first, &token).unwrap();
        assert_eq!(sounds, 1);
        assert!(spoken.first_sound < spoken.took && spoken.seconds > 3.0, "{spoken:?}");
        let wav = out.bytes();
        let source = Source::Reader(Box::new(std::io::Cursor::new(wav)));
        let samples = decode_all(source, &Options::default()).unwrap().0;
        let found = hark_watermark::detect(&samples, 16_000, marker.key()).unwrap();
        assert!(found.present, "{found:?}");
        if speed == 1.0 {
            assert_eq!(found.payload, Some(payload));
        }
        lengths.push(spoken.seconds);
    }
    assert!((1.2..1.8).contains(&(lengths[0] / lengths[1])), "{lengths:?}");
}

#[test]
#[ignore = "needs models"]
fn a_voice_is_matched_once_for_a_clip_and_called_matched() {
    let (token, clip) = (CancelToken::default(), reference(21.8, 27.8));
    let prepare = || NARRATOR.prepare(&request("Good morning.", VoiceChoice::Like(&clip)), &token).unwrap();
    let first = prepare();
    let label = first.voice().to_string();
    assert!(first.is_matched() && label.starts_with("matched; base=") && label.contains("; similarity="), "{label}");
    assert!((0.5..=2.0).contains(&first.speed()));
    let begun = Instant::now();
    assert_eq!(prepare().voice().to_string(), label);
    assert!(begun.elapsed() < Duration::from_secs(1), "it was searched for again");
    token.cancel();
    let other = reference(10.6, 14.6);
    let cancelled = NARRATOR.prepare(&request("Good morning.", VoiceChoice::Like(&other)), &token).unwrap_err();
    assert_eq!(cancelled.fault(), Fault::Cancelled);
}

#[test]
#[ignore = "needs models"]
fn a_clip_without_speech_or_with_two_voices_is_refused() {
    let refuse = |clip: &Reference| refused(&request("Good morning.", VoiceChoice::Like(clip)));
    let hum: Vec<f32> = (0..16_000 * 5).map(|at| 0.2 * (at as f32 * 0.03).sin()).collect();
    let error = refuse(&of_samples(&hum));
    assert!(matches!(error, VoiceError::ReferenceSpeech { .. }), "{error}");
    let error = refuse(&reference(10.6, 17.9));
    assert!(matches!(error, VoiceError::ReferenceVoices), "{error}");
    assert_eq!(error.fault(), Fault::Reference);
}
