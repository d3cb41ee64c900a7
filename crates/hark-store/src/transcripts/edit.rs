//! Edits of a transcript by its owner.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::db::args;
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::live;
use crate::random;
use crate::search;
use crate::transcripts::Transcripts;
use crate::transcripts::derived;
use crate::transcripts::reassign::reassign;
use crate::transcripts::segment;
use crate::transcripts::share;
use crate::transcripts::word_times::retime;
use crate::transcripts::{self, Transcript, title_aad};

/// Changes to a transcript; what is `None` or empty stays.
#[derive(Debug, Clone, Default)]
pub struct TranscriptEdit {
    /// The new title.
    pub title: Option<String>,
    /// Whether its public page is on.
    pub shared: Option<bool>,
    /// Whether its public page gets a new token; the old one becomes invalid.
    pub rotate_share_token: bool,
    /// Names for speakers, by label or current name; an empty name removes the name.
    pub speakers: BTreeMap<String, String>,
    /// New text of segments.
    pub segments: Vec<SegmentEdit>,
    /// Who says a segment, by its position: a label or name of a speaker; nobody where it is empty. A name that no speaker has makes a new one.
    pub segment_speakers: BTreeMap<i64, String>,
    /// If set, the edit is refused with [`Error::Changed`] unless the transcript has one of these versions ([`Transcript::version`]).
    pub expected: Option<Vec<String>>,
}

/// New text of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentEdit {
    /// Which segment, from 0.
    pub position: i64,
    /// The new text.
    pub text: String,
}

impl Transcript {
    /// The version of what an edit changes: another one whenever title, sharing, text or speakers are others, and the same as long as none is.
    pub fn version(&self) -> String {
        let revision = self.text_revision.to_string();
        let parts = [self.status.name(), &revision, &self.title, self.share_token.as_deref().unwrap_or_default()];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        random::hex(&hash.finalize()[..16])
    }
}

impl Transcripts<'_> {
    /// Applies the edit in one transaction and returns the changed transcript.
    pub async fn edit(self, account: AccountId, id: TranscriptId, edit: &TranscriptEdit) -> Result<Transcript> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        let lock =
            format!("SELECT id, is_shared FROM transcripts WHERE id = $1 AND account_id = $2{}", tx.for_update());
        let row = tx.optional(&lock, args![id, account]).await?.ok_or(Error::NotFound("transcript"))?;
        if let Some(expected) = &edit.expected {
            let version = transcripts::find(&mut tx, &sealer, account, id).await?.version();
            if !expected.contains(&version) {
                return Err(Error::Changed);
            }
        }
        if !edit.segments.is_empty() || !edit.segment_speakers.is_empty() {
            live::check_ended(&mut tx, id).await?;
        }
        if let Some(title) = &edit.title {
            let sealed = sealer.seal(&title_aad(id), title.as_bytes())?;
            tx.execute("UPDATE transcripts SET title = $1 WHERE id = $2", args![&sealed, id]).await?;
        }
        if edit.shared.is_some() || edit.rotate_share_token {
            let was_shared: bool = row.get("is_shared")?;
            let shared = edit.shared.unwrap_or(was_shared);
            share::set(&mut tx, &sealer, id, was_shared, shared, edit.rotate_share_token).await?;
        }
        let mut is_renamed = false;
        if !edit.speakers.is_empty() {
            let names = transcripts::names(&mut tx, &sealer, id).await?;
            let labels = tx
                .all(
                    "SELECT DISTINCT speaker FROM segments WHERE transcript_id = $1 AND speaker IS NOT NULL",
                    args![id],
                )
                .await?;
            let labels: Vec<String> = labels.iter().map(|row| row.get("speaker")).collect::<Result<_>>()?;
            for (speaker, name) in &edit.speakers {
                let named = || names.iter().find(|(_, name)| *name == speaker).map(|(label, _)| label);
                let label = labels.iter().find(|label| *label == speaker).or_else(named);
                let label = label.ok_or(Error::NotFound("speaker"))?;
                is_renamed |= names.get(label).map_or("", String::as_str) != name;
                if name.is_empty() {
                    let sql = "DELETE FROM speaker_names WHERE transcript_id = $1 AND label = $2";
                    tx.execute(sql, args![id, label]).await?;
                } else {
                    transcripts::write_name(&mut tx, &sealer, id, label, name).await?;
                }
            }
        }
        for change in &edit.segments {
            let old = segment::read_one(&mut tx, &sealer, id, change.position).await?;
            let words = retime(&change.text, &old.words);
            let new = hark_api::Segment { text: change.text.clone(), words, ..old.clone() };
            let body = segment::seal_body(&sealer, id, change.position, &new)?;
            let sql = "UPDATE segments SET body = $1 WHERE transcript_id = $2 AND position = $3";
            tx.execute(sql, args![&body, id, change.position]).await?;
            let more = segment::words_in(&new) - segment::words_in(&old);
            tx.execute("UPDATE transcripts SET word_count = word_count + $1 WHERE id = $2", args![more, id]).await?;
        }
        let is_reassigned =
            !edit.segment_speakers.is_empty() && reassign(&mut tx, &sealer, id, &edit.segment_speakers).await?;
        if !edit.segments.is_empty() || is_renamed || is_reassigned {
            let kept = if edit.segments.is_empty() { derived::Kept::Nameless } else { derived::Kept::Nothing };
            derived::discard(&mut tx, id, kept).await?;
        }
        // Passages end where another speaker begins.
        if !edit.segments.is_empty() || is_reassigned {
            search::discard(&mut tx, id, self.store.now()).await?;
        }
        let edited = transcripts::find(&mut tx, &sealer, account, id).await?;
        tx.commit().await?;
        Ok(edited)
    }
}
