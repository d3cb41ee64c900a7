//! `GET /openapi.json` and `GET /docs`.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;

pub(crate) async fn openapi(State(app): State<App>) -> Response {
    let json = app.documentation.json.to_string();
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], json).into_response()
}

pub(crate) async fn docs(State(app): State<App>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'")),
    ];
    (headers, app.documentation.page.to_string()).into_response()
}
