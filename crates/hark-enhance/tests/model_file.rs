//! Model files that are missing, cut short, altered or of another network: an error each, never a panic.

mod sounds;

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hark_enhance::{Compute, EnhanceError, Enhancer, Fault};
use sounds::installed;

const FILE: &str = "DeepFilterNet3_onnx.tar.gz";

fn load(folder: &Path) -> Result<Enhancer, EnhanceError> {
    Enhancer::load(&Compute::from_options(Some(1), None), folder)
}

/// The message of the error that a model file gives.
fn refusal(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), bytes).unwrap();
    let Err(error) = load(folder.path()) else { panic!("the model was taken") };
    assert_eq!(error.fault(), Fault::Installation);
    let text = error.to_string();
    assert!(text.contains(FILE) && text.contains("hark models pull"), "{text}");
    text
}

fn real() -> Vec<u8> {
    std::fs::read(installed("deepfilternet3").join(FILE)).expect("the model is installed")
}

/// The files of the real archive.
fn files() -> Vec<(String, Vec<u8>)> {
    let real = real();
    let mut archive = tar::Archive::new(GzDecoder::new(&real[..]));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    });
    entries.collect()
}

fn packed(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn a_missing_file_says_how_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    let Err(error) = load(folder.path()) else { panic!("nothing was taken for a model") };
    assert!(matches!(error, EnhanceError::Unreadable { .. }));
    assert!(error.to_string().contains("hark models pull deepfilternet3"), "{error}");
}

#[test]
fn what_is_no_archive_is_refused() {
    for bytes in [&b""[..], b"not an archive", &[0x1f, 0x8b], &[0; 4096]] {
        refusal(bytes);
    }
}

#[test]
fn an_archive_that_unpacks_without_end_is_refused() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    let mut header = tar::Header::new_gnu();
    header.set_path("enc.onnx").unwrap();
    header.set_size(1 << 40);
    header.set_cksum();
    bomb.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..256).for_each(|_| bomb.write_all(&zeros).unwrap());
    let said = refusal(&bomb.finish().unwrap());
    assert!(said.contains("enc.onnx unpacks to more than"), "{said}");
}

#[test]
#[ignore = "needs models"]
fn a_file_that_is_cut_short_or_damaged_is_refused() {
    let real = real();
    for share in [1, 10, 500, 900, 999] {
        refusal(&real[..real.len() * share / 1000]);
    }
    for share in [200, 500, 800] {
        let mut damaged = real.clone();
        let at = damaged.len() * share / 1000;
        damaged[at..at + 64].iter_mut().for_each(|byte| *byte = !*byte);
        // The checksum of gzip, the lengths of the graph or the shapes of the weights: something shows it.
        refusal(&damaged);
    }
}

#[test]
#[ignore = "needs models"]
fn graphs_that_are_missing_exchanged_or_altered_are_refused() {
    let files = files();
    let with = |change: &dyn Fn(&str, &mut Vec<u8>) -> bool| {
        let mut files = files.clone();
        files.retain_mut(|(name, bytes)| change(name, bytes));
        packed(&files)
    };
    for missing in ["enc.onnx", "erb_dec.onnx", "df_dec.onnx", "config.ini"] {
        let said = refusal(&with(&|name, _| !name.ends_with(missing)));
        assert!(said.contains(missing) && said.contains("is missing"), "{said}");
    }
    let other = files.iter().find(|(name, _)| name.ends_with("/enc.onnx")).unwrap().1.clone();
    let said = refusal(&with(&|name, bytes| {
        if name.ends_with("df_dec.onnx") {
            bytes.clone_from(&other);
        }
        true
    }));
    assert!(said.contains("df_"), "{said}");
    // Weights that are not finite would make every sample after them NaN.
    let said = refusal(&with(&|name, bytes| {
        if name.ends_with("/enc.onnx") {
            // The middle of the graph is the raw data of its GRU; eight such bytes cover a whole number.
            let middle = bytes.len() / 2;
            bytes[middle..middle + 8].fill(0xff);
        }
        true
    }));
    assert!(said.contains("finite"), "{said}");
    let said = refusal(&with(&|name, bytes| {
        if name.ends_with("config.ini") {
            *bytes =
                String::from_utf8(bytes.clone()).unwrap().replace("df_lookahead = 2", "df_lookahead = 0").into_bytes();
        }
        true
    }));
    assert!(said.contains("df_lookahead"), "{said}");
}
