//! Typed ids, so that one kind can't be used for another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for crate::db::Value<'_> {
            fn from(id: $name) -> Self {
                crate::db::Value::Int(Some(id.0))
            }
        }

        impl From<Option<$name>> for crate::db::Value<'_> {
            fn from(id: Option<$name>) -> Self {
                crate::db::Value::Int(id.map(|id| id.0))
            }
        }
    )+};
}

id! {
    /// An account.
    AccountId,
    /// A key, token or session.
    KeyId,
    /// A transcript; drawn at random, because a status can be asked for without a credential.
    TranscriptId,
    /// An enhancement; drawn at random, as a transcript's.
    EnhancementId,
    /// An upload in parts; drawn at random, as a transcript's.
    UploadId,
    /// A job.
    JobId,
    /// A webhook to deliver.
    WebhookId,
    /// A private cloud instance.
    InstanceId,
    /// A voice that an account knows.
    VoiceprintId,
    /// A passage of a transcript in the search index; it changes when the transcript is indexed again.
    PassageId,
}

/// The owner of a job: limits and turns in the queue are per owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A signed-in account.
    Account(AccountId),
    /// Anonymous use, by the server's hash of the address.
    Anonymous(String),
}

impl Owner {
    /// The owner as stored.
    pub(crate) fn name(&self) -> String {
        match self {
            Owner::Account(id) => format!("account:{id}"),
            Owner::Anonymous(address) => format!("address:{address}"),
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Owner> {
        match name.split_once(':')? {
            ("account", id) => id.parse().ok().map(|id| Owner::Account(AccountId(id))),
            ("address", address) => Some(Owner::Anonymous(address.to_owned())),
            _ => None,
        }
    }
}
