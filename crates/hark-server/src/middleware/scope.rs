//! The scopes that each path requires, in one table.

use axum::http::Method;
use hark_api::ErrorKind;
use hark_store::{Credential, KeyKind, Scope};

use crate::error::Failure;

const ANY: &[Scope] = &[];
const TRANSCRIBE: &[Scope] = &[Scope::Transcribe];
const READ: &[Scope] = &[Scope::Read];
const MANAGE: &[Scope] = &[Scope::Manage];
/// Processing of stored data, whose response reveals some of it.
const TRANSCRIBE_AND_READ: &[Scope] = &[Scope::Transcribe, Scope::Read];
const READ_AND_MANAGE: &[Scope] = &[Scope::Read, Scope::Manage];

/// The required scopes by path; a path that is not listed requires `manage`.
const TABLE: &[(&str, &str, &[Scope])] = &[
    ("POST", "/v1/transcribe", TRANSCRIBE),
    ("GET", "/v1/stream", TRANSCRIBE),
    ("GET", "/v1/realtime", TRANSCRIBE),
    ("POST", "/v1/audio/transcriptions", TRANSCRIBE),
    ("POST", "/v1/audio/translations", TRANSCRIBE),
    ("POST", "/v1/chat", TRANSCRIBE_AND_READ),
    ("POST", "/v1/chat/completions", TRANSCRIBE),
    ("POST", "/v1/embeddings", TRANSCRIBE),
    ("POST", "/v1/embed", TRANSCRIBE),
    ("POST", "/v1/summarize", TRANSCRIBE),
    ("POST", "/v1/translate", TRANSCRIBE),
    ("POST", "/v1/analyze", TRANSCRIBE),
    ("POST", "/v1/generate", TRANSCRIBE),
    ("POST", "/v1/enhance-audio", TRANSCRIBE),
    ("POST", "/v1/uploads", TRANSCRIBE),
    ("GET", "/v1/uploads/{id}", TRANSCRIBE),
    ("PUT", "/v1/uploads/{id}", TRANSCRIBE),
    ("DELETE", "/v1/uploads/{id}", TRANSCRIBE),
    ("GET", "/v1/enhancements/{id}", READ),
    ("GET", "/v1/enhancements/{id}/audio", READ),
    ("POST", "/v1/tts", TRANSCRIBE),
    ("POST", "/v1/watermark/detect", TRANSCRIBE),
    ("POST", "/v1/audio/speech", TRANSCRIBE),
    ("POST", "/v1/transcripts/{id}/retry", TRANSCRIBE),
    ("POST", "/v1/transcripts/{id}/summarize", TRANSCRIBE_AND_READ),
    ("POST", "/v1/transcripts/{id}/analyze", TRANSCRIBE_AND_READ),
    ("POST", "/v1/transcripts/{id}/generate", TRANSCRIBE_AND_READ),
    ("POST", "/v1/transcripts/{id}/chat", TRANSCRIBE_AND_READ),
    ("POST", "/v1/transcripts/{id}/translate", TRANSCRIBE_AND_READ),
    ("GET", "/v1/credits", ANY),
    ("GET", "/v1/account", READ),
    ("GET", "/v1/account/ledger", READ),
    ("GET", "/v1/usage", READ),
    ("GET", "/v1/cloud", READ),
    ("GET", "/v1/keys", READ),
    ("GET", "/v1/speakers", READ),
    ("GET", "/v1/search", READ),
    ("GET", "/v1/transcripts", READ),
    ("GET", "/v1/transcripts/{id}", READ),
    ("GET", "/v1/transcripts/{id}/export/{format}", READ),
    ("GET", "/v1/transcripts/{id}/recording", READ),
    ("GET", "/v1/transcripts/{id}/waveform", READ),
    ("GET", "/v1/transcripts/{id}/results", READ),
    ("GET", "/v1/transcripts/{id}/results/{result}", READ),
    ("GET", "/v1/account/export", READ_AND_MANAGE),
    ("GET", "/v1/audit", READ_AND_MANAGE),
    ("GET", "/v1/admin/audit", READ_AND_MANAGE),
    ("GET", "/v1/admin/accounts", READ_AND_MANAGE),
    ("GET", "/v1/admin/queue", READ_AND_MANAGE),
    ("GET", "/v1/admin/models", READ_AND_MANAGE),
    ("GET", "/v1/admin/nodes", READ_AND_MANAGE),
    ("GET", "/v1/auth/sessions", READ_AND_MANAGE),
    ("POST", "/v1/auth/signout", ANY),
];

/// The required scopes of a path.
fn needed(method: &Method, path: &str) -> &'static [Scope] {
    // The framework answers HEAD with the handler of GET.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let entry = TABLE.iter().find(|(its_method, its_path, _)| *its_method == method && *its_path == path);
    entry.map_or(MANAGE, |(_, _, scopes)| scopes)
}

/// Rejects a credential without the required scopes. Sessions and user tokens have all.
pub(super) fn check(credential: &Credential, method: &Method, path: &str) -> Result<(), Failure> {
    if credential.key.kind != KeyKind::Service {
        return Ok(());
    }
    let missing = needed(method, path).iter().find(|scope| !credential.key.scopes.contains(scope));
    match missing {
        None => Ok(()),
        Some(scope) => {
            let message = format!("this key lacks the scope `{}`: use one that has it", scope.name());
            Err(Failure::new(ErrorKind::Forbidden, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_table_exists_and_what_only_reads_or_transcribes_is_in_it() {
        let document = serde_json::to_value(crate::document()).unwrap();
        for (method, path, _) in TABLE {
            let operation = &document["paths"][*path][method.to_ascii_lowercase()];
            assert!(operation.is_object(), "{method} {path} is no operation");
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            let Some(operation) = methods.get("get") else { continue };
            let is_open = operation["security"].as_array().is_none_or(|all| all.contains(&serde_json::json!({})));
            let is_listed = TABLE.iter().any(|(method, its_path, _)| *method == "GET" && its_path == path);
            // Its response is a signing secret: more than reading.
            assert!(is_open || is_listed || path == "/v1/webhooks/secret", "GET {path} is not in the table");
        }
    }

    #[test]
    fn what_is_not_in_the_table_needs_manage() {
        assert_eq!(needed(&Method::DELETE, "/v1/keys/{id}"), MANAGE);
        assert_eq!(needed(&Method::PATCH, "/v1/transcripts/{id}"), MANAGE);
        assert_eq!(needed(&Method::POST, "/v1/something/new"), MANAGE);
        assert_eq!(needed(&Method::HEAD, "/v1/account"), READ);
    }
}
