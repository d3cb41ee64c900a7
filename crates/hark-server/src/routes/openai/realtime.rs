//! `GET /v1/realtime?intent=transcription`: live audio for programs written for OpenAI's Realtime API.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use hark_api::{ApiError, ErrorKind};
use serde::Deserialize;

use super::{AnyError, Invalid, Limited, Unauthorized, Unavailable};
use crate::app::App;
use crate::error::Failure;
use crate::extract::Query;
use crate::live::{MAX_MESSAGE_BYTES, Protocol, Realtime, begin};
use crate::middleware::{Caller, by_token};
use crate::streams::Connection;

/// The subprotocol in which a browser sends the key.
const KEY_PROTOCOL: &str = "openai-insecure-api-key.";

#[derive(Debug, Deserialize)]
pub(crate) struct RealtimeQuery {
    intent: Option<String>,
}

/// Transcribe live audio for OpenAI's Realtime clients
///
/// Events of a transcription session over a WebSocket: session.update (or transcription_session.update),
/// input_audio_buffer.append, .commit and .clear; session.created, input_audio_buffer.speech_started, .speech_stopped and
/// .committed, conversation.item.input_audio_transcription.delta and .completed, error.
#[utoipa::path(get, path = "/v1/realtime", tag = "openai", operation_id = "realtime",
    params(("intent" = Option<String>, Query, description = "transcription")),
    responses((status = 101, description = "the connection is a WebSocket now"),
        Invalid, Unauthorized, Limited, Unavailable, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn realtime(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Query(query): Query<RealtimeQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|_| Failure::invalid("this path takes a WebSocket: connect with ws:// or wss://"))?;
    if query.intent.as_deref().is_some_and(|intent| intent != "transcription") {
        return Err(Failure::invalid("`intent` must be transcription: this server does not speak"));
    }
    if app.is_draining() {
        return Err(ApiError::from(ErrorKind::ShuttingDown).retry_after(10).into());
    }
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols: Vec<&str> = protocols.flat_map(|value| value.split(',')).map(str::trim).collect();
    let caller = match (caller, protocols.iter().find_map(|name| name.strip_prefix(KEY_PROTOCOL))) {
        (Caller::Anonymous(from), Some(key)) => by_token(&app, key, &from).await?,
        (caller, _) => caller,
    };
    let is_beta = headers.contains_key("openai-beta") || protocols.contains(&"openai-beta.realtime-v1");
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES);
    Ok(upgrade.protocols(["realtime"]).on_upgrade(move |socket| run_socket(app, caller, is_beta, socket)))
}

async fn run_socket(app: App, caller: Caller, is_beta: bool, socket: WebSocket) {
    let mut connection = Connection::new(socket);
    let mut realtime = Realtime::new(is_beta);
    if !connection.send(realtime.created()).await {
        return;
    }
    // The session starts with its first audio: until then it can be configured.
    let first = loop {
        match connection.greeting(app.config.stream.idle.duration()).await {
            Ok(Some(text)) if Realtime::needs_session(&text) => break text,
            Ok(Some(text)) => {
                if let crate::live::ClientMessage::Reply(reply) = realtime.read(&text)
                    && !connection.send(reply).await
                {
                    return;
                }
            }
            Ok(None) => {
                let failure = Failure::invalid("sound comes as input_audio_buffer.append events, in base64");
                return connection.close(Realtime::error(&failure.error, None), &failure).await;
            }
            Err(Some(failure)) => return connection.close(Realtime::error(&failure.error, None), &failure).await,
            Err(None) => return,
        }
    };
    connection.put_back(first);
    let session = match realtime.work() {
        Ok(work) => begin(&app, caller, work, Protocol::Realtime(Box::new(realtime)), None).await,
        Err(failure) => Err(failure),
    };
    match session {
        Ok(session) => session.run(connection).await,
        Err(failure) => connection.close(Realtime::error(&failure.error, None), &failure).await,
    }
}
