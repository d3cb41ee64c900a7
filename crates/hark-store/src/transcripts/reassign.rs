//! Segments that another speaker said than the one that was detected.

use std::collections::{BTreeMap, BTreeSet};

use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::TranscriptId;
use crate::sealing::Sealer;
use crate::transcripts::{self, segment};

/// What a detected speaker's label begins with; a number follows.
const LABEL: &str = "SPEAKER_";

/// The speakers of a transcript: labels, and the names that some have.
struct Speakers {
    labels: BTreeSet<String>,
    names: BTreeMap<String, String>,
}

impl Speakers {
    /// The label of a speaker by label or name. One that nobody has is a new speaker's, who gets the next label and that name unless it is a label itself.
    async fn label(&mut self, tx: &mut Tx, sealer: &Sealer, id: TranscriptId, speaker: &str) -> Result<String> {
        if self.labels.contains(speaker) {
            return Ok(speaker.to_owned());
        }
        if let Some((label, _)) = self.names.iter().find(|(_, name)| *name == speaker) {
            return Ok(label.clone());
        }
        let is_label = number(speaker).is_some();
        let next = self.labels.iter().filter_map(|label| number(label)).max().map_or(0, |last| last + 1);
        let label = if is_label { speaker.to_owned() } else { format!("{LABEL}{next:02}") };
        self.labels.insert(label.clone());
        if !is_label {
            transcripts::write_name(tx, sealer, id, &label, speaker).await?;
            self.names.insert(label.clone(), speaker.to_owned());
        }
        Ok(label)
    }
}

/// The number of a label.
fn number(label: &str) -> Option<u32> {
    label.strip_prefix(LABEL).filter(|digits| (2..=4).contains(&digits.len()))?.parse().ok()
}

/// Gives segments, by their positions, to speakers by label or name; an empty one stands for nobody. Returns whether that changes something.
pub(super) async fn reassign(
    tx: &mut Tx,
    sealer: &Sealer,
    id: TranscriptId,
    wanted: &BTreeMap<i64, String>,
) -> Result<bool> {
    let mut segments = segment::read(tx, sealer, id).await?;
    let names = transcripts::names(tx, sealer, id).await?;
    let heard = segments.iter().flat_map(|segment| segment.speaker.iter().chain(&segment.overlapping_speakers));
    let labels = heard.chain(names.keys()).cloned().collect();
    let mut speakers = Speakers { labels, names };
    let mut is_changed = false;
    for (&position, speaker) in wanted {
        let segment = usize::try_from(position).ok().and_then(|position| segments.get_mut(position));
        let segment = segment.ok_or(Error::NotFound("segment"))?;
        let label = match speaker.as_str() {
            "" => None,
            speaker => Some(speakers.label(tx, sealer, id, speaker).await?),
        };
        if segment.speaker == label {
            continue;
        }
        is_changed = true;
        // Who speaks does not speak over themselves.
        segment.overlapping_speakers.retain(|other| Some(other) != label.as_ref());
        segment.speaker = label;
        let body = segment::seal_body(sealer, id, position, segment)?;
        let sql = "UPDATE segments SET speaker = $1, body = $2 WHERE transcript_id = $3 AND position = $4";
        tx.execute(sql, args![segment.speaker.as_deref(), &body, id, position]).await?;
    }
    if is_changed {
        let count = segment::speakers(&segments).len() as i64;
        tx.execute("UPDATE transcripts SET num_speakers = $1 WHERE id = $2", args![count, id]).await?;
    }
    Ok(is_changed)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn only_what_the_service_makes_is_a_label() {
        assert_eq!(["SPEAKER_00", "SPEAKER_12", "SPEAKER_100"].map(number), [Some(0), Some(12), Some(100)]);
        assert_eq!(["SPEAKER_", "SPEAKER_1", "SPEAKER_99999", "SPEAKER_x1", "Speaker 1", ""].map(number), [None; 6]);
    }
}
