//! Passwords: validation, hashing, and verification that does not reveal which addresses have an account.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use hark_api::{ApiError, ErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

use crate::error::Failure;

/// Argon2id parameters of OWASP's password storage cheat sheet: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Passwords hashed at once: four take 76 MiB.
const AT_ONCE: usize = 4;
/// Requests that may wait for a hashing slot; more are rejected with `Retry-After`.
const WAITING: usize = 64;

const MIN_LENGTH: usize = 8;
const MAX_LENGTH: usize = 256;

/// A hash that no password has, of the same cost as a real one: verified if there is no account.
const DECOY: &str = "$argon2id$v=19$m=19456,t=2,p=1$aGFyayBoYXMgbm8gc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Why a password is rejected.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too short or too long.
    #[error("a password has {MIN_LENGTH} to {MAX_LENGTH} characters")]
    Length,
    /// The address or a part of it.
    #[error("the password is the email address: choose another")]
    IsEmail,
    /// A single repeated character.
    #[error("the password is one character again and again: choose another")]
    Monotonous,
    /// The hash failed.
    #[error("the password can't be hashed: {0}")]
    Hash(String),
}

/// Hashes a new password of the account with this address, for the store.
pub fn hash_password(email: &str, password: &str) -> Result<String, PasswordError> {
    check_password(email, password)?;
    hash(password)
}

/// Validates a password.
pub(crate) fn check_password(email: &str, password: &str) -> Result<(), PasswordError> {
    if !(MIN_LENGTH..=MAX_LENGTH).contains(&password.chars().count()) {
        return Err(PasswordError::Length);
    }
    let lower = password.to_lowercase();
    let email = email.trim().to_lowercase();
    if lower == email || email.split('@').next() == Some(&*lower) {
        return Err(PasswordError::IsEmail);
    }
    let mut characters = password.chars();
    let first = characters.next();
    if characters.all(|character| Some(character) == first) {
        return Err(PasswordError::Monotonous);
    }
    Ok(())
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("the parameters are in range");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hash(password: &str) -> Result<String, PasswordError> {
    let hashed = argon2().hash_password(password.as_bytes()).map_err(|error| PasswordError::Hash(error.to_string()))?;
    Ok(hashed.to_string())
}

/// Whether the parameters of the hash differ from the current ones.
fn is_dated(hash: &PasswordHash) -> bool {
    let ours = argon2();
    hash.algorithm != argon2::ARGON2ID_IDENT
        || Params::try_from(hash).map_or(true, |params| {
            (params.m_cost(), params.t_cost(), params.p_cost()) != (MEMORY_KIB, PASSES, ours.params().p_cost())
        })
}

/// The result of verifying a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Wrong,
    Right {
        /// The new hash to store, if the old one has outdated parameters.
        renewed: Option<String>,
    },
}

/// Hashes passwords, a few at a time: each needs memory and a core for a while.
pub(crate) struct Passwords {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Passwords {
    fn default() -> Self {
        Passwords { places: Arc::new(Semaphore::new(AT_ONCE)), waiting: AtomicUsize::new(0) }
    }
}

impl Passwords {
    /// Hashes a validated password.
    pub(crate) async fn hash(&self, password: String) -> Result<String, Failure> {
        let password = Zeroizing::new(password);
        self.run(move || hash(&password)).await?.map_err(|error| {
            tracing::error!(%error, "password.hash_failed");
            ErrorKind::Internal.into()
        })
    }

    /// Verifies a password against the stored hash; without one it takes as long and fails.
    pub(crate) async fn verify(&self, stored: Option<String>, password: String) -> Result<Verdict, Failure> {
        let password = Zeroizing::new(password);
        self.run(move || verify(stored.as_deref(), &password)).await
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
        let place = self.place().await?;
        // The slot is held until the work ends: a client that disconnects does not free it.
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|error| {
            tracing::error!(%error, "password.hash_failed");
            ErrorKind::Internal.into()
        })
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        if before >= WAITING {
            return Err(ApiError::from(ErrorKind::QueueFull).retry_after(5).into());
        }
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| ErrorKind::ShuttingDown.into())
    }
}

fn verify(stored: Option<&str>, password: &str) -> Verdict {
    let has_password = stored.is_some();
    let Ok(parsed) = PasswordHash::new(stored.unwrap_or(DECOY)) else {
        tracing::error!("password.hash_unreadable");
        return Verdict::Wrong;
    };
    let right = argon2().verify_password(password.as_bytes(), &parsed).is_ok();
    if !right || !has_password {
        return Verdict::Wrong;
    }
    Verdict::Right { renewed: if is_dated(&parsed) { hash(password).ok() } else { None } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_everybody_would_try_first_are_refused() {
        let taken = |password: &str| check_password("ann.lee@example.com", password).is_ok();
        assert!(taken("correct horse"));
        assert!(taken("пароль-пароль"));
        for wrong in ["", "short", "ANN.LEE@example.com", "aaaaaaaaaaaa", &"x".repeat(257), "ann.lee"] {
            assert!(!taken(wrong), "{wrong}");
        }
        assert!(check_password("annabella@example.com", "Annabella").is_err());
    }

    #[test]
    fn a_hash_has_the_cost_that_owasp_asks_for_and_each_its_own_salt() {
        let (one, two) = (hash("correct horse").unwrap(), hash("correct horse").unwrap());
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_ne!(one, two);
        assert_eq!(verify(Some(&one), "correct horse"), Verdict::Right { renewed: None });
        assert_eq!(verify(Some(&one), "correct horsf"), Verdict::Wrong);
        assert!(!one.contains("correct"));
    }

    #[test]
    fn a_cheaper_hash_is_renewed_when_its_password_is_known() {
        let cheap = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8192, 1, 1, None).unwrap());
        let old = cheap.hash_password(b"correct horse").unwrap().to_string();
        let Verdict::Right { renewed: Some(renewed) } = verify(Some(&old), "correct horse") else {
            panic!("it was not renewed")
        };
        assert_eq!(verify(Some(&renewed), "correct horse"), Verdict::Right { renewed: None });
    }

    #[test]
    fn without_an_account_a_check_costs_the_same_and_fails() {
        let decoy = PasswordHash::new(DECOY).unwrap();
        assert!(!is_dated(&decoy), "the decoy must cost what a real hash does");
        assert_eq!(verify(None, "correct horse"), Verdict::Wrong);
        assert_eq!(verify(Some("nonsense"), "correct horse"), Verdict::Wrong);
        // Time that this thread computed: what else the machine does is not counted.
        let computed = || -> f64 {
            let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            stat.split(' ').next().unwrap().parse().unwrap()
        };
        let timed = |stored: Option<&str>| {
            let times = (0..5).map(|_| {
                let begun = computed();
                verify(stored, "correct horsf");
                computed() - begun
            });
            times.fold(f64::INFINITY, f64::min)
        };
        let real = hash("correct horse").unwrap();
        let fresh = PasswordHash::new(&real).unwrap();
        assert_eq!((decoy.algorithm, decoy.version, &decoy.params), (fresh.algorithm, fresh.version, &fresh.params));
        // A check that hashes nothing would be thousands of times as fast; how fast memory is at the moment must not matter.
        let (with, without) = (timed(Some(&real)), timed(None));
        assert!(without > with / 20.0, "{with} ns with an account, {without} ns without");
    }
}
