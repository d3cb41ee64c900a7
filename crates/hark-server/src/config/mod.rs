//! What an operator may set, with the defaults of a single machine.

mod integrity;
mod jobs;
mod limits;
mod mail;
mod origin;
mod stream;
mod text;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

pub use integrity::Integrity;
pub use jobs::JobSettings;
pub use limits::Limits;
pub use mail::{MailConfig, MailSecurity};
pub(crate) use mail::{sender, transport};
use origin::is_origin;
pub use stream::StreamLimits;
pub use text::TextSettings;
pub use webhooks::Webhooks;

/// Settings of the service: the `[server]` table of `hark.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where requests are taken.
    pub listen: SocketAddr,
    /// Where `/metrics` is served; nowhere when not given.
    pub metrics_listen: Option<SocketAddr>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Origins that browsers may call from; `*` is every one.
    pub cors_origins: Vec<String>,
    /// Recordings worked on at once; their windows share one engine.
    pub workers: usize,
    /// Uploads whose length is looked up at once; others wait for a moment, then are refused.
    pub probes: usize,
    /// Transcriptions that may wait before new ones are refused.
    pub max_queue: u64,
    /// Speech models kept in memory; more only while more are in use.
    pub loaded_models: usize,
    /// Memory that all models may take together, such as `"6 GB"`; half of the machine's when not given.
    pub memory_budget: Option<crate::engine::Bytes>,
    /// Seconds a transcription request waits for its result.
    pub transcribe_timeout: Seconds,
    /// Seconds without a byte of a body or of an answer read after which a connection is given up.
    pub idle_timeout: Seconds,
    /// Seconds a client has to send the head of a request.
    pub header_timeout: Seconds,
    /// Seconds that work may go on after the signal to stop.
    pub drain_timeout: Seconds,
    /// Seconds after which a worker that says nothing counts as dead.
    pub lease: Seconds,
    /// How jobs are retried.
    pub jobs: JobSettings,
    /// What a paid model does without a paid plan.
    pub paid_models: PaidModels,
    /// What callers without an account get.
    pub anonymous: Anonymous,
    /// Requests a minute of a user token.
    pub user_rate_limit: u32,
    /// Where people reach this server, such as `https://hark.example.com`: for links in mails, and so that cookies travel
    /// protected.
    pub public_url: Option<String>,
    /// Whether people may make accounts by themselves; when not given, where only this machine reaches the server or where mail
    /// is configured.
    pub sign_up: Option<bool>,
    /// Credits of an account that somebody made by themselves; when not given, those of the plan, or none where others reach the
    /// server and no mail is configured.
    pub sign_up_credits: Option<u32>,
    /// Accounts that may be made from one address a day; when not given, 5, or 100 where only this machine reaches the server.
    pub sign_ups_per_day: Option<u32>,
    /// How mails are sent; without it addresses count as confirmed.
    pub mail: Option<MailConfig>,
    /// Free space in MB that the data folder and the temporary folder need for the server to be ready.
    pub min_free_disk_mb: u64,
    /// Checks of what is kept.
    pub integrity: Integrity,
    /// Days that entries of the audit log are kept.
    pub audit_days: u32,
    /// Days that the addresses in the audit log are kept.
    pub audit_address_days: u32,
    /// What strangers may hold of the server at once.
    pub limits: Limits,
    /// What live sessions may do.
    pub stream: StreamLimits,
    /// Calls to other servers when a transcript is done.
    pub webhooks: Webhooks,
    /// Whether the recordings of accounts stay after they were transcribed, until their transcript is deleted.
    pub keep_audio: bool,
    /// Where the master key that seals text and audio is read from.
    pub master_key_file: Option<std::path::PathBuf>,
    /// The database, `sqlite:…` or `postgres://…`; `hark.db` in the data folder when not given.
    pub database: Option<String>,
    /// Where recordings are kept, a folder or `s3://…`; `blobs` in the data folder when not given.
    pub blobs: Option<String>,
    /// How recordings are looked after.
    pub recordings: Recordings,
    /// Work on text: the `[text]` table, which the commands use, too.
    #[serde(skip)]
    pub text: TextSettings,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8600),
            metrics_listen: None,
            trusted_proxies: Vec::new(),
            cors_origins: vec!["*".to_owned()],
            workers: 8,
            probes: 8,
            max_queue: 1000,
            loaded_models: 2,
            memory_budget: None,
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
            keep_audio: true,
            master_key_file: None,
            database: None,
            blobs: None,
            recordings: Recordings::default(),
            text: TextSettings::default(),
        }
    }
}

impl Config {
    /// What makes no sense, in words for the operator.
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
    /// Whether only this machine reaches the service: it listens on loopback, behind no proxy.
    pub(crate) fn is_local(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback() && self.trusted_proxies.is_empty() && self.public_url.is_none()
    }

    /// Whether people may make accounts by themselves. Where strangers reach the server, only with an address that is confirmed.
    pub(crate) fn allows_sign_up(&self) -> bool {
        self.sign_up.unwrap_or(self.is_local() || self.mail.is_some())
    }

    /// Credits of an account that somebody made by themselves, given once its address is confirmed.
    pub(crate) fn initial_credits(&self) -> i64 {
        match self.sign_up_credits {
            Some(credits) => i64::from(credits),
            None if self.is_local() || self.mail.is_some() => hark_store::Plan::Free.initial_credits(),
            None => 0,
        }
    }

    /// Accounts that may be made from one address a day.
    pub(crate) fn sign_ups_a_day(&self) -> u32 {
        self.sign_ups_per_day.unwrap_or(if self.is_local() { 100 } else { 5 })
    }
}

/// A length of time, written as a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds(pub f64);

impl Seconds {
    /// The same as a [`Duration`].
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        // A year: longer than that is a mistake.
        if !(0.001..=31_536_000.0).contains(&seconds) {
            return Err(de::Error::custom("a time must be a number of seconds above 0"));
        }
        Ok(Seconds(seconds))
    }
}

/// A secret of the configuration, which no log shows.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// How recordings are looked after: the `[server.recordings]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recordings {
    /// Seconds between two sweeps over all recordings, whichever process does them.
    pub sweep_interval: Seconds,
    /// Days that a file is kept that the database does not know.
    pub quarantine_days: u32,
    /// Bytes of recordings that an account of each plan may keep; 0 is as many as it likes.
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

/// Bytes of recordings that an account may keep, by plan; 0 is as many as it likes.
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
    /// What an account of this plan may keep; none for as much as it likes. Anonymous recordings don't stay.
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

/// What happens when a paid model is asked for without an active paid plan (decisions: paid models).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaidModels {
    /// `large-v3-turbo` serves it.
    Serve,
    /// 402.
    Require,
}

/// What callers without an account get.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Anonymous {
    /// Whether they get anything.
    pub enabled: bool,
    /// How much a day and address.
    pub limit: DailyLimit,
}

impl Default for Anonymous {
    fn default() -> Self {
        Anonymous { enabled: true, limit: DailyLimit { amount: 3, unit: LimitUnit::Transcriptions } }
    }
}

/// How much an address without an account gets in a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyLimit {
    /// So many.
    pub amount: u64,
    /// Of these.
    pub unit: LimitUnit,
}

/// What anonymous use is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitUnit {
    /// Requests that were accepted.
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
        assert!(Config { workers: 0, ..Config::default() }.check().is_err());
        let origins = vec!["app.example.com".to_owned()];
        assert!(Config { cors_origins: origins, ..Config::default() }.check().is_err());
    }
}
