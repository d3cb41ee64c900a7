//! A small network with random weights against its definition, on every instruction set; and files that are not models.

mod network;

use std::cell::Cell;

use hark_compute::{Compute, Isa};
use hark_translate::TranslateError;
use hark_translate::marian::Marian;
use network::{Item, Network, WORDS};

const END: u32 = 0;
const UNKNOWN: u32 = 1;

fn sentences() -> Vec<Vec<u32>> {
    let mut state = 7u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    // From the end alone to several pages of keys.
    [0, 1, 2, 5, 9, 17, 31, 32, 33, 70]
        .map(|length| (0..length).map(|_| 2 + next(WORDS as u32 - 2)).chain([END]).collect())
        .to_vec()
}

fn load(compute: &Compute, network: &Network) -> Result<Marian, TranslateError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.bin");
    network.write(&path);
    Marian::load(compute, &path)
}

#[test]
fn every_word_is_the_likeliest_or_as_likely_but_for_rounding() {
    let network = Network::random(3);
    let reference = network.reference();
    let sentences = sentences();
    let sources: Vec<&[u32]> = sentences.iter().map(|sentence| &sentence[..]).collect();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let marian = load(&Compute::new(2, isa), &network).unwrap();
        assert_eq!((marian.source_words(), marian.target_words()), (WORDS, WORDS));
        let together = marian.translate(&sources, END, UNKNOWN, &|| false).unwrap();
        let (mut words, mut exact) = (0, 0);
        for (source, written) in sources.iter().zip(&together) {
            let limit = (source.len() as f32 * 2.5).ceil() as usize + 8;
            assert!(written.len() <= limit && !written.contains(&END) && !written.contains(&UNKNOWN));
            let logits = reference.logits(source, written);
            let ends = (written.len() < limit).then_some(END);
            for (logits, word) in logits.iter().zip(written.iter().copied().chain(ends)) {
                let best = logits.iter().enumerate().filter(|(word, _)| *word != UNKNOWN as usize);
                let best = best.max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
                words += 1;
                exact += usize::from(best.0 == word as usize);
                let short = best.1 - logits[word as usize];
                assert!(short < 0.15, "{}: word {word} is {short} below {}", isa.name(), best.0);
            }
        }
        assert!(words > 300 && exact * 100 >= words * 97, "{}: {exact} of {words}", isa.name());
    }
}

#[test]
fn nothing_is_translated_to_nothing() {
    let marian = load(&Compute::new(1, Isa::best()), &Network::random(5)).unwrap();
    assert_eq!(marian.translate(&[], END, UNKNOWN, &|| false).unwrap(), Vec::<Vec<u32>>::new());
}

#[test]
fn a_cancelled_translation_stops_between_steps() {
    let marian = load(&Compute::new(1, Isa::best()), &Network::random(5)).unwrap();
    let sentence = [5, 6, 7, 8, END];
    for calls in 0..4 {
        let left = Cell::new(calls);
        let is_cancelled = || left.replace(left.get() - 1) == 0;
        let outcome = marian.translate(&[&sentence], END, UNKNOWN, &is_cancelled);
        assert!(matches!(outcome, Err(TranslateError::Cancelled)), "after {calls} questions");
        assert_eq!(left.get(), -1, "nothing more is asked or done");
    }
}

#[test]
fn values_that_are_not_finite_are_an_error_not_a_text() {
    let mut network = Network::random(5);
    let item = &mut network.items.iter_mut().find(|(name, _)| name == "decoder_l2_ffn_W2").unwrap().1;
    let Item::Int8 { multiplier, .. } = item else { panic!("a matrix") };
    *multiplier = 1e-38;
    let marian = load(&Compute::new(1, Isa::best()), &network).unwrap();
    assert!(matches!(marian.translate(&[&[5, END]], END, UNKNOWN, &|| false), Err(TranslateError::NotFinite)));
    let bias = &mut network.items.iter_mut().find(|(name, _)| name == "encoder_l1_self_bq").unwrap().1;
    *bias = Item::Float { values: vec![f32::NAN; network::WIDTH] };
    assert!(load(&Compute::new(1, Isa::best()), &network).is_err_and(|error| error.to_string().contains("not finite")));
}

#[test]
fn files_of_other_shapes_or_architectures_are_refused() {
    let compute = Compute::new(1, Isa::best());
    let problem = |network: &Network| load(&compute, network).err().expect("it is refused").to_string();
    for (key, other) in [
        ("dec-cell: ssru", "dec-cell: gru"),
        ("transformer-heads: 2", "transformer-heads: 3"),
        ("dim-emb: 64", "dim-emb: 96"),
        ("dim-emb: 64", "dim-emb: 99999999999"),
        ("enc-depth: 2", "enc-depth: 3"),
        ("transformer-preprocess: \"\"", "transformer-preprocess: n"),
        ("type: transformer\n", ""),
    ] {
        let mut network = Network::random(9);
        network.config = network.config.replace(key, other);
        assert!(problem(&network).contains("model.bin"), "{other}");
    }
    let names: Vec<String> = Network::random(9).items.into_iter().map(|(name, _)| name).collect();
    for name in names {
        let mut network = Network::random(9);
        network.items.retain(|(other, _)| *other != name);
        assert!(problem(&network).contains("Wemb") || problem(&network).contains(&name), "{name}");
        let mut network = Network::random(9);
        for (other, item) in &mut network.items {
            match item {
                Item::Int8 { outputs, inputs, values, .. } if *other == name => {
                    values.truncate((*outputs - 1) * *inputs);
                    *outputs -= 1;
                }
                Item::Float { values } if *other == name => {
                    values.pop();
                }
                _ => {}
            }
        }
        assert!(!problem(&network).is_empty(), "{name}");
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    let compute = Compute::new(1, Isa::best());
    let whole = Network::random(9).bytes();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.bin");
    for length in (0..whole.len()).step_by(997) {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(Marian::load(&compute, &path).is_err(), "{length} bytes");
    }
}
