//! The whole way on a small network of the same architecture with random weights. Needs the catalogue's `onnxruntime`.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_clone::testing::SmallModel;
use hark_clone::{CloneError, ClonedVoice, Cloner, SAMPLE_RATE, Settings};
use hark_models::ModelStore;
use hark_onnx::{CATALOGUE_NAME, Kind, LIBRARY, Network, OnnxError, Runtime, Tensor};
use tempfile::TempDir;

const NEVER: &(dyn Fn() -> bool + Sync) = &|| false;
/// The most likely token each time.
const GREEDY: Settings =
    Settings { exaggeration: 0.5, guidance: 0.5, temperature: 0.0, min_p: 0.05, repetition_penalty: 2.0 };

fn runtime() -> Runtime {
    let library = ModelStore::default_dir().join(CATALOGUE_NAME).join(LIBRARY);
    Runtime::load(&library).expect("`./hark test` installs what tests need")
}

fn small(model: SmallModel) -> (TempDir, Cloner) {
    let folder = tempfile::tempdir().unwrap();
    model.write(folder.path());
    let cloner = Cloner::load(&runtime(), folder.path(), 2).unwrap();
    (folder, cloner)
}

/// Seconds of a tone.
fn clip(seconds: f64, pitch: f32) -> Vec<f32> {
    let count = (seconds * f64::from(SAMPLE_RATE)) as usize;
    (0..count).map(|at| 0.3 * (at as f32 * pitch).sin() + 0.1 * (at as f32 * pitch * 2.7).sin()).collect()
}

fn voice(cloner: &Cloner) -> ClonedVoice {
    cloner.listen(&clip(3.0, 0.05), NEVER).unwrap()
}

#[test]
#[ignore = "needs onnxruntime"]
fn a_sentence_is_spoken_until_the_model_ends_it_and_a_seed_decides_how() {
    let (_folder, cloner) = small(SmallModel::default());
    let (voice, settings) = (voice(&cloner), Settings::default());
    let speak = |seed: u64| cloner.speak("The thing in the thin ring.", "en", &voice, &settings, seed, NEVER).unwrap();
    let samples = speak(1);
    // Whole tokens of 40 ms, some of them, without those of the clip.
    assert_eq!(samples.len() % 960, 0);
    assert!((4 * 960..150 * 960).contains(&samples.len()), "{}", samples.len());
    assert!(samples.iter().all(|sample| sample.abs() <= 1.0) && samples.iter().any(|sample| sample.abs() > 0.1));
    assert_eq!(speak(1), samples);
    assert!((2..6).any(|seed| speak(seed) != samples));
    let lengths: Vec<usize> = (10..40).map(|seed| speak(seed).len() / 960).collect();
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    assert!((8.0..50.0).contains(&mean), "one token of some twenty is the last: {lengths:?}");
}

#[test]
#[ignore = "needs onnxruntime"]
fn the_voice_the_text_and_the_language_change_what_is_said() {
    let (_folder, cloner) = small(SmallModel::default());
    let one = voice(&cloner);
    let other = cloner.listen(&clip(4.0, 0.09), NEVER).unwrap();
    // A change of a few logits decides over one of some draws.
    let speak = |text: &str, language: &str, voice: &ClonedVoice, settings: &Settings| -> Vec<f32> {
        (0..12).flat_map(|seed| cloner.speak(text, language, voice, settings, seed, NEVER).unwrap()).collect()
    };
    let settings = Settings::default();
    let base = speak("The thing.", "en", &one, &settings);
    assert!(speak("The thing.", "en", &one, &settings) == base, "equal requests are equal speech");
    assert!(speak("The thing.", "en", &other, &settings) != base, "another voice");
    assert!(speak("In the ring.", "en", &one, &settings) != base, "another text");
    assert!(speak("The thing.", "fr", &one, &settings) != base, "another language");
    // The small network's norms leave of the exaggeration only its sign.
    assert!(speak("The thing.", "en", &one, &Settings { exaggeration: -1.0, ..settings }) != base, "its opposite");
    assert!(speak("The thing.", "en", &one, &Settings { guidance: 0.0, ..settings }) != base, "no guidance");
    assert_eq!(cloner.languages().len(), 23);
    for language in cloner.languages() {
        speak("a i u", language, &one, &settings);
    }
    speak("你好。", "zh", &one, &settings);
}

/// The same speech by other means: every step reads everything from the begin, without caches, one row after the other.
fn by_hand(folder: &Path, language_model: &str, clip: &[f32], ids: &[i64], settings: &Settings) -> Vec<f32> {
    let runtime = runtime();
    let load = |name: &str| Network::load(&runtime, &folder.join(name), 1).unwrap();
    let (mut encoder, mut embedder) = (load("speech_encoder.onnx"), load("embed_tokens.onnx"));
    let (mut language, mut decoder) = (load(language_model), load("conditional_decoder.onnx"));
    let audio = Tensor::f32(&[1, clip.len()], clip.to_vec()).unwrap();
    let mut heard = encoder.run(&[("audio_values", &audio)], NEVER).unwrap();
    let conditioning = heard.take("audio_features").unwrap();
    let width = conditioning.shape()[2];
    let mut embed = |ids: &[i64], positions: &[i64]| {
        let tensor = |numbers: &[i64]| Tensor::i64(&[1, numbers.len()], numbers.to_vec()).unwrap();
        let (ids, positions) = (tensor(ids), tensor(positions));
        let how = Tensor::f32(&[1], vec![settings.exaggeration]).unwrap();
        let inputs = [("input_ids", &ids), ("position_ids", &positions), ("exaggeration", &how)];
        let out = embedder.run(&inputs, NEVER).unwrap().take("inputs_embeds").unwrap();
        out.as_f32().unwrap().to_vec()
    };
    let positions: Vec<i64> =
        (0..ids.len() as i64).map(|at| if ids[at as usize] >= 6561 { 0 } else { at - 1 }).collect();
    let text = embed(ids, &positions);
    let mut rows = [[conditioning.as_f32().unwrap(), &text].concat(), [conditioning.as_f32().unwrap(), &text].concat()];
    let begin = conditioning.as_f32().unwrap().len() + width;
    // From behind the exaggeration to before the two tokens that begin speech.
    rows[1][begin..begin + (ids.len() - 3) * width].fill(0.0);
    let mut tokens: Vec<i64> = Vec::new();
    loop {
        let logits = rows.each_ref().map(|row| {
            let length = row.len() / width;
            let embeddings = Tensor::f32(&[1, length, width], row.clone()).unwrap();
            let mask = Tensor::i64(&[1, length], vec![1; length]).unwrap();
            let names: Vec<String> = language
                .inputs()
                .iter()
                .map(|port| port.name.clone())
                .filter(|name| name.starts_with("past"))
                .collect();
            let shape = language.inputs().iter().find(|port| port.name == names[0]).unwrap().shape.clone();
            let empty = Tensor::zeros(Kind::F32, &[1, shape[1].unwrap(), 0, shape[3].unwrap()]).unwrap();
            let mut inputs = vec![("inputs_embeds", &embeddings), ("attention_mask", &mask)];
            inputs.extend(names.iter().map(|name| (name.as_str(), &empty)));
            let logits = language.run(&inputs, NEVER).unwrap().take("logits").unwrap();
            let numbers = logits.as_f32().unwrap();
            numbers[numbers.len() - 8194..].to_vec()
        });
        let mut scores: Vec<f32> = logits[0]
            .iter()
            .zip(&logits[1])
            .map(|(with, without)| with + settings.guidance * (with - without))
            .collect();
        let seen: std::collections::HashSet<i64> = tokens.iter().copied().chain([6561]).collect();
        for token in seen {
            let score = &mut scores[token as usize];
            *score =
                if *score < 0.0 { *score * settings.repetition_penalty } else { *score / settings.repetition_penalty };
        }
        let may_end = tokens.len() >= 4;
        let allowed = (0..6561).chain(may_end.then_some(6562));
        let best = allowed.max_by(|one, other| scores[*one].total_cmp(&scores[*other])).unwrap() as i64;
        if best == 6562 || tokens.len() > 200 {
            break;
        }
        tokens.push(best);
        let embedding = embed(&[best], &[tokens.len() as i64]);
        rows.iter_mut().for_each(|row| row.extend_from_slice(&embedding));
    }
    let all = [heard.take("audio_tokens").unwrap().as_i64().unwrap(), &tokens].concat();
    let all = Tensor::i64(&[1, all.len()], all).unwrap();
    let (speaker, features) = (heard.take("speaker_embeddings").unwrap(), heard.take("speaker_features").unwrap());
    let inputs = [("speech_tokens", &all), ("speaker_embeddings", &speaker), ("speaker_features", &features)];
    decoder.run(&inputs, NEVER).unwrap().take("waveform").unwrap().as_f32().unwrap().to_vec()
}

#[test]
#[ignore = "needs onnxruntime"]
fn caches_and_guidance_in_one_batch_give_what_reading_everything_again_gives() {
    let (folder, cloner) = small(SmallModel::default());
    let clip = clip(3.2, 0.07);
    let voice = cloner.listen(&clip, NEVER).unwrap();
    for (text, inner) in [("the in", "the in."), ("thing", "thing.")] {
        let samples = cloner.speak(text, "en", &voice, &GREEDY, 0, NEVER).unwrap();
        // Letters by the table of the small tokenizer, with its merges.
        let letter = |letter: char| 30 + i64::from(letter as u32 - ' ' as u32);
        let mut ids = vec![6563, 255, 704];
        let (th, the, r#in) = (128, 129, 130);
        match inner {
            "the in." => ids.extend([the, 2, r#in, letter('.')]),
            _ => ids.extend([th, r#in, letter('g'), letter('.')]),
        }
        ids.extend([0, 6561, 6561]);
        let expected = by_hand(folder.path(), "language_model_q4.onnx", &clip, &ids, &GREEDY);
        assert_eq!(samples.len(), expected.len(), "{text}");
        let worst = samples.iter().zip(&expected).map(|(one, other)| (one - other).abs()).fold(0f32, f32::max);
        assert!(worst < 1e-4, "{text}: {worst}");
    }
}

#[test]
#[ignore = "needs onnxruntime"]
fn an_export_with_16_bit_caches_speaks_as_one_with_32_bits_does() {
    let wide = small(SmallModel { language_model: "language_model.onnx", ..SmallModel::default() });
    let half =
        SmallModel { language_model: "language_model_fp16.onnx", has_half_caches: true, ..SmallModel::default() };
    let half = small(half);
    let speak = |cloner: &Cloner| {
        let voice = voice(cloner);
        cloner.speak("The ring.", "en", &voice, &Settings { temperature: 0.0, ..GREEDY }, 0, NEVER).unwrap()
    };
    let (one, other) = (speak(&wide.1), speak(&half.1));
    // Rounding of caches may tip a later choice between near tokens; the begin is the same.
    let equal = one.iter().zip(&other).take_while(|(one, other)| (*one - *other).abs() < 1e-4).count();
    assert!(equal >= 4 * 960, "{equal} samples are equal of {} and {}", one.len(), other.len());
}

#[test]
#[ignore = "needs onnxruntime"]
fn speech_without_an_end_is_given_up_at_its_limit() {
    let (_folder, cloner) = small(SmallModel { stop: -40.0, ..SmallModel::default() });
    let voice = voice(&cloner);
    let error = cloner.speak("In.", "en", &voice, &Settings::default(), 1, NEVER).unwrap_err();
    // Three text tokens: 75 + 6 * 3 tokens of 40 ms.
    assert!(matches!(error, CloneError::Endless { seconds } if (3.0..4.5).contains(&seconds)), "{error}");
    assert!(!error.is_callers_fault());
}

#[test]
#[ignore = "needs onnxruntime"]
fn a_cancelled_sentence_ends_with_that() {
    let (_folder, cloner) = small(SmallModel { stop: -40.0, ..SmallModel::default() });
    let voice = voice(&cloner);
    for times in [0, 1, 20] {
        let asked = AtomicUsize::new(0);
        let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= times;
        let error = cloner.speak("In the ring.", "en", &voice, &Settings::default(), 1, &is_cancelled).unwrap_err();
        assert!(error.is_cancelled(), "{error}");
    }
    let error = cloner.listen(&clip(3.0, 0.05), &|| true).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert!(cloner.listen(&clip(3.0, 0.05), NEVER).is_ok());
}

#[test]
#[ignore = "needs onnxruntime"]
fn clips_and_texts_that_can_not_be_used_are_refused() {
    let (_folder, cloner) = small(SmallModel::default());
    let mut broken = clip(3.0, 0.05);
    broken[100] = f32::NAN;
    for clip in [Vec::new(), clip(0.9, 0.05), broken] {
        let error = cloner.listen(&clip, NEVER).unwrap_err();
        assert!(matches!(error, CloneError::Reference { .. }) && error.is_callers_fault(), "{error}");
    }
    // Only ten seconds are heard of a longer one.
    let (ten, longer) = (clip(10.0, 0.05), clip(14.0, 0.05));
    let speak = |clip: &[f32]| {
        let voice = cloner.listen(clip, NEVER).unwrap();
        cloner.speak("The in.", "en", &voice, &GREEDY, 0, NEVER).unwrap()
    };
    assert_eq!(speak(&ten), speak(&longer));
    let refused = |text: &str, language: &str| {
        let error = cloner.check(text, language).unwrap_err();
        assert!(error.is_callers_fault(), "{error}");
        error
    };
    assert!(matches!(refused("...", "en"), CloneError::Empty));
    assert!(matches!(refused("x", "xx"), CloneError::UnknownLanguage { .. }));
    assert!(matches!(refused("日本", "ja"), CloneError::Kanji { .. }));
    assert!(matches!(refused(&"x".repeat(2100), "en"), CloneError::TooLong { limit: 2048, .. }));
    assert_eq!(format!("{:?}", voice(&cloner)), "ClonedVoice");
}

#[test]
#[ignore = "needs onnxruntime"]
fn folders_with_missing_broken_or_mixed_files_are_refused_by_name() {
    let refused = |name: &str, change: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        SmallModel::default().write(folder.path());
        change(&folder.path().join(name));
        let error = Cloner::load(&runtime(), folder.path(), 1).map(drop).unwrap_err();
        assert!(error.to_string().contains(name.trim_end_matches("_data")), "{name}: {error}");
        assert!(!error.is_callers_fault());
        error
    };
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    for name in [
        "speech_encoder.onnx",
        "embed_tokens.onnx",
        "language_model_q4.onnx",
        "conditional_decoder.onnx",
        "tokenizer.json",
    ] {
        refused(name, &remove);
        refused(name, &|path| std::fs::write(path, b"{}").unwrap());
    }
    for name in ["speech_encoder.onnx_data", "language_model_q4.onnx_data"] {
        refused(name, &remove);
        refused(name, &|path| std::fs::write(path, [1; 50]).unwrap());
    }
    // The files of one network under the name of another.
    let swap = |other: &'static str| {
        move |path: &Path| {
            std::fs::copy(path.with_file_name(other), path).unwrap();
        }
    };
    let error = refused("embed_tokens.onnx", &swap("conditional_decoder.onnx"));
    assert!(matches!(error, CloneError::Onnx(OnnxError::Unlike { .. })), "{error}");
    let error = refused("language_model_q4.onnx", &swap("embed_tokens.onnx"));
    assert!(matches!(error, CloneError::Onnx(OnnxError::Unlike { .. })), "{error}");
    let error = refused("conditional_decoder.onnx", &swap("speech_encoder.onnx"));
    assert!(matches!(error, CloneError::Onnx(OnnxError::Unlike { .. })), "{error}");
    refused("Cangjie5_TC.json", &|path| std::fs::write(path, b"[7]").unwrap());
    // Without the codes of its characters Chinese can't be spoken, and everything else can.
    let folder = tempfile::tempdir().unwrap();
    SmallModel::default().write(folder.path());
    std::fs::remove_file(folder.path().join("Cangjie5_TC.json")).unwrap();
    let cloner = Cloner::load(&runtime(), folder.path(), 1).unwrap();
    assert_eq!(cloner.languages().len(), 22);
    assert!(matches!(cloner.check("你好", "zh"), Err(CloneError::UnknownLanguage { .. })));
    assert!(hark_clone::is_in(folder.path()));
    assert!(!hark_clone::is_in(&folder.path().join("none")));
}
