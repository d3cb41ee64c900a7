//! Everything that can go wrong here, worded for the person who has to act on it.

use std::path::PathBuf;

/// One source that was tried for a model and why it did not serve.
#[derive(Debug)]
pub struct Attempt {
    /// The source in words, such as `hub openai/whisper-small`.
    pub source: String,
    /// What went wrong there.
    pub error: Error,
}

/// What went wrong with the catalogue, a pull or the models folder.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A catalogue file does not parse or contradicts itself.
    #[error("the catalogue {origin} is not usable: {why}")]
    Catalogue {
        /// Which catalogue.
        origin: String,
        /// What is wrong in it.
        why: String,
    },
    /// A name that no catalogue entry has, or that is no name at all.
    #[error("there is no model called {name:?} in the catalogue; `hark models` lists what there is")]
    UnknownModel {
        /// The name asked for.
        name: String,
    },
    /// A reference to a file of the hub that can't be used.
    #[error("{reference} can't be pulled: {why}")]
    Reference {
        /// The reference.
        reference: String,
        /// What is wrong with it.
        why: String,
    },
    /// No model of the catalogue plays this role by default.
    #[error("the catalogue has no default model for {role}")]
    NoModelFor {
        /// The role.
        role: crate::Role,
    },
    /// The operating system refused something.
    #[error("could not {doing} {path}: {source}")]
    Io {
        /// The verb.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// A host that never answered.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// What the network said.
        why: String,
    },
    /// A server that wants other credentials.
    #[error("{url} refused access (status {status}); if the repository is gated, accept its terms and set HF_TOKEN")]
    Denied {
        /// The file asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// A file that is not there.
    #[error("{url} does not exist (status {status})")]
    NotFound {
        /// The file asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// A transfer given up after several tries.
    #[error("{url} could not be downloaded: {why}")]
    Transfer {
        /// The file asked for.
        url: String,
        /// The last reason.
        why: String,
    },
    /// The HTTP client could not be set up.
    #[error(transparent)]
    Http(#[from] hark_http::Error),
    /// A token that can't be sent.
    #[error("the hub's token holds characters that no token has; check HF_TOKEN or the file of the hub's own tools")]
    Token,
    /// A file of another length than the catalogue says.
    #[error("{file} has {actual} bytes where {expected} were expected; it was thrown away")]
    Size {
        /// Which file.
        file: String,
        /// Bytes the catalogue promises.
        expected: u64,
        /// Bytes that came.
        actual: u64,
    },
    /// A file whose content is not what the catalogue pins.
    #[error("{file} has the hash {actual} where {expected} was expected; it was thrown away")]
    Hash {
        /// Which file.
        file: String,
        /// The pinned hash.
        expected: String,
        /// The hash found.
        actual: String,
    },
    /// An archive that does not hold what it should.
    #[error("the archive {archive} cannot be used: {why}")]
    Archive {
        /// Which archive.
        archive: String,
        /// What is wrong with it.
        why: String,
    },
    /// A client program that is not installed.
    #[error("{tool} is not installed; install it ({hint}) or choose other sources with HARK_SOURCES")]
    ToolMissing {
        /// The program.
        tool: &'static str,
        /// How to get it.
        hint: &'static str,
    },
    /// A client program that failed.
    #[error("{tool} failed: {why}")]
    Tool {
        /// The program.
        tool: &'static str,
        /// The end of what it printed.
        why: String,
    },
    /// Not enough room for the download.
    #[error(
        "{dir} has {free} bytes free where {needed} are needed; free some space or set HARK_MODELS to a larger disk"
    )]
    NoSpace {
        /// The models folder.
        dir: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A filter that leaves no source.
    #[error("no source of {name} is left to try: {why}")]
    NoSource {
        /// The model.
        name: String,
        /// Which filter took them away.
        why: String,
    },
    /// Every source was tried in vain.
    #[error("{}", all_failed(.name, .attempts, .folder, .files))]
    AllSourcesFailed {
        /// The model.
        name: String,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
        /// Where files copied by hand would be found.
        folder: PathBuf,
        /// The names they need.
        files: Vec<String>,
    },
    /// A model that is not in the models folder.
    #[error("{name} is not installed in {dir}; `hark models pull {name}` installs it")]
    NotInstalled {
        /// The model.
        name: String,
        /// The models folder.
        dir: PathBuf,
    },
    /// An installed model whose files are not the ones that were installed.
    #[error("the model {name} is damaged: {file} {what}; `hark models pull --force {name}` repairs it")]
    Corrupt {
        /// The model.
        name: String,
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A requested name for which no checkpoint is installed.
    #[error("no installed model serves {requested:?}; install one of: {}", .candidates.join(", "))]
    Unresolved {
        /// The name asked for.
        requested: String,
        /// What would serve it, best first.
        candidates: Vec<String>,
    },
}

/// The error of a pull; the crate has one error type for all it does.
pub type PullError = Error;

impl Error {
    /// Whether another source could not help, because the trouble is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Error::Io { .. } | Error::NoSpace { .. } | Error::Catalogue { .. } | Error::Http(_))
    }

    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { doing, path, source }
    }
}

fn all_failed(name: &str, attempts: &[Attempt], folder: &std::path::Path, files: &[String]) -> String {
    let mut text = format!("could not get {name}; tried:\n");
    for attempt in attempts {
        text += &format!("  {}: {}\n", attempt.source, attempt.error);
    }
    text += &format!(
        "what to do: check the network, proxy (HTTPS_PROXY) and mirror settings and pull again (finished parts are kept), \
         or copy these files into {} by hand: {}",
        folder.display(),
        files.join(", ")
    );
    text
}
