//! A server for one test, and clients to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{LazyLock, Once};
use std::time::Duration;

use hark_models::{Aliases, Catalogue, ModelStore};
use hark_server::{Config, Engines, InstantEngine, LanguageOptions, Role, Service, SpeechEngine, SpeechOptions};
use hark_store::{AccountId, Clock, KeyKind, NewAccount, NewKey, Plan, Store};
use hark_web::Site;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use crate::log;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) folder: tempfile::TempDir,
    service: Option<Service>,
}

/// Somebody who talks to a server.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    pub(crate) key: Option<String>,
    pub(crate) account: Option<AccountId>,
    http: reqwest::Client,
}

/// Settings of a test: a free port, waits that end soon, and no web app, whether this build has it or not.
pub(crate) fn config() -> Config {
    Config { listen: "127.0.0.1:0".parse().unwrap(), site: Site::EMPTY, ..Config::default() }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(config(), InstantEngine::default()).await
    }

    pub(crate) async fn with(config: Config, engines: impl Into<Engines>) -> Self {
        Self::with_clock(config, engines, Clock::system()).await
    }

    pub(crate) async fn with_clock(config: Config, engines: impl Into<Engines>, clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::in_folder(folder, config, engines, clock, Role::All).await
    }

    pub(crate) async fn with_role(role: Role) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::in_folder(folder, config(), InstantEngine::default(), Clock::system(), role).await
    }

    pub(crate) async fn in_folder(
        folder: tempfile::TempDir,
        config: Config,
        engines: impl Into<Engines>,
        clock: Clock,
        role: Role,
    ) -> Self {
        let database = format!("sqlite://{}", folder.path().join("hark.db").display());
        Self::over(&database, folder, config, engines, clock, role).await
    }

    /// A server over a database elsewhere.
    pub(crate) async fn over(
        database: &str,
        folder: tempfile::TempDir,
        config: Config,
        engines: impl Into<Engines>,
        clock: Clock,
        role: Role,
    ) -> Self {
        log::keep();
        let blobs = folder.path().join("blobs").display().to_string();
        let mut options = hark_store::Options::new(database, blobs);
        options.clock = clock.clone();
        options.retry = config.jobs.retry_policy();
        let store = Store::open(options).await.unwrap();
        let service = Service::start(store.clone(), engines, config, role, clock.clone()).await.unwrap();
        Server { address: service.address(), store, clock, folder, service: Some(service) }
    }

    /// A new account with one key.
    pub(crate) async fn account(&self, plan: Plan) -> Client {
        self.account_with(plan, 600).await
    }

    pub(crate) async fn account_with(&self, plan: Plan, credits: i64) -> Client {
        let name = format!("{}@example.com", random());
        let mut new = NewAccount::new(name, plan);
        new.credits = credits;
        let account = self.store.accounts().create(&new).await.unwrap();
        let key = NewKey { rate_limit: 100_000, ..NewKey::new(KeyKind::Service, "test") };
        let (_, secret) = self.store.keys().create(account.id, &key).await.unwrap();
        Client { key: Some(secret.reveal().to_owned()), account: Some(account.id), ..self.anonymous() }
    }

    pub(crate) fn anonymous(&self) -> Client {
        Client { address: self.address, key: None, account: None, http: http() }
    }

    pub(crate) fn metrics_address(&self) -> SocketAddr {
        self.service.as_ref().and_then(Service::metrics_address).unwrap()
    }

    /// Ends the service as SIGTERM does, and leaves the store open to look at.
    pub(crate) async fn service_stop(mut self) -> tempfile::TempDir {
        if let Some(service) = self.service.take() {
            service.stop().await;
        }
        self.folder
    }

    /// Ends the service as SIGTERM does; the folder stays for another.
    pub(crate) async fn stop(mut self) -> tempfile::TempDir {
        if let Some(service) = self.service.take() {
            service.stop().await;
        }
        self.store.close().await;
        self.folder
    }
}

impl Client {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same client with another key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Client { key: Some(key.to_owned()), ..self.clone() }
    }

    /// The same client of another server over the same store.
    pub(crate) fn at(&self, server: &Server) -> Self {
        Client { address: server.address, ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, self.url(path));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Response {
        self.request(Method::POST, path).json(&body).send().await.unwrap()
    }

    /// Sends a form with a recording and fields after it.
    pub(crate) fn transcribe(&self, path: &str, recording: Vec<u8>, fields: &[(&str, &str)]) -> RequestBuilder {
        let mut form = Form::new().part("file", Part::bytes(recording).file_name("talk.wav"));
        for (name, value) in fields {
            form = form.text((*name).to_owned(), (*value).to_owned());
        }
        self.request(Method::POST, path).multipart(form)
    }

    pub(crate) async fn credits(&self, server: &Server) -> i64 {
        server.store.accounts().get(self.account.unwrap()).await.unwrap().credits
    }
}

/// The store's buckets bring TLS to the client, which then wants to know whose arithmetic to use, even without a use for it.
pub(crate) fn http() -> reqwest::Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    // Bodies as they come, and from the server itself, whatever proxy the environment names.
    reqwest::Client::builder().no_gzip().no_proxy().build().unwrap()
}

/// The JSON of an answer whose status is this one.
pub(crate) async fn json(response: Response, status: u16) -> Value {
    let found = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert_eq!(found, status, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks that an answer is the Error body with this status, and gives its message.
pub(crate) async fn refusal(response: Response, status: u16) -> String {
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("x-request-id"));
    let body = json(response, status).await;
    for key in body.as_object().unwrap().keys() {
        assert!(["error", "upgrade"].contains(&key.as_str()), "{body}");
    }
    body["error"].as_str().unwrap().to_owned()
}

/// Seconds of a hum that any decoder reads.
pub(crate) fn hum(seconds: f64) -> Vec<u8> {
    let samples: Vec<f32> = (0..(seconds * 16_000.0) as usize).map(|n| (n as f32 * 0.05).sin() * 0.1).collect();
    let mut wav = Vec::new();
    hark_media::write_wav(&mut wav, &samples, 16_000).unwrap();
    wav
}

/// What the voice of [`talk`] says.
pub(crate) const SENTENCE: &str = "The weather is nice today. We are going to the market to buy some apples and bread.";

/// A recording of a synthetic voice, made once.
pub(crate) fn talk() -> Vec<u8> {
    static TALK: LazyLock<Vec<u8>> = LazyLock::new(|| spoken(SENTENCE));
    TALK.clone()
}

/// Half a minute of two people on the telephone.
pub(crate) fn telephone_call() -> Vec<u8> {
    let path = ModelStore::default_dir().join("test-sounds-meetings").join("sample.wav");
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is not there: `./hark test` installs what tests need", path.display()))
}

/// A recording of a synthetic voice that says this.
pub(crate) fn spoken(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.wav");
    let spoken = Command::new("espeak-ng").args(["-s", "140", "-w"]).arg(&path).arg(text).status();
    assert!(spoken.expect("espeak-ng is not there: `./hark test` installs what tests need").success());
    std::fs::read(path).unwrap()
}

/// The real engine, over the models that users have.
pub(crate) fn real_engine() -> SpeechEngine {
    real_engine_with(LanguageOptions::default(), &[])
}

/// The same with a language model, and further models that must be there.
pub(crate) fn real_engine_with(language: LanguageOptions, further: &[&str]) -> SpeechEngine {
    let folder: PathBuf = ModelStore::default_dir();
    for name in [&["whisper-base", "silero-vad", "pyannote-segmentation-3", "campplus-zh-en"], further].concat() {
        let model = folder.join(name);
        assert!(model.is_dir(), "{} is not there: `./hark test` installs what tests need", model.display());
    }
    SpeechEngine::new(real_options(language, folder))
}

pub(crate) fn real_options(language: LanguageOptions, models: PathBuf) -> SpeechOptions {
    SpeechOptions {
        models: ModelStore::new(models),
        catalogue: Catalogue::builtin(),
        aliases: Aliases::starter(),
        threads: Some(1),
        isa: None,
        loaded: 1,
        memory_budget: hark_server::default_memory_budget(),
        devices: hark_speech::Devices::default(),
        language,
        voice_model: None,
        pulls: hark_server::Pulls::default(),
    }
}

/// The real engine with a small cloning model of random weights, set as the speech model, and the folder of its models: links to those of the user, and that network.
pub(crate) fn cloning_engine(models: &[&str]) -> (SpeechEngine, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for name in models {
        let model = ModelStore::default_dir().join(name);
        assert!(model.is_dir(), "{} is not there: `./hark test` installs what tests need", model.display());
        std::os::unix::fs::symlink(model, folder.path().join(name)).unwrap();
    }
    let small = folder.path().join(CLONING_MODEL);
    std::fs::create_dir(&small).unwrap();
    hark_clone::testing::SmallModel::default().write(&small);
    let file = folder.path().join("catalogue.toml");
    let entry = format!(
        "version = 1\n[[model]]\nname = \"{CLONING_MODEL}\"\nrole = \"voice\"\nfamily = \"chatterbox\"\nlicence = \"none\"\n\
         [[model.source]]\nkind = \"folder\"\npath = \"/nowhere\"\nfiles = [{{ name = \"conditional_decoder.onnx\" }}]\n"
    );
    std::fs::write(&file, entry).unwrap();
    let options = real_options(LanguageOptions::default(), folder.path().to_owned());
    let (catalogue, voice_model) = (Catalogue::with_user_file(&file).unwrap(), Some(CLONING_MODEL.to_owned()));
    (SpeechEngine::new(SpeechOptions { catalogue, voice_model, ..options }), folder)
}

/// The small cloning model.
pub(crate) const CLONING_MODEL: &str = "chatterbox-small";

/// Asks until the answer is there.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not happen");
}

pub(crate) fn random() -> String {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes).to_string()
}
