//! Translates the lines of standard input and says how long it took: `translate_lines [--plain] [--beams N] [--threads N] FOLDER [FOLDER] < text`.
//!
//! `--plain` gives each line to the network as one sentence: nothing is cut, and nothing made to survive.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hark_compute::Compute;
use hark_translate::{SentenceModel as _, TranslateError, TranslationModel, Translator};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut folders, mut is_plain, mut beams, mut threads) = (Vec::new(), false, None, None);
    while let Some(argument) = arguments.next() {
        let mut number =
            || arguments.next().and_then(|number| number.parse::<usize>().ok()).ok_or("a number is missing");
        match argument.as_str() {
            "--plain" => is_plain = true,
            "--beams" => beams = Some(number()?),
            "--threads" => threads = Some(number()?),
            _ => folders.push(argument),
        }
    }
    let compute = Compute::from_options(threads, None);
    let begun = Instant::now();
    let load = |folder: &String| {
        let model = TranslationModel::load(&compute, Path::new(folder))?;
        Ok(Arc::new(match beams {
            Some(beams) => model.with_beams(beams),
            None => model,
        }))
    };
    let models: Vec<Arc<TranslationModel>> = folders.iter().map(load).collect::<Result<_, TranslateError>>()?;
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
    let translated = match is_plain {
        true => models[0].translate_sentences(&lines, &|| false)?,
        false => translator.translate(&lines, &|| false)?,
    };
    let took = begun.elapsed();
    translated.iter().for_each(|line| println!("{line}"));
    let words = text.split_whitespace().count();
    eprintln!(
        "loaded in {loaded:.2?}; {} lines, {words} words in {took:.2?}: {:.1} lines, {:.0} words a second",
        lines.len(),
        lines.len() as f64 / took.as_secs_f64(),
        words as f64 / took.as_secs_f64()
    );
    Ok(())
}
