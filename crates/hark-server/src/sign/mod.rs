//! Sign-in: passwords, rate limits of tries, cookies, and CSRF protection.

pub(crate) mod cookie;
pub(crate) mod device;
pub(crate) mod guard;
mod guesses;
mod password;
mod tries;

pub(crate) use guesses::GuessLimit;
pub use password::{PasswordError, hash_password};
pub(crate) use password::{Passwords, Verdict, check_password};
pub(crate) use tries::{Allowance, Tries};

use guesses::Guesses;

/// What the handlers share.
#[derive(Default)]
pub(crate) struct Sign {
    pub(crate) passwords: Passwords,
    pub(crate) guesses: Guesses,
    pub(crate) tries: Tries,
}
