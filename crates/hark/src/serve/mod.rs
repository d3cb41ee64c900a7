//! `hark serve`: the service over HTTP until it is told to stop.

mod pull;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use hark_server::{FirstKey, Pulls, Role, Service, SpeechEngine, SpeechOptions};
use hark_store::{Clock, MasterKey, MasterKeys, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Common, ServeArgs, ServeRole};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::{CliError, output, watermark};

/// Runs the command.
pub(crate) fn run(args: ServeArgs, common: &Common) -> Result<(), CliError> {
    let mut config = Config::load(common)?;
    if let Some(listen) = args.listen {
        config.server.listen = listen;
    }
    if args.no_web {
        config.server.web = false;
    }
    hark_server::raise_file_limit();
    hark_server::log_panics();
    hide_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(serve(&args, &config))
}

/// Keeps the memory and the environment of the service, with the master key and passwords in them, out of core dumps and from
/// other processes of its user, decoders among them.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        const NO: libc::c_ulong = 0;
        // SAFETY: this option takes one number and three zeros; its failure leaves things as they are.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, NO, NO, NO, NO) };
    }
}

async fn serve(args: &ServeArgs, config: &Config) -> Result<(), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
    let mut server = config.server.clone();
    server.watermark_key_file = Some(watermark::key_file(args.data.as_deref(), config)?);
    let store = Store::open(store_options(args.data.as_deref(), config)?).await.map_err(|error| failed(&error))?;
    let role = match args.role {
        ServeRole::All => Role::All,
        ServeRole::Account => Role::Account,
        ServeRole::Gpu => Role::Gpu,
    };
    if role != Role::Gpu
        && let Some(first) = hark_server::first_start(&store).await.map_err(|error| failed(&error))?
    {
        announce(&first)?;
    }
    // Signals are watched before anybody is told the address: who stops us right then is heard.
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| failed(&error))?;
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
    let pulls = Pulls::default();
    if args.pull {
        pull::start(&ModelLibrary::open(config)?, &pulls)?;
    }
    let engine = SpeechEngine::new(speech_options(args, config, pulls)?);
    let service = Service::start(store.clone(), engine, server, role, Clock::system());
    let service = service.await.map_err(|error| failed(&error))?;
    output::print(format!("hark listens on http://{}\n", service.address()))?;
    if let Some(address) = service.metrics_address() {
        eprintln!("hark: metrics on http://{address}/metrics");
    }
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    eprintln!("hark: stopping; requests under way have {} s", config.server.drain_timeout.0);
    tokio::select! {
        () = service.stop() => {}
        // A second signal ends it at once: leases run out, and the jobs go back to the queue by themselves.
        _ = interrupted.recv() => return Err(CliError::Interrupted(SignalKind::interrupt().as_raw_value())),
        _ = terminated.recv() => return Err(CliError::Interrupted(SignalKind::terminate().as_raw_value())),
    }
    store.close().await;
    Ok(())
}

/// The only time the key is shown.
fn announce(first: &FirstKey) -> Result<(), CliError> {
    output::print(format!(
        "first start: made the account {} with an admin key, shown only now:\n\n    {}\n\n",
        first.email,
        first.key.reveal()
    ))
}

/// The folder of the service's database and recordings.
pub(crate) fn data_dir(given: Option<&Path>, config: &Config) -> Result<PathBuf, CliError> {
    let data = given.map(Path::to_owned).or_else(|| config.data_dir.clone()).unwrap_or_else(default_data_dir);
    std::path::absolute(&data).map_err(|error| CliError::Usage(format!("{}: {error}", data.display())))
}

/// Where the service keeps its things; the folder is made where it is not there.
pub(crate) fn store_options(data: Option<&Path>, config: &Config) -> Result<hark_store::Options, CliError> {
    let data = data_dir(data, config)?;
    // Nobody else on the machine has business in it.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&data);
    made.map_err(|error| CliError::Failed(format!("{}: {error}", data.display())))?;
    let path = |name: &str| data.join(name).to_string_lossy().into_owned();
    let database = config.server.database.clone().unwrap_or_else(|| format!("sqlite://{}", path("hark.db")));
    let blobs = config.server.blobs.clone().unwrap_or_else(|| path("blobs"));
    let mut options = hark_store::Options::new(database, blobs);
    options.retry = config.server.jobs.retry_policy();
    if let Some(file) = &config.server.master_key_file {
        options.master_keys = master_keys(file)?;
    }
    Ok(options)
}

/// One key a line in hexadecimal, the one in use first; lines that begin with `#` say something to people.
fn master_keys(file: &Path) -> Result<MasterKeys, CliError> {
    let wrong = |problem: &str| CliError::Usage(format!("{}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut keys: Option<MasterKeys> = None;
    for line in lines {
        let key = MasterKey::from_hex(line).map_err(|error| wrong(&error.to_string()))?;
        keys = Some(match keys {
            None => MasterKeys::new(key),
            Some(keys) => keys.with_old(key),
        });
    }
    keys.ok_or_else(|| wrong("holds no key; `hark seal init` makes one"))
}

/// Hark's folder among the user's data.
pub(crate) fn default_data_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| Some(std::env::home_dir()?.join(".local").join("share")));
    data.unwrap_or_else(|| PathBuf::from(".")).join("hark")
}

fn speech_options(args: &ServeArgs, config: &Config, pulls: Pulls) -> Result<SpeechOptions, CliError> {
    let options = engine_options(config)?;
    Ok(SpeechOptions { threads: args.threads.map(usize::from).or(options.threads), pulls, ..options })
}

/// The language model as the configuration has it, with the key of its endpoint.
pub(crate) fn language_options(config: &Config) -> Result<hark_server::LanguageOptions, CliError> {
    let mut text = config.server.text.clone();
    text.read_key().map_err(CliError::Usage)?;
    Ok(text.language_options())
}

/// The engine as the configuration has it.
pub(crate) fn engine_options(config: &Config) -> Result<SpeechOptions, CliError> {
    let library = ModelLibrary::open(config)?;
    let devices = config.device.devices_in(library.store.dir(), config.gpu_precision);
    Ok(SpeechOptions {
        models: library.store,
        catalogue: library.catalogue,
        aliases: library.aliases,
        threads: config.threads,
        isa: None,
        loaded: config.server.loaded_models,
        memory_budget: config.server.memory_budget.unwrap_or_else(hark_server::default_memory_budget),
        devices,
        language: language_options(config)?,
        voice_model: config.server.voice.model.clone(),
        pulls: Pulls::default(),
    })
}
