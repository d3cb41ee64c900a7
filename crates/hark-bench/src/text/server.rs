//! The servers that are asked, as child processes: `hark serve` over stored transcripts, and llama.cpp's `llama-server`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hark_store::{KeyKind, NewAccount, NewKey, NewTranscript, Options, Plan, Store};

use super::corpus::Document;
use super::failed;
use super::http::Client;
use crate::error::BenchError;
use crate::live;

/// Accounts of the server: as many clients as are measured at once, since the number of calls at once is limited by account.
pub(super) const ACCOUNTS: usize = 16;

/// Seconds that a text call may take; the default is for people who wait.
const TEXT_TIMEOUT: u64 = 3600;

/// How long `llama-server` may take to load its model.
const LOADING: Duration = Duration::from_secs(300);

/// A server that listens; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// A client for each account.
    pub(crate) clients: Vec<Client>,
    /// The stored transcripts, in the order of the documents.
    pub(super) transcripts: Vec<i64>,
}

impl Server {
    /// `hark serve` in an empty folder, with accounts that have nothing stored.
    pub(crate) async fn without_transcripts(folder: &Path, threads: Option<usize>) -> Result<Self, BenchError> {
        Self::hark(folder, &[], None, threads).await
    }

    /// `hark serve` in an empty folder, with accounts that the transcripts are dealt to in turn.
    pub(super) async fn hark(
        folder: &Path,
        documents: &[Document],
        model: Option<&str>,
        threads: Option<usize>,
    ) -> Result<Self, BenchError> {
        let data = folder.join("data");
        std::fs::create_dir_all(&data).map_err(failed)?;
        let (database, blobs) = (format!("sqlite://{}", data.join("hark.db").display()), data.join("blobs"));
        let store = Store::open(Options::new(database, blobs.display().to_string())).await.map_err(failed)?;
        let (mut accounts, mut keys, mut transcripts) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..ACCOUNTS {
            // Plans below have a daily limit of questions.
            let new = NewAccount {
                credits: 1_000_000,
                ..NewAccount::new(format!("caller{number}@example.org"), Plan::Business)
            };
            let account = store.accounts().create(&new).await.map_err(failed)?.id;
            let key = NewKey { rate_limit: 1_000_000, ..NewKey::new(KeyKind::Service, "bench") };
            keys.push(store.keys().create(account, &key).await.map_err(failed)?.1.reveal().to_owned());
            accounts.push(account);
        }
        for (document, account) in documents.iter().zip(accounts.into_iter().cycle()) {
            let new = NewTranscript {
                title: document.reference.title.clone(),
                source_type: "api".into(),
                language: document.reference.language.clone(),
                model: "whisper-base".into(),
            };
            let saved = store.transcripts().save(account, &new, &document.transcript, None).await.map_err(failed)?;
            transcripts.push(saved.0.0);
        }
        store.close().await;
        let model = model.map(|model| format!("model = {model:?}\n")).unwrap_or_default();
        std::fs::write(folder.join("hark.toml"), format!("[text]\ntimeout = {TEXT_TIMEOUT}.0\n{model}"))
            .map_err(failed)?;
        let mut command = Command::new(crate::hark_binary()?);
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).arg("--data").arg(&data).current_dir(folder);
        command.args(threads.iter().flat_map(|threads| ["--threads".to_owned(), threads.to_string()]));
        let (child, address) = live::start_server(command, &folder.join("hark.log"), |line| {
            line.strip_prefix("hark listens on http://").map(str::to_owned)
        })?;
        let clients = keys.into_iter().map(|key| Client { address, key }).collect();
        Ok(Server { child, clients, transcripts })
    }

    /// The client that the transcript of a document belongs to.
    pub(super) fn client_of(&self, document: usize) -> &Client {
        &self.clients[document % self.clients.len()]
    }

    /// `llama-server` over a model file, with a slot of `context` tokens for each client.
    pub(super) fn llama(
        folder: &Path,
        program: &Path,
        model: &Path,
        threads: usize,
        slots: usize,
        context: usize,
    ) -> Result<Self, BenchError> {
        let address = free_address()?;
        let log_path = folder.join("llama-server.log");
        let log = std::fs::File::create(&log_path).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let number = |number: usize| number.to_string();
        let mut command = Command::new(program);
        command.arg("--model").arg(model).args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--threads", &number(threads), "--threads-batch", &number(threads)]);
        command.args(["--parallel", &number(slots), "--ctx-size", &number(slots * context)]);
        if let Some(libraries) = program.parent() {
            let before = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
            command.env("LD_LIBRARY_PATH", format!("{}:{before}", libraries.display()));
        }
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let child = child.map_err(|source| BenchError::Start { system: "llama-server".to_owned(), source })?;
        let client = Client { address, key: "none".to_owned() };
        let mut server = Server { child, clients: vec![client], transcripts: Vec::new() };
        let start = Instant::now();
        while server.clients[0].status("/health") != Some(200) {
            let ended = server.child.try_wait().map_err(failed)?;
            if ended.is_some() || start.elapsed() > LOADING {
                return Err(BenchError::Ended { system: "llama-server".to_owned(), log: log_path });
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listens on.
fn free_address() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    listener.local_addr().map_err(failed)
}
