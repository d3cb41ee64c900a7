//! `GET /v1/stream`: live audio over a WebSocket.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use hark_api::{ApiError, ErrorKind};

use crate::app::App;
use crate::error::Failure;
use crate::extract::Query;
use crate::live::{MAX_MESSAGE_BYTES, Protocol, SessionConfig, begin, parse_config, refuse, resume};
use crate::middleware::{Caller, by_token};
use crate::routes::{AnyError, Invalid, Limited, Unauthorized, Unavailable};
use crate::streams::Connection;

/// Transcribe live audio over a WebSocket
///
/// The client sends a config message (JSON: `language`, `model`, `token`, `task`, `prompt`, `hotwords`, `diarize`,
/// `session_id`; all optional), the server answers `{"status": "ready", "session_id": …}`. Then sound in binary messages:
/// 16-bit samples, little-endian, 16 kHz, one channel, cut anywhere. `{"partial": …}` replaces the partial before it,
/// `{"text": …, "start", "end", "words", "language", "confidence"}` stays. `{"action": "flush"}` finishes what was said,
/// `{"action": "stop"}` everything: `{"is_final": true, "text", "duration", "transcript_id"}` comes last. An error is
/// `{"error": …, "upgrade"?: true}`, then a close: 1003 a message that makes no sense, 1008 credential, credits or limits, 1011 our
/// fault, 1013 busy. 1 credit a begun minute.
#[utoipa::path(get, path = "/v1/stream", tag = "speech", operation_id = "stream",
    params(
        ("language" = Option<String>, Query, description = "a code such as en; auto when not given"),
        ("model" = Option<String>, Query, description = "large-v3-turbo when not given"),
        ("token" = Option<String>, Query, description = "the key, where no header can be set"),
        ("session_id" = Option<String>, Query, description = "a session to go on with, up to two minutes after it broke")),
    responses((status = 101, description = "the connection is a WebSocket now"),
        Invalid, Unauthorized, Limited, Unavailable, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<SessionConfig>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|_| Failure::invalid("this path takes a WebSocket: connect with ws:// or wss://"))?;
    if app.is_draining() {
        return Err(ApiError::from(ErrorKind::ShuttingDown).retry_after(10).into());
    }
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| run_socket(app, caller, query, socket)))
}

async fn run_socket(app: App, caller: Caller, query: SessionConfig, socket: WebSocket) {
    let mut connection = Connection::new(socket);
    let config = match receive_config(&app, query, &mut connection).await {
        Ok(config) => config,
        Err(Some(failure)) => return refuse(connection, &failure).await,
        Err(None) => return,
    };
    let caller = match (&caller, &config.token) {
        // A credential in the header takes precedence over the query and the message.
        (Caller::Anonymous(from), Some(token)) => by_token(&app, token, from).await,
        _ => Ok(caller),
    };
    let caller = match caller {
        Ok(caller) => caller,
        Err(failure) => return refuse(connection, &failure).await,
    };
    if let Some(id) = &config.session_id {
        match resume(&app, &caller, id, connection).await {
            Ok(()) => return,
            // Either a session of a process that died, or an expired one: then the client sees a new session id.
            Err(returned) => connection = returned,
        }
    }
    let session = match config.work() {
        Ok(work) => begin(&app, caller, work, Protocol::Native, config.session_id.as_deref()).await,
        Err(failure) => Err(failure),
    };
    match session {
        Ok(session) => session.run(connection).await,
        Err(failure) => refuse(connection, &failure).await,
    }
}

async fn receive_config(
    app: &App,
    query: SessionConfig,
    connection: &mut Connection,
) -> Result<SessionConfig, Option<Failure>> {
    match connection.greeting(app.config.stream.first_message.duration()).await? {
        Some(text) => Ok(parse_config(&text)?.or(query)),
        None => Ok(query),
    }
}
