//! Audio processing.

mod accept;
pub(crate) mod enhance;
pub(crate) mod speak;

use axum::extract::Request;

use crate::app::App;
use crate::error::Failure;
use crate::multipart::Multipart;

async fn open(app: &App, request: Request) -> Result<Multipart, Failure> {
    let (parts, body) = request.into_parts();
    Multipart::open(&parts.headers, body, app.config.idle_timeout.duration()).await
}

pub(crate) fn refuse_second(is_second: bool, name: &str) -> Result<(), Failure> {
    if is_second { Err(Failure::invalid(format!("the field `{name}` was sent twice"))) } else { Ok(()) }
}
