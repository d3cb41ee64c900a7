//! The audio track of a recording that has words.
//!
//! Recorders of calls and games write several tracks, and the first may be silent: the microphone that was off. Where nobody named a
//! track and the first has no words, the next ones are tried.

use hark_media::Source;

use crate::SpeechError;
use crate::transcriber::{Progress, Request, Transcriber, Transcription};

/// So many tracks are tried at most, since each costs a whole pass over the file.
const MAX_TRACKS: usize = 8;

/// Transcribes the first track that has words; the first of all if none has.
pub(crate) fn transcribe(
    transcriber: &Transcriber,
    source: Source,
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Transcription, SpeechError> {
    let mut furthest = 0.0;
    let mut forwards = |so_far: Progress<'_>| {
        if so_far.audio_done > furthest {
            furthest = so_far.audio_done;
            progress(so_far);
        }
    };
    let (source, mut again) = source.doubled().map_err(hark_media::MediaError::from)?;
    let (mut first, tracks) = transcriber.transcribe_track(source, request, request.media.track, &mut forwards)?;
    if request.media.track.is_some() || tracks < 2 || !first.result.segments.is_empty() {
        return Ok(first);
    }
    for track in 1..tracks.min(MAX_TRACKS) {
        let Some(source) = again.take() else {
            let warning = format!(
                "only the first of {tracks} audio tracks was read: a stream can't be read twice, give the file or the track"
            );
            first.result.warnings.push(warning);
            return Ok(first);
        };
        let (source, next) = source.doubled().map_err(hark_media::MediaError::from)?;
        again = next;
        match transcriber.transcribe_track(source, request, Some(track), &mut forwards) {
            Ok((mut other, _)) if !other.result.segments.is_empty() => {
                let warning = format!(
                    "there are no words in audio track 0: the text is that of track {track} of 0 to {}",
                    tracks - 1
                );
                other.result.warnings.push(warning);
                return Ok(other);
            }
            // A track that can't be decoded is one without words.
            Ok(_) | Err(SpeechError::Media(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(first)
}
