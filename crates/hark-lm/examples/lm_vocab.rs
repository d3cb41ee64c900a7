//! Compares tokenizers with the test data of llama.cpp: vocabularies without weights, texts beside them and the tokens they should give.
//!
//! `cargo run -p hark-lm --example lm_vocab -- models/ggml-vocab-llama-spm.gguf…`

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::error::Error;
use std::path::Path;

use hark_lm::Tokenizer;

/// What stands between two texts.
const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let tokenizer = match Tokenizer::load(Path::new(&path)) {
            Ok(tokenizer) => tokenizer,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        let texts = std::fs::read_to_string(format!("{path}.inp"))?;
        let expected = std::fs::read_to_string(format!("{path}.out"))?;
        let (mut equal, mut all) = (0, 0);
        for (text, tokens) in texts.split(SEPARATOR).zip(expected.lines()) {
            let tokens: Vec<u32> = tokens.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let found = tokenizer.encode(text);
            all += 1;
            equal += usize::from(found == tokens);
            if found != tokens {
                println!("{text:?}\n  expected {tokens:?}\n  found    {found:?}");
            }
        }
        println!("{path}: {equal} of {all} texts have the same tokens");
    }
    Ok(())
}
