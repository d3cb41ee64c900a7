//! The words of the same recordings by the CPU's bf16 path and by a GPU's, beside references.
//!
//! `compare_devices MODEL VAD REFERENCES FOLDER [DEVICE]`: `REFERENCES` has a line for each recording, its name and its words with a tab
//! between them; the recordings lie anywhere below `FOLDER`.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_media::Source;
use hark_speech::{DeviceChoice, LoadOptions, Request, Transcriber};
use hark_whisper::cpu::Weights;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, vad, references, folder, rest @ ..] = arguments.as_slice() else {
        panic!("compare_devices MODEL VAD REFERENCES FOLDER [DEVICE]");
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
    let libraries: Vec<PathBuf> =
        std::env::var_os("HARK_CUDA_LIBRARIES").map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
    let cpu = LoadOptions { weights: Some(Weights::Bf16), ..LoadOptions::new(model, vad) };
    let gpu = LoadOptions { devices: device.devices(&libraries, None), ..LoadOptions::new(model, vad) };
    for beam in [1, 5] {
        let texts = [&cpu, &gpu].map(|options| texts(options, &files, &references, beam));
        let [on_cpu, on_gpu] = &texts;
        let count: usize = on_cpu.keys().map(|name| words(&references[name]).len()).sum();
        let [cpu_errors, gpu_errors] = [on_cpu, on_gpu].map(|texts| {
            texts.iter().map(|(name, text)| errors(&words(&references[name]), &words(text))).sum::<usize>()
        });
        let apart: usize = on_cpu.iter().map(|(name, text)| errors(&words(text), &words(&on_gpu[name]))).sum();
        let same = on_cpu.iter().filter(|(name, text)| on_gpu[*name] == **text).count();
        println!(
            "beam {beam}: {} recordings, {count} words: {cpu_errors} errors on the CPU, {gpu_errors} on the GPU; \
             {same} texts are the same, {apart} words differ",
            on_cpu.len(),
        );
        for (name, text) in on_cpu.iter().filter(|(name, text)| words(&on_gpu[*name]) != words(text)) {
            println!("  {name}\n    CPU: {text}\n    GPU: {}", on_gpu[name]);
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
