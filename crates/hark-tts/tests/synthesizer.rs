//! The installed model: what it speaks, what it refuses, and how it is cancelled.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_compute::{Compute, Isa};
use hark_tts::{Sentence, SpeechModel, SpeechStream, Synthesizer, TtsError, VoiceKind};

fn folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache =
        || Some(variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?.join("hark/models"));
    variable("HARK_MODELS").or_else(cache).expect("a home folder").join("kokoro-82m")
}

#[test]
#[ignore = "needs models"]
fn the_model_speaks_at_every_length_and_speed_and_refuses_the_rest() {
    let model = Synthesizer::load(&Compute::from_options(Some(2), None), &folder()).expect("kokoro-82m is installed");
    assert_eq!(model.voices().len(), 54);
    let voice = model.voice("am_michael").unwrap().clone();
    assert_eq!(voice.kind(), VoiceKind::Preset);
    let speak = |phonemes: &str, speed: f32| model.speak(phonemes, &voice, speed, &|| false);
    assert!(speak("ə", 1.0).unwrap().len() >= 600 * 3);
    let (slow, usual, quick) =
        (speak("həlˈoʊ.", 0.5).unwrap(), speak("həlˈoʊ.", 1.0).unwrap(), speak("həlˈoʊ.", 2.0).unwrap());
    assert!(slow.len() > usual.len() && usual.len() > quick.len());
    assert!(usual.iter().all(|sample| sample.abs() < 1.0) && usual.iter().any(|sample| sample.abs() > 0.02));
    assert!(matches!(speak("", 1.0), Err(TtsError::Empty)));
    assert!(matches!(speak("ə", 3.0), Err(TtsError::Speed { .. })));
    assert!(matches!(speak("ə", f32::NAN), Err(TtsError::Speed { .. })));
    assert!(matches!(speak(&"ə".repeat(511), 1.0), Err(TtsError::TooLong { .. })));
    assert!(matches!(speak("日", 1.0), Err(TtsError::UnknownPhoneme { character: '日' })));
    let unknown = model.voice("nobody").unwrap_err();
    assert!(unknown.is_callers_fault() && unknown.to_string().contains("af_heart"));

    // Half-way through, some of its layers have run.
    let asked = AtomicUsize::new(0);
    let cancelled = model.speak("həlˈoʊ.", &voice, 1.0, &|| asked.fetch_add(1, Ordering::Relaxed) > 100);
    assert!(matches!(cancelled, Err(TtsError::Cancelled)));
    assert!(asked.load(Ordering::Relaxed) == 102, "it stops when it is told");

    // The first sentence alone is what a stream gives first.
    let sentences = ["həlˈoʊ.", "wˈɜːld."].map(Sentence::new);
    let stream = SpeechStream::new(&model, &voice, 1.0, sentences, &|| false);
    let sounds = stream.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(sounds.len(), 2);
    assert!(sounds[0].len() < usual.len() + 24_000 && sounds[0].ends_with(&[0.0; 5000]));
}

#[test]
fn folders_that_hold_no_model_are_errors() {
    let compute = Compute::new(1, Isa::Portable);
    let load = |folder: &std::path::Path| Synthesizer::load(&compute, folder).map(|_| ()).unwrap_err();
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(load(folder.path()), TtsError::Unreadable { .. }));
    let voices = folder.path().join("voices");
    std::fs::create_dir(&voices).unwrap();
    assert!(matches!(load(folder.path()), TtsError::Malformed { .. }), "no voices");
    std::fs::write(voices.join("short.bin"), [0; 100]).unwrap();
    assert!(load(folder.path()).to_string().contains("522240"), "a short voice");
    std::fs::remove_file(voices.join("short.bin")).unwrap();
    std::fs::write(voices.join("odd.bin"), f32::NAN.to_le_bytes().repeat(510 * 256)).unwrap();
    assert!(load(folder.path()).to_string().contains("not finite"));
    std::fs::write(voices.join("odd.bin"), vec![0; 510 * 256 * 4]).unwrap();
    assert!(matches!(load(folder.path()), TtsError::Weights(_)), "no graph");
    std::fs::write(folder.path().join("model.onnx"), b"not a graph").unwrap();
    assert!(matches!(load(folder.path()), TtsError::Weights(_)), "a damaged graph");
}
