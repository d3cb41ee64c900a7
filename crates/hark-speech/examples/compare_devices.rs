//! The words of the same recordings by the CPU's bf16 path and by a GPU's in several precisions, beside references.
//!
//! `compare_devices MODEL VAD REFERENCES FOLDER [DEVICE [WAY,…]]`: `REFERENCES` has a line for each recording, its name and its words with a tab
//! between them; the recordings lie anywhere below `FOLDER`. A way is `cpu`, or a precision of the GPU; all are compared with the first.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_media::Source;
use hark_speech::{DeviceChoice, LoadOptions, Request, Transcriber};
use hark_whisper::cpu::Weights;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, vad, references, folder, rest @ ..] = arguments.as_slice() else {
        panic!("compare_devices MODEL VAD REFERENCES FOLDER [DEVICE [WAY,…]]");
    };
    let references: BTreeMap<String, String> = std::fs::read_to_string(references)
        .expect("references")
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, words)| (name.to_owned(), words.to_owned()))
        .collect();
    let mut files = Vec::new();
    files_below(Path::new(folder), &mut files);
    let device: DeviceChoice = rest.first().map_or("cuda", String::as_str).parse().expect("a device");
    let ways: Vec<&str> = rest.get(1).map_or("cpu,bf16", String::as_str).split(',').collect();
    let libraries: Vec<PathBuf> =
        std::env::var_os("HARK_CUDA_LIBRARIES").map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
    let options_of = |way: &str| match way {
        "cpu" => LoadOptions { weights: Some(Weights::Bf16), ..LoadOptions::new(model, vad) },
        precision => {
            let devices = device.devices(&libraries, None, precision.parse().expect("a precision"));
            LoadOptions { devices, ..LoadOptions::new(model, vad) }
        }
    };
    for beam in [1, 5] {
        let mut first: Option<BTreeMap<String, String>> = None;
        for way in &ways {
            let texts = texts(&options_of(way), &files, &references, beam);
            let of_reference = |name: &String| words(&references[name]);
            let count: usize = texts.keys().map(|name| of_reference(name).len()).sum();
            let wrong: usize = texts.iter().map(|(name, text)| errors(&of_reference(name), &words(text))).sum();
            println!("beam {beam}, {way}: {} recordings, {count} words, {wrong} errors", texts.len());
            let Some(first) = &first else {
                first = Some(texts);
                continue;
            };
            let apart: usize = first.iter().map(|(name, text)| errors(&words(text), &words(&texts[name]))).sum();
            let same = first.iter().filter(|(name, text)| texts[*name] == **text).count();
            println!("  {same} texts are those of {}, {apart} words differ", ways[0]);
            for (name, text) in first.iter().filter(|(name, text)| words(&texts[*name]) != words(text)) {
                println!("  {name}\n    {}: {text}\n    {way}: {}", ways[0], texts[name]);
            }
        }
    }
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
    files.sort();
}

/// The texts of the recordings that have references.
fn texts(
    options: &LoadOptions,
    files: &[PathBuf],
    references: &BTreeMap<String, String>,
    beam: usize,
) -> BTreeMap<String, String> {
    let transcriber = Transcriber::load(options).expect("it loads");
    println!("{}", transcriber.backend_name());
    let request = Request { language: Some("en".to_owned()), beam, ..Request::default() };
    let text = |path: &PathBuf| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        references.get(&name)?;
        let done = transcriber.transcribe(Source::Path(path.clone()), &request, &mut |_| ()).expect("it transcribes");
        let segments: Vec<&str> = done.result.segments.iter().map(|segment| segment.text.trim()).collect();
        Some((name, segments.join(" ")))
    };
    files.iter().filter_map(text).collect()
}

/// Words in lower case without punctuation.
fn words(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '\'';
    text.to_lowercase().split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The Levenshtein distance.
fn errors(one: &[String], other: &[String]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, word) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, also) in other.iter().enumerate() {
            let best = (diagonal + usize::from(word != also)).min(row[column] + 1).min(row[column + 1] + 1);
            diagonal = std::mem::replace(&mut row[column + 1], best);
        }
    }
    row[other.len()]
}
