//! The tokenizer of real checkpoints against ids made with the reference implementation.
//!
//! The ids were produced once with the Python package `tokenizers` from the files of whisper-tiny and whisper-tiny.en.

mod weights_installed;

use hark_whisper::tokenizer::{Tokenizer, Vocabulary};

const MULTILINGUAL: [(&str, &[u32]); 16] = [
    (
        "And so, my fellow Americans: ask not what your country can do for you.",
        &[5289, 370, 11, 452, 7177, 6280, 25, 1029, 406, 437, 428, 1941, 393, 360, 337, 291, 13],
    ),
    (
        " the quick  brown\n\tfox's 1234 jump-ed!!  ",
        &[264, 1702, 220, 6292, 198, 197, 38416, 311, 2272, 12249, 3012, 12, 292, 1432, 220, 220],
    ),
    (
        "Ação, coração e pão: não é fácil, você sabe?",
        &[32, 2917, 11, 41408, 308, 280, 1076, 25, 2431, 1136, 17474, 11, 2723, 12275, 30],
    ),
    (
        "Größe über Straße; «où êtes-vous?»",
        &[20038, 973, 11451, 4502, 43817, 26, 4657, 78, 5035, 18935, 12, 16514, 30, 5933],
    ),
    ("Привет, как дела? Что-то ещё…", &[43971, 31259, 11, 3014, 46157, 30, 13169, 12, 860, 13993, 1260]),
    ("今天天气很好,我们去公园吧。", &[12074, 6135, 42204, 23801, 11, 15003, 6734, 13545, 3919, 255, 6062, 1543]),
    (
        "東京タワーはどこですか？カタカナ",
        &[18413, 31375, 12144, 39613, 3384, 3065, 7594, 3503, 30913, 171, 120, 253, 10111, 12144, 10111, 26719],
    ),
    ("안녕하세요, 반갑습니다", &[49200, 12831, 15377, 11, 16396, 27358, 3115]),
    (
        "नमस्ते दुनिया, आप कैसे हैं?",
        &[
            35082, 48521, 45938, 27099, 36158, 21981, 8485, 99, 8703, 223, 35082, 33279, 48268, 17937, 11, 8485, 228,
            3941, 103, 31970, 43372, 45938, 21981, 37139, 43372, 31945, 30,
        ],
    ),
    (
        "สวัสดีชาวโลก ภาษาไทย",
        &[
            13715, 7643, 5981, 13715, 9345, 6033, 17080, 4943, 7643, 24929, 10133, 6223, 220, 839, 254, 4943, 839, 102,
            4943, 8809, 11099, 7044,
        ],
    ),
    (
        "مرحبا بالعالم، كيف حالك؟",
        &[29973, 5016, 3555, 995, 20666, 3615, 45340, 12399, 9122, 33911, 11331, 6027, 4117, 22807],
    ),
    ("שָׁלוֹם עולם", &[5365, 146, 116, 147, 223, 3072, 1430, 146, 117, 6614, 7535, 39383]),
    (
        "emoji 👩‍👩‍👧 and ♪♪ music ½ Ⅻ x²",
        &[
            36221, 4013, 36276, 102, 913, 235, 31017, 102, 913, 235, 31017, 100, 293, 9061, 1318, 32653, 672, 227, 104,
            2031, 27643,
        ],
    ),
    (
        "you're we'll I'd they've it's I'm can't'S",
        &[5616, 434, 321, 603, 286, 1116, 436, 600, 309, 311, 286, 478, 393, 380, 6, 50],
    ),
    (" nbsp　wide\r\nline  \n\n end", &[126, 254, 77, 22424, 756, 222, 7990, 201, 198, 1889, 220, 220, 198, 198, 917]),
    (
        "தமிழ் ภา မြန်မာ ខ្មែរ",
        &[
            4742, 6980, 4516, 26853, 2133, 220, 839, 254, 4943, 21879, 222, 247, 157, 222, 120, 157, 222, 242, 157,
            222, 118, 157, 222, 247, 157, 222, 105, 21879, 252, 223, 157, 253, 240, 157, 4241, 157, 253, 224, 37756,
            248,
        ],
    ),
];

fn multilingual() -> Tokenizer {
    let folder = weights_installed::folder("whisper-base");
    Tokenizer::new(&Vocabulary::open(&folder, 51865).expect("the vocabulary beside the weights"))
}

#[test]
#[ignore = "needs models"]
fn text_of_many_scripts_becomes_the_reference_ids_and_back() {
    let tokenizer = multilingual();
    for (text, ids) in MULTILINGUAL {
        assert_eq!(tokenizer.encode(text), ids, "{text:?}");
        assert_eq!(tokenizer.decode(ids), text);
    }
}

#[test]
#[ignore = "needs models"]
fn any_text_survives_encoding_and_decoding() {
    let tokenizer = multilingual();
    let mut seed = 1u64;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as u32 % below
    };
    for _ in 0..2000 {
        let text: String = (0..random(40))
            .filter_map(|_| match random(6) {
                0 => Some(' '),
                1 | 2 => char::from_u32(random(0x80)),
                3 => char::from_u32(random(0x3000)),
                4 => char::from_u32(random(0x1_0000)),
                _ => char::from_u32(random(0x11_0000)),
            })
            .collect();
        assert_eq!(tokenizer.decode(&tokenizer.encode(&text)), text, "{text:?}");
    }
    let special = "<|endoftext|><|pt|>";
    let ids = tokenizer.encode(special);
    assert!(ids.iter().all(|id| *id < tokenizer.eot), "plain text never becomes a special token");
    assert_eq!(tokenizer.decode(&ids), special);
    // A long run without spaces must not take quadratic time.
    let long = "ab".repeat(200_000);
    assert_eq!(tokenizer.decode(&tokenizer.encode(&long)), long);
}

#[test]
#[ignore = "needs models"]
fn special_tokens_stand_where_openai_put_them() {
    let t = multilingual();
    assert_eq!((t.eot, t.sot, t.translate, t.transcribe), (50257, 50258, 50358, 50359));
    assert_eq!((t.sot_lm, t.sot_prev, t.no_speech), (50360, 50361, 50362));
    assert_eq!((t.no_timestamps, t.timestamp_begin), (50363, 50364));
    assert_eq!((t.language_token("en"), t.language_token("su")), (Some(50259), Some(50357)));
    assert_eq!((t.language_of(50267), t.language_of(50358), t.language_of(50258)), (Some("pt"), None, None));
    assert_eq!((t.languages().len(), t.language_token("yue")), (99, None));

    let large = Tokenizer::new(&Vocabulary::bytes_only(51866));
    assert_eq!((large.eot, large.language_token("yue"), large.no_timestamps), (50257, Some(50358), 50364));
    let english = Tokenizer::new(&Vocabulary::bytes_only(51864));
    assert_eq!((english.eot, english.sot, english.no_timestamps), (50256, 50257, 50362));
    assert!(t.is_multilingual() && large.is_multilingual() && !english.is_multilingual());
}

#[test]
#[ignore = "needs models"]
fn suppressed_tokens_are_those_the_checkpoint_lists() {
    let folder = weights_installed::folder("whisper-base");
    let checkpoint = hark_whisper::weights::Checkpoint::open(&folder).expect("whisper-base opens");
    let tokenizer = Tokenizer::new(&checkpoint.vocabulary);
    assert_eq!(Some(tokenizer.default_suppress_tokens()), checkpoint.suppress_tokens);
    assert_eq!(Some(tokenizer.default_begin_suppress_tokens()), checkpoint.begin_suppress_tokens);
}

#[test]
#[ignore = "needs models"]
fn every_vocabulary_file_of_a_model_gives_the_same_tokens() {
    let whole = weights_installed::folder("whisper-base");
    let listed = Vocabulary::open(&whole, 51865).expect("vocabulary.txt");
    let alone = tempfile::tempdir().expect("a folder for the test");
    std::fs::copy(whole.join("tokenizer.json"), alone.path().join("tokenizer.json")).expect("copied");
    let mapped = Vocabulary::open(alone.path(), 51865).expect("tokenizer.json");
    for id in 0..50257 {
        assert_eq!(listed.bytes(id), mapped.bytes(id), "token {id}");
    }
    assert_eq!(listed.bytes(50257), b"", "special tokens have no text");
}

#[test]
#[ignore = "needs models"]
fn words_split_at_spaces_or_at_whole_characters() {
    let tokenizer = multilingual();
    let split = |text: &str, language: &str| {
        let tokens = tokenizer.encode(text);
        let (words, of_words) = tokenizer.split_to_word_tokens(&tokens, language);
        assert_eq!(of_words.concat(), tokens, "no token is lost or moved");
        for (word, tokens) in words.iter().zip(&of_words) {
            assert_eq!(*word, tokenizer.decode(tokens));
        }
        words
    };
    assert_eq!(split(" Hello, uncommonwealth's end.", "en"), [" Hello", ",", " uncommonwealth's", " end", "."]);
    assert_eq!(split("東京タワー", "ja").concat(), "東京タワー");
    assert!(split("東京タワー", "ja").iter().all(|word| !word.contains('\u{fffd}')));
    assert!(split("今天天气很好", "zh").len() >= 3);
    assert!(split(" 👩‍👩‍👧 नमस्ते", "hi").iter().all(|word| !word.contains('\u{fffd}')));

    // A text cut off inside a character keeps all its tokens.
    let tokens = tokenizer.encode("？");
    assert!(tokens.len() > 1);
    let (words, of_words) = tokenizer.split_to_word_tokens(&tokens[..tokens.len() - 1], "ja");
    assert_eq!(of_words.concat(), tokens[..tokens.len() - 1]);
    assert_eq!(words.concat(), "\u{fffd}");
}
