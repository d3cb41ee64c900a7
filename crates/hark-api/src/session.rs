//! Signing up, in and out.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Account;

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
