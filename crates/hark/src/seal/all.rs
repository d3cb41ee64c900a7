//! `hark seal all` and `hark seal status`: what was stored before there was a master key.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use hark_store::{MasterKey, UnsealedAmount};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::config::Config;
use crate::local_store::LocalStore;
use crate::{CliError, output};

/// Says how much lies open.
pub(super) fn status(data: Option<&Path>, config: Config, json: bool) -> Result<(), CliError> {
    let has_key = config.server.master_key_file.is_some();
    let local = LocalStore::open(data, config, false)?;
    let open = local.wait(local.store.sealing().unsealed());
    local.close();
    let open = open?;
    if json {
        return output::print(format!("{:#}\n", json!({ "open": value(&open) })));
    }
    if open.is_nothing() {
        return output::print("nothing is stored that is not sealed\n");
    }
    let advice = if has_key { "`hark seal all` seals it" } else { "`hark seal init` makes a key to seal it with" };
    output::print(format!("{} not sealed: {advice}\n", in_words(&open)))
}

/// Seals everything that lies open.
pub(super) fn run(
    key: &MasterKey,
    data: Option<&Path>,
    config: Config,
    rewrite: bool,
    json: bool,
) -> Result<(), CliError> {
    let local = LocalStore::open(data, config, false)?;
    let done = local.wait(async {
        let open = local.store.sealing().unsealed().await?;
        let bar = bar();
        let tell =
            |sealed: &UnsealedAmount| bar.set_message(format!("{} of {} sealed", in_words(sealed), in_words(&open)));
        let done = local.store.sealing().seal_all(tell).await?;
        if rewrite {
            bar.set_message("writing the tables anew");
            local.store.sealing().rewrite_tables().await?;
        }
        bar.finish_and_clear();
        Ok(done)
    });
    local.close();
    let done = done?;
    if json {
        let missing: Vec<&str> = done.missing.iter().map(|key| key.as_str()).collect();
        let whole = json!({
            "key": key.id(), "sealed": value(&done.sealed), "left": value(&done.left), "missing": missing, "rewritten": rewrite
        });
        output::print(format!("{whole:#}\n"))?;
    } else {
        output::print(format!("{} sealed with the key {}\n", in_words(&done.sealed), key.id()))?;
        if !done.sealed.is_nothing() {
            output::print("copies and backups that were made before still hold all that in the clear\n")?;
        }
        for key in &done.missing {
            eprintln!("the recording {key} is not there");
        }
    }
    let missing = done.missing.len() as u64;
    if done.left.values > 0 || done.left.recordings > missing {
        return Err(CliError::Failed(format!(
            "{} not sealed yet because they are in use: run the command again in a while",
            in_words(&done.left)
        )));
    }
    if missing > 0 {
        return Err(CliError::Failed(format!("{missing} recordings that the database knows are not there")));
    }
    Ok(())
}

/// A line on stderr that moves, where stderr is a terminal.
fn bar() -> ProgressBar {
    let visible = std::io::stderr().is_terminal();
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    if visible {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

fn value(amount: &UnsealedAmount) -> Value {
    json!({ "values": amount.values, "recordings": amount.recordings, "bytes": amount.bytes })
}

fn in_words(amount: &UnsealedAmount) -> String {
    let UnsealedAmount { values, recordings, bytes } = *amount;
    format!("{} texts and {} recordings ({})", HumanCount(values), HumanCount(recordings), HumanBytes(bytes))
}
