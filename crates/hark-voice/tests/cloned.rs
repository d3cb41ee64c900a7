//! Cloned voices on a small network of Chatterbox's architecture with random weights: what the voice is called, that it is marked, and what is refused. Needs the catalogue's
//! onnxruntime, silero-vad, campplus-zh-en, test-sounds-meetings.

mod support;

use hark_clone::testing::SmallModel;
use hark_media::{CancelToken, Options, Source, Tags, decode_all};
use hark_speech::Compute;
use hark_voice::{
    Fault, FileFormat, Key, Marker, Narrator, NarratorOptions, RUNTIME_MODEL, SpeechRequest, VoiceChoice, VoiceError,
};
use support::{Shared, model, reference, request};
use tempfile::TempDir;

fn small() -> (TempDir, NarratorOptions) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chatterbox-small");
    std::fs::create_dir(&path).unwrap();
    SmallModel::default().write(&path);
    let options = NarratorOptions {
        matching: Some((model("silero-vad"), model("campplus-zh-en"))),
        runtime: Some(model(RUNTIME_MODEL)),
        ..NarratorOptions::new(path)
    };
    (folder, options)
}

fn load(options: NarratorOptions) -> Result<Narrator, VoiceError> {
    Narrator::load(&Compute::from_options(Some(2), None), options)
}

#[test]
#[ignore = "needs models"]
fn a_voice_of_a_model_that_clones_is_called_cloned_and_what_it_says_is_marked() {
    let (_folder, options) = small();
    assert!(Narrator::clones(&options.model) && !Narrator::clones(&model("silero-vad")));
    let narrator = load(options).unwrap();
    assert!(narrator.voices().is_empty() && narrator.memory() > 1_000_000);
    assert_eq!(narrator.languages().len(), 23);
    let (clip, token, marker) = (reference(21.8, 27.8), CancelToken::default(), Marker::new(Key::new([3; 32]), None));
    // Enough sentences for the mark to be read in the sound of random weights.
    let text = "Good morning. ".repeat(12);
    let wanted = SpeechRequest { language: Some("pt"), ..request(&text, VoiceChoice::Like(&clip)) };
    let script = narrator.prepare(&wanted, &token).unwrap();
    assert_eq!(script.voice(), "cloned; model=chatterbox-small");
    assert!(script.is_cloned() && !script.is_matched());
    assert_eq!((script.language(), script.speed()), ("pt", 1.0));
    let (out, payload) = (Shared::default(), marker.payload(b"x", 1_795_000_000));
    let mut sounds = 0;
    let mut first = || sounds += 1;
    let file = Box::new(out.clone());
    let spoken = narrator.speak(&script, FileFormat::Wav, true, &marker, &payload, file, &mut first, &token).unwrap();
    assert_eq!(sounds, 1);
    assert!(spoken.first_sound < spoken.took && spoken.seconds > 5.0, "{spoken:?}");
    let wav = out.bytes();
    let tags = Tags::read(std::io::Cursor::new(&wav)).unwrap();
    assert!(hark_watermark::discloses(&tags.comment.unwrap()));
    let source = Source::Reader(Box::new(std::io::Cursor::new(wav)));
    let samples = decode_all(source, &Options::default()).unwrap().0;
    let found = hark_watermark::detect(&samples, 16_000, marker.key()).unwrap();
    assert!(found.present, "{found:?}");
}

#[test]
#[ignore = "needs models"]
fn a_long_first_sentence_of_a_stream_is_cut() {
    let (_folder, options) = small();
    let narrator = load(options).unwrap();
    let (clip, token) = (reference(21.8, 27.8), CancelToken::default());
    let text = format!("{}and that was all.", "It went on and on, ".repeat(10));
    let first = |is_streamed: bool| {
        let wanted = SpeechRequest { is_streamed, ..request(&text, VoiceChoice::Like(&clip)) };
        format!("{:?}", narrator.prepare(&wanted, &token).unwrap()).matches("Line {").count()
    };
    assert!(first(true) > first(false));
}

#[test]
#[ignore = "needs models"]
fn clips_are_checked_as_they_are_for_matched_voices() {
    let (_folder, options) = small();
    let narrator = load(options.clone()).unwrap();
    let token = CancelToken::default();
    let two = reference(10.6, 17.9);
    let error = narrator.prepare(&request("Good morning.", VoiceChoice::Like(&two)), &token).unwrap_err();
    assert!(matches!(error, VoiceError::ReferenceVoices), "{error}");
    // What checks clips is needed, whoever speaks.
    let unchecked = load(NarratorOptions { matching: None, ..options }).unwrap();
    let clip = reference(21.8, 27.8);
    let error = unchecked.prepare(&request("Good morning.", VoiceChoice::Like(&clip)), &token).unwrap_err();
    assert!(matches!(error, VoiceError::NoMatching), "{error}");
}

#[test]
#[ignore = "needs models"]
fn what_a_cloning_model_can_not_do_is_refused_by_whom_it_concerns() {
    let (_folder, options) = small();
    let narrator = load(options.clone()).unwrap();
    let (clip, token) = (reference(21.8, 27.8), CancelToken::default());
    let refused = |request: &SpeechRequest<'_>| narrator.prepare(request, &token).map(drop).unwrap_err();
    let like = request("Good morning.", VoiceChoice::Like(&clip));
    for voice in [VoiceChoice::Default, VoiceChoice::Named("af_heart")] {
        let error = refused(&request("Good morning.", voice));
        assert_eq!(error.fault(), Fault::Request);
        assert!(error.to_string().starts_with("chatterbox-small speaks only"), "{error}");
    }
    assert!(matches!(refused(&SpeechRequest { speed: 1.5, ..like }), VoiceError::OwnPace));
    assert!(matches!(refused(&SpeechRequest { language: Some("tlh"), ..like }), VoiceError::UnknownLanguage { .. }));
    let kanji = refused(&SpeechRequest { language: Some("ja"), text: "日本語です。", ..like });
    assert_eq!(kanji.fault(), Fault::Request);
    assert!(kanji.to_string().contains("kana"), "{kanji}");
    assert_eq!(refused(&SpeechRequest { text: "...", ..like }).fault(), Fault::Request);
    token.cancel();
    let other = reference(10.6, 14.6);
    let cancelled = narrator.prepare(&request("Good morning.", VoiceChoice::Like(&other)), &token).unwrap_err();
    assert_eq!(cancelled.fault(), Fault::Cancelled);
    let without = load(NarratorOptions { runtime: None, ..options.clone() }).map(drop).unwrap_err();
    assert_eq!(without.fault(), Fault::Installation);
    assert!(without.to_string().contains("hark models pull onnxruntime"), "{without}");
    std::fs::remove_file(options.model.join("embed_tokens.onnx")).unwrap();
    let incomplete = load(options).map(drop).unwrap_err();
    assert!(incomplete.to_string().contains("embed_tokens.onnx is missing"), "{incomplete}");
}
