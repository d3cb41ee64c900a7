//! Translates the lines of standard input and says how long it took: `translate FOLDER [FOLDER] < text`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hark_compute::Compute;
use hark_translate::{TranslateError, TranslationModel, Translator};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let compute = Compute::from_options(None, None);
    let begun = Instant::now();
    let models = folders.iter().map(|folder| Ok(Arc::new(TranslationModel::load(&compute, Path::new(folder))?)));
    let models: Vec<Arc<TranslationModel>> = models.collect::<Result<_, TranslateError>>()?;
    let loaded = begun.elapsed();
    let translator = match &models[..] {
        [model] => Translator::direct(Arc::clone(model)),
        [first, second] => Translator::pivot(Arc::clone(first), Arc::clone(second)),
        _ => return Err("one or two folders of models are needed".into()),
    };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let lines: Vec<&str> = text.lines().collect();
    let begun = Instant::now();
    let translated = translator.translate(&lines, &|| false)?;
    let took = begun.elapsed();
    translated.iter().for_each(|line| println!("{line}"));
    let words = text.split_whitespace().count();
    eprintln!(
        "loaded in {loaded:.2?}; {words} words in {took:.2?}: {:.0} words a second",
        words as f64 / took.as_secs_f64()
    );
    Ok(())
}
