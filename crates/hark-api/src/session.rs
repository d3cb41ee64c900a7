//! Signing up, in and out.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Account, DateTime};

/// A password on its way in; no log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password, min_length = 8, max_length = 256)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The body of `POST /v1/auth/signup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignUp {
    /// The address; one account each.
    #[schema(max_length = 254, format = Email)]
    pub email: String,
    /// The password: 8 to 256 characters.
    pub password: Password,
    /// The language of mails and pages; `en` when not given.
    #[schema(max_length = 35, pattern = "^[A-Za-z0-9-]*$")]
    pub lang: Option<String>,
}

/// The body of `POST /v1/auth/signin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignIn {
    /// The address.
    #[schema(max_length = 254)]
    pub email: String,
    /// The password.
    pub password: Password,
    /// Whether to answer with a user API token instead of a session cookie; false when not given.
    #[serde(default)]
    pub token: bool,
}

/// Somebody who has just signed in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignedIn {
    /// The account.
    pub account: Account,
    /// What unsafe requests with the session cookie send as `X-CSRF-Token`; not there with a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// The user API token, where one was asked for; it is shown nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// An account that waits for its address to be confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AwaitsConfirmation {
    /// Always true: a mail is on its way.
    pub confirmation_sent: bool,
}

/// `GET /v1/auth/session`: who the session cookie stands for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Whether there is a session.
    pub signed_in: bool,
    /// Whether this server lets new accounts be made.
    pub sign_up: bool,
    /// The account of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// What unsafe requests with the session cookie send as `X-CSRF-Token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
}

/// The body of `POST /v1/auth/password`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasswordChange {
    /// The password so far.
    pub current_password: Password,
    /// The new one: 8 to 256 characters.
    pub new_password: Password,
}

/// The body of `POST /v1/auth/reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResetRequest {
    /// The address of the account.
    #[schema(max_length = 254)]
    pub email: String,
}

/// What `POST /v1/auth/reset` did, whether the address has an account or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResetSent {
    /// Always true: where the address has an account, a mail is on its way.
    pub reset_sent: bool,
}

/// A token of a mail on its way in; no log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, max_length = 100)]
pub struct ResetToken(pub String);

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The body of `POST /v1/auth/reset/confirm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasswordReset {
    /// What the mail's link holds behind its `#`.
    pub token: ResetToken,
    /// The new password: 8 to 256 characters.
    pub new_password: Password,
}

/// What a sign-in opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// A browser's session.
    Session,
    /// A user API token.
    Token,
}

/// Somewhere that the account is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Its number.
    pub id: i64,
    /// What it is.
    pub kind: SessionKind,
    /// What the client called itself when it signed in.
    pub user_agent: String,
    /// When it began.
    pub created_at: DateTime,
    /// When it was last used, to the minute.
    pub last_used: Option<DateTime>,
    /// When it ends by itself.
    pub expires_at: Option<DateTime>,
    /// Whether it is the one that asks.
    pub is_current: bool,
}

/// Everywhere that the account is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// Newest first.
    pub sessions: Vec<SessionInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_hidden_wherever_its_request_is_shown() {
        let sign_in: SignIn = serde_json::from_str(r#"{"email": "a@b.c", "password": "correct horse"}"#).unwrap();
        assert_eq!(sign_in.password.0, "correct horse");
        assert!(!sign_in.token);
        assert!(!format!("{sign_in:?}").contains("correct"));
    }
}
