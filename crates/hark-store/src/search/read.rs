//! The text of passages and the transcripts that they are from.

use std::collections::{BTreeMap, HashMap};

use super::Search;
use crate::clock::Micros;
use crate::db::{Row, Value};
use crate::error::Result;
use crate::ids::{AccountId, PassageId, TranscriptId};
use crate::transcripts::{self, segment};

/// A passage with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPassage {
    /// Its id.
    pub id: PassageId,
    /// The transcript that it is from.
    pub transcript: TranscriptId,
    /// Its segments with words, in order.
    pub segments: Vec<PassageSegment>,
    text_offset: usize,
    text_length: usize,
}

/// A segment of a passage.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageSegment {
    /// Its place in the transcript, from 0.
    pub position: i64,
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// The label of who speaks, see [`SearchedTranscript::speakers`].
    pub speaker: Option<String>,
    /// What is said, without white space around it.
    pub text: String,
}

/// A transcript in which something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedTranscript {
    /// Its title.
    pub title: String,
    /// Its language.
    pub language: String,
    /// When it was created.
    pub created_at: Micros,
    /// Names of speakers by label, where they have one.
    pub speakers: BTreeMap<String, String>,
}

impl FoundPassage {
    /// The text of the passage: its segments, joined by a space.
    pub fn text(&self) -> String {
        let joined = self.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" ");
        let start = joined.floor_char_boundary(self.text_offset);
        let end = joined.floor_char_boundary(self.text_offset.saturating_add(self.text_length)).max(start);
        joined[start..end].trim_end().to_owned()
    }

    /// The segment that a byte of the text belongs to; none in a passage without segments.
    pub fn segment_at(&self, byte: usize) -> Option<&PassageSegment> {
        let mut end = 0;
        let at = self.text_offset + byte;
        let found = self.segments.iter().find(|segment| {
            end += segment.text.len() + 1;
            at < end
        });
        found.or(self.segments.last())
    }
}

fn segment_of(row: &Row, sealer: &crate::sealing::Sealer, transcript: TranscriptId) -> Result<PassageSegment> {
    Ok(PassageSegment {
        position: row.get("position")?,
        start: row.get("start_seconds")?,
        end: row.get("end_seconds")?,
        speaker: row.get("speaker")?,
        text: segment::open_text(row, sealer, transcript)?.trim().to_owned(),
    })
}

/// `$first, $second, …` for these values.
fn placeholders<'a, T: Copy + Into<Value<'a>>>(values: &mut Vec<Value<'a>>, of: &[T]) -> String {
    let numbered = of.iter().map(|&value| {
        values.push(value.into());
        format!("${}", values.len())
    });
    numbered.collect::<Vec<_>>().join(", ")
}

impl Search<'_> {
    /// The passages with these ids, in their order; those of other accounts, and those that were replaced meanwhile, are left out.
    pub async fn passages(self, account: AccountId, ids: &[PassageId]) -> Result<Vec<FoundPassage>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sealer = self.store.sealer(account).await?;
        let mut values: Vec<Value<'_>> = vec![account.into()];
        let sql = format!(
            "SELECT p.id AS id, p.transcript_id AS transcript_id, p.text_offset AS text_offset, p.text_length AS text_length,
                 s.position AS position, s.start_seconds AS start_seconds, s.end_seconds AS end_seconds, s.speaker AS speaker, s.body AS body
             FROM search_passages p JOIN segments s
                 ON s.transcript_id = p.transcript_id AND s.position >= p.first_segment AND s.position <= p.last_segment
             WHERE p.account_id = $1 AND p.id IN ({}) ORDER BY p.id, s.position",
            placeholders(&mut values, ids)
        );
        let mut found: HashMap<PassageId, FoundPassage> = HashMap::new();
        for row in self.store.db().all(&sql, &values).await? {
            let (id, transcript) = (PassageId(row.get("id")?), TranscriptId(row.get("transcript_id")?));
            let length = |name| row.get::<i64>(name).map(|length| usize::try_from(length).unwrap_or(0));
            let passage = match found.entry(id) {
                std::collections::hash_map::Entry::Occupied(passage) => passage.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => place.insert(FoundPassage {
                    id,
                    transcript,
                    segments: Vec::new(),
                    text_offset: length("text_offset")?,
                    text_length: length("text_length")?,
                }),
            };
            let segment = segment_of(&row, &sealer, transcript)?;
            if !segment.text.is_empty() {
                passage.segments.push(segment);
            }
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    /// Titles, dates and speakers' names of transcripts of an account.
    pub async fn transcripts(
        self,
        account: AccountId,
        ids: &[TranscriptId],
    ) -> Result<HashMap<TranscriptId, SearchedTranscript>> {
        let mut found = HashMap::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().snapshot().await?;
        let mut values: Vec<Value<'_>> = vec![account.into()];
        let sql = format!(
            "SELECT id, title, language, created_at FROM transcripts WHERE account_id = $1 AND id IN ({})",
            placeholders(&mut values, ids)
        );
        for row in tx.all(&sql, &values).await? {
            let id = TranscriptId(row.get("id")?);
            let title = sealer.open_text(&transcripts::title_aad(id), &row.get::<Vec<u8>>("title")?)?;
            let (language, created_at) = (row.get("language")?, row.get("created_at")?);
            let speakers = transcripts::names(&mut tx, &sealer, id).await?;
            found.insert(id, SearchedTranscript { title, language, created_at, speakers });
        }
        Ok(found)
    }
}
