//! Plans of accounts and their limits (from the contract).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plan {
    /// Use without an account.
    Anonymous,
    /// Registered.
    Free,
    /// Paid.
    Pro,
    /// Paid, for teams.
    Business,
    /// Paid, for companies.
    Enterprise,
}

impl Plan {
    /// Every plan, from the lowest to the highest.
    pub const ALL: [Plan; 5] = [Plan::Anonymous, Plan::Free, Plan::Pro, Plan::Business, Plan::Enterprise];

    /// The plan's name on the wire and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Plan::Anonymous => "anonymous",
            Plan::Free => "free",
            Plan::Pro => "pro",
            Plan::Business => "business",
            Plan::Enterprise => "enterprise",
        }
    }

    /// Whether it costs money.
    pub fn is_paid(self) -> bool {
        self >= Plan::Pro
    }

    /// Initial credits of a new account of this plan.
    pub fn initial_credits(self) -> i64 {
        if self == Plan::Free { 600 } else { 0 }
    }

    /// The largest upload in bytes.
    pub fn max_upload(self) -> u64 {
        match self {
            Plan::Anonymous => 100_000_000,
            Plan::Free => 500_000_000,
            _ => 2_000_000_000,
        }
    }

    /// Transcriptions that may be queued or running at once.
    pub fn concurrency(self) -> i64 {
        match self {
            Plan::Anonymous => 1,
            Plan::Free => 2,
            _ => 5,
        }
    }

    /// Chat questions per day; `None` is unlimited.
    pub fn daily_questions(self) -> Option<i64> {
        match self {
            Plan::Anonymous => Some(0),
            Plan::Free => Some(3),
            Plan::Pro => Some(50),
            Plan::Business | Plan::Enterprise => None,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Plan {
    type Err = Error;

    fn from_str(name: &str) -> Result<Plan, Error> {
        Plan::ALL
            .into_iter()
            .find(|plan| plan.name() == name)
            .ok_or_else(|| Error::Damaged(format!("no plan is called {name:?}")))
    }
}
