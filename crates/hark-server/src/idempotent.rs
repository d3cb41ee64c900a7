//! Idempotent requests: `Idempotency-Key`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hark_api::ErrorKind;
use hark_store::{IdempotencyKey, StoredAnswer};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Failure;
use crate::sign::cookie;

/// How long a repeat is recognized.
pub(crate) const REMEMBER: Duration = Duration::from_secs(24 * 3600);
const MAX_KEY_LENGTH: usize = 255;
const NONCE: usize = 24;

/// The idempotency key of a request, if it has one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let wrong = || {
        Failure::invalid(format!("Idempotency-Key must be 1 to {MAX_KEY_LENGTH} visible ASCII characters, sent once"))
    };
    let key = value.to_str().map_err(|_| wrong())?.trim();
    let is_visible = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if values.next().is_some() || !is_visible || !(1..=MAX_KEY_LENGTH).contains(&key.len()) {
        return Err(wrong());
    }
    Ok(Some(key.to_owned()))
}

/// The fingerprint of a request: a hash that its repeats share, also across versions of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    hash: Vec<u8>,
    /// The same in the encodings of earlier versions.
    older: Vec<Vec<u8>>,
}

impl Fingerprint {
    /// Also recognizes a repeat of a request that an earlier version hashed like this.
    pub(crate) fn or(mut self, older: Vec<u8>) -> Self {
        self.older.push(older);
        self
    }

    /// The idempotency key with this fingerprint, for the store.
    pub(crate) fn named(self, key: String) -> IdempotencyKey {
        IdempotencyKey { key, fingerprint: self.hash, older: self.older, keep: REMEMBER }
    }
}

/// A request in its canonical form: the operation and the fields that differ from their defaults, by name.
///
/// Fields at their default are left out, so a field that a later version adds changes nothing for requests without it.
/// The first line names the encoding; a change of it needs a new number, and the old one as [`Fingerprint::or`] for a day.
pub(crate) struct Canonical {
    operation: &'static str,
    fields: BTreeMap<String, String>,
}

impl Canonical {
    pub(crate) fn new(operation: &'static str) -> Self {
        Canonical { operation, fields: BTreeMap::new() }
    }

    /// Adds a value, or each field of an object, where it differs from `default`.
    pub(crate) fn with<T: Serialize>(mut self, name: &str, value: &T, default: &T) -> Result<Self, Failure> {
        let write = |value: &T| {
            serde_json::to_value(value).map_err(|error| {
                tracing::error!(%error, name, "idempotency.fingerprint_failed");
                Failure::from(ErrorKind::Internal)
            })
        };
        let (value, default) = (write(value)?, write(default)?);
        match (value, default) {
            (Value::Object(fields), Value::Object(defaults)) => {
                for (field, value) in fields {
                    if defaults.get(&field) != Some(&value) {
                        self.fields.insert(format!("{name}.{field}"), value.to_string());
                    }
                }
            }
            (value, default) if value != default => drop(self.fields.insert(name.to_owned(), value.to_string())),
            _ => {}
        }
        Ok(self)
    }

    /// Adds the hash of an upload.
    pub(crate) fn with_hash(mut self, name: &str, hash: Option<[u8; 32]>) -> Self {
        self.fields.insert(name.to_owned(), crate::mac::hex(&hash.unwrap_or_default()));
        self
    }

    pub(crate) fn fingerprint(self) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(format!("hark request, encoding 2\n{}\n", self.operation));
        for (name, value) in &self.fields {
            // JSON has no newline outside of escapes, and field names have none.
            hash.update(format!("{name}={value}\n"));
        }
        Fingerprint { hash: hash.finalize().to_vec(), older: Vec::new() }
    }
}

/// A response stored for repeats: encrypted with the credential of the request, which is not stored. So a secret that is
/// shown once can't be read from the database.
pub(crate) fn keep<T: Serialize>(headers: &HeaderMap, status: StatusCode, answer: &T) -> Option<StoredAnswer> {
    let body = seal(headers, &serde_json::to_vec(answer).ok()?)?;
    Some(StoredAnswer { status: status.as_u16(), content_type: "application/json".to_owned(), body })
}

/// Decrypts the body of a stored response. Another credential of the same account can't: for it the key is taken.
pub(crate) fn open_answer(headers: &HeaderMap, answer: &StoredAnswer) -> Result<Vec<u8>, Failure> {
    open(headers, &answer.body).ok_or_else(|| ErrorKind::KeyReused.into())
}

/// The stored response.
pub(crate) fn give(headers: &HeaderMap, answer: &StoredAnswer) -> Result<Response, Failure> {
    let body = open_answer(headers, answer)?;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    Ok((status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

fn cipher(headers: &HeaderMap) -> Option<XChaCha20Poly1305> {
    // As in authentication, a header takes precedence over a cookie.
    let credential = match headers.get(header::AUTHORIZATION) {
        Some(header) => header.as_bytes(),
        None => cookie::session(headers)?.as_bytes(),
    };
    let mut hash = Sha256::new();
    hash.update(b"hark idempotent answer\0");
    hash.update(credential);
    XChaCha20Poly1305::new_from_slice(&hash.finalize()).ok()
}

fn seal(headers: &HeaderMap, body: &[u8]) -> Option<Vec<u8>> {
    let mut nonce = [0u8; NONCE];
    getrandom::fill(&mut nonce).ok()?;
    let sealed = cipher(headers)?.encrypt(&XNonce::from(nonce), body).ok()?;
    Some([&nonce[..], &sealed].concat())
}

fn open(headers: &HeaderMap, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
    cipher(headers)?.decrypt(&XNonce::from(*nonce), sealed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_opens_only_with_the_credential_that_it_was_sealed_with() {
        let with = |credential: &'static str| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(credential))])
        };
        let sealed = seal(&with("Bearer one"), b"svc_secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(open(&with("Bearer one"), &sealed).unwrap(), b"svc_secret");
        assert_eq!(open(&with("Bearer two"), &sealed), None);
        assert_eq!(open(&HeaderMap::new(), &sealed), None);
        let session = |secret: &str| {
            HeaderMap::from_iter([(header::COOKIE, format!("a=b; hark_session={secret}").parse().unwrap())])
        };
        let sealed = seal(&session("ses_1"), b"svc_secret").unwrap();
        assert_eq!(open(&session("ses_1"), &sealed).unwrap(), b"svc_secret");
        assert_eq!(open(&session("ses_2"), &sealed), None);
    }

    #[test]
    fn a_field_that_a_later_version_adds_changes_no_fingerprint_of_those_who_do_not_use_it() {
        #[derive(Serialize)]
        struct Now {
            model: &'static str,
            speakers: u32,
        }
        #[derive(Serialize)]
        struct Later {
            summary: bool,
            speakers: u32,
            model: &'static str,
        }
        let default = Later { summary: false, speakers: 0, model: "" };
        let later = |later: &Later| Canonical::new("x").with("work", later, &default).unwrap().fingerprint();
        let now = Canonical::new("x")
            .with("work", &Now { model: "base", speakers: 2 }, &Now { model: "", speakers: 0 })
            .unwrap()
            .fingerprint();
        assert_eq!(now, later(&Later { summary: false, speakers: 2, model: "base" }));
        assert_ne!(now, later(&Later { summary: true, speakers: 2, model: "base" }));
        assert_ne!(now, later(&Later { summary: false, speakers: 3, model: "base" }));
    }

    #[test]
    fn a_name_that_is_empty_endless_or_sent_twice_is_refused() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("idempotency-key", value.parse().unwrap());
            }
            key(&headers).map_err(|failure| failure.error.status())
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["a"]), Ok(Some("a".to_owned())));
        assert_eq!(read(&[" "]), Err(400));
        assert_eq!(read(&["a\tb"]), Err(400));
        assert_eq!(read(&["a", "b"]), Err(400));
        assert_eq!(read(&[&"a".repeat(256)]), Err(400));
    }
}
