//! `hark models`: what exists, what is installed, and getting the one to the other.

mod list;
mod pull;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hark_models::{
    Aliases, CONTEXT, Catalogue, FileState, HubReference, Model, ModelStore, Resolved, Role, recommended_language_model,
};

use crate::cli::{Common, ModelsArgs, ModelsCommand};
use crate::config::Config;
use crate::doctor::{Finding, bytes};
use crate::{CliError, output};

/// What is installed and what could be, with the user's names for it.
pub(crate) struct ModelLibrary {
    pub(crate) store: ModelStore,
    pub(crate) catalogue: Catalogue,
    pub(crate) aliases: Aliases,
}

impl ModelLibrary {
    pub(crate) fn open(config: &Config) -> Result<Self, CliError> {
        let catalogue = match &config.catalogue {
            Some(path) => Catalogue::with_user_file(path).map_err(|error| CliError::Usage(error.to_string()))?,
            None => Catalogue::builtin(),
        };
        Ok(Self { store: ModelStore::new(folder(config)), catalogue, aliases: config.aliases.clone() })
    }

    /// The installed checkpoint that serves `name`.
    pub(crate) fn resolve(&self, name: &str) -> Result<Resolved, hark_models::Error> {
        self.aliases.resolve(name, &self.installed_names())
    }

    fn installed_names(&self) -> Vec<String> {
        self.store.all_installed().into_iter().map(|(name, _)| name).collect()
    }

    /// The entry that a name on the command line means: its own, `whisper-` before it, or an alias's first choice.
    pub(crate) fn entry(&self, name: &str) -> Result<&Model, CliError> {
        let table = BTreeMap::from(self.aliases.clone());
        let choices = [name.to_owned(), format!("whisper-{name}")].into_iter();
        let mut choices = choices.chain(table.get(name).cloned().unwrap_or_default());
        choices
            .find_map(|choice| self.catalogue.get(&choice))
            .ok_or_else(|| CliError::Failed(hark_models::Error::UnknownModel { name: name.to_owned() }.to_string()))
    }

    /// The folder name that a name on the command line means, whether or not the catalogue knows it.
    fn folder_name(&self, name: &str) -> String {
        if self.store.installed(name).is_some() {
            return name.to_owned();
        }
        self.entry(name).map_or_else(|_| name.to_owned(), |model| model.name.clone())
    }
}

/// Where models live.
pub(crate) fn folder(config: &Config) -> PathBuf {
    config.models_dir.clone().unwrap_or_else(ModelStore::default_dir)
}

/// Runs the command.
pub(crate) fn run(args: ModelsArgs, common: &Common) -> Result<(), CliError> {
    let library = ModelLibrary::open(&Config::load(common)?)?;
    match args.command {
        None => list::run(&library, args.json),
        Some(ModelsCommand::List { json }) => list::run(&library, json || args.json),
        Some(ModelsCommand::Pull { names, default, speech, force, quiet }) => {
            let defaults = library.catalogue.defaults();
            let defaults = defaults.filter(|model| default || speech && model.role.is_for_speech()).collect();
            pull::run(&library, defaults, &names, force, quiet)
        }
        Some(ModelsCommand::Verify { names }) => verify(&library, names),
        Some(ModelsCommand::Path { name }) => path(&library, &name),
        Some(ModelsCommand::Remove { names }) => remove(&library, &names),
    }
}

fn verify(library: &ModelLibrary, names: Vec<String>) -> Result<(), CliError> {
    let names = if names.is_empty() { library.installed_names() } else { names };
    if names.is_empty() {
        return Err(CliError::Failed(format!("no models in {}", library.store.dir().display())));
    }
    let mut all_sound = true;
    for name in names {
        let name = library.folder_name(&name);
        let verification = match library.store.verify(&name, &library.catalogue) {
            Ok(verification) => verification,
            Err(error) => {
                all_sound = false;
                eprintln!("{name}: {error}");
                continue;
            }
        };
        let count = verification.files.len();
        if verification.is_sound() {
            output::print(format!("{name}: sound, {count} file{}\n", if count == 1 { "" } else { "s" }))?;
            continue;
        }
        all_sound = false;
        for file in verification.files.iter().filter(|file| file.state != FileState::Sound) {
            let what = match &file.state {
                FileState::Sound => continue,
                FileState::Missing => "is missing".to_owned(),
                FileState::Changed(hash) => {
                    format!("is not the file it should be (its hash is {hash})")
                }
                FileState::Unknown => "can't be checked: nothing says what its hash should be".to_owned(),
            };
            eprintln!("{name}: {} {what}", file.name);
        }
        eprintln!("{name}: `hark models pull --force {name}` fetches it again");
    }
    if all_sound { Ok(()) } else { Err(CliError::Reported) }
}

fn path(library: &ModelLibrary, name: &str) -> Result<(), CliError> {
    let name = library.folder_name(name);
    match library.store.installed(&name) {
        Some(installed) => output::print(format!("{}\n", installed.dir.display())),
        None => Err(CliError::Failed(format!(
            "{name} is not installed in {}; `hark models pull {name}` installs it",
            library.store.dir().display()
        ))),
    }
}

fn remove(library: &ModelLibrary, names: &[String]) -> Result<(), CliError> {
    let mut all_removed = true;
    for name in names {
        let name = library.folder_name(name);
        match library.store.remove(&name) {
            Ok(true) => output::print(format!("{name}: removed\n"))?,
            Ok(false) => {
                all_removed = false;
                eprintln!("{name}: is not installed");
            }
            Err(error) => {
                all_removed = false;
                eprintln!("{name}: {error}");
            }
        }
    }
    if all_removed { Ok(()) } else { Err(CliError::Reported) }
}

/// The model that plays a role when no other is asked for; a user's catalogue can't take it away.
fn default_for(library: &ModelLibrary, role: Role) -> &str {
    library.catalogue.default_for(role).map_or("none", |model| &model.name)
}

/// What `hark doctor` says about models: the chosen one and voice activity are needed, the others are counted.
pub(crate) fn findings(config: &Config) -> Vec<Finding> {
    let library = match ModelLibrary::open(config) {
        Ok(library) => library,
        Err(error) => {
            return vec![Finding::missing("models", error.to_string(), "correct the catalogue that is named")];
        }
    };
    let default_model = default_for(&library, Role::Transcription);
    let wanted = config.model.as_deref().unwrap_or(default_model);
    let speech = match library.resolve(wanted) {
        Ok(found) if found.substituted => {
            Finding::ok("speech model", format!("{} (serves {})", found.checkpoint, found.requested))
        }
        Ok(found) => Finding::ok("speech model", found.checkpoint),
        Err(_) => {
            let fix = match library.entry(wanted) {
                Ok(model) => format!("hark models pull {} ({})", model.name, bytes(model.size_bytes)),
                Err(_) => "choose one that `hark models` lists".to_owned(),
            };
            Finding::missing("speech model", format!("{wanted} is not installed"), fix)
        }
    };
    let vad = default_for(&library, Role::Vad);
    let vad = match library.store.installed(vad) {
        Some(_) => Finding::ok("voice activity", vad),
        None => {
            Finding::missing("voice activity", format!("{vad} is not installed"), format!("hark models pull {vad}"))
        }
    };
    let diarization = [Role::Segmentation, Role::Embedding].map(|role| default_for(&library, role));
    let missing: Vec<&str> = diarization.into_iter().filter(|name| library.store.installed(name).is_none()).collect();
    let speakers = match missing.as_slice() {
        [] => Finding::ok("speakers", diarization.join(", ")),
        names => Finding::missing(
            "speakers",
            format!("{} not installed: speakers are not told apart", names.join(", ")),
            format!("hark models pull {}", names.join(" ")),
        ),
    };
    let installed = library.installed_names();
    let damaged = installed
        .iter()
        .filter_map(|name| Some((name, library.store.check_integrity(name, &library.catalogue).err()?)));
    let damaged: Vec<Finding> = damaged
        .map(|(name, error)| {
            Finding::missing("model files", error.to_string(), format!("hark models pull --force {name}"))
        })
        .collect();
    let mut others: Vec<String> = installed;
    others.retain(|name| library.catalogue.get(name).is_none_or(|model| model.role == Role::Transcription));
    let all = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    let mut findings = vec![speech, vad, speakers];
    findings.extend(language_findings(config, &library));
    findings.push(Finding::ok("installed", all));
    findings.extend(damaged);
    findings
}

/// The language model that is used, and the one that this machine should use.
fn language_findings(config: &Config, library: &ModelLibrary) -> [Finding; 2] {
    let used = config.server.text.model.as_deref().unwrap_or_else(|| default_for(library, Role::Language));
    let language = match library.store.installed(used) {
        Some(installed) => {
            let memory = hark_lm::memory_needed(&installed.dir.join("model.gguf"), CONTEXT as usize);
            let detail = match memory {
                Ok(memory) => format!("{used}; takes {} of memory with {CONTEXT} tokens", bytes(memory)),
                Err(error) => format!("{used}: {error}"),
            };
            Finding::ok("language model", detail)
        }
        None => Finding::optional(
            "language model",
            format!("{used} is not installed: texts are not summarized or analyzed"),
            format!("hark models pull {used}"),
        ),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let Some((memory, _)) = crate::doctor::machine_memory() else {
        return [language, Finding::ok("recommended", "unknown: this system does not say how much memory it has")];
    };
    let best = recommended_language_model(memory, cores);
    let installed_as = HubReference::parse(best.pull).and_then(Result::ok).map(|reference| reference.name());
    let name = installed_as.as_deref().unwrap_or(best.pull);
    let detail = format!(
        "{} for this machine: file about {}, needs {} of memory with {CONTEXT} tokens, about {:.0} tokens/s on {cores} cores, licence {}",
        best.title,
        bytes(best.file_bytes),
        bytes(best.memory_bytes(CONTEXT)),
        best.tokens_per_second(cores),
        best.licence
    );
    let recommended = match library.store.installed(name) {
        Some(_) if name == used => Finding::ok("recommended", detail),
        Some(_) => Finding::optional("recommended", detail, format!("`model = \"{name}\"` in [text] of hark.toml")),
        None => Finding::optional("recommended", detail, format!("hark models pull {}", best.pull)),
    };
    [language, recommended]
}
