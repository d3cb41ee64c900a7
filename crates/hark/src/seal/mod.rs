//! `hark seal`: the master key that seals what accounts keep.

mod all;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use hark_store::MasterKey;
use serde_json::json;

use crate::cli::{Common, SealArgs, SealCommand};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: SealArgs, common: &Common) -> Result<(), CliError> {
    let mut config = Config::load(common)?;
    if let Some(file) = &args.key_file {
        config.server.master_key_file = Some(file.clone());
    }
    let data = args.data.data.as_deref();
    if let SealCommand::Status = args.command {
        return all::status(data, config, args.data.json);
    }
    let Some(file) = config.server.master_key_file.clone() else {
        return Err(CliError::Usage(
            "say where the master key is: --key-file FILE, HARK_MASTER_KEY_FILE, or `master_key_file` under [server]"
                .to_owned(),
        ));
    };
    match args.command {
        SealCommand::Init => init(&file, args.data.json),
        SealCommand::All { rewrite } => all::run(&read(&file)?[0], data, config, rewrite, args.data.json),
        SealCommand::Status => all::status(data, config, args.data.json),
        SealCommand::Rotate { no_new_key, forget_old } => {
            rotate(&file, data, config, !no_new_key, forget_old, args.data.json)
        }
    }
}

fn init(file: &Path, json: bool) -> Result<(), CliError> {
    if file.exists() {
        return Err(CliError::Failed(format!("{} exists: `hark seal rotate` puts a new key into it", file.display())));
    }
    let key = generate()?;
    write(file, std::slice::from_ref(&key))?;
    if json {
        return output::print(format!("{:#}\n", json!({ "file": file, "key": key.id() })));
    }
    output::print(format!(
        "made {} with the key {}\nkeep a copy elsewhere: without it nothing that is sealed can be read again\n",
        file.display(),
        key.id()
    ))
}

/// First the new key is safely in the file, then accounts are sealed with it, then old keys may go: at no moment is
/// anything sealed with a key that is written nowhere.
fn rotate(
    file: &Path,
    data: Option<&Path>,
    config: Config,
    with_new_key: bool,
    forget_old: bool,
    json: bool,
) -> Result<(), CliError> {
    let mut keys = read(file)?;
    if with_new_key {
        keys.insert(0, generate()?);
        write(file, &keys)?;
    }
    let local = LocalStore::open(data, config, false)?;
    let rotated = local.wait(local.store.sealing().rotate_master());
    local.close();
    let rotated = rotated?;
    let forgotten = if forget_old { keys.len() - 1 } else { 0 };
    if forgotten > 0 {
        keys.truncate(1);
        write(file, &keys)?;
    }
    let id = keys[0].id();
    if json {
        let value = json!({ "file": file, "key": id, "accounts": rotated, "forgotten": forgotten, "keys": keys.len() });
        return output::print(format!("{value:#}\n"));
    }
    let old = match (forgotten, keys.len()) {
        (0, 1) => String::new(),
        (0, _) => {
            "the old keys are still in the file: once every server knows the new one, --forget-old takes them out\n"
                .to_owned()
        }
        (count, _) => format!("{count} old keys were taken out of the file\n"),
    };
    output::print(format!(
        "{rotated} accounts are now sealed with the key {id}\nrestart servers that were started before: they don't know it yet\n{old}"
    ))
}

fn generate() -> Result<MasterKey, CliError> {
    MasterKey::generate().map_err(|error| CliError::Failed(error.to_string()))
}

/// The keys of a file, the one in use first; lines that begin with `#` say something to people.
fn read(file: &Path) -> Result<Vec<MasterKey>, CliError> {
    let wrong = |problem: String| CliError::Failed(format!("{}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Result<Vec<MasterKey>, _> = lines.map(MasterKey::from_hex).collect();
    let keys = keys.map_err(|error| wrong(error.to_string()))?;
    if keys.is_empty() {
        return Err(wrong("holds no key; `hark seal init` makes a file with one".to_owned()));
    }
    Ok(keys)
}

/// Writes the whole file beside itself, makes sure that it is on the disk, and puts it in place: for nobody else to read.
fn write(file: &Path, keys: &[MasterKey]) -> Result<(), CliError> {
    let problem = |error: std::io::Error| CliError::Failed(format!("can't write {}: {error}", file.display()));
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = options.open(&beside).map_err(problem)?;
    out.write_all(b"# Master keys of hark, the one in use first. Whoever has them can read everything.\n")
        .map_err(problem)?;
    for key in keys {
        out.write_all(key.to_hex().as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(problem)?;
    }
    out.sync_all().map_err(problem)?;
    std::fs::rename(&beside, file).map_err(problem)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn keys_are_written_in_their_order_and_only_for_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let keys = [generate().unwrap(), generate().unwrap()];
        write(&file, &keys).unwrap();
        let found: Vec<String> = read(&file).unwrap().iter().map(MasterKey::id).collect();
        assert_eq!(found, [keys[0].id(), keys[1].id()]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        std::fs::write(&file, "# nothing\n").unwrap();
        assert!(read(&file).is_err());
        std::fs::write(&file, "abc\n").unwrap();
        assert!(read(&file).is_err());
    }
}
