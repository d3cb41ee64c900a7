//! Requests that a client may repeat without harm: `Idempotency-Key`.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hark_api::ErrorKind;
use hark_store::{IdempotencyKey, StoredAnswer};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Failure;

/// How long a repeat is recognized.
pub(crate) const REMEMBER: Duration = Duration::from_secs(24 * 3600);
const LONGEST_KEY: usize = 255;
const NONCE: usize = 24;

/// The name that the client gave to its request, if it gave one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let wrong =
        || Failure::invalid(format!("Idempotency-Key must be 1 to {LONGEST_KEY} visible ASCII characters, sent once"));
    let key = value.to_str().map_err(|_| wrong())?.trim();
    let is_visible = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if values.next().is_some() || !is_visible || !(1..=LONGEST_KEY).contains(&key.len()) {
        return Err(wrong());
    }
    Ok(Some(key.to_owned()))
}

/// What a request that has a name is known by.
pub(crate) fn name(headers: &HeaderMap, request: &[u8]) -> Result<Option<IdempotencyKey>, Failure> {
    let fingerprint = Sha256::digest(request).to_vec();
    Ok(key(headers)?.map(|key| IdempotencyKey { key, fingerprint, keep: REMEMBER }))
}

/// An answer as it is kept for repeats: sealed with the credential of the request, which the store does not have. What is
/// shown once stays unreadable to whoever reads the database.
pub(crate) fn keep<T: Serialize>(headers: &HeaderMap, status: StatusCode, answer: &T) -> Option<StoredAnswer> {
    let body = seal(headers, &serde_json::to_vec(answer).ok()?)?;
    Some(StoredAnswer { status: status.as_u16(), content_type: "application/json".to_owned(), body })
}

/// An answer that was kept. Another credential of the same account can't open it: to it the name is taken.
pub(crate) fn give(headers: &HeaderMap, answer: &StoredAnswer) -> Result<Response, Failure> {
    let body = open(headers, &answer.body).ok_or(ErrorKind::KeyReused)?;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    Ok((status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

fn cipher(headers: &HeaderMap) -> Option<XChaCha20Poly1305> {
    let credential = headers.get(header::AUTHORIZATION)?;
    let mut hash = Sha256::new();
    hash.update(b"hark idempotent answer\0");
    hash.update(credential.as_bytes());
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
