//! The draft of a transcript: the segments that its worker has decoded so far. A row of derived data that exists while the job is processed.

use std::borrow::Cow;

use hark_api::Segment;

use crate::clock::Micros;
use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::sealing::Sealer;
use crate::transcripts::derived::{self, DRAFT};

/// Start, end, confidence and text: arrays, not objects, because a draft is written again and again.
type DraftSegment<'a> = (f64, f64, f32, Cow<'a, str>);

/// Replaces the draft; words and speakers are not kept.
pub(crate) async fn write(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: TranscriptId,
    segments: &[Segment],
    now: Micros,
) -> Result<()> {
    let rows = segments.iter();
    let rows: Vec<DraftSegment<'_>> =
        rows.map(|s| (s.start, s.end, s.confidence, Cow::Borrowed(s.text.as_str()))).collect();
    let body = serde_json::to_vec(&rows).map_err(|_| Error::Conflict("a time of a segment is not a number"))?;
    derived::store(tx, sealer, account, id, DRAFT, &body, now).await
}

/// The segments of the draft; none where there is none.
pub(crate) async fn read(tx: &mut Tx, sealer: &Sealer, id: TranscriptId) -> Result<Vec<Segment>> {
    let sql = "SELECT body FROM derived WHERE transcript_id = $1 AND kind = $2";
    let Some(row) = tx.optional(sql, args![id, DRAFT]).await? else { return Ok(Vec::new()) };
    let body = sealer.open(&derived::aad(id, DRAFT), &row.get::<Vec<u8>>("body")?)?;
    let rows: Vec<DraftSegment<'_>> =
        serde_json::from_slice(&body).map_err(|_| Error::Damaged(format!("the draft of transcript {id}")))?;
    let segment = |(start, end, confidence, text): DraftSegment<'_>| Segment {
        start,
        end,
        confidence,
        text: text.into_owned(),
        ..Segment::default()
    };
    Ok(rows.into_iter().map(segment).collect())
}

/// Removes the draft.
pub(crate) async fn forget(tx: &mut Tx, id: TranscriptId) -> Result<()> {
    tx.execute("DELETE FROM derived WHERE transcript_id = $1 AND kind = $2", args![id, DRAFT]).await.map(drop)
}
