//! The rows of a transcript's segments, with sealed text and words.

use std::borrow::Cow;

use hark_api::{Segment, TranscriptionResult, Word};
use serde::{Deserialize, Serialize};

use crate::db::{Row, Tx, Value, args};
use crate::error::{Error, Result};
use crate::ids::TranscriptId;
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};

/// Rows of one `INSERT`: enough to make the round trip cheap, few enough for SQLite's 32,766 placeholders.
const BATCH: usize = 200;

/// The sealed part of a segment. Words are arrays, not objects, because an hour has ten thousand of them.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    text: Cow<'a, str>,
    words: Vec<(Cow<'a, str>, f64, f64, f32)>,
    /// Labels of overlapping speakers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<Cow<'a, str>>,
}

/// A segment ready to be written.
pub(crate) struct SealedSegment {
    start: f64,
    end: f64,
    speaker: Option<String>,
    confidence: f64,
    body: Vec<u8>,
}

fn aad(id: TranscriptId, position: i64) -> AssociatedData {
    columns::SEGMENT.associated_data(&[&id, &position])
}

/// Seals the text and the words of a segment at its position.
pub(crate) fn seal_body(sealer: &Sealer, id: TranscriptId, position: i64, segment: &Segment) -> Result<Vec<u8>> {
    let words = segment.words.iter();
    let body = Body {
        text: Cow::Borrowed(&segment.text),
        words: words.map(|w| (Cow::Borrowed(w.word.as_str()), w.start, w.end, w.confidence)).collect(),
        others: segment.overlapping_speakers.iter().map(|label| Cow::Borrowed(label.as_str())).collect(),
        language: segment.language.as_deref().map(Cow::Borrowed),
    };
    let body =
        serde_json::to_vec(&body).map_err(|_| Error::Conflict("a time or confidence of a word is not a number"))?;
    sealer.seal(&aad(id, position), &body)
}

/// Seals all segments of a result; called before the transaction, to keep that short.
pub(crate) fn seal_all(sealer: &Sealer, id: TranscriptId, segments: &[Segment]) -> Result<Vec<SealedSegment>> {
    seal_from(sealer, id, 0, segments)
}

/// Seals segments at the positions from `first` on.
pub(crate) fn seal_from(
    sealer: &Sealer,
    id: TranscriptId,
    first: i64,
    segments: &[Segment],
) -> Result<Vec<SealedSegment>> {
    let seal = |(position, segment): (i64, &Segment)| {
        Ok(SealedSegment {
            start: segment.start,
            end: segment.end,
            speaker: segment.speaker.clone(),
            confidence: segment.confidence.into(),
            body: seal_body(sealer, id, position, segment)?,
        })
    };
    (first..).zip(segments).map(seal).collect()
}

/// Replaces the segments of a transcript.
pub(crate) async fn write(tx: &mut Tx, id: TranscriptId, segments: &[SealedSegment]) -> Result<()> {
    write_from(tx, id, 0, segments).await
}

/// Replaces the segments of a transcript from the position `first` on.
pub(crate) async fn write_from(tx: &mut Tx, id: TranscriptId, first: i64, segments: &[SealedSegment]) -> Result<()> {
    tx.execute("DELETE FROM segments WHERE transcript_id = $1 AND position >= $2", args![id, first]).await?;
    for (batch, rows) in segments.chunks(BATCH).enumerate() {
        let mut sql = String::from(
            "INSERT INTO segments (transcript_id, position, start_seconds, end_seconds, speaker, confidence, body) VALUES ",
        );
        let mut values: Vec<Value<'_>> = vec![id.into()];
        for (row, segment) in rows.iter().enumerate() {
            let next = values.len() + 1;
            if row > 0 {
                sql.push(',');
            }
            sql.push_str("($1");
            for placeholder in next..next + 6 {
                sql.push_str(&format!(",${placeholder}"));
            }
            sql.push(')');
            values.extend([
                Value::from(first + (batch * BATCH + row) as i64),
                segment.start.into(),
                segment.end.into(),
                segment.speaker.as_deref().into(),
                segment.confidence.into(),
                (&segment.body).into(),
            ]);
        }
        tx.execute(&sql, &values).await?;
    }
    Ok(())
}

fn segment(row: &Row, sealer: &Sealer, id: TranscriptId) -> Result<Segment> {
    let aad = aad(id, row.get("position")?);
    let body = sealer.open(&aad, &row.get::<Vec<u8>>("body")?)?;
    let body: Body<'_> =
        serde_json::from_slice(&body).map_err(|_| Error::Damaged(format!("{aad} is not a segment")))?;
    let word = |(word, start, end, confidence): (Cow<'_, str>, f64, f64, f32)| Word {
        word: word.into_owned(),
        start,
        end,
        confidence,
    };
    Ok(Segment {
        start: row.get("start_seconds")?,
        end: row.get("end_seconds")?,
        text: body.text.into_owned(),
        speaker: row.get("speaker")?,
        language: body.language.map(Cow::into_owned),
        overlapping_speakers: body.others.into_iter().map(Cow::into_owned).collect(),
        confidence: row.get::<f64>("confidence")? as f32,
        words: body.words.into_iter().map(word).collect(),
    })
}

/// The text of a segment alone, from a row with its `position` and `body`.
pub(crate) fn open_text(row: &Row, sealer: &Sealer, id: TranscriptId) -> Result<String> {
    /// The other fields are skipped.
    #[derive(Deserialize)]
    struct Text {
        text: String,
    }
    let aad = aad(id, row.get("position")?);
    let body = sealer.open(&aad, &row.get::<Vec<u8>>("body")?)?;
    let body: Text = serde_json::from_slice(&body).map_err(|_| Error::Damaged(format!("{aad} is not a segment")))?;
    Ok(body.text)
}

const COLUMNS: &str = "position, start_seconds, end_seconds, speaker, confidence, body";

/// All segments of a transcript, in order, with speaker labels as they were detected.
pub(crate) async fn read(tx: &mut Tx, sealer: &Sealer, id: TranscriptId) -> Result<Vec<Segment>> {
    let sql = format!("SELECT {COLUMNS} FROM segments WHERE transcript_id = $1 ORDER BY position");
    tx.all(&sql, args![id]).await?.iter().map(|row| segment(row, sealer, id)).collect()
}

/// One segment of a transcript.
pub(crate) async fn read_one(tx: &mut Tx, sealer: &Sealer, id: TranscriptId, position: i64) -> Result<Segment> {
    let sql = format!("SELECT {COLUMNS} FROM segments WHERE transcript_id = $1 AND position = $2");
    let row = tx.optional(&sql, args![id, position]).await?.ok_or(Error::NotFound("segment"))?;
    segment(&row, sealer, id)
}

/// The number of words of a segment, by its word times where it has them.
pub(crate) fn words_in(segment: &Segment) -> i64 {
    let words = if segment.words.is_empty() { segment.text.split_whitespace().count() } else { segment.words.len() };
    words as i64
}

/// Speaker labels in order of first appearance.
pub(crate) fn speakers(segments: &[Segment]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for label in segments.iter().filter_map(|s| s.speaker.as_ref()) {
        if !out.contains(label) {
            out.push(label.clone());
        }
    }
    out
}

/// Assembles a result as the engine returns it.
pub(crate) fn assemble(segments: Vec<Segment>, language: String, duration: f64, model: String) -> TranscriptionResult {
    let text = segments.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" ");
    TranscriptionResult {
        text,
        language,
        duration,
        speakers: speakers(&segments),
        segments,
        model,
        warnings: Vec::new(),
    }
}
