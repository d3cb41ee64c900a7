//! `hf:owner/repo/file.gguf`: a language model of the hub that is in no catalogue.
//!
//! Nothing pins such a file beforehand. The hub is asked for the commit and the licence of the repository; the file must have the hash that the hub
//! states, and its SHA-256 goes into the manifest. A later pull of the same file must have that hash again: trust on first use.

use std::path::Path;

use serde::Deserialize;

use crate::catalogue::{FileSpec, Model, Origin, Source};
use crate::check::{check_hex, is_safe_name, is_safe_path};
use crate::download::{Download, Downloader, Timeouts, encode_path};
use crate::error::Error;
use crate::pull::{INCOMING, PullOptions, Token};
use crate::role::Role;
use crate::store::ModelStore;

/// What a reference begins with.
const PREFIX: &str = "hf:";
/// The name of the file in the model's folder, where the engine looks for it.
const FILE: &str = "model.gguf";

/// A file of a hub repository, as people write it: `hf:owner/repo/path/file.gguf`, and `@revision` behind it for another revision than `main`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubReference {
    /// `owner/name`.
    pub repo: String,
    /// The file's path in it.
    pub path: String,
    /// A branch, tag or commit.
    pub revision: String,
}

/// What the hub says about a repository at a revision.
#[derive(Debug, Deserialize)]
struct RepositoryInfo {
    /// The commit.
    sha: String,
    #[serde(rename = "cardData", default)]
    card: Option<Card>,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Card {
    license: Option<serde_json::Value>,
}

impl HubReference {
    /// Reads a reference; `None` where the text is none (it does not begin with `hf:`).
    pub fn parse(text: &str) -> Option<Result<HubReference, Error>> {
        let rest = text.strip_prefix(PREFIX)?;
        let wrong = |why: &str| Error::Reference { reference: text.to_owned(), why: why.to_owned() };
        let (rest, revision) = rest.rsplit_once('@').unwrap_or((rest, "main"));
        let mut parts = rest.splitn(3, '/');
        let (Some(owner), Some(name), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return Some(Err(wrong("write hf:owner/repo/file.gguf")));
        };
        let is_sound = is_safe_name(owner) && is_safe_name(name) && is_safe_name(revision) && is_safe_path(path);
        Some(if !is_sound {
            Err(wrong("owner, repository, file and revision have letters, digits, `-`, `_`, `.` only"))
        } else if !path.to_ascii_lowercase().ends_with(".gguf") {
            Err(wrong("only GGUF files of language models can be pulled this way"))
        } else if path.contains("-of-0") {
            Err(wrong("models in several files are not supported; choose a file that holds the whole model"))
        } else {
            Ok(HubReference { repo: format!("{owner}/{name}"), path: path.to_owned(), revision: revision.to_owned() })
        })
    }

    /// The name of the installed model: the file's, in small letters.
    pub fn name(&self) -> String {
        let file = self.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let stem = file.strip_suffix(".gguf").unwrap_or(&file).trim_start_matches('.');
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
    }

    /// Asks the hub for the commit and the licence, and returns a model that can be pulled. If it is installed from the same repository, the hash
    /// that its manifest has is pinned.
    pub fn resolve(&self, store: &ModelStore, options: &PullOptions) -> Result<Model, Error> {
        let name = self.name();
        if !is_safe_name(&name) {
            return Err(Error::UnknownModel { name });
        }
        let info = self.ask_hub(store.dir(), options)?;
        check_hex(&info.sha, 40).map_err(|why| Error::Reference { reference: self.to_string(), why })?;
        let licence = licence_of(&info).unwrap_or_else(|| "unknown".to_owned());
        let manifest = store.installed(&name).and_then(|installed| installed.manifest);
        let known = manifest.filter(|manifest| manifest.source.starts_with(&format!("hub {} at ", self.repo)));
        let sha256 = known.and_then(|manifest| Some(manifest.files.into_iter().find(|file| file.name == FILE)?.sha256));
        let file = FileSpec {
            name: FILE.to_owned(),
            path: Some(self.path.clone()),
            parts: Vec::new(),
            size: None,
            sha256,
            git_sha1: None,
            deflated: None,
        };
        let origin = Origin::Hub { repo: self.repo.clone(), revision: info.sha };
        Ok(Model {
            name,
            role: Role::Language,
            family: String::new(),
            title: self.repo.clone(),
            description: format!("language model of the hub, {}", self.repo),
            languages: 0,
            english_only: false,
            translates: None,
            multilingual: false,
            translation_languages: Vec::new(),
            licence,
            licence_note: format!(
                "licence as the hub states it for {}; read its terms there before you use it",
                self.repo
            ),
            provider: self.repo.split('/').next().unwrap_or_default().to_owned(),
            tier: String::new(),
            speed: String::new(),
            size_bytes: 0,
            format: "gguf".to_owned(),
            default: false,
            sources: vec![Source { origin, format: None, files: vec![file] }],
        })
    }

    fn ask_hub(&self, dir: &Path, options: &PullOptions) -> Result<RepositoryInfo, Error> {
        if !options.hub_allowed {
            let why = "HF_HUB_OFFLINE forbids the hub".to_owned();
            return Err(Error::NoSource { name: self.to_string(), why });
        }
        let incoming = dir.join(INCOMING);
        std::fs::create_dir_all(&incoming).map_err(Error::io("create", &incoming))?;
        let partial = incoming.join(format!("{}.{}.info", self.name(), std::process::id()));
        let endpoint = options.hub_endpoint.trim_end_matches('/');
        let job = Download {
            url: format!("{endpoint}/api/models/{}/revision/{}", self.repo, encode_path(&self.revision)),
            name: "the model's page",
            size: None,
            pin: None,
            token: options.hub_token.as_ref().map(Token::secret),
            hub: false,
            partial: partial.clone(),
        };
        let timeouts = Timeouts {
            connect: options.connect_timeout,
            read: options.read_timeout,
            first_backoff: options.first_wait,
        };
        let answer = Downloader::new(timeouts)?
            .download(&job, &mut |_, _| {})
            .and_then(|()| std::fs::read(&partial).map_err(Error::io("read", &partial)));
        let _ = std::fs::remove_file(&partial);
        serde_json::from_slice(&answer?).map_err(|error| Error::Reference {
            reference: self.to_string(),
            why: format!("the hub's answer about {} can't be read: {error}", self.repo),
        })
    }
}

impl std::fmt::Display for HubReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}/{}", self.repo, self.path)?;
        if self.revision == "main" { Ok(()) } else { write!(f, "@{}", self.revision) }
    }
}

/// The licence that the card names, or a tag.
fn licence_of(info: &RepositoryInfo) -> Option<String> {
    let of_card = info.card.as_ref().and_then(|card| card.license.as_ref()?.as_str());
    let licence = of_card.or_else(|| info.tags.iter().find_map(|tag| tag.strip_prefix("license:")))?;
    let is_word = |c: char| c.is_ascii_graphic() || c == ' ';
    Some(licence.chars().filter(|c| is_word(*c)).take(60).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_name_a_repository_a_file_and_a_revision() {
        let reference = HubReference::parse("hf:Owner/Some.Model-GGUF/sub/Model-Q4_K_M.gguf@v1.0").unwrap().unwrap();
        assert_eq!(reference.repo, "Owner/Some.Model-GGUF");
        assert_eq!((reference.path.as_str(), reference.revision.as_str()), ("sub/Model-Q4_K_M.gguf", "v1.0"));
        assert_eq!(reference.name(), "model-q4_k_m");
        let plain = HubReference::parse("hf:a/b/c.gguf").unwrap().unwrap();
        assert_eq!((plain.revision.as_str(), plain.to_string().as_str()), ("main", "hf:a/b/c.gguf"));
        assert!(HubReference::parse("whisper-base").is_none());
        for text in [
            "hf:",
            "hf:a/b",
            "hf:a/b/",
            "hf:a/../b.gguf",
            "hf:a/b/c.bin",
            "hf:a/b/c.gguf@../x",
            "hf:a/b/m-00001-of-00002.gguf",
        ] {
            assert!(HubReference::parse(text).unwrap().is_err(), "{text}");
        }
    }
}
