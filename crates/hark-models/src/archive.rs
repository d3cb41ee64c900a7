//! Reading single files out of wheels, source archives, npm tarballs and crates.
//!
//! An archive's own paths never become paths on disk: the caller says which entry goes to which file, so an entry
//! called `../../x` has nowhere to go. What an entry may grow to is limited by the length the catalogue promises.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use flate2::read::GzDecoder;

use crate::error::Error;

/// The most an entry may unpack to when the catalogue gives no length: larger than any model file known.
pub(crate) const NO_LENGTH_LIMIT: u64 = 16 << 30;

/// One entry to copy out.
pub(crate) struct Wanted<'a> {
    /// Its path inside the archive.
    pub path: &'a str,
    /// Where its bytes go.
    pub into: &'a mut dyn Write,
    /// How many bytes may come.
    pub limit: u64,
}

/// Copies every wanted entry out of the archive, whichever of zip and gzipped tar it is.
pub(crate) fn extract(archive: &Path, wanted: &mut [Wanted<'_>], on_bytes: &mut dyn FnMut(u64)) -> Result<(), Error> {
    let mut file = File::open(archive).map_err(Error::io("open", archive))?;
    let mut magic = [0; 2];
    let read = file.read(&mut magic).map_err(Error::io("read", archive))?;
    file.rewind().map_err(Error::io("read", archive))?;
    let mut total = 0;
    match &magic[..read] {
        b"PK" => from_zip(archive, file, wanted, &mut total, on_bytes),
        [0x1f, 0x8b] => from_tar(archive, file, wanted, &mut total, on_bytes),
        _ => Err(bad(archive, "it is neither a zip nor a gzipped tar archive")),
    }
}

fn from_zip(
    archive: &Path,
    file: File,
    wanted: &mut [Wanted<'_>],
    total: &mut u64,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mut zip = zip::ZipArchive::new(file).map_err(|error| bad(archive, &error.to_string()))?;
    for want in wanted {
        let mut entry = zip.by_name(want.path).map_err(|error| bad(archive, &format!("{}: {error}", want.path)))?;
        if !entry.is_file() {
            return Err(bad(archive, &format!("{} is not a plain file", want.path)));
        }
        copy(archive, &mut entry, want, total, on_bytes)?;
    }
    Ok(())
}

fn from_tar(
    archive: &Path,
    file: File,
    wanted: &mut [Wanted<'_>],
    total: &mut u64,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mut tar = tar::Archive::new(GzDecoder::new(std::io::BufReader::new(file)));
    let broken = |error: std::io::Error| bad(archive, &error.to_string());
    let mut found = vec![false; wanted.len()];
    for entry in tar.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(index) = wanted.iter().position(|want| want.path == path) else {
            continue;
        };
        if !entry.header().entry_type().is_file() {
            return Err(bad(archive, &format!("{path} is not a plain file")));
        }
        if std::mem::replace(&mut found[index], true) {
            return Err(bad(archive, &format!("{path} stands in it twice")));
        }
        copy(archive, &mut entry, &mut wanted[index], total, on_bytes)?;
        if found.iter().all(|found| *found) {
            return Ok(());
        }
    }
    match found.iter().position(|found| !found) {
        Some(index) => Err(bad(archive, &format!("{} is not in it", wanted[index].path))),
        None => Ok(()),
    }
}

fn copy(
    archive: &Path,
    from: &mut dyn Read,
    want: &mut Wanted<'_>,
    total: &mut u64,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 17];
    let mut copied = 0;
    loop {
        let read = from.read(&mut buffer).map_err(|error| bad(archive, &format!("{}: {error}", want.path)))?;
        if read == 0 {
            return Ok(());
        }
        copied += read as u64;
        if copied > want.limit {
            return Err(bad(
                archive,
                &format!("{} unpacks to more than the {} bytes it may have", want.path, want.limit),
            ));
        }
        want.into.write_all(&buffer[..read]).map_err(Error::io("write", want.path))?;
        *total += read as u64;
        on_bytes(*total);
    }
}

fn bad(archive: &Path, why: &str) -> Error {
    let name = archive.file_name().unwrap_or(archive.as_os_str()).to_string_lossy().into_owned();
    Error::Archive { archive: name, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn tarball(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, data) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            // set_path refuses `..`, which is what a hostile archive has: write the bytes.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, *data).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn zipped(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (path, data) in entries {
            writer.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(data).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn pick(bytes: &[u8], path: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("archive");
        std::fs::write(&archive, bytes).unwrap();
        let out = dir.path().join("out");
        let mut file = File::create(&out).unwrap();
        extract(&archive, &mut [Wanted { path, into: &mut file, limit }], &mut |_| {})?;
        let entries = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(entries, 2, "something else was written");
        Ok(std::fs::read(out).unwrap())
    }

    #[test]
    fn a_file_comes_out_of_a_zip_and_of_a_tarball() {
        let entries: &[(&str, &[u8])] = &[("../../evil", b"evil"), ("a/b.bin", b"hello"), ("c", b"x")];
        for bytes in [tarball(entries), zipped(entries)] {
            assert_eq!(pick(&bytes, "a/b.bin", 5).unwrap(), b"hello");
            assert!(pick(&bytes, "missing", 5).is_err());
        }
    }

    #[test]
    fn an_entry_larger_than_promised_is_stopped() {
        let bomb = vec![0; 1 << 20];
        for bytes in [tarball(&[("a", &bomb)]), zipped(&[("a", &bomb)])] {
            let message = pick(&bytes, "a", 1000).unwrap_err().to_string();
            assert!(message.contains("more than the 1000 bytes"), "{message}");
        }
    }

    #[test]
    fn a_truncated_archive_and_a_text_file_are_refused() {
        let whole = tarball(&[("a", &[7; 5000])]);
        assert!(pick(&whole[..whole.len() / 2], "a", 5000).is_err());
        assert!(pick(b"<html>not found</html>", "a", 5000).is_err());
    }
}
