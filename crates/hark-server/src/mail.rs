//! Sends emails, such as confirmations of an address. Only if a mail server is configured.

use std::sync::Arc;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::{Message, SmtpTransport, Transport as _};
use tokio::sync::Semaphore;

use crate::config::{MailConfig, sender, transport};

/// Sends mails in the background, a few at once.
#[derive(Clone)]
pub(crate) struct Mailer {
    transport: SmtpTransport,
    from: Mailbox,
    places: Arc<Semaphore>,
}

/// Concurrent deliveries.
const AT_ONCE: usize = 4;

impl Mailer {
    /// A mailer; the configuration was validated before.
    pub(crate) fn new(config: &MailConfig) -> Result<Self, String> {
        Ok(Mailer { transport: transport(config)?, from: sender(config)?, places: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Sends a text in the background; errors are only logged, since the response must not reveal who has an account.
    pub(crate) fn send(&self, to: &str, subject: &str, text: String) {
        let Ok(to) = to.parse::<lettre::Address>() else {
            tracing::error!("mail.address_invalid");
            return;
        };
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(subject)
            .header(ContentType::TEXT_PLAIN)
            .body(text);
        let message = match message {
            Ok(message) => message,
            Err(error) => return tracing::error!(%error, "mail.compose_failed"),
        };
        let (transport, places) = (self.transport.clone(), Arc::clone(&self.places));
        tokio::spawn(async move {
            let Ok(place) = places.acquire_owned().await else { return };
            let sent = tokio::task::spawn_blocking(move || {
                let _place = place;
                transport.send(&message)
            });
            match sent.await {
                Ok(Ok(_)) => tracing::info!("mail.sent"),
                // A reply of the mail server may quote the address, which may be logged.
                Ok(Err(error)) => tracing::error!(%error, "mail.failed"),
                Err(error) => tracing::error!(%error, "mail.failed"),
            }
        });
    }
}
