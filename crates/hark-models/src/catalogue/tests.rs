use super::*;
use crate::check::check_hex;

#[test]
fn the_built_in_catalogue_has_the_whole_whisper_family_and_the_starter_set() {
    let catalogue = Catalogue::builtin();
    for size in
        ["tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en", "large-v3", "large-v3-turbo"]
    {
        let model = catalogue.get(&format!("whisper-{size}")).unwrap_or_else(|| panic!("whisper-{size} is missing"));
        let official = format!("openai/whisper-{size}");
        assert!(
            model.sources.iter().any(|s| matches!(&s.origin, Origin::Hub { repo, .. } if *repo == official)),
            "{size} does not name its official repository"
        );
        assert_eq!(model.english_only, size.ends_with(".en"));
    }
    let defaults: Vec<&str> = catalogue.defaults().map(|m| m.name.as_str()).collect();
    assert_eq!(
        defaults,
        [
            "whisper-base",
            "whisper-small",
            "silero-vad",
            "all-minilm-l6-v2",
            "lid-176",
            "firefox-en-pt",
            "firefox-pt-en",
            "qwen2.5-coder-1.5b-instruct",
            "pyannote-segmentation-3",
            "campplus-zh-en",
            "deepfilternet3",
            "kokoro-82m",
            "misaki-en",
        ]
    );
    for (role, name) in [
        (Role::Transcription, "whisper-base"),
        (Role::Vad, "silero-vad"),
        (Role::Segmentation, "pyannote-segmentation-3"),
        (Role::Embedding, "campplus-zh-en"),
        (Role::TextEmbedding, "all-minilm-l6-v2"),
        (Role::LanguageIdentification, "lid-176"),
        (Role::Language, "qwen2.5-coder-1.5b-instruct"),
        (Role::Enhance, "deepfilternet3"),
        (Role::Voice, "kokoro-82m"),
        (Role::Pronunciation, "misaki-en"),
    ] {
        assert_eq!(catalogue.default_for(role).unwrap().name, name);
    }
    assert!(matches!(catalogue.default_for(Role::Other), Err(Error::NoModelFor { role: Role::Other })));
    assert!(catalogue.listed().all(|m| m.role != Role::Sounds));
    assert!(catalogue.models().iter().any(|m| m.role == Role::Sounds));
}

#[test]
fn the_cloning_model_and_its_runtime_are_listed_and_no_default() {
    let catalogue = Catalogue::builtin();
    let listed = |name: &str| catalogue.listed().find(|model| model.name == name).expect("it is listed").clone();
    let cloning = listed("chatterbox-multilingual");
    assert_eq!((cloning.role, cloning.languages, cloning.default), (Role::Voice, 23, false));
    let files: Vec<&str> = cloning.sources[0].files.iter().map(|file| file.name.as_str()).collect();
    // Networks name the files of their weights: these must lie beside them under the names that they have in the repository.
    for name in files.iter().filter(|name| name.ends_with(".onnx")) {
        assert!(files.contains(&format!("{name}_data").as_str()), "{name}");
    }
    for name in ["onnxruntime", "onnxruntime-aarch64"] {
        let runtime = listed(name);
        assert_eq!((runtime.role, runtime.default), (Role::Runtime, false));
        assert!(runtime.sources[0].files.iter().any(|file| file.name == "libonnxruntime.so"));
    }
    for (name, libraries) in [("cuda-compiler", 2), ("cuda-runtime", 3)] {
        let runtime = listed(name);
        let count = runtime.sources[0].files.iter().filter(|file| file.name.starts_with("lib")).count();
        assert_eq!((runtime.role, runtime.default, count), (Role::Runtime, false, libraries));
    }
    assert!(matches!(catalogue.default_for(Role::Runtime), Err(Error::NoModelFor { role: Role::Runtime })));
}

#[test]
fn translation_models_say_which_languages_they_translate_and_no_other_does() {
    let catalogue = Catalogue::builtin();
    for model in catalogue.models() {
        let is_pair = model.translates.is_some();
        assert_eq!(is_pair || model.multilingual, model.role == Role::Translation, "{}", model.name);
        assert!(!is_pair || !model.multilingual, "{}", model.name);
    }
    let pair = |name: &str| catalogue.get(name).unwrap().translates.clone().map(|pair| (pair.from, pair.to));
    assert_eq!(pair("firefox-en-pt"), Some(("en".into(), "pt".into())));
    assert_eq!(pair("firefox-pt-en"), Some(("pt".into(), "en".into())));
}

#[test]
fn every_built_in_hub_source_is_pinned_to_a_commit_and_every_weight_to_a_hash() {
    for model in Catalogue::builtin().models() {
        for source in &model.sources {
            if let Origin::Hub { revision, .. } = &source.origin {
                check_hex(revision, 40).unwrap();
            }
            let largest = source.files.iter().max_by_key(|f| f.size).unwrap();
            assert!(largest.sha256.is_some(), "{}: {} has no hash", model.name, largest.name);
            let in_archives = !source.archives().is_empty();
            assert!(
                !in_archives || source.files.iter().all(|f| f.sha256.is_some() && f.size.is_some()),
                "{}",
                model.name
            );
        }
    }
}

#[test]
fn every_built_in_model_states_its_size_format_and_licence() {
    for model in Catalogue::builtin().models() {
        let first = &model.sources[0];
        assert!(!model.licence.is_empty() && !model.licence_note.is_empty(), "{}", model.name);
        assert_eq!(first.format.as_deref().unwrap_or(&model.format), model.format, "{}", model.name);
        let unknown = first.files.iter().any(|f| f.size.is_none());
        if unknown {
            assert!(model.size_bytes >= first.size_bytes(), "{}", model.name);
        } else {
            assert_eq!(model.size_bytes, first.size_bytes(), "{}", model.name);
        }
    }
}

const OWN: &str = r#"
    version = 1
    [[model]]
    name = "whisper-base"
    licence = "MIT"
    [[model.source]]
    kind = "folder"
    path = "/somewhere"
    files = [{ name = "model.bin" }]
    [[model]]
    name = "mine"
    licence = "Apache-2.0"
    [[model.source]]
    kind = "url"
    url = "http://localhost/x"
    files = [{ name = "model.bin" }]
"#;

#[test]
fn a_users_file_adds_models_and_replaces_built_in_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("models.toml");
    std::fs::write(&path, OWN).unwrap();
    let all = Catalogue::with_user_file(&path).unwrap();
    assert!(all.get("mine").is_some() && all.get("whisper-small").is_some());
    assert_eq!(all.get("whisper-base").unwrap().sources[0].kind(), SourceKind::Folder);
    assert_eq!(all.models().len(), Catalogue::builtin().models().len() + 1);
}

#[test]
fn a_users_file_may_use_the_older_spelling_of_roles_and_may_not_bring_public_names() {
    let old = OWN.replace("licence = \"MIT\"", "licence = \"MIT\"\nkind = \"speech\"");
    assert_eq!(Catalogue::parse(&old, "test").unwrap().get("whisper-base").unwrap().role, Role::Transcription);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("models.toml");
    std::fs::write(&path, format!("{OWN}\n[[name]]\nid = \"best\"\nserved_by = [\"mine\"]\n")).unwrap();
    assert!(Catalogue::with_user_file(&path).unwrap_err().to_string().contains("[aliases]"));
}

#[test]
fn names_that_would_leave_the_models_folder_are_refused() {
    for (from, to) in [
        ("name = \"mine\"", "name = \"../mine\""),
        ("{ name = \"model.bin\" }]\n    [[model]]", "{ name = \"../../etc/passwd\" }]\n    [[model]]"),
        ("name = \"mine\"", "name = \".incoming\""),
        ("{ name = \"model.bin\" }]\n    [[model]]", "{ name = \"/etc/passwd\" }]\n    [[model]]"),
    ] {
        let text = OWN.replace(from, to);
        assert_ne!(text, OWN, "the case {to} changes nothing");
        assert!(Catalogue::parse(&text, "test").is_err(), "{to} was accepted");
    }
}

#[test]
fn a_misspelt_field_is_an_error_that_names_it() {
    let text = OWN.replace("licence = \"MIT\"", "licence = \"MIT\"\nlicense_nota = \"x\"");
    let message = Catalogue::parse(&text, "test").unwrap_err().to_string();
    assert!(message.contains("license_nota"), "{message}");
}
