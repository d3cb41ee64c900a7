//! Export and deletion of an account's data.

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hark_api::{AccountDeletion, DateTime, Done, ErrorKind, Speaker};
use hark_store::{AccountId, KeyKind, TranscriptFilter};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::Json;
use crate::middleware::Identity;
use crate::routes::account::{wire_account, wire_entry};
use crate::routes::audit::wire_event;
use crate::routes::keys::wire_key;
use crate::routes::transcripts::one::detail;
use crate::routes::{AnyError, Invalid, Limited, Unauthorized};
use crate::sign::{Verdict, cookie};
use crate::visit::{Attempt, Visit};

/// Lines buffered for a slow reader.
const BUFFERED_LINES: usize = 16;
/// Rows per page.
const PAGE: i64 = 100;

/// Everything that the account has
///
/// One JSON object a line, each with its `type`: `account`, `ledger`, `key` (without its secret), `transcript` (with its words),
/// `speaker` (the name, not the print of the voice), `audit`, and `end` as the last line of an export that is whole. Recordings are not part of it: those that were kept
/// are at `GET /v1/transcripts/{id}/recording`.
#[utoipa::path(get, path = "/v1/account/export", tag = "account", operation_id = "exportAccount",
    responses((status = 200, description = "the export", body = String, content_type = "application/x-ndjson"), Unauthorized, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn export(State(app): State<App>, identity: Identity) -> Result<Response, Failure> {
    audit::record(&app, audit::by(&identity, audit::ACCOUNT_EXPORTED)).await;
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(BUFFERED_LINES);
    tokio::spawn(async move {
        let mut writer = LineWriter(sender);
        if let Err(Stop::Failed(failure)) = write(&app, identity.account(), &mut writer).await {
            tracing::error!(error = %failure.error, account = %identity.account(), "account.export_failed");
            // Abort the connection: a partial export must not look complete.
            let _ = writer.0.send(Err(std::io::Error::other("the export failed"))).await;
        }
    });
    let body = Body::from_stream(futures_util::stream::poll_fn(move |context| receiver.poll_recv(context)));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"account.ndjson\"")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

/// Why an export ended early.
enum Stop {
    /// The client disconnected.
    Disconnected,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

struct LineWriter(mpsc::Sender<Result<Bytes, std::io::Error>>);

#[derive(Serialize)]
struct Line<'a, T> {
    r#type: &'a str,
    #[serde(flatten)]
    value: T,
}

impl LineWriter {
    async fn write(&mut self, r#type: &str, value: impl Serialize) -> Result<(), Stop> {
        let mut line = serde_json::to_vec(&Line { r#type, value }).map_err(|error| {
            tracing::error!(%error, r#type, "account.export_failed");
            Failure::from(ErrorKind::Internal)
        })?;
        line.push(b'\n');
        self.0.send(Ok(line.into())).await.map_err(|_| Stop::Disconnected)
    }
}

async fn write(app: &App, account: AccountId, writer: &mut LineWriter) -> Result<(), Stop> {
    let now = app.store.now();
    writer.write("account", wire_account(app.store.accounts().get(account).await?)).await?;
    let mut ledger = app.store.ledger().entries(account, i64::MAX).await?;
    ledger.reverse();
    for entry in ledger {
        writer.write("ledger", wire_entry(entry)).await?;
    }
    for key in app.store.keys().list(account, KeyKind::Service).await? {
        writer.write("key", wire_key(key, now)).await?;
    }
    for known in app.store.voiceprints().list(account).await? {
        let speaker = Speaker { id: known.id.0, name: known.name, created_at: DateTime(known.created_at) };
        writer.write("speaker", speaker).await?;
    }
    for page in 1.. {
        // New transcripts would shift the pages.
        let filter =
            TranscriptFilter { page, per_page: PAGE, created_before: Some(now), ..TranscriptFilter::default() };
        let listed = app.store.transcripts().list(account, &filter).await?.transcripts;
        let is_last = (listed.len() as i64) < PAGE;
        for transcript in listed {
            match detail(app, account, transcript.id).await {
                Ok(transcript) => writer.write("transcript", transcript).await?,
                // Deleted meanwhile.
                Err(failure) if failure.error.kind == ErrorKind::NotFound => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        if is_last {
            break;
        }
    }
    for page in 1.. {
        let found = app.store.audit().page(Some(account), page, PAGE).await?.entries;
        let is_last = (found.len() as i64) < PAGE;
        for entry in found {
            writer.write("audit", wire_event(entry, false)).await?;
        }
        if is_last {
            break;
        }
    }
    writer.write("end", serde_json::json!({ "at": DateTime(now) })).await
}

/// Delete the account with everything that is its
///
/// Transcripts, recordings, known voices, keys, credits. It can't be undone. The password confirms it; an account that has none
/// gives its own email address as `confirmation` instead.
#[utoipa::path(delete, path = "/v1/account", tag = "account", operation_id = "deleteAccount", request_body = AccountDeletion,
    responses((status = 200, body = Done), Invalid, Unauthorized, Limited, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn delete(
    State(app): State<App>,
    visit: Visit,
    identity: Identity,
    Json(given): Json<AccountDeletion>,
) -> Result<Response, Failure> {
    let account = app.store.accounts().get(identity.account()).await?;
    if account.is_admin {
        let message = "an account that manages others is deleted by whoever runs the server: `hark account delete`";
        return Err(Failure::new(ErrorKind::Forbidden, message));
    }
    match app.store.accounts().password_hash(account.id).await? {
        Some(stored) => {
            let Some(password) = given.password else {
                return Err(Failure::invalid("`password` is missing: it confirms that everything shall go"));
            };
            let attempt = Attempt::of_credential(&app, &visit, identity.key()).await?;
            if app.sign.passwords.verify(Some(stored), password.0).await? == Verdict::Wrong {
                return Err(Failure::new(ErrorKind::Forbidden, "`password` is not right"));
            }
            attempt.succeeded(account.id).await?;
        }
        None => {
            let is_confirmed = given.confirmation.is_some_and(|text| text.trim().eq_ignore_ascii_case(&account.email));
            if !is_confirmed {
                let message =
                    "`confirmation` must be the account's email address: it confirms that everything shall go";
                return Err(Failure::invalid(message));
            }
        }
    }
    let entry = audit::by(&identity, audit::ACCOUNT_DELETED);
    let recordings = app.store.accounts().audited(&entry).delete(account.id).await?.len();
    app.credentials.invalidate_account(account.id);
    tracing::info!(account = %account.id, recordings, "account.deleted");
    let mut response = Answer(Done { ok: true }).into_response();
    if let Some(cookie) = cookie::clear(visit.is_https) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}
