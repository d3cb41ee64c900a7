//! The `[server.mail]` table: the SMTP connection and the sender of mails.

use std::time::Duration;

use lettre::SmtpTransport;
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use serde::Deserialize;

use super::Hidden;

/// Timeout of the SMTP connection.
const TIMEOUT: Duration = Duration::from_secs(20);

/// SMTP settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailConfig {
    /// The mail server.
    pub host: String,
    /// Its port; by default 587 with STARTTLS, 465 with TLS, 25 without.
    pub port: Option<u16>,
    /// Encryption of the connection.
    #[serde(default)]
    pub security: MailSecurity,
    /// The user name; no authentication if not set.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Hidden>,
    /// The sender, such as `Hark <hark@example.com>`.
    pub from: String,
}

/// Encryption of a connection to a mail server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailSecurity {
    /// STARTTLS, which is required: the connection is closed if the server does not support it.
    #[default]
    Starttls,
    /// Implicit TLS.
    Tls,
    /// No encryption: for a mail server on this machine.
    None,
}

impl MailConfig {
    /// Validates the settings; the error is for the operator.
    pub(crate) fn check(&self) -> Result<(), String> {
        transport(self).and(sender(self)).map(drop)
    }
}

/// The sender of mails.
pub(crate) fn sender(config: &MailConfig) -> Result<Mailbox, String> {
    config.from.parse().map_err(|error| format!("`mail.from` is not an address: {error}"))
}

/// The connection to the mail server.
pub(crate) fn transport(config: &MailConfig) -> Result<SmtpTransport, String> {
    let parameters = || {
        let tls = TlsParameters::builder(config.host.clone()).build_rustls();
        tls.map_err(|error| format!("`mail.host` can't be reached with TLS: {error}"))
    };
    let (tls, port) = match config.security {
        MailSecurity::Starttls => (Tls::Required(parameters()?), 587),
        MailSecurity::Tls => (Tls::Wrapper(parameters()?), 465),
        MailSecurity::None => (Tls::None, 25),
    };
    let mut builder = SmtpTransport::builder_dangerous(&config.host)
        .port(config.port.unwrap_or(port))
        .tls(tls)
        .timeout(Some(TIMEOUT));
    match (&config.user, &config.password) {
        (Some(_), Some(_)) if config.security == MailSecurity::None && !is_loopback(&config.host) => {
            return Err("`mail.password` would travel unprotected: set `mail.security` to starttls or tls".to_owned());
        }
        (Some(user), Some(password)) => {
            builder = builder.credentials(Credentials::new(user.clone(), password.0.clone()));
        }
        (None, None) => {}
        _ => return Err("`mail.user` and `mail.password` belong together: give both or neither".to_owned()),
    }
    Ok(builder.build())
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(security: MailSecurity) -> MailConfig {
        MailConfig {
            host: "mail.example.com".into(),
            port: None,
            security,
            user: None,
            password: None,
            from: "Hark <hark@example.com>".into(),
        }
    }

    #[test]
    fn settings_that_would_send_nothing_or_a_password_in_the_open_are_refused() {
        assert!(config(MailSecurity::Starttls).check().is_ok());
        assert!(config(MailSecurity::Tls).check().is_ok());
        assert!(MailConfig { from: "nobody".into(), ..config(MailSecurity::None) }.check().is_err());
        let user = Some("hark".to_owned());
        let password = Some(Hidden("secret".into()));
        assert!(MailConfig { user: user.clone(), ..config(MailSecurity::Tls) }.check().is_err());
        let both = MailConfig { user, password, ..config(MailSecurity::None) };
        assert!(both.check().unwrap_err().contains("unprotected"));
        assert!(MailConfig { host: "127.0.0.1".into(), ..both.clone() }.check().is_ok());
        assert!(!format!("{both:?}").contains("secret"));
    }
}
