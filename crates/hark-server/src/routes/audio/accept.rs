//! Content negotiation of sounds: the format that `Accept` asks for.

use axum::http::{HeaderMap, header};
use hark_api::ErrorKind;

use crate::engine::SoundFormat;
use crate::error::Failure;

/// The format that a client prefers of those that can be made, WAV where it does not matter (RFC 9110, section 12.5.1).
pub(crate) fn accepted_format(headers: &HeaderMap) -> Result<SoundFormat, Failure> {
    let values = headers.get_all(header::ACCEPT).iter();
    let text = values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
    if text.trim().is_empty() {
        return Ok(SoundFormat::default());
    }
    let ranges: Vec<Range> = text.split(',').filter_map(Range::parse).collect();
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

/// One media range of `Accept`.
struct Range {
    /// In lower case.
    name: String,
    weight: f32,
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let mut parts = text.split(';');
        let name = parts.next()?.trim().to_ascii_lowercase();
        if name.is_empty() {
            return None;
        }
        let quality = parts.find_map(|part| part.trim().strip_prefix("q=").map(str::to_owned));
        let weight = quality.map_or(Some(1.0), |quality| quality.trim().parse().ok())?;
        (0.0..=1.0).contains(&weight).then_some(Range { name, weight })
    }
}

/// How much a format is wanted: the weight of the most specific range that names it.
fn weight(ranges: &[Range], format: SoundFormat) -> f32 {
    let of = |is_it: &dyn Fn(&str) -> bool| {
        ranges.iter().filter(|range| is_it(&range.name)).map(|range| range.weight).reduce(f32::max)
    };
    let exact = of(&|name| names(format).contains(&name));
    exact.or_else(|| of(&|name| name == "audio/*")).or_else(|| of(&|name| name == "*/*")).unwrap_or(0.0)
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
