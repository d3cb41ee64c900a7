//! `GET /v1/transcripts/{id}/export/{format}`: a transcript as a file.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hark_api::{DateTime, ErrorKind};
use hark_export::{ExportError, Format, Metadata, Options};
use hark_store::{Status, TranscriptId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::translate::{language_code, translated};
use crate::app::App;
use crate::engine::base_language;
use crate::error::Failure;
use crate::extract::{Path, Query};
use crate::middleware::Identity;
use crate::panics;
use crate::routes::{AnyError, Contradicted, Invalid, Missing, Unauthorized};

/// The names of the formats as the document lists them; the handler reads them with [`Format`].
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[allow(dead_code, reason = "it exists for its documentation")]
enum FormatName {
    Txt,
    Srt,
    Vtt,
    Json,
    Csv,
    Docx,
    Pdf,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// The language of the file: that of the recording when not given, or one that the transcript was translated into.
    #[param(pattern = "^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*$")]
    language: Option<String>,
    /// What speakers without a name are called, before a number that counts from 1: `Speaker` writes `Speaker 1` where
    /// the transcript has `SPEAKER_00`. Labels stay as they are when it is not given.
    #[param(pattern = r"^[^\x00-\x1F\x7F]{1,50}$")]
    unnamed_speaker: Option<String>,
}

/// A transcript as a file
///
/// `language` takes a translation, which `POST /v1/transcripts/{id}/translate` makes first; 409 where there is none.
#[utoipa::path(get, path = "/v1/transcripts/{id}/export/{format}", tag = "transcripts", operation_id = "exportTranscript",
    params(("id" = i64, Path, description = "the transcript's number"),
        ("format" = inline(FormatName), Path, description = "which kind of file"), ExportQuery),
    responses((status = 200, description = "the file", content(
            (String = "text/plain; charset=utf-8"), (String = "application/x-subrip; charset=utf-8"),
            (String = "text/vtt; charset=utf-8"), (hark_api::TranscriptionResult = "application/json"),
            (String = "text/csv; charset=utf-8"), (Vec<u8> = "application/pdf"),
            (Vec<u8> = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"))),
        Invalid, Unauthorized, Missing, Contradicted, AnyError), security(("bearer" = [])))]
pub(crate) async fn export(
    State(app): State<App>,
    identity: Identity,
    Path((id, format)): Path<(i64, String)>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Failure> {
    let (transcript, mut result) = app.store.transcripts().text(identity.account(), TranscriptId(id)).await?;
    let format: Format = format.parse().map_err(|error: ExportError| Failure::invalid(error.to_string()))?;
    if transcript.status != Status::Completed {
        return Err(ErrorKind::NotReady.into());
    }
    let mut name = file_name(&transcript.title, format.extension());
    let mut language = transcript.language;
    if query.language.as_deref().is_some_and(|code| !is_language_code(code)) {
        return Err(Failure::invalid("`language` is no language code: give one such as es"));
    }
    let unnamed_speaker = query.unnamed_speaker.as_deref().map(speaker_word).transpose()?;
    if let Some(wanted) = query.language
        && base_language(&wanted) != base_language(&language)
    {
        let wanted = language_code(&app, &wanted)?;
        result = translated(&app, &identity, TranscriptId(id), &wanted, result).await?;
        name = file_name(&transcript.title, &format!("{wanted}.{}", format.extension()));
        language = wanted;
    }
    let metadata = Metadata {
        title: transcript.title,
        created_at: Some(DateTime(transcript.created_at)),
        language_name: hark_whisper::languages::find(&language).map(|known| known.native_name.to_owned()),
        ..Metadata::default()
    };
    let fonts = Arc::clone(&app.fonts);
    // A long document takes seconds: not on a Tokio worker.
    let file = tokio::task::spawn_blocking(move || {
        let options = Options { unnamed_speaker, ..Options::default() };
        hark_export::export(&result, &metadata, format, &options, &fonts)
    });
    let file = match file.await {
        Ok(Ok(file)) => file,
        Ok(Err(error)) => {
            tracing::error!(%error, %format, "export.failed");
            return Err(ErrorKind::Internal.into());
        }
        Err(error) => {
            tracing::error!(error = panics::ending(&error), %format, "export.panicked");
            return Err(ErrorKind::Internal.into());
        }
    };
    let mut response = file.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    if let Ok(value) = HeaderValue::from_str(&attachment(&name)) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// Whether this may be a language code: a language, and subtags of its script or region.
fn is_language_code(code: &str) -> bool {
    let mut parts = code.split(['-', '_']);
    let is_language = |part: &str| (2..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_subtag = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    parts.next().is_some_and(is_language) && parts.all(is_subtag)
}

/// The word before the number of a speaker without a name, on one line.
fn speaker_word(given: &str) -> Result<String, Failure> {
    if given.contains(|c| matches!(c, '\0'..='\x1F' | '\x7F')) || !(1..=50).contains(&given.chars().count()) {
        return Err(Failure::invalid(
            "`unnamed_speaker` has 1 to 50 characters, without control characters: give a word such as Speaker",
        ));
    }
    Ok(given.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A file name that every system accepts, from any title.
pub(crate) fn file_name(title: &str, extension: &str) -> String {
    // A title is often the name of the recording: `talk.mp3` becomes `talk.srt`.
    let stem = match title.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && (1..=4).contains(&ending.len()) && ending.is_ascii() => stem,
        _ => title,
    };
    let safe = |character: char| match character {
        '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '-',
        control if control.is_control() => ' ',
        other => other,
    };
    let stem: String = stem.chars().map(safe).take(100).collect();
    let stem = stem.trim_matches([' ', '.']);
    format!("{}.{extension}", if stem.is_empty() { "transcript" } else { stem })
}

/// RFC 6266 with the encoded name of RFC 5987, and a plain one for clients that know only that.
pub(crate) fn attachment(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if (c.is_ascii_graphic() || c == ' ') && !"\"\\".contains(c) { c } else { '_' }).collect();
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte as char);
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_title_becomes_a_name_that_every_system_takes() {
        assert_eq!(file_name("talk.mp3", "srt"), "talk.srt");
        assert_eq!(file_name("../../etc/passwd\r\nX: y", "txt"), "-..-etc-passwd  X- y.txt");
        assert_eq!(file_name("", "pdf"), "transcript.pdf");
        assert_eq!(file_name("...", "pdf"), "transcript.pdf");
        assert_eq!(file_name("v1.5 of the plan", "txt"), "v1.5 of the plan.txt");
    }

    #[test]
    fn language_codes_are_told_from_other_texts() {
        assert!(["pt", "pt-BR", "sr_Latn", "zh-Hant-TW", "haw"].iter().all(|code| is_language_code(code)));
        assert!(["", "p", "p/", "pt-", "-pt", "../x", "português", "pt BR"].iter().all(|code| !is_language_code(code)));
    }

    #[test]
    fn the_word_before_the_number_of_a_speaker_is_short_and_on_one_line() {
        assert_eq!(speaker_word(" Locuteur\u{2028} nº ").unwrap(), "Locuteur nº");
        assert!(speaker_word(&"é".repeat(50)).is_ok());
        assert!(["", "a\nb", "\u{7F}", &"e".repeat(51)].iter().all(|word| speaker_word(word).is_err()));
    }

    #[test]
    fn every_format_is_documented() {
        let schema = serde_json::to_value(<FormatName as utoipa::PartialSchema>::schema()).unwrap();
        let names = Format::ALL.map(Format::extension);
        assert_eq!(schema["enum"], serde_json::json!(names));
    }

    #[test]
    fn a_name_in_any_script_is_sent_whole() {
        let header = attachment("Größe \"1\".txt");
        assert_eq!(header, "attachment; filename=\"Gr__e _1_.txt\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%221%22.txt");
    }
}
