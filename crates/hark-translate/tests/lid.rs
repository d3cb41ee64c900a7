//! Language identification: a small classifier made here, hostile files, and the real model against fastText's own predictions.

mod installed;

use hark_translate::LanguageDetector;
use hark_weights::WeightsFile;

/// A classifier of two labels with vectors of two numbers: words "hello" and "</s>", and two of its n-gram buckets.
#[derive(Clone)]
struct Small {
    arguments: [i32; 12],
    /// Counts of the labels aa and bb.
    counts: [i64; 2],
    kept: Vec<(i32, i32)>,
}

impl Small {
    fn new() -> Self {
        // Of a bucket for each of 65,536 hashes; "xy" and "yx" are the n-grams that were kept.
        let bucket = |ngram: &str| {
            let hash =
                ngram.bytes().fold(2_166_136_261u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
            (hash % 65_536) as i32
        };
        let arguments = [2, 5, 5, 1, 5, 1, 1, 3, 65_536, 2, 4, 100];
        Small { arguments, counts: [10, 5], kept: vec![(bucket("xy"), 1), (bucket("yx"), 0)] }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = |out: &mut Vec<u8>, numbers: &[i32]| numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
        let floats = |out: &mut Vec<u8>, floats: &[f32]| floats.iter().for_each(|n| out.extend(n.to_le_bytes()));
        numbers(&mut out, &[793_712_314, 12]);
        numbers(&mut out, &self.arguments);
        out.extend(1e-4f64.to_le_bytes());
        numbers(&mut out, &[4, 2, 2]);
        out.extend(15i64.to_le_bytes());
        out.extend((self.kept.len() as i64).to_le_bytes());
        let entries: [(&str, i64, u8); 4] =
            [("hello", 9, 0), ("</s>", 15, 0), ("__label__aa", self.counts[0], 1), ("__label__bb", self.counts[1], 1)];
        for (text, count, kind) in entries {
            out.extend(text.as_bytes());
            out.push(0);
            out.extend(count.to_le_bytes());
            out.push(kind);
        }
        self.kept.iter().for_each(|(bucket, row)| numbers(&mut out, &[*bucket, *row]));
        // The input matrix: four rows of one code, no norms. Centroid c is (c, -c).
        out.extend([1, 0]);
        out.extend(4i64.to_le_bytes());
        out.extend(2i64.to_le_bytes());
        numbers(&mut out, &[4]);
        out.extend([3, 0, 1, 2]);
        numbers(&mut out, &[2, 1, 2, 2]);
        (0..256).for_each(|c| floats(&mut out, &[c as f32, -(c as f32)]));
        // The output matrix: one node, whose right child is the commoner label.
        out.push(0);
        out.extend(2i64.to_le_bytes());
        out.extend(2i64.to_le_bytes());
        floats(&mut out, &[0.5, 0.0, 0.0, 0.0]);
        out
    }

    fn read(&self) -> Result<LanguageDetector, hark_weights::FileError> {
        read(self.bytes())
    }
}

fn read(bytes: Vec<u8>) -> Result<LanguageDetector, hark_weights::FileError> {
    LanguageDetector::from_file(&WeightsFile::from_bytes("small.ftz", bytes))
}

#[test]
fn words_and_kept_ngrams_are_averaged_and_walk_the_tree() {
    let detector = Small::new().read().unwrap();
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    // Each text with the first element of its mean.
    for (text, mean) in [
        ("hello", 3.0 / 2.0),
        ("hello hello\n", 6.0 / 3.0),
        ("", 0.0),
        ("other", 0.0),
        // The n-gram "xy" has code 2 (the second kept row), "yx" code 1.
        ("axyb", 2.0 / 2.0),
        ("yx yx xyx", (1.0 + 1.0 + 2.0 + 1.0) / 5.0),
        ("hello </s> hello", 3.0 / 2.0),
        ("__label__aa hello", 3.0 / 2.0),
    ] {
        let labels = detector.predict(text, 9);
        assert_eq!(labels.len(), 2, "{text}");
        let first = labels.iter().find(|(label, _)| *label == "aa").unwrap().1;
        let expected = sigmoid(0.5 * mean);
        assert!((first - expected).abs() < 1e-4, "{text}: {first}, not {expected}");
        assert!((labels[0].1 + labels[1].1 - 1.0).abs() < 1e-3 && labels[0].1 >= labels[1].1);
    }
}

#[test]
fn text_without_letters_has_no_language() {
    let detector = Small::new().read().unwrap();
    for text in ["", "  \n", "123 — 45%", "🎵 …"] {
        assert_eq!(detector.detect(text), None, "{text:?}");
    }
    let found = detector.detect("HELLO").unwrap();
    assert_eq!(found.language, "aa");
    assert!(found.is_reliable() && found.confidence > 0.6, "capitals are lowered: {found:?}");
}

#[test]
fn a_text_of_any_length_is_read_only_so_far() {
    let detector = Small::new().read().unwrap();
    let long = "ä".repeat(4 << 20);
    assert!(detector.detect(&long).is_some());
}

#[test]
fn a_file_that_ends_early_or_goes_on_is_an_error() {
    let whole = Small::new().bytes();
    for length in 0..whole.len() {
        assert!(read(whole[..length].to_vec()).is_err(), "{length} of {} bytes", whole.len());
    }
    assert!(read([whole, vec![0]].concat()).is_err());
}

#[test]
fn no_change_of_a_byte_makes_the_reader_panic() {
    let whole = Small::new().bytes();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            if let Ok(detector) = read(changed) {
                detector.predict("hello axyb", 3);
            }
        }
    }
}

#[test]
fn impossible_arguments_counts_and_buckets_are_refused() {
    let small = Small::new();
    for (argument, value) in [(0, 0), (0, -1), (0, i32::MAX), (5, 2), (6, 3), (7, 1), (8, 0), (9, -1), (10, 1000)] {
        let mut changed = small.clone();
        changed.arguments[argument] = value;
        assert!(changed.read().is_err(), "argument {argument} is {value}");
    }
    for counts in [[-1, 5], [i64::MAX, 5]] {
        assert!(Small { counts, ..small.clone() }.read().is_err());
    }
    for kept in [vec![(1, 2), (2, 0)], vec![(1, -1), (2, 0)], vec![(1, 0), (1, 1)], vec![(-1, 0), (2, 1)]] {
        assert!(Small { kept, ..small.clone() }.read().is_err());
    }
}

/// What fastText itself (PyPI fasttext-numpy2-wheel 0.9.2) predicts with lid.176.ftz: language that the sentence was written in, label, probability, sentence.
const REFERENCE: &str = include_str!("data/lid.tsv");

#[test]
#[ignore = "needs models"]
fn labels_and_probabilities_are_those_of_fasttext() {
    let detector = LanguageDetector::load(&installed::model("lid-176").join("lid.176.ftz")).unwrap();
    let (mut languages, mut count) = (std::collections::BTreeSet::new(), 0);
    for line in REFERENCE.lines().filter(|line| !line.starts_with('#')) {
        let [language, label, probability, sentence] = line.splitn(4, '\t').collect::<Vec<_>>()[..] else {
            panic!("four columns in {line}")
        };
        let best = detector.predict(sentence, 1);
        let expected: f32 = probability.parse().unwrap();
        assert_eq!(best[0].0, label, "{sentence}");
        assert!((best[0].1 - expected).abs() < 1e-3, "{sentence}: {} instead of {expected}", best[0].1);
        languages.insert(language);
        count += 1;
    }
    assert!(count >= 200 && languages.len() >= 40, "{count} sentences in {} languages", languages.len());
    assert_eq!(detector.languages().count(), 176);
}

#[test]
#[ignore = "needs models"]
fn sentences_that_count_as_reliable_are_in_that_language() {
    let detector = LanguageDetector::load(&installed::model("lid-176").join("lid.176.ftz")).unwrap();
    let (mut reliable, mut right, mut count) = (0, 0, 0);
    for line in REFERENCE.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.splitn(4, '\t');
        let (language, sentence) = (columns.next().unwrap(), columns.nth(2).unwrap());
        let Some(found) = detector.detect(sentence) else { continue };
        count += 1;
        reliable += usize::from(found.is_reliable());
        right += usize::from(found.is_reliable() && found.language == language);
    }
    assert!(reliable * 100 >= count * 85, "{reliable} of {count} are reliable");
    assert!(right * 100 >= reliable * 95, "{right} of {reliable} reliable ones are right");
    let shouted = detector.detect("WHAT A BEAUTIFUL DAY IT IS TODAY").unwrap();
    assert_eq!((shouted.language.as_str(), shouted.is_reliable()), ("en", true));
}
