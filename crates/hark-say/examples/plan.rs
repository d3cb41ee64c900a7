//! Prints how a text is read: its sentences, the words that are spoken, and the phonemes.
//!
//! `cargo run -p hark-say --example plan -- LANGUAGE [DICTIONARY_FOLDER] < text`

#![allow(clippy::print_stdout)]

use std::io::Read;

use hark_say::{Options, TextReader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let language = arguments.next().unwrap_or_else(|| "en-us".to_owned());
    let dictionary = arguments.next().map(Into::into);
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let reader = TextReader::new(Options { dictionary, max_characters: usize::MAX, ..Options::default() });
    for sentence in reader.plan(&text, &language, &|| false)? {
        println!(
            "{}\n  {}\n  {}\n  pause {} ms",
            sentence.text,
            sentence.spoken,
            sentence.phonemes,
            sentence.pause.as_millis()
        );
    }
    Ok(())
}
