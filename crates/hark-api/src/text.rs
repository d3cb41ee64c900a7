//! Work on text: summaries, translations, analyses, generated texts, embeddings and questions.

use hark_transcript::{AnalysisType, GenerationType, SummaryStyle};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `POST /v1/summarize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SummarizeRequest {
    /// What to summarize.
    #[schema(min_length = 1, pattern = r"\S")]
    pub text: String,
    /// How.
    #[serde(default)]
    pub style: SummaryStyle,
}

/// The body of `POST /v1/transcripts/{id}/summarize`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SummarizeTranscriptRequest {
    /// How.
    #[serde(default)]
    pub style: SummaryStyle,
    /// Write it again even if there is one.
    #[serde(default)]
    pub force: bool,
}

/// The body of `POST /v1/translate`: `text` or `texts`, and a target language under either of its names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TranslateRequest {
    /// One text.
    pub text: Option<String>,
    /// Several texts.
    pub texts: Option<Vec<String>>,
    /// Language to translate into.
    pub target_language: Option<String>,
    /// The other name of `target_language`.
    pub target: Option<String>,
    /// Language of the text; found out when not given.
    pub source_language: Option<String>,
    /// The other name of `source_language`.
    pub source: Option<String>,
}

/// A translation that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// What to translate.
    pub texts: Vec<String>,
    /// Whether the texts came as a list.
    pub is_batch: bool,
    /// Language to translate into.
    pub target: String,
    /// Language of the text, where it was given.
    pub source: Option<String>,
}

impl TranslateRequest {
    /// The translation that is asked for, or what is wrong with the request.
    pub fn check(self) -> Result<Translation, &'static str> {
        let (texts, is_batch) = match (self.text, self.texts) {
            (Some(text), None) => (vec![text], false),
            (None, Some(texts)) => (texts, true),
            (Some(_), Some(_)) => return Err("give `text` or `texts`, not both"),
            (None, None) => return Err("`text` is missing: give `text`, or several as `texts`"),
        };
        if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
            return Err("there is no text to translate");
        }
        let target = match (self.target_language, self.target) {
            (Some(one), Some(other)) if one != other => return Err("`target_language` and `target` differ: give one"),
            (one, other) => one.or(other).ok_or("`target_language` is missing: give a code such as es")?,
        };
        let source = match (self.source_language, self.source) {
            (Some(one), Some(other)) if one != other => return Err("`source_language` and `source` differ: give one"),
            (one, other) => one.or(other).filter(|code| code != "auto"),
        };
        if target.trim().is_empty() {
            return Err("`target_language` is empty: give a code such as es");
        }
        Ok(Translation { texts, is_batch, target, source })
    }
}

/// The answer of `POST /v1/translate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum TranslateAnswer {
    /// Of one text.
    One {
        /// The translation.
        translated_text: String,
        /// The language that the text was in.
        source_language: String,
        /// The language that was asked for.
        target_language: String,
        /// The models that ran.
        model: String,
    },
    /// Of several texts, in their order.
    Several {
        /// The translations.
        translations: Vec<TranslatedText>,
        /// The language that was asked for.
        target_language: String,
        /// The models that ran.
        model: String,
    },
}

/// A translated text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranslatedText {
    /// The translation.
    pub translated_text: String,
    /// The language that the text was in.
    pub source_language: String,
}

/// The body of `POST /v1/analyze`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnalyzeRequest {
    /// What to look at.
    #[schema(min_length = 1, pattern = r"\S")]
    pub text: String,
    /// What to look for.
    pub r#type: AnalysisType,
}

/// The body of `POST /v1/transcripts/{id}/analyze`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptAnalyzeRequest {
    /// What to look for.
    pub r#type: AnalysisType,
    /// Make it again even if there is one.
    #[serde(default)]
    pub force: bool,
}

/// The body of `POST /v1/generate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GenerateRequest {
    /// What to write from.
    #[schema(min_length = 1, pattern = r"\S")]
    pub text: String,
    /// What to write.
    pub r#type: GenerationType,
}

/// The body of `POST /v1/transcripts/{id}/generate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptGenerateRequest {
    /// What to write.
    pub r#type: GenerationType,
    /// Write it again even if there is one.
    #[serde(default)]
    pub force: bool,
}

/// The body of `POST /v1/embed`: `text` or `texts`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbedRequest {
    /// One text or several.
    pub text: Option<EmbedText>,
    /// Several texts.
    pub texts: Option<Vec<String>>,
}

/// One text or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EmbedText {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl EmbedRequest {
    /// The texts to embed, or what is wrong with the request.
    pub fn check(self) -> Result<Vec<String>, &'static str> {
        let texts = match (self.text, self.texts) {
            (Some(_), Some(_)) => return Err("give `text` or `texts`, not both"),
            (Some(EmbedText::One(text)), None) => vec![text],
            (Some(EmbedText::Several(texts)), None) | (None, Some(texts)) => texts,
            (None, None) => return Err("`text` is missing: give a text or a list of texts"),
        };
        if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
            return Err("there is no text to embed");
        }
        Ok(texts)
    }
}

/// The answer of `POST /v1/embed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Embeddings {
    /// A vector for each text.
    pub embeddings: Vec<Vec<f32>>,
    /// Numbers in a vector.
    pub dimensions: u32,
    /// The model that ran.
    pub model: String,
}

/// The body of `POST /v1/transcripts/{id}/chat`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// What to ask.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    pub question: String,
    /// The conversation to go on with.
    pub session_id: Option<String>,
    /// Whether the answer comes as server-sent events.
    #[serde(default)]
    pub stream: bool,
}

/// The answer to a question about transcripts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatAnswer {
    /// The answer, or a sentence that says that there is none.
    pub answer: String,
    /// Whether the answer was found.
    pub found: bool,
    /// Where it comes from, best first; empty where nothing was found.
    pub sources: Vec<ChatSource>,
    /// The conversation.
    pub session_id: String,
    /// The model that answered.
    pub model: String,
}

/// A place in a transcript that an answer rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatSource {
    /// What was said.
    pub text: String,
    /// Who said it, where that is known.
    pub speaker: Option<String>,
    /// Seconds from the start of the recording.
    pub start_time: f64,
    /// Seconds from the start of the recording.
    pub end_time: f64,
    /// How much of answer and question it says, compared to the place that says most: 0 to 1.
    pub relevance: f32,
    /// Which segment, counted from 0.
    pub segment_order: i64,
    /// The same as `relevance`.
    pub score: f32,
    /// The transcript.
    pub transcript_id: i64,
}

/// The event `delta` of a streamed answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatAnswerDelta {
    /// What comes next; all of them joined are the answer.
    pub text: String,
}

/// The event `sources` of a streamed answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatAnswerSources {
    /// Where the answer comes from.
    pub sources: Vec<ChatSource>,
}

/// Requests that need one of several fields, as the document describes them: each variant is a way to write one.
mod ways {
    #![allow(dead_code, reason = "they exist for their documentation")]

    use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder};
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    use super::{EmbedRequest, EmbedText, TranslateRequest};

    /// A text that says something.
    #[derive(ToSchema)]
    #[schema(value_type = String, min_length = 1, pattern = r"\S")]
    struct NotBlank(String);

    /// What to translate: `text` or `texts`, and a target language under either of its names.
    #[derive(ToSchema)]
    #[schema(as = TranslateRequest)]
    #[serde(untagged)]
    enum Translate {
        /// One text.
        One {
            text: NotBlank,
            /// Language to translate into.
            target_language: NotBlank,
            /// Language of the text; found out when not given.
            source_language: Option<String>,
        },
        /// One text; languages under their other names.
        OneInShort { text: NotBlank, target: NotBlank, source: Option<String> },
        /// Several texts.
        Several {
            #[schema(min_items = 1)]
            texts: Vec<NotBlank>,
            target_language: NotBlank,
            source_language: Option<String>,
        },
        /// Several texts; languages under their other names.
        SeveralInShort {
            #[schema(min_items = 1)]
            texts: Vec<NotBlank>,
            target: NotBlank,
            source: Option<String>,
        },
    }

    /// What to embed: `text` or `texts`.
    #[derive(ToSchema)]
    #[schema(as = EmbedRequest)]
    #[serde(untagged)]
    enum Embed {
        /// One text.
        One { text: NotBlank },
        /// Several texts.
        Several {
            #[schema(min_items = 1)]
            text: Vec<NotBlank>,
        },
        /// Several texts under the other name.
        Texts {
            #[schema(min_items = 1)]
            texts: Vec<NotBlank>,
        },
    }

    impl PartialSchema for EmbedText {
        fn schema() -> RefOr<Schema> {
            let several = ArrayBuilder::new().items(NotBlank::schema()).min_items(Some(1));
            OneOfBuilder::new().item(NotBlank::schema()).item(several).into()
        }
    }

    impl ToSchema for EmbedText {}

    macro_rules! described_by {
        ($($request:ty: $ways:ty),*) => {
            $(
                impl PartialSchema for $request {
                    fn schema() -> RefOr<Schema> {
                        <$ways>::schema()
                    }
                }

                impl ToSchema for $request {
                    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                        <$ways>::schemas(schemas);
                    }
                }
            )*
        };
    }

    described_by!(TranslateRequest: Translate, EmbedRequest: Embed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(json: &str) -> Result<Translation, &'static str> {
        serde_json::from_str::<TranslateRequest>(json).unwrap().check()
    }

    #[test]
    fn both_names_of_a_translation_field_mean_the_same() {
        let one = translate(r#"{"text": "hello", "target_language": "es", "source_language": "en"}"#);
        let other = translate(r#"{"text": "hello", "target": "es", "source": "en"}"#);
        assert_eq!(one.clone().unwrap().target, "es");
        assert_eq!(one, other);
        assert_eq!(translate(r#"{"texts": ["a"], "target": "es", "source": "auto"}"#).unwrap().source, None);
    }

    #[test]
    fn both_or_neither_of_text_and_texts_is_refused() {
        for json in [
            r#"{"target": "es"}"#,
            r#"{"text": "a", "texts": ["b"], "target": "es"}"#,
            r#"{"text": " ", "target": "es"}"#,
            r#"{"texts": [], "target": "es"}"#,
            r#"{"text": "a"}"#,
            r#"{"text": "a", "target": "es", "target_language": "de"}"#,
        ] {
            assert!(translate(json).is_err(), "{json}");
        }
    }

    #[test]
    fn texts_to_embed_come_as_one_or_as_a_list() {
        let check = |json: &str| serde_json::from_str::<EmbedRequest>(json).unwrap().check();
        assert_eq!(check(r#"{"text": "a"}"#).unwrap(), ["a"]);
        assert_eq!(check(r#"{"text": ["a", "b"]}"#).unwrap(), ["a", "b"]);
        assert_eq!(check(r#"{"texts": ["a", "b"]}"#).unwrap(), ["a", "b"]);
        assert!(check("{}").is_err());
    }
}
