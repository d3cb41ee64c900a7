//! From the folder of the app to the source of an array.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// A build of the app has its page.
pub(crate) const PAGE: &str = "index.html";

/// The bytes of files by their path, with `/`.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Reads a build of the app; a folder without its page has no files.
pub(crate) fn read(dist: &Path) -> Result<Files, Box<dyn Error>> {
    let mut files = Files::new();
    if dist.join(PAGE).is_file() {
        collect(dist, "", &mut files)?;
    }
    Ok(files)
}

fn collect(folder: &Path, prefix: &str, files: &mut Files) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| format!("{}: the name is not UTF-8", entry.path().display()))?;
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// The array of the files. Their bytes are copied to `out`: the next build of the app deletes the originals.
pub(crate) fn source(files: &Files, out: &Path) -> Result<String, Box<dyn Error>> {
    let mut source = String::from("&[\n");
    for (number, (path, bytes)) in files.iter().filter(|(path, _)| !is_variant(path, files)).enumerate() {
        let embed = |coding: &str, bytes: &[u8]| -> Result<String, Box<dyn Error>> {
            let copy = out.join(format!("{number}.{coding}"));
            fs::write(&copy, bytes)?;
            Ok(format!("include_bytes!({:?})", copy.to_str().ok_or("the path of OUT_DIR is not UTF-8")?))
        };
        let variant = |extension: &str| -> Result<String, Box<dyn Error>> {
            match files.get(&format!("{path}.{extension}")) {
                Some(bytes) => Ok(format!("Some({})", embed(extension, bytes)?)),
                None => Ok("None".to_owned()),
            }
        };
        writeln!(
            source,
            "    File {{ path: {path:?}, hash: {:?}, identity: {}, brotli: {}, gzip: {} }},",
            hash(bytes),
            embed("identity", bytes)?,
            variant("br")?,
            variant("gz")?,
        )?;
    }
    source.push_str("]\n");
    Ok(source)
}

/// Whether a file is another one, compressed.
fn is_variant(path: &str, files: &Files) -> bool {
    let original = path.strip_suffix(".br").or_else(|| path.strip_suffix(".gz"));
    original.is_some_and(|original| files.contains_key(original))
}

/// 128 bits of the SHA-256 in hexadecimal.
fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, path: &str, bytes: &[u8]) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn files_are_listed_with_their_variants_and_their_bytes_are_copied() {
        let (dist, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(dist.path(), "index.html", b"<!doctype html>");
        write(dist.path(), "index.html.br", b"small");
        write(dist.path(), "assets/a.js", b"abc");
        write(dist.path(), "assets/a.js.gz", b"smaller");
        write(dist.path(), "assets/data.gz", b"a file of its own");
        let source = source(&read(dist.path()).unwrap(), out.path()).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        let [start, script, data, page, end] = lines[..] else { panic!("{source}") };
        assert_eq!((start, end), ("&[", "]"));
        // SHA-256 of "abc" in FIPS 180-4.
        assert!(script.contains("path: \"assets/a.js\", hash: \"ba7816bf8f01cfea414140de5dae2223\""), "{script}");
        assert!(script.contains("brotli: None, gzip: Some(include_bytes!("), "{script}");
        assert!(data.contains("path: \"assets/data.gz\"") && data.contains("gzip: None"), "{data}");
        assert!(page.contains("path: \"index.html\"") && page.contains("brotli: Some("), "{page}");
        for (copy, bytes) in [("0.identity", &b"abc"[..]), ("0.gz", b"smaller"), ("2.br", b"small")] {
            assert_eq!(fs::read(out.path().join(copy)).unwrap(), bytes, "{copy}");
        }
    }

    #[test]
    fn a_folder_without_a_page_and_none_at_all_have_no_files() {
        let (dist, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(dist.path(), "assets/a.js", b"abc");
        for folder in [dist.path(), &dist.path().join("missing")] {
            let files = read(folder).unwrap();
            assert!(files.is_empty());
            assert_eq!(source(&files, out.path()).unwrap(), "&[\n]\n");
        }
    }
}
