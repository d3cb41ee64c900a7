//! All routes of the service.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hark_api::ErrorKind;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::document::{describe_answers, drop_nulls_of_texts};
use crate::error::Failure;
use crate::middleware::{allow_anonymous, compress, cors, observe, require_account};
use crate::routes::{
    account, account_data, admin, audio, audit, chat, credits, documentation, enhancements, health, keys, openai,
    reference, reset, resumable, sample, search, session, sessions, shared, shared_page, speakers, stream, text,
    transcribe, transcripts, voices, watermark, web, webhooks,
};

/// The parts of the OpenAPI document that belong to no handler.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hark",
        version = "1.0.0",
        description = "Speech to text that you own: recordings to words with times and speakers, on this server.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
    ),
    tags(
        (name = "speech", description = "Recordings to words."),
        (name = "text", description = "Work on text."),
        (name = "audio", description = "Work on sound."),
        (name = "transcripts", description = "What was transcribed."),
        (name = "speakers", description = "People whose voices the account knows."),
        (name = "account", description = "The account, its credits, its use and its keys."),
        (name = "administration", description = "For accounts that manage others."),
        (name = "openai", description = "The same for programs written for OpenAI's API."),
        (name = "reference", description = "Lists and health."),
    ),
    components(schemas(hark_api::ErrorBody, hark_api::OpenAiError)),
    modifiers(&Bearer),
)]
struct Document;

/// The two authentication schemes.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("svc_… or usr_…")).build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
        let cookie = "of the web app; unsafe methods also need X-CSRF-Token, see GET /v1/auth/session";
        let cookie = ApiKey::Cookie(ApiKeyValue::with_description("hark_session", cookie));
        components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    }
}

/// The OpenAPI document, for tests and `hark`.
pub fn document() -> utoipa::openapi::OpenApi {
    let routes = OpenApiRouter::with_openapi(Document::openapi());
    let mut document = routes.merge(open()).merge(anonymous()).merge(account_only()).into_openapi();
    describe_answers(&mut document);
    drop_nulls_of_texts(&mut document);
    document
}

/// Public routes: the credential is not checked.
fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(reference::models))
        .routes(routes!(reference::languages))
        .routes(routes!(openai::models::show))
        .routes(routes!(voices::list))
        .routes(routes!(sample::show))
        .routes(routes!(health::health))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(transcripts::status::status))
        .routes(routes!(shared::show))
        .routes(routes!(session::sign_up))
        .routes(routes!(session::confirm))
        .routes(routes!(session::sign_in))
        .routes(routes!(reset::page, reset::request))
        .routes(routes!(reset::confirm))
        .routes(routes!(session::show))
}

/// Routes with optional authentication: a credential that is sent must be valid.
fn anonymous() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(transcribe::transcribe))
        .routes(routes!(credits::credits))
        .routes(routes!(text::embed))
        .routes(routes!(stream::stream))
        .routes(routes!(openai::audio::transcriptions))
        .routes(routes!(openai::audio::translations))
        .routes(routes!(openai::embeddings::create))
        .routes(routes!(openai::realtime::realtime))
}

/// Routes that require an account.
fn account_only() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(text::summarize))
        .routes(routes!(text::translate))
        .routes(routes!(text::analyze))
        .routes(routes!(text::generate))
        .routes(routes!(openai::completions::create))
        .routes(routes!(openai::speech::create))
        .routes(routes!(audio::enhance::enhance))
        .routes(routes!(resumable::create))
        .routes(routes!(resumable::show, resumable::put, resumable::delete))
        .routes(routes!(enhancements::show, enhancements::delete))
        .routes(routes!(enhancements::audio))
        .routes(routes!(audio::speak::speak))
        .routes(routes!(watermark::detect))
        .routes(routes!(account::show, account::update, account_data::delete))
        .routes(routes!(account_data::export))
        .routes(routes!(account::ledger))
        .routes(routes!(audit::own))
        .routes(routes!(audit::all))
        .routes(routes!(admin::accounts::list))
        .routes(routes!(admin::accounts::change))
        .routes(routes!(admin::queue::show))
        .routes(routes!(admin::queue::retry))
        .routes(routes!(admin::queue::drop_failed))
        .routes(routes!(admin::models::list))
        .routes(routes!(admin::models::pull))
        .routes(routes!(admin::nodes::list))
        .routes(routes!(sessions::list, sessions::end_others))
        .routes(routes!(sessions::end))
        .routes(routes!(account::usage))
        .routes(routes!(account::cloud))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke, keys::change))
        .routes(routes!(keys::roll))
        .routes(routes!(speakers::list, speakers::enroll))
        .routes(routes!(speakers::forget))
        .routes(routes!(session::sign_out))
        .routes(routes!(session::change_password))
        .routes(routes!(webhooks::secret))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(search::find))
        .routes(routes!(transcripts::list::list))
        .routes(routes!(transcripts::one::show, transcripts::one::change, transcripts::one::delete))
        .routes(routes!(transcripts::export::export))
        .routes(routes!(transcripts::recording::show))
        .routes(routes!(transcripts::waveform::show))
        .routes(routes!(transcripts::results::list))
        .routes(routes!(transcripts::results::show))
        .routes(routes!(transcripts::retry::retry))
        .routes(routes!(transcripts::text::summarize))
        .routes(routes!(transcripts::text::analyze))
        .routes(routes!(transcripts::text::generate))
        .routes(routes!(transcripts::chat::chat))
        .routes(routes!(chat::chat))
        .routes(routes!(transcripts::translate::translate))
}

/// The service as one router.
pub(crate) fn router(app: &App) -> Router {
    let (routes, _) = OpenApiRouter::new()
        .merge(open())
        .merge(anonymous().route_layer(from_fn_with_state(app.clone(), allow_anonymous)))
        .merge(account_only().route_layer(from_fn_with_state(app.clone(), require_account)))
        .split_for_parts();
    web::mount(routes, &app.config)
        .route("/openapi.json", get(documentation::openapi))
        .route("/docs", get(documentation::docs))
        .route("/s/{token}", get(shared_page::show))
        .fallback(web::unmatched)
        .method_not_allowed_fallback(|| async { Failure::from(ErrorKind::MethodNotAllowed) })
        .layer(from_fn(guard))
        .layer(compress())
        .layer(cors(&app.config))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), observe))
        .with_state(app.clone())
}

/// A path with a trailing slash is the same path (decisions: variants).
pub(crate) fn without_trailing_slash(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return request;
    }
    let mut parts = request.uri().clone().into_parts();
    let with_query = match request.uri().query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    if let Ok(path) = with_query.parse() {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Disables MIME sniffing, and sends `no-store` for responses that may hold a secret.
async fn guard(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let path = request.uri().path();
    let is_secret = ["/v1/auth/", "/v1/keys", "/v1/webhooks", "/v1/account/export", "/v1/audit", "/v1/admin/"]
        .iter()
        .any(|start| path.starts_with(start));
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_secret {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// A panic in a handler: the request fails, the server continues. Its message may quote the text of the request and is not logged; `thread.panicked` says where it was.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("request.panicked");
    Failure::from(ErrorKind::Internal).into_response()
}
