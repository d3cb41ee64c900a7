//! A pull: lock, stage, try the sources in order, put the folder in its place in one step.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalogue::{Model, Source, SourceKind};
use crate::check::is_safe_name;
use crate::digest::sha256_file;
use crate::download::{Downloader, Timeouts};
use crate::error::{Attempt, Error};
use crate::manifest::{Manifest, ManifestFile, now_utc};
use crate::source::Fetching;
use crate::store::{Installed, ModelStore};

/// The folder below the models folder where everything unfinished lives.
pub(crate) const INCOMING: &str = ".incoming";

/// The hub asked when HF_ENDPOINT names no other.
const OFFICIAL_HUB: &str = "https://huggingface.co";

/// Room left on the disk beside the files themselves: manifests, logs, the file system's own needs.
const MARGIN: u64 = 32 << 20;

/// A secret that proves who asks; it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes the secret, without the blanks around it.
    pub fn new(secret: impl AsRef<str>) -> Token {
        Token(secret.as_ref().trim().to_owned())
    }

    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How a pull goes about its work.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Pull even if the model is installed.
    pub force: bool,
    /// Only these kinds of source; `None` allows all.
    pub sources: Option<Vec<SourceKind>>,
    /// Only sources that give this format.
    pub format: Option<String>,
    /// Where the hub is.
    pub hub_endpoint: String,
    /// The token sent to the hub, and to no other host.
    pub hub_token: Option<Token>,
    /// Whether the hub may be asked at all.
    pub hub_allowed: bool,
    /// How long a host may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long a host may stay silent within an answer.
    pub read_timeout: Duration,
    /// The first pause before trying again; it doubles.
    pub first_wait: Duration,
}

impl Default for PullOptions {
    fn default() -> Self {
        PullOptions {
            force: false,
            sources: None,
            format: None,
            hub_endpoint: OFFICIAL_HUB.to_owned(),
            hub_token: None,
            hub_allowed: true,
            connect_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(30),
            first_wait: Duration::from_millis(500),
        }
    }
}

impl PullOptions {
    /// The options the environment asks for: HARK_SOURCES, HF_ENDPOINT, HF_TOKEN (or its file), HF_HUB_OFFLINE.
    pub fn from_env() -> Result<PullOptions, Error> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let sources = set("HARK_SOURCES")
            .map(|list| list.split(',').map(str::parse).collect::<Result<Vec<_>, String>>())
            .transpose();
        let sources = sources.map_err(|why| Error::Catalogue { origin: "HARK_SOURCES".into(), why })?;
        Ok(PullOptions {
            sources,
            hub_endpoint: set("HF_ENDPOINT").unwrap_or_else(|| OFFICIAL_HUB.to_owned()),
            hub_token: set("HF_TOKEN").or_else(token_from_file).map(Token::new),
            hub_allowed: !set("HF_HUB_OFFLINE")
                .is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "no" | "off")),
            ..PullOptions::default()
        })
    }

    fn allows(&self, model: &Model, source: &Source) -> bool {
        let kind = source.kind();
        let format = source.format.as_deref().unwrap_or(&model.format);
        self.sources.as_ref().is_none_or(|kinds| kinds.contains(&kind))
            && self.format.as_deref().is_none_or(|wanted| wanted == format)
            && (self.hub_allowed || kind != SourceKind::Hub)
    }
}

/// The token that the hub's own tools have saved, if any.
fn token_from_file() -> Option<String> {
    let home = || std::env::home_dir().map(|home| home.join(".cache/huggingface"));
    let folder = std::env::var_os("HF_HOME").map(PathBuf::from).or_else(home)?;
    let path = std::env::var_os("HF_TOKEN_PATH").map_or_else(|| folder.join("token"), PathBuf::from);
    let token = std::fs::read_to_string(path).ok()?.trim().to_owned();
    (!token.is_empty()).then_some(token)
}

/// What a pull is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another pull of the same model is under way; this one waits for it.
    Waiting,
    /// Bytes are coming.
    Downloading,
    /// Files are taken out of an archive.
    Unpacking,
    /// A file is hashed.
    Verifying,
}

/// How far a pull is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// To which file or package.
    pub file: String,
    /// Bytes of it done.
    pub done: u64,
    /// Bytes it has; 0 when unknown.
    pub total: u64,
    /// The source in words.
    pub source: String,
}

impl ModelStore {
    /// Gets the model from the first source that serves it and installs it in one step.
    ///
    /// An installed model is left alone unless `force` says otherwise. After a crash or a kill the next pull goes on
    /// with what the last one had.
    pub fn pull(
        &self,
        model: &Model,
        options: &PullOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Installed, Error> {
        if !is_safe_name(&model.name) {
            return Err(Error::UnknownModel { name: model.name.clone() });
        }
        let satisfied = |store: &ModelStore| {
            store
                .installed(&model.name)
                .filter(|found| options.format.as_deref().is_none_or(|wanted| found.format == wanted))
        };
        if let Some(installed) = satisfied(self).filter(|_| !options.force) {
            return Ok(installed);
        }
        let sources: Vec<&Source> = model.sources.iter().filter(|source| options.allows(model, source)).collect();
        if sources.is_empty() {
            return Err(no_source(model, options));
        }
        let incoming = self.dir().join(INCOMING);
        std::fs::create_dir_all(&incoming).map_err(Error::io("create", &incoming))?;
        let (_lock, waited) = lock(&incoming, &model.name, progress)?;
        // Whoever held the lock may just have finished the same pull.
        if let Some(installed) = satisfied(self).filter(|_| !options.force || waited) {
            return Ok(installed);
        }
        let work = claim(&incoming, &model.name)?;
        let mut downloader = Downloader::new(Timeouts {
            connect: options.connect_timeout,
            read: options.read_timeout,
            first_backoff: options.first_wait,
        })?;
        let mut attempts = Vec::new();
        for source in &sources {
            let (staging, downloads) = (work.join(source.id()), work.join(format!("{}.downloads", source.id())));
            let fetched = self.room_for(source, &work).and_then(|()| {
                Fetching {
                    source,
                    options,
                    staging: &staging,
                    downloads: &downloads,
                    downloader: &mut downloader,
                    progress,
                }
                .run()
            });
            match fetched {
                Ok(()) => {
                    self.install(model, source, &staging, &work, progress)?;
                    let _ = std::fs::remove_dir_all(&work);
                    return self
                        .installed(&model.name)
                        .ok_or_else(|| Error::NotInstalled { name: model.name.clone(), dir: self.dir().to_owned() });
                }
                Err(error) if error.is_local() => return Err(error),
                Err(error) => {
                    tracing::info!(model = model.name, source = source.describe(), %error, "model.source_failed");
                    attempts.push(Attempt { source: source.describe(), error });
                }
            }
        }
        remove_if_worthless(&work);
        let files = sources[0].files.iter().map(|file| file.name.clone()).collect();
        Err(Error::AllSourcesFailed { name: model.name.clone(), attempts, folder: self.dir().join(&model.name), files })
    }

    fn room_for(&self, source: &Source, work: &Path) -> Result<(), Error> {
        let archives: u64 = source.archives().iter().map(|archive| archive.size).sum();
        // A registry client keeps its temporary copy until the archive is in place.
        let needed = (source.size_bytes() + 2 * archives + MARGIN).saturating_sub(crate::child::bytes_below(work));
        match self.disk_free() {
            Some(free) if free < needed => Err(Error::NoSpace { dir: self.dir().to_owned(), needed, free }),
            _ => Ok(()),
        }
    }

    /// Writes the manifest, flushes everything to the disk and moves the staged folder to the model's place.
    fn install(
        &self,
        model: &Model,
        source: &Source,
        staging: &Path,
        work: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let mut files = Vec::new();
        for file in &source.files {
            let path = staging.join(&file.name);
            let size = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
            let mut tell = |done| {
                progress(Progress {
                    step: Step::Verifying,
                    file: file.name.clone(),
                    done,
                    total: size,
                    source: source.describe(),
                });
            };
            // A pinned SHA-256 was checked when the file was staged.
            let sha256 = match &file.sha256 {
                Some(pinned) => pinned.clone(),
                None => sha256_file(&path, &mut tell)?,
            };
            files.push(ManifestFile { name: file.name.clone(), size, sha256 });
        }
        let manifest = Manifest {
            name: model.name.clone(),
            format: source.format.clone().unwrap_or_else(|| model.format.clone()),
            licence: model.licence.clone(),
            licence_note: model.licence_note.clone(),
            source: source.describe(),
            installed_at: now_utc(),
            files,
        };
        manifest.write(staging)?;
        flush(staging)?;
        let place = self.dir().join(&model.name);
        if place.exists() {
            let old = work.join("replaced");
            let _ = std::fs::remove_dir_all(&old);
            std::fs::rename(&place, &old).map_err(Error::io("move aside", &place))?;
        }
        std::fs::rename(staging, &place).map_err(Error::io("move into place", &place))?;
        sync(self.dir())
    }
}

fn no_source(model: &Model, options: &PullOptions) -> Error {
    let kinds: HashSet<String> = model.sources.iter().map(|source| source.kind().to_string()).collect();
    let formats: HashSet<String> =
        model.sources.iter().map(|source| source.format.clone().unwrap_or_else(|| model.format.clone())).collect();
    let list = |set: HashSet<String>| {
        let mut list: Vec<String> = set.into_iter().collect();
        list.sort();
        list.join(", ")
    };
    let mut why = format!("it has sources of the kinds {} in the formats {}", list(kinds), list(formats));
    if let Some(allowed) = &options.sources {
        let allowed: Vec<String> = allowed.iter().map(SourceKind::to_string).collect();
        why += &format!(", and HARK_SOURCES allows {}", allowed.join(", "));
    }
    if !options.hub_allowed {
        why += ", and HF_HUB_OFFLINE forbids the hub";
    }
    if let Some(format) = &options.format {
        why += &format!(", and the format asked for is {format}");
    }
    Error::NoSource { name: model.name.clone(), why }
}

/// Takes the model's lock; the second value says whether another pull held it meanwhile. The kernel gives the lock
/// back when its holder dies, so a killed pull blocks nobody. The file itself stays: removing it would let two
/// processes lock two files of one name.
pub(crate) fn lock(incoming: &Path, name: &str, progress: &mut dyn FnMut(Progress)) -> Result<(File, bool), Error> {
    let path = incoming.join(format!("{name}.lock"));
    let file =
        File::options().create(true).truncate(false).write(true).open(&path).map_err(Error::io("open", &path))?;
    let mut waited = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok((file, waited)),
            Err(std::fs::TryLockError::WouldBlock) => {}
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(Error::io("lock", &path)(error));
            }
        }
        waited = true;
        progress(Progress {
            step: Step::Waiting,
            file: name.to_owned(),
            done: 0,
            total: 0,
            source: "another pull".into(),
        });
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The folder `<name>.<pid>` to work in: the newest one a dead pull left behind, taken over, or a new one.
fn claim(incoming: &Path, name: &str) -> Result<PathBuf, Error> {
    let mine = incoming.join(format!("{name}.{}", std::process::id()));
    let mut left: Vec<(std::time::SystemTime, PathBuf)> = std::fs::read_dir(incoming)
        .map_err(Error::io("read", incoming))?
        .flatten()
        .filter(|entry| {
            let file_name = entry.file_name();
            let pid =
                file_name.to_str().and_then(|text| text.strip_prefix(name)).and_then(|rest| rest.strip_prefix('.'));
            pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    left.sort();
    if let Some((_, newest)) = left.pop()
        && newest != mine
    {
        std::fs::rename(&newest, &mine).map_err(Error::io("take over", &newest))?;
    }
    for (_, stale) in left.into_iter().filter(|(_, stale)| *stale != mine) {
        let _ = std::fs::remove_dir_all(stale);
    }
    std::fs::create_dir_all(&mine).map_err(Error::io("create", &mine))?;
    Ok(mine)
}

/// A failed pull's folder is kept only for what the next pull can go on with.
fn remove_if_worthless(work: &Path) {
    if crate::child::bytes_below(work) < 1 << 16 {
        let _ = std::fs::remove_dir_all(work);
    }
}

/// Flushes every file and folder below `dir`, and `dir` itself.
fn flush(dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(Error::io("read", dir))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            flush(&entry.path())?;
        } else {
            sync(&entry.path())?;
        }
    }
    sync(dir)
}

fn sync(path: &Path) -> Result<(), Error> {
    if cfg!(windows) && path.is_dir() {
        return Ok(());
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("flush", path))
}
