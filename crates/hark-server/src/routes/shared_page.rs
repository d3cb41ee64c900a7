//! `GET /s/{token}`: a shared transcript as a page to read. No script, nothing from elsewhere.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hark_api::{ErrorKind, Segment};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::documentation::escaped;
use crate::error::{Answered, Failure};
use crate::extract::Path;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1f;--soft:#5b5b66;--page:#fdfdfb;--line:#dedee3;--accent:#2456a6}\
@media(prefers-color-scheme:dark){:root{--ink:#e8e8ec;--soft:#a3a3ae;--page:#17171a;--line:#34343b;--accent:#8fb4f5}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--page);color:var(--ink);font:1.0625rem/1.65 system-ui,sans-serif;overflow-wrap:anywhere}\
main{max-width:44rem;margin:0 auto;padding:2rem 1.25rem 4rem}\
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .4rem}\
.about{color:var(--soft);font-size:.9rem;margin:0 0 2rem;padding-bottom:1rem;border-bottom:1px solid var(--line)}\
section{margin:0 0 1.4rem}\
h2{font-size:.95rem;margin:0 0 .15rem;color:var(--accent)}\
time{color:var(--soft);font-size:.85rem;font-weight:400;font-variant-numeric:tabular-nums}\
p{margin:0}\
@media(max-width:30rem){main{padding-top:1.25rem}h1{font-size:1.35rem}}";

/// Only our style sheet, by its hash, and nothing else: no script, no picture, no frame around it.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = BASE64.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

/// A shared transcript as a page; browsers get a page when there is none, too.
pub(crate) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Result<Response, Failure> {
    match app.store.transcripts().shared(&token).await {
        Ok((transcript, result)) => {
            let language = if transcript.language.is_empty() { &result.language } else { &transcript.language };
            let body = body(&transcript.title, language, transcript.duration_seconds, &result.segments);
            Ok(respond(StatusCode::OK, page(&transcript.title, language, &body)))
        }
        Err(hark_store::Error::NotFound(_)) if wants_html(&headers) => {
            let body = "<h1>There is nothing here</h1><p>This link is wrong, or whoever shared the transcript has stopped \
                        sharing it. Ask them for a new link.</p>";
            let mut response = respond(StatusCode::NOT_FOUND, page("Nothing here", "en", body));
            // The page is the answer, not the Error body in its place.
            response.extensions_mut().insert(Answered(ErrorKind::NotFound.into()));
            Ok(response)
        }
        Err(hark_store::Error::NotFound(_)) => Err(ErrorKind::NotFound.into()),
        Err(error) => Err(error.into()),
    }
}

fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

fn respond(status: StatusCode, html: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
        // Sharing can be turned off, so no caching. The URL is the credential, so no referrer.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow")),
    ];
    (status, headers, html).into_response()
}

/// A whole page around its body.
fn page(title: &str, language: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"{language}\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n",
        language = escaped(language),
        title = escaped(title),
    )
}

/// The transcript: its title, its metadata, and a section for each turn of a speaker.
fn body(title: &str, language: &str, duration: f64, segments: &[Segment]) -> String {
    let with_hours = duration >= 3600.0;
    let mut html =
        format!("<h1 dir=\"auto\">{}</h1><p class=\"about\">{}", escaped(title), clock(duration, with_hours));
    if let Some(known) = hark_whisper::languages::find(language) {
        let _ = write!(html, " · <span dir=\"auto\">{}</span>", escaped(known.native_name));
    }
    html.push_str("</p>");
    let mut last: Option<&Option<String>> = None;
    for segment in segments.iter().filter(|segment| !segment.text.trim().is_empty()) {
        let begins_turn = last != Some(&segment.speaker);
        let time = format!("<time>{}</time>", clock(segment.start, with_hours));
        if begins_turn {
            if last.is_some() {
                html.push_str("</section>");
            }
            html.push_str("<section>");
            if let Some(speaker) = &segment.speaker {
                let _ = write!(html, "<h2 dir=\"auto\">{} {time}</h2>", escaped(speaker));
            }
        }
        let own_time = if segment.speaker.is_none() { format!("{time} ") } else { String::new() };
        let _ = write!(html, "<p dir=\"auto\">{own_time}{}</p>", escaped(segment.text.trim()));
        last = Some(&segment.speaker);
    }
    if last.is_some() {
        html.push_str("</section>");
    }
    html
}

/// `1:05`, or `0:01:05` where the recording has hours.
fn clock(seconds: f64, with_hours: bool) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60, seconds % 60);
    if with_hours { format!("{hours}:{:02}:{rest:02}", minutes % 60) } else { format!("{minutes}:{rest:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_transcript_holds_stays_text() {
        let nasty = "<script>alert(1)</script>\"'&";
        let segment = Segment { speaker: Some(nasty.into()), text: nasty.into(), ..Default::default() };
        let html = page(nasty, "\"><script>", &body(nasty, "en", 61.0, &[segment]));
        assert!(!html.contains("<script"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count(), 4);
    }

    #[test]
    fn a_speaker_is_named_once_a_turn_and_times_have_hours_where_needed() {
        let said = |speaker: &str, start: f64| Segment {
            speaker: Some(speaker.into()),
            text: "words".into(),
            start,
            ..Default::default()
        };
        let html = body("t", "en", 7300.0, &[said("Ann", 0.0), said("Ann", 5.0), said("Bob", 3661.0)]);
        assert_eq!((html.matches(">Ann ").count(), html.matches("<section>").count()), (1, 2));
        assert!(html.contains("<time>1:01:01</time>"), "{html}");
    }

    #[test]
    fn the_policy_allows_our_style_and_no_script() {
        let policy = POLICY.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    }
}
