//! `/v1/transcripts/{id}/results`: what was made of a transcript and is stored with it.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{
    ConversationTurn, DateTime, ErrorKind, ResultKind, StoredResult, StoredResultDetail, TranscriptResults,
};
use hark_store::{ChatTurn, TranscriptId};

use super::{text, translate};
use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::Identity;
use crate::routes::{AnyError, Missing, Unauthorized};

/// Turns of a conversation that are shown: its last fifty questions with their answers.
const MAX_TURNS: i64 = 100;

/// The kinds, with what their ids begin with.
const KINDS: [(ResultKind, &str); 5] = [
    (ResultKind::Summary, "summary"),
    (ResultKind::Analysis, "analysis"),
    (ResultKind::Generation, "generation"),
    (ResultKind::Translation, "translation"),
    (ResultKind::Chat, "chat"),
];

/// The kind and the name of an id; `None` for what is stored but no result, such as a waveform.
fn parts(id: &str) -> Option<(ResultKind, &str)> {
    let (prefix, name) = id.split_once(':')?;
    KINDS.iter().find(|(_, known)| *known == prefix).map(|(kind, _)| (*kind, name))
}

/// What was made of a transcript
///
/// Summaries, analyses, content and translations that are stored with it, and conversations about it. What is listed can be read without costs.
#[utoipa::path(get, path = "/v1/transcripts/{id}/results", tag = "transcripts", operation_id = "listResults",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, body = TranscriptResults), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn list(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<TranscriptResults>, Failure> {
    let (account, id) = (identity.account(), TranscriptId(id));
    let derived = app.store.transcripts().derived_kinds(account, id).await?;
    let chats = app.store.chats().conversations(account, id).await?;
    let chats = chats.into_iter().map(|(session, at)| (format!("chat:{session}"), at));
    let mut all: Vec<_> = derived.into_iter().chain(chats).collect();
    all.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
    let results = all.into_iter().filter_map(|(id, at)| {
        let (kind, name) = parts(&id)?;
        Some(StoredResult { kind, name: name.to_owned(), made_at: DateTime(at), id })
    });
    Ok(Answer(TranscriptResults { results: results.collect() }))
}

/// Something that was made of a transcript
#[utoipa::path(get, path = "/v1/transcripts/{id}/results/{result}", tag = "transcripts", operation_id = "showResult",
    params(("id" = i64, Path, description = "the transcript's number"),
        ("result" = String, Path, description = "the id in the list, such as `summary:brief`")),
    responses((status = 200, body = StoredResultDetail), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    Path((id, result)): Path<(i64, String)>,
) -> Result<Answer<StoredResultDetail>, Failure> {
    let missing = || Failure::new(ErrorKind::NotFound, "the transcript has no such result: GET …/results lists them");
    let (kind, name) = parts(&result).ok_or_else(missing)?;
    let (mut answer, mut turns) = (None, None);
    match kind {
        ResultKind::Chat => {
            let found = app.store.chats().last_turns(identity.account(), TranscriptId(id), name, MAX_TURNS).await?;
            turns = Some(pairs(found));
        }
        ResultKind::Translation => {
            let made = translate::made(&app, &identity, TranscriptId(id), name).await?.ok_or_else(missing)?;
            answer = Some(serde_json::to_value(made).map_err(|_| Failure::from(ErrorKind::Internal))?);
        }
        ResultKind::Summary | ResultKind::Analysis | ResultKind::Generation => {
            let stored = text::stored(&app, &identity, id, &result).await?.ok_or_else(missing)?;
            answer = Some(serde_json::Value::Object(stored));
        }
    }
    Ok(Answer(StoredResultDetail { kind, name: name.to_owned(), answer, turns, id: result }))
}

/// Questions with their answers, which are stored one after the other.
fn pairs(turns: Vec<ChatTurn>) -> Vec<ConversationTurn> {
    let pairs = turns.chunks_exact(2).map(|pair| ConversationTurn {
        question: pair[0].text.clone(),
        answer: pair[1].text.clone(),
        answered_at: DateTime(pair[1].at),
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_people_asked_for_is_a_result() {
        assert_eq!(parts("summary:brief"), Some((ResultKind::Summary, "brief")));
        assert_eq!(parts("chat:a:b"), Some((ResultKind::Chat, "a:b")));
        for other in ["waveform", "draft", "embedding:x", "summary", ""] {
            assert_eq!(parts(other), None, "{other}");
        }
    }
}
