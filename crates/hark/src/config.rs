//! Settings in layers: built-in, then `hark.toml`, then `HARK_*` variables, then flags (which the commands apply).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hark_export::Format;
use hark_models::Aliases;
use hark_speech::{DeviceChoice, Precision};
use serde::Deserialize;
use toml::Value;

use crate::CliError;
use crate::cli::Common;

const KEYS: [&str; 13] = [
    "models_dir",
    "catalogue",
    "model",
    "language",
    "format",
    "threads",
    "device",
    "gpu_precision",
    "aliases",
    "data_dir",
    "server",
    "text",
    "voice",
];

/// What the layers below the flags say.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    pub(crate) models_dir: Option<PathBuf>,
    /// A catalogue of the user's own, laid over the built-in one.
    pub(crate) catalogue: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) format: Option<Format>,
    pub(crate) threads: Option<usize>,
    /// Where speech models run.
    pub(crate) device: DeviceChoice,
    /// Numbers of speech models on GPUs.
    pub(crate) gpu_precision: Precision,
    /// Names that requests use: the built-in ones with the user's laid over them.
    pub(crate) aliases: Aliases,
    /// Where the service keeps its database and recordings.
    pub(crate) data_dir: Option<PathBuf>,
    /// How the service behaves.
    pub(crate) server: hark_server::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            models_dir: None,
            catalogue: None,
            model: None,
            language: None,
            format: None,
            threads: None,
            device: DeviceChoice::default(),
            gpu_precision: Precision::default(),
            aliases: Aliases::starter(),
            data_dir: None,
            server: hark_server::Config::default(),
        }
    }
}

impl Config {
    /// Reads every layer; the flags that all commands share are applied too.
    pub(crate) fn load(common: &Common) -> Result<Self, CliError> {
        let mut config = match find_file(common)? {
            Some(path) => Self::read(&path)?,
            None => Self::default(),
        };
        config.apply_environment(|name| env::var_os(name))?;
        if let Some(dir) = &common.models_dir {
            config.models_dir = Some(dir.clone());
        }
        Ok(config)
    }

    fn read(path: &Path) -> Result<Self, CliError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?;
        let mut config = Self::parse(&text, path.parent().unwrap_or(Path::new("")))
            .map_err(|problem| CliError::Usage(format!("{}: {problem}", path.display())))?;
        config.file = Some(path.to_owned());
        Ok(config)
    }

    /// `folder` is where relative paths in the file begin.
    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut config = Self::default();
        let mut text = hark_server::TextSettings::default();
        let mut voice = hark_server::VoiceSettings::default();
        for (key, value) in table {
            match key.as_str() {
                "models_dir" => config.models_dir = Some(folder.join(expand_home(&string(&key, value)?))),
                "catalogue" => config.catalogue = Some(folder.join(expand_home(&string(&key, value)?))),
                "model" => config.model = Some(string(&key, value)?),
                "language" => config.language = Some(string(&key, value)?),
                "format" => config.format = Some(parse_format(&string(&key, value)?)?),
                "threads" => config.threads = Some(threads(&key, value)?),
                "device" => config.device = string(&key, value)?.parse()?,
                "gpu_precision" => config.gpu_precision = string(&key, value)?.parse()?,
                "aliases" => config.aliases = aliases(value)?,
                "data_dir" => config.data_dir = Some(folder.join(expand_home(&string(&key, value)?))),
                "server" => config.server = server(value, folder)?,
                "text" => text = text_settings(value, folder)?,
                "voice" => voice = voice_settings(value)?,
                _ => return Err(unknown_key(&key)),
            }
        }
        config.server.text = text;
        config.server.voice = voice;
        Ok(config)
    }

    /// An empty variable counts as unset, as people clear one with `HARK_MODEL= hark …`.
    fn apply_environment(&mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), CliError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| match set(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => Err(CliError::Usage(format!("{name} is not valid UTF-8"))),
        };
        if let Some(dir) = set("HARK_MODELS") {
            self.models_dir = Some(dir.into());
        }
        if let Some(path) = set("HARK_CATALOGUE") {
            self.catalogue = Some(path.into());
        }
        if let Some(database) = text("HARK_DATABASE")? {
            self.server.database = Some(database);
        }
        if let Some(blobs) = text("HARK_BLOBS")? {
            self.server.blobs = Some(blobs);
        }
        if let Some(path) = set("HARK_MASTER_KEY_FILE") {
            self.server.master_key_file = Some(path.into());
        }
        if let Some(path) = set("HARK_WATERMARK_KEY_FILE") {
            self.server.watermark_key_file = Some(path.into());
        }
        if let Some(endpoint) = text("HARK_TEXT_ENDPOINT")? {
            self.server.text.endpoint = Some(endpoint);
        }
        if let Some(key) = text("HARK_TEXT_ENDPOINT_KEY")? {
            self.server.text.endpoint_key = Some(hark_server::Hidden(key));
            self.server.text.endpoint_key_file = None;
        }
        if let Some(path) = set("HARK_TEXT_ENDPOINT_KEY_FILE") {
            self.server.text.endpoint_key_file = Some(path.into());
            self.server.text.endpoint_key = None;
        }
        if self.server.text.endpoint.is_some() {
            self.server.text.check().map_err(CliError::Usage)?;
        }
        if let Some(model) = text("HARK_MODEL")? {
            self.model = Some(model);
        }
        if let Some(language) = text("HARK_LANGUAGE")? {
            self.language = Some(language);
        }
        if let Some(format) = text("HARK_FORMAT")? {
            let format = parse_format(&format).map_err(|problem| CliError::Usage(format!("HARK_FORMAT: {problem}")))?;
            self.format = Some(format);
        }
        if let Some(device) = text("HARK_DEVICE")? {
            self.device = device.parse().map_err(|problem| CliError::Usage(format!("HARK_DEVICE: {problem}")))?;
        }
        if let Some(precision) = text("HARK_GPU_PRECISION")? {
            self.gpu_precision =
                precision.parse().map_err(|problem| CliError::Usage(format!("HARK_GPU_PRECISION: {problem}")))?;
        }
        if let Some(count) = text("HARK_THREADS")? {
            let threads = count.parse().ok().filter(|count| (1..=1024).contains(count));
            self.threads =
                Some(threads.ok_or_else(|| {
                    CliError::Usage(format!("HARK_THREADS is {count:?}: give a number from 1 to 1024"))
                })?);
        }
        Ok(())
    }
}

/// A file named by the user must exist; the others are used where they are found, the nearest first.
fn find_file(common: &Common) -> Result<Option<PathBuf>, CliError> {
    if let Some(path) = &common.config {
        return match path.is_file() {
            true => Ok(Some(path.clone())),
            false => Err(CliError::Usage(format!("{}: no such configuration file", path.display()))),
        };
    }
    let user = env::var_os("XDG_CONFIG_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".config")));
    let places = [Some(PathBuf::from("hark.toml")), user.map(|dir| dir.join("hark").join("hark.toml"))];
    Ok(places.into_iter().flatten().find(|path| path.is_file()))
}

fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

fn string(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        _ => Err(format!("`{key}` must be a text in quotes")),
    }
}

fn threads(key: &str, value: Value) -> Result<usize, String> {
    match value {
        Value::Integer(count @ 1..=1024) => Ok(count as usize),
        _ => Err(format!("`{key}` must be a number from 1 to 1024")),
    }
}

fn parse_format(name: &str) -> Result<Format, String> {
    name.parse().map_err(|error: hark_export::ExportError| error.to_string())
}

fn aliases(value: Value) -> Result<Aliases, String> {
    let own = Aliases::deserialize(value).map_err(|_| {
        "`aliases` must be a table: [aliases] with lines like turbo = \"whisper-small\" or a list of such names"
            .to_owned()
    })?;
    Ok(Aliases::starter().extended(own))
}

fn server(value: Value, folder: &Path) -> Result<hark_server::Config, String> {
    let mut server =
        hark_server::Config::deserialize(value).map_err(|error| format!("[server]: {}", error.message()))?;
    server.check().map_err(|problem| format!("[server]: {problem}"))?;
    let in_folder = |path: std::path::PathBuf| folder.join(expand_home(&path.to_string_lossy()));
    server.master_key_file = server.master_key_file.map(in_folder);
    server.watermark_key_file = server.watermark_key_file.map(in_folder);
    Ok(server)
}

fn text_settings(value: Value, folder: &Path) -> Result<hark_server::TextSettings, String> {
    let mut text =
        hark_server::TextSettings::deserialize(value).map_err(|error| format!("[text]: {}", error.message()))?;
    text.check()?;
    text.endpoint_key_file = text.endpoint_key_file.map(|path| folder.join(expand_home(&path.to_string_lossy())));
    Ok(text)
}

fn voice_settings(value: Value) -> Result<hark_server::VoiceSettings, String> {
    hark_server::VoiceSettings::deserialize(value).map_err(|error| format!("[voice]: {}", error.message()))
}

fn unknown_key(key: &str) -> String {
    let nearest = KEYS.into_iter().min_by_key(|known| edit_distance(key, known));
    match nearest.filter(|known| edit_distance(key, known) <= 1 + known.len() / 3) {
        Some(known) => format!("unknown key `{key}`: did you mean `{known}`?"),
        None => format!("unknown key `{key}`: the keys are {}", KEYS.join(", ")),
    }
}

/// Levenshtein's distance: letters to change, add or drop.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/hark"))
    }

    #[test]
    fn every_key_of_the_file_is_read() {
        let config = parse(
            "models_dir = \"models\"\nmodel = \"turbo\"\nlanguage = \"de\"\nformat = \"srt\"\nthreads = 3\n\
             [aliases]\nturbo = \"whisper-small\"\n",
        )
        .unwrap();
        assert_eq!(config.models_dir, Some("/etc/hark/models".into()));
        assert_eq!(config.model.as_deref(), Some("turbo"));
        assert_eq!(config.language.as_deref(), Some("de"));
        assert_eq!(config.format, Some(Format::Srt));
        assert_eq!(config.threads, Some(3));
        let served = config.aliases.resolve("turbo", &["whisper-small".to_owned()]).unwrap();
        assert_eq!(served.checkpoint, "whisper-small");
    }

    #[test]
    fn the_table_of_the_service_is_read_and_its_mistakes_are_named() {
        let config = parse("data_dir = \"data\"\n[server]\nworkers = 2\nmaster_key_file = \"key\"").unwrap();
        assert_eq!(config.data_dir, Some("/etc/hark/data".into()));
        assert_eq!((config.server.workers, config.server.master_key_file), (2, Some("/etc/hark/key".into())));
        assert!(parse("[server]\nwrokers = 2").unwrap_err().contains("wrokers"));
        assert!(parse("[server]\nworkers = 0").unwrap_err().contains("workers"));
    }

    #[test]
    fn the_table_of_text_is_read_and_its_mistakes_are_named() {
        let config = parse("[text]\nmodel = \"mine\"\ntimeout = 9\n[server]\nworkers = 2").unwrap();
        assert_eq!(config.server.text.model.as_deref(), Some("mine"));
        assert_eq!((config.server.text.timeout.0, config.server.workers), (9.0, 2));
        assert!(parse("[text]\nmodle = \"mine\"").unwrap_err().contains("modle"));
        assert!(parse("[text]\ncontext = 1").unwrap_err().contains("text.context"));
    }

    #[test]
    fn a_misspelt_key_is_an_error_with_a_hint() {
        assert_eq!(parse("modle = \"x\"").unwrap_err(), "unknown key `modle`: did you mean `model`?");
        assert!(parse("colour = \"x\"").unwrap_err().starts_with("unknown key `colour`: the keys are models_dir,"));
    }

    #[test]
    fn values_of_the_wrong_kind_are_errors_that_name_the_key() {
        assert_eq!(parse("threads = 0").unwrap_err(), "`threads` must be a number from 1 to 1024");
        assert_eq!(parse("model = 3").unwrap_err(), "`model` must be a text in quotes");
        assert!(parse("format = \"doc\"").unwrap_err().contains("txt, srt, vtt, json"));
        assert!(parse("[aliases]\nturbo = 1").unwrap_err().contains("turbo = \"whisper-small\""));
    }

    #[test]
    fn the_environment_wins_over_the_file_and_empty_means_unset() {
        let mut config = parse("model = \"a\"\nlanguage = \"de\"").unwrap();
        let variable = |name: &str| match name {
            "HARK_MODEL" => Some("b".into()),
            "HARK_LANGUAGE" => Some("".into()),
            _ => None,
        };
        config.apply_environment(variable).unwrap();
        assert_eq!(config.model.as_deref(), Some("b"));
        assert_eq!(config.language.as_deref(), Some("de"));
    }

    #[test]
    fn a_wrong_number_in_the_environment_names_its_variable() {
        let variable = |name: &str| (name == "HARK_THREADS").then(|| "many".into());
        let error = Config::default().apply_environment(variable).unwrap_err();
        assert_eq!(error.to_string(), "HARK_THREADS is \"many\": give a number from 1 to 1024");
    }
}
