//! Signing in: passwords, tries, cookies, and what keeps other sites from using them.

pub(crate) mod cookie;
pub(crate) mod guard;
mod password;
mod tries;

pub use password::{PasswordError, hash_password};
pub(crate) use password::{Passwords, Verdict, check_password};
pub(crate) use tries::{Allowance, Tries};

/// What the handlers share.
#[derive(Default)]
pub(crate) struct Sign {
    pub(crate) passwords: Passwords,
    pub(crate) tries: Tries,
}
