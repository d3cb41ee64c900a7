//! Transcripts in OpenAI's response formats.

use std::io::Write as _;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hark_api::{
    OpenAiDiarized, OpenAiDiarizedSegment, OpenAiFormat, OpenAiSegment, OpenAiTranscription, OpenAiUsage,
    OpenAiVerbose, OpenAiWord, TranscriptionResult,
};
use hark_export::Format;

use crate::error::Failure;
use crate::routes::transcribe::export;

/// The format of the response.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Layout {
    pub(crate) format: OpenAiFormat,
    /// Whether the text is sent as events.
    pub(crate) stream: bool,
    /// Whether the text is a translation into English.
    pub(crate) translated: bool,
    /// Request parameters that `verbose_json` repeats.
    pub(crate) temperature: f32,
    pub(crate) words: bool,
    pub(crate) segments: bool,
}

impl Layout {
    /// The complete response.
    pub(crate) fn respond(&self, result: &TranscriptionResult) -> Result<Response, Failure> {
        Ok(match self.format {
            OpenAiFormat::Json => {
                let (text, warnings) = (result.text.clone(), result.warnings.clone());
                Json(OpenAiTranscription { text, usage: usage(result), warnings }).into_response()
            }
            OpenAiFormat::Text => {
                let body = format!("{}\n", result.text);
                ([(header::CONTENT_TYPE, Format::Txt.media_type())], body).into_response()
            }
            OpenAiFormat::VerboseJson => Json(self.verbose(result)).into_response(),
            OpenAiFormat::DiarizedJson => Json(diarized(result)).into_response(),
            OpenAiFormat::Srt => export(result, Format::Srt)?,
            OpenAiFormat::Vtt => export(result, Format::Vtt)?,
        })
    }

    fn verbose(&self, result: &TranscriptionResult) -> OpenAiVerbose {
        let known = hark_whisper::languages::find(&result.language).filter(|_| !self.translated);
        let words = result.segments.iter().flat_map(|segment| &segment.words);
        let words = words.map(|word| OpenAiWord { word: word.word.clone(), start: word.start, end: word.end });
        let segments = result.segments.iter().zip(0..).map(|(segment, id)| OpenAiSegment {
            id,
            seek: (segment.start.max(0.0) * 100.0) as u64,
            start: segment.start,
            end: segment.end,
            text: segment.text.clone(),
            tokens: Vec::new(),
            temperature: self.temperature,
            // JSON can't represent the logarithm of 0.
            avg_logprob: segment.confidence.max(1e-6).ln(),
            compression_ratio: compression_ratio(&segment.text),
            no_speech_prob: 0.0,
            language: segment.language.clone(),
        });
        OpenAiVerbose {
            task: if self.translated { "translate" } else { "transcribe" }.to_owned(),
            language: match known {
                Some(language) => language.name.to_owned(),
                None if self.translated => "english".to_owned(),
                None => result.language.clone(),
            },
            duration: result.duration,
            text: result.text.clone(),
            segments: self.segments.then(|| segments.collect()),
            words: self.words.then(|| words.collect()),
            usage: usage(result),
            warnings: result.warnings.clone(),
        }
    }
}

/// The segments with speakers, which are letters in OpenAI's format.
fn diarized(result: &TranscriptionResult) -> OpenAiDiarized {
    let letter = |label: &String| result.speakers.iter().position(|known| known == label).map(letters);
    let segments = result.segments.iter().enumerate().map(|(number, segment)| OpenAiDiarizedSegment {
        kind: "transcript.text.segment".to_owned(),
        id: format!("seg_{number:03}"),
        start: segment.start,
        end: segment.end,
        text: segment.text.clone(),
        speaker: segment.speaker.as_ref().and_then(letter).unwrap_or_default(),
    });
    OpenAiDiarized {
        task: "transcribe".to_owned(),
        duration: result.duration,
        text: result.text.clone(),
        segments: segments.collect(),
        usage: usage(result),
        warnings: result.warnings.clone(),
    }
}

/// A, B, …, Z, AA, AB, …
fn letters(number: usize) -> String {
    let last = char::from(b'A' + (number % 26) as u8);
    match number / 26 {
        0 => last.to_string(),
        more => format!("{}{last}", letters(more - 1)),
    }
}

/// The billing unit of a transcription.
pub(crate) fn usage(result: &TranscriptionResult) -> OpenAiUsage {
    OpenAiUsage::Duration { seconds: result.duration.max(0.0).ceil() as u64 }
}

/// The compression ratio of a text with zlib, as Whisper computes it.
fn compression_ratio(text: &str) -> f32 {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    compressed.map_or(1.0, |bytes| text.len() as f32 / bytes.len().max(1) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_api::{Segment, Word};

    fn result() -> TranscriptionResult {
        let word = |text: &str, start: f64| Word { word: text.to_owned(), start, end: start + 0.4, ..Word::default() };
        let segment = Segment {
            start: 1.5,
            end: 2.5,
            text: "guten Tag".to_owned(),
            confidence: 0.5,
            words: vec![word("guten", 1.5), word("Tag", 2.0)],
            ..Segment::default()
        };
        TranscriptionResult {
            text: "guten Tag".to_owned(),
            language: "de".to_owned(),
            duration: 2.6,
            segments: vec![segment],
            ..TranscriptionResult::default()
        }
    }

    fn layout() -> Layout {
        Layout {
            format: OpenAiFormat::VerboseJson,
            stream: false,
            translated: false,
            temperature: 0.0,
            words: true,
            segments: false,
        }
    }

    #[test]
    fn diarized_json_names_speakers_by_letters_in_the_order_they_come() {
        let mut result = result();
        result.speakers = vec!["SPEAKER_00".into(), "SPEAKER_01".into()];
        let said = |speaker: Option<&str>| Segment { speaker: speaker.map(Into::into), ..result.segments[0].clone() };
        result.segments = vec![said(Some("SPEAKER_00")), said(Some("SPEAKER_01")), said(None)];
        let speakers: Vec<String> = diarized(&result).segments.into_iter().map(|segment| segment.speaker).collect();
        assert_eq!(speakers, ["A", "B", ""]);
        assert_eq!([25, 26, 51, 52, 702].map(letters), ["Z", "AA", "AZ", "BA", "AAA"]);
    }

    #[test]
    fn verbose_json_has_what_was_asked_for_and_names_the_language() {
        let verbose = layout().verbose(&result());
        assert_eq!((verbose.language.as_str(), verbose.segments.is_none()), ("german", true));
        let words: Vec<_> = verbose.words.unwrap().into_iter().map(|word| (word.word, word.start)).collect();
        assert_eq!(words, [("guten".to_owned(), 1.5), ("Tag".to_owned(), 2.0)]);
        let translated = Layout { translated: true, words: false, segments: true, ..layout() }.verbose(&result());
        assert_eq!((translated.language.as_str(), translated.task.as_str()), ("english", "translate"));
        let segment = &translated.segments.unwrap()[0];
        assert_eq!((segment.id, segment.seek), (0, 150));
        assert!((segment.avg_logprob - 0.5f32.ln()).abs() < 1e-6);
        assert_eq!(translated.usage, OpenAiUsage::Duration { seconds: 3 });
    }

    #[test]
    fn text_that_goes_in_circles_compresses_well() {
        assert!(compression_ratio(&"again and ".repeat(40)) > 2.4);
        assert!(compression_ratio("The weather is nice today.") < 2.4);
    }
}
