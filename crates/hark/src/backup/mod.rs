//! `hark backup`, `hark restore` and `hark store`: a service's database and recordings as a whole.

use std::io::IsTerminal;

use hark_api::DateTime;
use hark_store::{BackupProgress, IdentityCheck, RestoreOptions, Store};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget};
use serde_json::json;

use crate::cli::{BackupArgs, Common, RestoreArgs, StoreArgs, StoreCommand};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::{CliError, output, serve};

/// What everybody must read who has a backup of sealed data.
fn about_keys(keys: &[String]) -> String {
    match keys {
        [] => String::new(),
        keys => format!(
            "THE MASTER KEY IS NOT IN THE BACKUP: without it (key {}) nothing that is sealed can be read. Keep a copy of its file elsewhere.\n",
            keys.join(", ")
        ),
    }
}

fn failed(error: hark_store::Error) -> CliError {
    CliError::Failed(error.to_string())
}

fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| CliError::Failed(format!("cannot start: {error}")))
}

/// Runs `hark backup`.
pub(crate) fn backup(args: &BackupArgs, common: &Common) -> Result<(), CliError> {
    let folder = std::path::absolute(&args.folder).map_err(|error| CliError::Usage(error.to_string()))?;
    if args.verify {
        let found = runtime()?.block_on(hark_store::verify_backup(&folder)).map_err(failed)?;
        if args.data.json {
            let value = json!({
                "store": found.store, "created_at": DateTime(found.created_at), "schema": found.schema,
                "recordings": found.recordings, "recording_bytes": found.recording_bytes, "missing": found.missing,
                "master_keys": found.master_keys
            });
            return output::print(format!("{value:#}\n"));
        }
        return output::print(format!(
            "{} is whole: store {} of {}, {} recordings ({})\n{}",
            folder.display(),
            found.store,
            DateTime(found.created_at),
            HumanCount(found.recordings),
            HumanBytes(found.recording_bytes),
            about_keys(&found.master_keys)
        ));
    }
    let config = Config::load(common)?;
    let database = serve::store_options(args.data.data.as_deref(), &config)?.database;
    let local = LocalStore::open(args.data.data.as_deref(), config, false)?;
    let bar = bar();
    let report = local.wait(local.store.backup(&database, &folder, |progress: BackupProgress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    }));
    bar.finish_and_clear();
    local.close();
    let report = report?;
    if args.data.json {
        let value = json!({
            "store": report.store, "folder": folder, "database_bytes": report.database_bytes,
            "recordings": report.recordings, "recording_bytes": report.recording_bytes,
            "copied": report.copied, "copied_bytes": report.copied_bytes, "removed": report.removed,
            "missing": report.missing.iter().map(|key| key.as_str()).collect::<Vec<_>>(),
            "master_keys": report.master_keys
        });
        output::print(format!("{value:#}\n"))?;
    } else {
        output::print(format!(
            "backed up store {} to {}: database {}, {} recordings ({}), {} of them copied now ({})\n{}",
            report.store,
            folder.display(),
            HumanBytes(report.database_bytes),
            HumanCount(report.recordings),
            HumanBytes(report.recording_bytes),
            HumanCount(report.copied),
            HumanBytes(report.copied_bytes),
            about_keys(&report.master_keys)
        ))?;
    }
    match report.missing.as_slice() {
        [] => Ok(()),
        missing => Err(CliError::Failed(format!(
            "the backup is complete, but {} recordings that the database names are not there (manifest.json lists them)",
            missing.len()
        ))),
    }
}

/// Runs `hark restore`.
pub(crate) fn restore(args: &RestoreArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let options = serve::store_options(args.data.data.as_deref(), &config)?;
    let place = options.blobs.clone();
    if args.force {
        eprintln!("hark: --force: the database that is there is replaced; no server may run on it");
    }
    let how = RestoreOptions { force: args.force };
    let done = runtime()?.block_on(hark_store::restore(&args.folder, options, how)).map_err(failed)?;
    if args.data.json {
        let value = json!({
            "store": done.store, "written": done.written, "kept": done.kept,
            "unbalanced": done.unbalanced.iter().map(|one| one.account.0).collect::<Vec<_>>(),
            "missing": done.missing.iter().map(|key| key.as_str()).collect::<Vec<_>>(),
            "replaced": done.replaced, "master_keys": done.master_keys
        });
        output::print(format!("{value:#}\n"))?;
    } else {
        output::print(format!(
            "restored store {}: database, {} {} to {place} ({} already there)\n",
            done.store,
            HumanCount(done.written),
            if done.written == 1 { "recording" } else { "recordings" },
            HumanCount(done.kept)
        ))?;
        if let Some(aside) = &done.replaced {
            output::print(format!("the database that was there is now {}\n", aside.display()))?;
        }
        output::print(about_keys(&done.master_keys))?;
    }
    for one in &done.unbalanced {
        eprintln!("hark: account {}: {} credits, its ledger says {}", one.account, one.credits, one.sum);
    }
    for key in &done.missing {
        eprintln!("hark: the recording {key} is not there");
    }
    if !done.unbalanced.is_empty() || !done.missing.is_empty() {
        return Err(CliError::Failed("the store was restored, but the checks above failed".to_owned()));
    }
    if !args.data.json {
        output::print("checked: every account's ledger adds up, every recording is there\n")?;
    }
    Ok(())
}

/// Runs `hark store`.
pub(crate) fn store(args: &StoreArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let mut options = serve::store_options(args.data.data.as_deref(), &config)?;
    if let StoreCommand::Adopt = args.command {
        options.identity = IdentityCheck::Adopt;
    }
    let runtime = runtime()?;
    let store = runtime.block_on(Store::open(options)).map_err(failed)?;
    let (id, place) = (store.id().to_owned(), store.recordings().location());
    runtime.block_on(store.close());
    if args.data.json {
        return output::print(format!("{:#}\n", json!({ "store": id, "recordings": place })));
    }
    match args.command {
        StoreCommand::Show => output::print(format!("store {id}, recordings in {place}\n")),
        StoreCommand::Adopt => output::print(format!("the recordings in {place} are now those of store {id}\n")),
    }
}

fn bar() -> ProgressBar {
    let visible = std::io::stderr().is_terminal();
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    ProgressBar::with_draw_target(None, target)
}
