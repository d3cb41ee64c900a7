//! The whole way from text to phonemes, with the installed dictionary and espeak-ng.

use std::path::PathBuf;
use std::time::Duration;

use hark_say::{LANGUAGES, Lexicon, Options, SayError, Sentence, TextReader, alphabet};

/// The folder of the English dictionary, which `hark models pull misaki-en` installs.
fn dictionary() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let models = set("HARK_MODELS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hark/models")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hark/models")))
        .expect("HARK_MODELS or HOME says where models are");
    let folder = models.join("misaki-en");
    assert!(folder.join("us_gold.json").is_file(), "run: hark models pull misaki-en");
    folder
}

fn reader() -> TextReader {
    TextReader::new(Options { dictionary: Some(dictionary()), ..Options::default() })
}

fn plan(text: &str, language: &str) -> Vec<Sentence> {
    reader().plan(text, language, &|| false).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn phonemes(text: &str) -> String {
    plan(text, "en-us").into_iter().map(|sentence| sentence.phonemes).collect::<Vec<_>>().join(" | ")
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn english_words_sound_as_the_dictionary_has_them() {
    for (text, expected) in [
        ("Please read the report I read yesterday.", "plˈiz ɹˈid ðə ɹəpˈɔɹt ˌI ɹˈɛd jˈɛstəɹdˌA."),
        ("I live in a live house.", "ˌI lˈɪv ɪn ɐ lˈIv hˈWs."),
        ("I object to the object.", "ˌI əbʤˈɛkt tə ði ˈɑbʤəkt."),
        ("The FBI and NASA.", "ði ˌɛfbˌiˈI ænd nˈæsə."),
        ("GPUs, CEO's", "ʤˌipˌijˈuz, sˌiˌiˈOz"),
        ("The café's façade", "ðə kæfˈAz fəsˈɑd"),
        ("twenty-six", "twˈɛntisˌɪks"),
        ("It stopped raining.", "ˌɪt stˈɑpt ɹˈAnɪŋ."),
        ("“Hello,” she said.", "“həlˈO,” ʃi sˈɛd."),
    ] {
        assert_eq!(phonemes(text), expected, "{text}");
    }
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn words_in_no_dictionary_come_out_with_and_without_espeak() {
    let without = TextReader::new(Options {
        dictionary: Some(dictionary()),
        espeak: Some("/no/such/program".into()),
        ..Options::default()
    });
    for word in ["Wojciechowski", "glorpification", "qzxwv", "Rzeszów", "Okonkwo"] {
        for reader in [&reader(), &without] {
            let planned = reader.plan(word, "en-us", &|| false).unwrap();
            let sounds = planned[0].phonemes.chars().filter(|c| c.is_alphabetic()).count();
            assert!(sounds >= 4, "{word}: {}", planned[0].phonemes);
        }
    }
    let error = without.plan("Hola.", "es", &|| false).unwrap_err();
    assert!(
        matches!(error, SayError::EspeakMissing { language: "Spanish" })
            && error.to_string().contains("install the package espeak-ng")
    );
    let nothing = TextReader::new(Options { espeak: Some("/no/such/program".into()), ..Options::default() });
    assert!(matches!(nothing.plan("Hello.", "en", &|| false), Err(SayError::EspeakMissing { .. })));
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn every_language_speaks_in_symbols_of_the_alphabet() {
    for (language, text) in [
        ("ar", "مرحبا بالعالم، كيف حالك؟"),
        ("da", "Hej verden, hvordan går det?"),
        ("de", "Ich möchte 3 Häuser, bitte."),
        ("el", "Καλημέρα κόσμε."),
        ("en-us", "Hello, world."),
        ("en-gb", "Hello, world."),
        ("es", "¿Qué tal, señor? Son las 17:45."),
        ("fi", "Hyvää päivää, maailma."),
        ("fr", "Un bon vin blanc, n'est-ce pas ?"),
        ("he", "שלום עולם."),
        ("hi", "नमस्ते दुनिया।"),
        ("it", "Gli gnocchi sono pronti."),
        ("ja", "こんにちは、おげんきですか。"),
        ("ko", "안녕하세요 세계."),
        ("ms", "Selamat pagi, dunia."),
        ("nl", "Goedemorgen, wereld."),
        ("no", "Hei verden."),
        ("pl", "Dzień dobry, świecie."),
        ("pt-br", "A criança não está aqui."),
        ("ru", "Привет, мир."),
        ("sv", "Hej världen."),
        ("sw", "Habari ya dunia."),
        ("tr", "Günaydın dünya."),
    ] {
        let planned = plan(text, language);
        let joined: String = planned.iter().map(|sentence| sentence.phonemes.as_str()).collect();
        assert!(joined.chars().all(alphabet::contains), "{language}: {joined}");
        assert!(joined.chars().filter(|c| c.is_alphabetic()).count() > 6, "{language}: {joined}");
    }
    assert_eq!(LANGUAGES.len(), 23);
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn without_its_dictionary_english_is_read_by_espeak() {
    let reader = TextReader::new(Options::default());
    let planned = reader.plan("Hello, big world.", "en-us", &|| false).unwrap();
    assert_eq!(planned[0].phonemes, "həlˈO, bˈɪɡ wˈɜɹld.");
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn long_sentences_are_cut_so_that_each_part_fits() {
    let clause = "the quick brown fox jumps over the lazy dog near the river bank, ";
    let text = format!("{}and that is all.", clause.repeat(28));
    let planned = plan(&text, "en-us");
    assert!(planned.len() > 2);
    for sentence in &planned {
        assert!(sentence.phonemes.chars().count() <= alphabet::MAX_PHONEMES);
        assert!(sentence.text.ends_with([',', '.']), "cut inside a clause: {}", sentence.text);
    }
    let words: Vec<&str> = planned.iter().flat_map(|sentence| sentence.text.split_whitespace()).collect();
    assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
    // Without a place to cut, between characters.
    for text in ["x".repeat(2000), "7".repeat(2000), "W".repeat(1999)] {
        let planned = plan(&text, "en-us");
        assert!(planned.iter().all(|sentence| sentence.phonemes.chars().count() <= alphabet::MAX_PHONEMES));
        assert_eq!(planned.iter().map(|sentence| sentence.text.len()).sum::<usize>(), text.len());
    }
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn a_lexicon_stands_before_everything() {
    let lexicon = Lexicon::parse("Hark = hˈɑɹk\nhello = bˈI\nhola = bˈaj").unwrap();
    let reader = TextReader::new(Options { dictionary: Some(dictionary()), lexicon, ..Options::default() });
    assert_eq!(reader.plan("Hello, Hark.", "en", &|| false).unwrap()[0].phonemes, "bˈI, hˈɑɹk.");
    assert_eq!(reader.plan("hola amigo", "es", &|| false).unwrap()[0].phonemes, "bˈaj amˈiɣo");
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn what_cannot_be_spoken_says_why() {
    let reader = reader();
    for text in ["", "   ", "😀😀", "\u{202e}\u{200b}", "***", "\n\n\n"] {
        assert!(matches!(reader.plan(text, "en", &|| false), Err(SayError::Empty)), "{text:?}");
    }
    assert!(matches!(
        reader.plan(&"a".repeat(2001), "en", &|| false),
        Err(SayError::TooLong { characters: 2001, limit: 2000 })
    ));
    assert!(matches!(reader.plan("a", "xx", &|| false), Err(SayError::UnknownLanguage { .. })));
    assert!(matches!(reader.plan("世界", "ja", &|| false), Err(SayError::KanjiReading { .. })));
    assert!(matches!(reader.plan("a", "en", &|| true), Err(SayError::Cancelled)));
    assert!(reader.plan("a", "xx", &|| false).unwrap_err().is_request_fault());
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn a_folder_without_the_dictionary_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let reader = TextReader::new(Options { dictionary: Some(folder.path().to_owned()), ..Options::default() });
    assert!(reader.plan("hello", "en", &|| false).unwrap_err().to_string().contains("us_gold.json"));
    std::fs::write(folder.path().join("us_gold.json"), "[1, 2").unwrap();
    assert!(matches!(reader.plan("hello", "en", &|| false), Err(SayError::Dictionary { .. })));
}

#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn pauses_are_longer_after_paragraphs() {
    let planned = plan("One. Two?\n\nThree.", "en-us");
    let pauses: Vec<Duration> = planned.iter().map(|sentence| sentence.pause).collect();
    assert!(pauses[0] < pauses[1] && pauses[1] == pauses[2], "{pauses:?}");
}

/// Texts that someone sends to break things, and what each must still keep to.
#[test]
#[ignore = "needs misaki-en and espeak-ng"]
fn hostile_texts_neither_panic_nor_break_the_limits() {
    let reader =
        TextReader::new(Options { dictionary: Some(dictionary()), max_characters: 20_000, ..Options::default() });
    let pieces = [
        "1",
        "0",
        ".",
        ",",
        "-",
        "/",
        ":",
        "$",
        "%",
        " ",
        "\n",
        "'",
        "\"",
        "(",
        ")",
        "[[",
        "]]",
        "](",
        "http://",
        "@",
        "#",
        "e",
        "I",
        "V",
        "X",
        "Dr.",
        "St.",
        "p.m.",
        "½",
        "²",
        "°",
        "…",
        "—",
        "é",
        "ß",
        "İ",
        "ﬁ",
        "中",
        "あ",
        "한",
        "ا",
        "ש",
        "ह",
        "\u{301}",
        "\u{200d}",
        "\u{202e}",
        "\u{0}",
        "\u{1}",
        "😀",
        "👨‍👩‍👧",
        "a^b",
        "x²",
        "\u{feff}",
        "٣",
        "१",
        "𝟙",
        "Ⅷ",
        "①",
        "10-15",
        "3/4",
        "2026-11-18",
        "5:30",
        "kg",
        "USD",
        "…",
        "%%",
        "\\",
        "&",
        "+",
        "=",
        "<",
        ">",
        "~",
        "|",
        "_",
        "*",
        "`",
        "th",
        "s",
        "'s",
        "VIII",
        "MMMM",
    ];
    // A small generator, so that a failure can be run again.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let mut texts: Vec<String> =
        (0..60).map(|_| (0..1 + next(40)).map(|_| pieces[next(pieces.len())]).collect()).collect();
    texts.extend([
        "😀".repeat(2000),
        "1".repeat(10_000),
        "\u{202e}a\u{301}".repeat(600),
        "(".repeat(2000),
        "1-".repeat(1000),
        "1/".repeat(1000),
        "1,111".repeat(400),
        "a.".repeat(1000),
        "A.".repeat(1000),
        "$".repeat(2000),
        "a@".repeat(1000),
        "9:".repeat(1000),
        "I".repeat(1000),
        "www.".repeat(500),
    ]);
    for text in &texts {
        for language in ["en-us", "es", "hi"] {
            if text.len() > 1500 && language != "en-us" {
                continue;
            }
            match reader.plan(text, language, &|| false) {
                Ok(planned) => {
                    for sentence in planned {
                        assert!(sentence.phonemes.chars().all(alphabet::contains), "{text:?}: {}", sentence.phonemes);
                        assert!(sentence.phonemes.chars().count() <= alphabet::MAX_PHONEMES, "{text:?}");
                    }
                }
                Err(SayError::Empty) => {}
                Err(error) => panic!("{text:?} in {language}: {error}"),
            }
        }
    }
}
