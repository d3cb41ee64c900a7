//! Content negotiation of sounds: the format that `Accept` asks for.

use axum::http::{HeaderMap, header};
use hark_api::ErrorKind;

use crate::engine::SoundFormat;
use crate::error::Failure;
use crate::preferences::{Preference, preferences, weight_of};

/// The format that a client prefers of those that can be made, WAV where it does not matter (RFC 9110, section 12.5.1).
pub(crate) fn accepted_format(headers: &HeaderMap) -> Result<SoundFormat, Failure> {
    let Some(ranges) = preferences(headers, header::ACCEPT) else { return Ok(SoundFormat::default()) };
    let mut best = None;
    for format in SoundFormat::ALL {
        let weight = weight(&ranges, format);
        // The first of several with the same weight.
        if weight > best.map_or(0.0, |(weight, _)| weight) {
            best = Some((weight, format));
        }
    }
    best.map(|(_, format)| format).ok_or_else(|| {
        let all = SoundFormat::ALL.map(SoundFormat::media_type).join(", ");
        Failure::new(
            ErrorKind::NotAcceptable,
            format!("`Accept` names none of the media types that can be made: {all}"),
        )
    })
}

/// How much a format is wanted: the weight of the most specific range that names it.
fn weight(ranges: &[Preference], format: SoundFormat) -> f32 {
    let of = |range: &str| weight_of(ranges, |name| name == range);
    let exact = weight_of(ranges, |name| names(format).contains(&name));
    exact.or_else(|| of("audio/*")).or_else(|| of("*/*")).unwrap_or(0.0)
}

/// The names of a format's media type, the registered or usual one first.
fn names(format: SoundFormat) -> &'static [&'static str] {
    match format {
        SoundFormat::Wav => &["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
        SoundFormat::Flac => &["audio/flac", "audio/x-flac"],
        SoundFormat::Mp3 => &["audio/mpeg", "audio/mp3"],
        SoundFormat::Ogg => &["audio/ogg", "audio/opus"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(accept: &str) -> Result<SoundFormat, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        accepted_format(&headers).map_err(|failure| failure.error.status())
    }

    #[test]
    fn a_format_is_chosen_by_weight_then_by_order_and_wav_where_it_does_not_matter() {
        for (accept, expected) in [
            ("", SoundFormat::Wav),
            ("*/*", SoundFormat::Wav),
            ("audio/*", SoundFormat::Wav),
            ("audio/flac", SoundFormat::Flac),
            ("AUDIO/MPEG; q=0.5", SoundFormat::Mp3),
            ("audio/ogg; codecs=opus", SoundFormat::Ogg),
            ("audio/flac;q=0.3, audio/mpeg;q=0.9", SoundFormat::Mp3),
            ("audio/wav;q=0, */*", SoundFormat::Flac),
            ("text/html, audio/flac, */*;q=0.1", SoundFormat::Flac),
            ("application/json, */*;q=0.1", SoundFormat::Wav),
        ] {
            assert_eq!(format(accept), Ok(expected), "{accept}");
        }
        assert_eq!(accepted_format(&HeaderMap::new()).map_err(|_| ()), Ok(SoundFormat::Wav));
    }

    #[test]
    fn what_can_not_be_made_is_not_acceptable() {
        for accept in ["video/mp4", "audio/aac, image/*", "audio/*;q=0", "audio/flac;q=2", "nonsense"] {
            assert_eq!(format(accept), Err(406), "{accept}");
        }
    }
}
