//! Settings of the service, with defaults for a single machine.

mod enhance;
mod integrity;
mod jobs;
mod limits;
mod mail;
mod origin;
mod stream;
mod text;
mod voice;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

pub use enhance::EnhanceSettings;
pub use integrity::Integrity;
pub use jobs::JobSettings;
pub use limits::Limits;
pub use mail::{MailConfig, MailSecurity};
pub(crate) use mail::{sender, transport};
use origin::is_origin;
pub use stream::StreamLimits;
pub use text::TextSettings;
pub use voice::{Consent, MatchedPerDay, VoiceSettings};
pub use webhooks::Webhooks;

/// Settings of the service: the `[server]` table of `hark.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The address that the service listens on.
    pub listen: SocketAddr,
    /// The address that serves `/metrics`; not served if not set.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether the web app is served.
    pub web: bool,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Origins allowed by CORS; `*` allows any.
    pub cors_origins: Vec<String>,
    /// Recordings transcribed concurrently; their windows share one engine.
    pub workers: usize,
    /// Concurrent media probes of uploads; further uploads wait for a moment, then are refused.
    pub probes: usize,
    /// Maximum queued transcriptions; further ones are refused.
    pub max_queue: u64,
    /// Speech and language models kept in memory; more only while they are in use.
    pub loaded_models: usize,
    /// Memory budget of all models together, such as `"6 GB"`; by default half of the machine's memory.
    pub memory_budget: Option<crate::engine::Bytes>,
    /// Seconds after its last use when a model is unloaded; 0 keeps it until its memory is needed.
    #[serde(deserialize_with = "seconds_or_zero")]
    pub idle_unload: Seconds,
    /// Seconds that a transcription request waits for its result.
    pub transcribe_timeout: Seconds,
    /// Seconds without progress of a request or response body after which the connection is closed.
    pub idle_timeout: Seconds,
    /// Seconds within which a client must send the head of a request.
    pub header_timeout: Seconds,
    /// Seconds that running requests and jobs may continue during shutdown.
    pub drain_timeout: Seconds,
    /// Seconds after which the lease of a worker that does not renew it expires.
    pub lease: Seconds,
    /// How jobs are retried.
    pub jobs: JobSettings,
    /// How requests for paid models are served without a paid plan.
    pub paid_models: PaidModels,
    /// Limits of anonymous use.
    pub anonymous: Anonymous,
    /// Maximum requests per minute of a user token.
    pub user_rate_limit: u32,
    /// The public URL of this server, such as `https://hark.example.com`: for links in mails, and for the `Secure` attribute of
    /// cookies.
    pub public_url: Option<String>,
    /// Whether sign-up is open; by default only if the server is reachable from this machine alone, or if mail is
    /// configured.
    pub sign_up: Option<bool>,
    /// Credits of a new account after sign-up; by default those of the plan, or none if the server is reachable from other machines
    /// and no mail is configured.
    pub sign_up_credits: Option<u32>,
    /// Maximum sign-ups per address and day; by default 5, or 100 if the server is reachable from this machine alone.
    pub sign_ups_per_day: Option<u32>,
    /// SMTP settings; without them email addresses count as confirmed.
    pub mail: Option<MailConfig>,
    /// Minimum free space of the data folder and the temporary folder in MB for the server to be ready.
    pub min_free_disk_mb: u64,
    /// Integrity checks of stored data.
    pub integrity: Integrity,
    /// Retention of audit log entries in days.
    pub audit_days: u32,
    /// Retention of the addresses in the audit log in days.
    pub audit_address_days: u32,
    /// Limits on resources that unauthenticated clients can occupy.
    pub limits: Limits,
    /// Limits of live sessions.
    pub stream: StreamLimits,
    /// Webhooks, called when a transcript is done.
    pub webhooks: Webhooks,
    /// Noise reduction.
    pub enhance: EnhanceSettings,
    /// Whether recordings of accounts are kept after transcription, until their transcript is deleted.
    pub keep_audio: bool,
    /// The file of the master key that seals text and audio.
    pub master_key_file: Option<std::path::PathBuf>,
    /// The file of the watermark key, made at first use; by default `watermark.key` in the data folder.
    pub watermark_key_file: Option<std::path::PathBuf>,
    /// The database, `sqlite:…` or `postgres://…`; by default `hark.db` in the data folder.
    pub database: Option<String>,
    /// Where recordings are stored, a folder or `s3://…`; by default `blobs` in the data folder.
    pub blobs: Option<String>,
    /// Maintenance and quota of recordings.
    pub recordings: Recordings,
    /// Work on text: the `[text]` table, which the commands use, too.
    #[serde(skip)]
    pub text: TextSettings,
    /// Speech synthesis: the `[voice]` table, which the commands use, too.
    #[serde(skip)]
    pub voice: VoiceSettings,
    /// The web app; the one of this build unless a test has another.
    #[serde(skip)]
    pub site: hark_web::Site,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8600),
            metrics_listen: None,
            web: true,
            trusted_proxies: Vec::new(),
            cors_origins: vec!["*".to_owned()],
            workers: 8,
            probes: 8,
            max_queue: 1000,
            loaded_models: 3,
            memory_budget: None,
            idle_unload: Seconds(1800.0),
            transcribe_timeout: Seconds(600.0),
            idle_timeout: Seconds(60.0),
            header_timeout: Seconds(15.0),
            drain_timeout: Seconds(30.0),
            lease: Seconds(30.0),
            jobs: JobSettings::default(),
            paid_models: PaidModels::Serve,
            anonymous: Anonymous::default(),
            user_rate_limit: 600,
            public_url: None,
            sign_up: None,
            sign_up_credits: None,
            sign_ups_per_day: None,
            mail: None,
            min_free_disk_mb: 256,
            integrity: Integrity::default(),
            audit_days: 400,
            audit_address_days: 90,
            limits: Limits::default(),
            stream: StreamLimits::default(),
            webhooks: Webhooks::default(),
            enhance: EnhanceSettings::default(),
            keep_audio: true,
            master_key_file: None,
            watermark_key_file: None,
            database: None,
            blobs: None,
            recordings: Recordings::default(),
            text: TextSettings::default(),
            voice: VoiceSettings::default(),
            site: hark_web::APP,
        }
    }
}

impl Config {
    /// Validates the settings; the error is for the operator.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=1024).contains(&self.workers) {
            return Err("`workers` must be a number from 1 to 1024".to_owned());
        }
        if !(1..=1024).contains(&self.probes) {
            return Err("`probes` must be a number from 1 to 1024".to_owned());
        }
        if self.loaded_models == 0 {
            return Err("`loaded_models` must be at least 1".to_owned());
        }
        if self.user_rate_limit == 0 {
            return Err("`user_rate_limit` must be at least 1".to_owned());
        }
        if let Some(wrong) = self.cors_origins.iter().find(|origin| !is_origin(origin)) {
            return Err(format!(
                "`cors_origins` holds {wrong:?}: write an origin as https://app.example.com, or \"*\""
            ));
        }
        if self.public_url.as_ref().is_some_and(|url| !url.starts_with("https://") && !url.starts_with("http://")) {
            return Err("`public_url` must begin with https:// (or http://)".to_owned());
        }
        self.recordings.check()?;
        self.jobs.check()?;
        self.limits.check()?;
        self.enhance.check()?;
        self.text.check()?;
        if let Some(mail) = &self.mail {
            mail.check()?;
            if self.public_url.is_none() {
                return Err("`mail` needs `public_url`: mails hold a link to this server".to_owned());
            }
        }
        Ok(())
    }
}

impl Config {
    /// Whether the service is reachable from this machine alone: it listens on loopback, behind no proxy.
    pub(crate) fn is_local(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback() && self.trusted_proxies.is_empty() && self.public_url.is_none()
    }

    /// The web app, if it is served and this build has it.
    pub(crate) fn web_app(&self) -> Option<hark_web::Site> {
        Some(self.site).filter(|site| self.web && site.page().is_some())
    }

    /// Whether sign-up is open. If the server is reachable from other machines, it requires a confirmed email address.
    pub(crate) fn allows_sign_up(&self) -> bool {
        self.sign_up.unwrap_or(self.is_local() || self.mail.is_some())
    }

    /// Credits of a new account after sign-up, granted when its email address is confirmed.
    pub(crate) fn initial_credits(&self) -> i64 {
        match self.sign_up_credits {
            Some(credits) => i64::from(credits),
            None if self.is_local() || self.mail.is_some() => hark_store::Plan::Free.initial_credits(),
            None => 0,
        }
    }

    /// Maximum sign-ups per address and day.
    pub(crate) fn sign_ups_a_day(&self) -> u32 {
        self.sign_ups_per_day.unwrap_or(if self.is_local() { 100 } else { 5 })
    }
}

/// A duration, written as a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds(pub f64);

impl Seconds {
    /// As a [`Duration`].
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        // At most a year: more is a typing error.
        if !(0.001..=31_536_000.0).contains(&seconds) {
            return Err(de::Error::custom("a time must be a number of seconds above 0"));
        }
        Ok(Seconds(seconds))
    }
}

/// Reads a time where 0 has a meaning of its own.
fn seconds_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err(de::Error::custom("a time must be a number of seconds, or 0"));
    }
    Ok(Seconds(seconds))
}

/// A secret of the configuration; its `Debug` output is redacted.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Maintenance and quota of recordings: the `[server.recordings]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recordings {
    /// Seconds between two sweeps over all recordings, by any process.
    pub sweep_interval: Seconds,
    /// Days that a file without a database row stays in quarantine.
    pub quarantine_days: u32,
    /// Storage quota of an account by plan.
    pub quota: StorageQuota,
}

impl Default for Recordings {
    fn default() -> Self {
        Recordings { sweep_interval: Seconds(3600.0), quarantine_days: 14, quota: StorageQuota::default() }
    }
}

impl Recordings {
    fn check(&self) -> Result<(), String> {
        match self.quarantine_days {
            1..=3650 => Ok(()),
            _ => Err("`recordings.quarantine_days` must be a number from 1 to 3650".to_owned()),
        }
    }
}

/// Maximum bytes of recordings that an account may store, by plan; 0 is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageQuota {
    /// Of a free account.
    pub free: u64,
    /// Of a pro account.
    pub pro: u64,
    /// Of a business account.
    pub business: u64,
    /// Of an enterprise account.
    pub enterprise: u64,
}

impl Default for StorageQuota {
    fn default() -> Self {
        StorageQuota { free: 5_000_000_000, pro: 100_000_000_000, business: 500_000_000_000, enterprise: 0 }
    }
}

impl StorageQuota {
    /// The quota of an account of this plan; `None` is unlimited. Anonymous recordings are not kept.
    pub(crate) fn of(&self, plan: hark_store::Plan) -> Option<u64> {
        use hark_store::Plan;
        let bytes = match plan {
            Plan::Anonymous => 0,
            Plan::Free => self.free,
            Plan::Pro => self.pro,
            Plan::Business => self.business,
            Plan::Enterprise => self.enterprise,
        };
        (bytes > 0).then_some(bytes)
    }
}

/// How a request for a paid model is served without an active paid plan (decisions: paid models).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaidModels {
    /// By `large-v3-turbo`.
    Serve,
    /// Refused with 402.
    Require,
}

/// Limits of anonymous use.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Anonymous {
    /// Whether anonymous use is allowed.
    pub enabled: bool,
    /// The limit per day and address.
    pub limit: DailyLimit,
}

impl Default for Anonymous {
    fn default() -> Self {
        Anonymous { enabled: true, limit: DailyLimit { amount: 3, unit: LimitUnit::Transcriptions } }
    }
}

/// A daily limit of anonymous use per address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyLimit {
    /// The amount.
    pub amount: u64,
    /// Its unit.
    pub unit: LimitUnit,
}

/// The unit of a [`DailyLimit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitUnit {
    /// Accepted transcription requests.
    Transcriptions,
    /// Minutes of audio, rounded up.
    Minutes,
}

impl From<DailyLimit> for hark_store::AnonymousLimit {
    fn from(limit: DailyLimit) -> Self {
        let amount = i64::try_from(limit.amount).unwrap_or(i64::MAX);
        match limit.unit {
            LimitUnit::Transcriptions => hark_store::AnonymousLimit::Transcriptions(amount),
            LimitUnit::Minutes => hark_store::AnonymousLimit::Minutes(amount),
        }
    }
}

impl FromStr for DailyLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const HELP: &str = "write a limit as \"3 transcriptions\" or \"10 minutes\"";
        let (amount, unit) = text.trim().split_once(' ').ok_or(HELP)?;
        let unit = match unit.trim() {
            "transcriptions" | "transcription" => LimitUnit::Transcriptions,
            "minutes" | "minute" => LimitUnit::Minutes,
            _ => return Err(HELP),
        };
        Ok(DailyLimit { amount: amount.parse().map_err(|_| HELP)?, unit })
    }
}

impl<'de> Deserialize<'de> for DailyLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daily_limit_is_read_in_both_units_and_nothing_else() {
        let minutes: DailyLimit = "10 minutes".parse().unwrap();
        assert_eq!(minutes, DailyLimit { amount: 10, unit: LimitUnit::Minutes });
        assert_eq!("3 transcriptions".parse::<DailyLimit>().unwrap(), Anonymous::default().limit);
        for wrong in ["", "3", "minutes", "-1 minutes", "3 hours"] {
            assert!(wrong.parse::<DailyLimit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_file_is_read_with_defaults_and_a_misspelt_key_is_an_error() {
        let read = |text: &str| serde_json::from_str::<Config>(text);
        let config = read(r#"{"workers": 3, "paid_models": "require", "anonymous": {"limit": "10 minutes"}}"#).unwrap();
        assert_eq!((config.workers, config.paid_models), (3, PaidModels::Require));
        assert_eq!(config.anonymous.limit.unit, LimitUnit::Minutes);
        assert_eq!(config.max_queue, Config::default().max_queue);
        assert!(read(r#"{"wrokers": 3}"#).is_err());
        assert!(read(r#"{"idle_timeout": 0}"#).is_err());
        assert_eq!(read(r#"{"idle_unload": 0}"#).unwrap().idle_unload, Seconds(0.0));
        assert!(read(r#"{"idle_unload": -1}"#).is_err());
        assert!(Config { workers: 0, ..Config::default() }.check().is_err());
        let origins = vec!["app.example.com".to_owned()];
        assert!(Config { cors_origins: origins, ..Config::default() }.check().is_err());
    }
}
