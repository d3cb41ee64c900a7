//! What texts cost that someone sends to keep a processor busy: time grows with the length of a text, not with its square.
//!
//! Processor time of this thread is compared between two lengths of the same text, so neither the machine's speed nor what else it does counts.
//! Eight times the text may take 24 times the time; with a quadratic rule it takes 64 times.

use std::time::Duration;

use hark_say::{Language, Options, SayError, TextReader, normalize};

/// Bytes of the shorter and of the longer text. Shorter ones are cut into fewer parts for the network, and each halving reads a part again: their ratio says less.
const WORDS: [usize; 2] = [4 << 10, 32 << 10];
const PHONEMES: [usize; 2] = WORDS;
const SLACK: u32 = 3;
/// How often a text is measured that seems to cost too much.
const ATTEMPTS: usize = 3;
/// Below this a measurement is mostly the clock's own.
const SHORTEST: Duration = Duration::from_micros(200);

/// What is repeated: each once led, or could lead, a rule over the rest of the text and back to the next character.
const PIECES: &[&str] = &[
    "1",
    "1.",
    "1,",
    "1-",
    "1/",
    "1:",
    "1 ",
    "1,111",
    "1.111.",
    "1.1x",
    "v1.",
    "1e",
    "1%",
    "$1",
    "$",
    "#",
    "#a",
    "9:",
    "½",
    "1 x",
    "1'",
    "a.",
    "a-",
    "a_",
    "a@",
    "a'",
    "a's",
    "a.b@",
    "A.",
    "A. ",
    "ab ",
    "AB ",
    "Ab",
    "ab-",
    "I-",
    "I ",
    "IV ",
    "x",
    "W",
    "é",
    "a\u{301}",
    "\u{301}",
    "'",
    "\"",
    "\" ",
    "(",
    ")",
    "[",
    "](",
    "![",
    "[a](",
    "[a](b) ",
    "http://a",
    "http://",
    "www.",
    "www. ",
    "a.com/",
    "a.COM/",
    "so.IN/x",
    "mailto:",
    "😀",
    "😀 ",
    "👨\u{200d}👩",
    " ",
    "\n",
    "\n-",
    "- ",
    "--",
    "=",
    "…",
    "?!",
    "Dr.",
    "St. ",
    "etc.",
    "p.m.",
    "9 a.m. ",
    "21 años ",
    "3. Mai ",
    "am 3.",
    "中",
    "ا",
    "१",
];

fn texts(bytes: usize) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> =
        PIECES.iter().map(|piece| ((*piece).to_owned(), piece.repeat(bytes / piece.len()))).collect();
    // Two halves, of which each token of the first might look at the second.
    for (head, tail) in
        [("etc. ", ")"), ("p.m. ", " "), ("1 ", "."), ("a.", "!"), ("I. ", "\""), ("1-", "a"), ("a", " "), ("+ ", "\n")]
    {
        let half = |piece: &str| piece.repeat(bytes / 2 / piece.len());
        texts.push((format!("{head}…{tail}"), format!("{}{}z", half(head), half(tail))));
    }
    texts
}

/// Processor time of this thread.
fn clock() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, and `time` is one.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn cost(work: &dyn Fn()) -> Duration {
    let begun = clock();
    work();
    clock() - begun
}

/// Panics with every text whose cost grows faster than its length.
fn assert_linear(what: &str, sizes: [usize; 2], read: &dyn Fn(&str)) {
    read("Once, so that patterns are compiled: 1.");
    let mut wrong = Vec::new();
    for ((name, short), (_, long)) in texts(sizes[0]).into_iter().zip(texts(sizes[1])) {
        let mut measured = Vec::new();
        // What something else disturbed is measured again; what grows too fast does so every time.
        while measured.len() < ATTEMPTS {
            let (short, long) = (cost(&|| read(&short)).max(SHORTEST), cost(&|| read(&long)));
            measured.push(format!("{short:?} and {long:?}"));
            if long <= short * (sizes[1] / sizes[0]) as u32 * SLACK {
                measured.clear();
                break;
            }
        }
        if !measured.is_empty() {
            wrong.push(format!("{name:?}: {} for {} and {} bytes", measured.join(", "), sizes[0], sizes[1]));
        }
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn words_for_numbers_and_signs_cost_time_by_the_length_of_the_text() {
    for code in ["en-us", "de", "es", "ja"] {
        let language = Language::find(code).unwrap();
        assert_linear(code, WORDS, &|text| drop(normalize(text, language)));
    }
}

#[test]
#[ignore = "needs the model misaki-en"]
fn sentences_and_phonemes_cost_time_by_the_length_of_the_text() {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let models = set("HARK_MODELS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hark/models")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hark/models")))
        .expect("HARK_MODELS or HOME says where models are");
    let reader = TextReader::new(Options {
        dictionary: Some(models.join("misaki-en")),
        // What espeak-ng costs is not this crate's.
        espeak: Some("/no/such/program".into()),
        max_characters: usize::MAX,
        ..Options::default()
    });
    assert_linear("en-us", PHONEMES, &|text| match reader.plan(text, "en-us", &|| false) {
        Ok(_) | Err(SayError::Empty) => {}
        Err(error) => panic!("{error}"),
    });
}
