//! Names that requests use and the installed checkpoints that serve them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::names::public_names;

/// What stands before the short name of a Whisper checkpoint: `base` means `whisper-base`.
const FAMILY_PREFIX: &str = "whisper-";

/// For each requested name the checkpoints that may serve it, best first; written in the config as
/// `large-v3-turbo = "whisper-small"` or as a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, OneOrMore>", into = "BTreeMap<String, Vec<String>>")]
pub struct Aliases {
    table: BTreeMap<String, Vec<String>>,
}

/// Which checkpoint serves a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The checkpoint that runs.
    pub checkpoint: String,
    /// The name that was asked for.
    pub requested: String,
    /// Whether another checkpoint runs than the one the name means.
    pub substituted: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<BTreeMap<String, OneOrMore>> for Aliases {
    fn from(raw: BTreeMap<String, OneOrMore>) -> Self {
        let list = |value| match value {
            OneOrMore::One(name) => vec![name],
            OneOrMore::More(names) => names,
        };
        Aliases { table: raw.into_iter().map(|(name, value)| (name, list(value))).collect() }
    }
}

impl From<Aliases> for BTreeMap<String, Vec<String>> {
    fn from(aliases: Aliases) -> Self {
        aliases.table
    }
}

impl Default for Aliases {
    fn default() -> Self {
        Aliases::starter()
    }
}

impl Aliases {
    /// The public names of the catalogue and the other services' names for them.
    pub fn starter() -> Aliases {
        let own = public_names().iter().map(|name| (name.id.clone(), name.served_by.clone()));
        let foreign = public_names()
            .iter()
            .flat_map(|name| name.aliases.iter().map(|alias| (alias.clone(), name.served_by.clone())));
        Aliases { table: own.chain(foreign).collect() }
    }

    /// The starter names with the given ones laid over them.
    pub fn extended(mut self, own: Aliases) -> Aliases {
        self.table.extend(own.table);
        self
    }

    /// The names that are aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.keys().map(String::as_str)
    }

    /// Every name that resolves where these are installed: aliases, checkpoints, and their short names.
    pub fn served<'a>(&'a self, installed: &'a [String]) -> impl Iterator<Item = &'a str> {
        let short = installed.iter().filter_map(|name| name.strip_prefix(FAMILY_PREFIX));
        let names = self.names().chain(installed.iter().map(String::as_str)).chain(short);
        names.filter(|name| self.resolve(name, installed).is_ok())
    }

    /// The checkpoints that may serve `requested`, best first: what the table says, itself, or the Whisper checkpoint of
    /// that short name.
    fn candidates(&self, requested: &str) -> Vec<String> {
        match self.table.get(requested) {
            Some(names) => names.clone(),
            None if requested.starts_with(FAMILY_PREFIX) => vec![requested.to_owned()],
            None => vec![requested.to_owned(), format!("{FAMILY_PREFIX}{requested}")],
        }
    }

    /// The checkpoint to install for `requested`, where the name means anything: an alias's first choice, or an entry of the
    /// catalogue.
    pub fn meant(&self, requested: &str, catalogue: &Catalogue) -> Option<String> {
        let is_alias = self.table.contains_key(requested);
        self.candidates(requested).into_iter().find(|name| is_alias || catalogue.get(name).is_some())
    }

    /// The installed checkpoint that serves `requested`.
    pub fn resolve(&self, requested: &str, installed: &[String]) -> Result<Resolved, Error> {
        let candidates = self.candidates(requested);
        let public = public_names().iter().find(|name| name.id == requested);
        let own = format!("{FAMILY_PREFIX}{requested}");
        let meant = public.map_or(own.as_str(), |name| name.checkpoint());
        match candidates.iter().find(|name| installed.contains(name)) {
            Some(checkpoint) => Ok(Resolved {
                checkpoint: checkpoint.clone(),
                requested: requested.to_owned(),
                substituted: checkpoint != meant && checkpoint != requested,
            }),
            None => Err(Error::Unresolved { requested: requested.to_owned(), candidates }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_starter_install_serves_every_name_of_the_contract_and_says_so() {
        let installed = names(&["whisper-base", "whisper-small"]);
        for requested in ["large-v3-turbo", "large-v3", "medium", "svc-ai-enhanced"] {
            let resolved = Aliases::starter().resolve(requested, &installed).unwrap();
            assert_eq!(resolved.checkpoint, "whisper-small");
            assert!(resolved.substituted, "{requested}");
        }
        assert!(!Aliases::starter().resolve("small", &installed).unwrap().substituted);
    }

    #[test]
    fn the_real_checkpoint_wins_over_a_stand_in() {
        let installed = names(&["whisper-small", "whisper-large-v3-turbo", "whisper-large-v3"]);
        let resolved = Aliases::starter().resolve("large-v3-turbo", &installed).unwrap();
        assert_eq!((resolved.checkpoint.as_str(), resolved.substituted), ("whisper-large-v3-turbo", false));
        assert!(!Aliases::starter().resolve("svc-ai-enhanced", &installed).unwrap().substituted);
    }

    #[test]
    fn a_name_of_openai_means_the_default_unless_the_config_says_otherwise() {
        let installed = names(&["whisper-base", "whisper-small", "whisper-tiny"]);
        for name in crate::foreign_names() {
            let resolved = Aliases::starter().resolve(name, &installed).unwrap();
            assert_eq!((resolved.checkpoint.as_str(), resolved.substituted), ("whisper-small", true), "{name}");
        }
        let own: Aliases = toml::from_str("whisper-1 = \"whisper-tiny\"").unwrap();
        let resolved = Aliases::starter().extended(own).resolve("whisper-1", &installed).unwrap();
        assert_eq!(resolved.checkpoint, "whisper-tiny");
    }

    #[test]
    fn a_checkpoint_named_in_full_is_never_replaced_by_another() {
        let installed = names(&["whisper-base", "mine"]);
        assert!(Aliases::starter().resolve("whisper-medium", &installed).is_err());
        assert!(!Aliases::starter().resolve("whisper-base", &installed).unwrap().substituted);
        assert!(!Aliases::starter().resolve("base", &installed).unwrap().substituted);
        assert!(!Aliases::starter().resolve("mine", &installed).unwrap().substituted);
    }

    #[test]
    fn the_config_may_map_a_name_to_one_checkpoint_or_to_a_list() {
        let own: Aliases =
            toml::from_str("large-v3-turbo = \"whisper-base\"\nbest = [\"whisper-small\", \"whisper-base\"]").unwrap();
        let aliases = Aliases::starter().extended(own);
        let installed = names(&["whisper-base", "whisper-small"]);
        let resolved = aliases.resolve("large-v3-turbo", &installed).unwrap();
        assert_eq!((resolved.checkpoint.as_str(), resolved.substituted), ("whisper-base", true));
        assert_eq!(aliases.resolve("best", &installed).unwrap().checkpoint, "whisper-small");
    }
}
