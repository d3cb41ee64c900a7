//! Arguments of the commands that work on text.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hark_api::{AnalysisType, GenerationType, SummaryStyle};
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};

use super::RemoteArgs;

const STYLES: [&str; 5] = ["brief", "detailed", "executive", "action_items", "bullet_points"];
const ANALYSES: [&str; 6] = ["sentiment", "topics", "entities", "action_items", "questions", "pii_redact"];
const CONTENTS: [&str; 10] = [
    "blog_post",
    "social_media",
    "meeting_notes",
    "study_guide",
    "flashcards",
    "quiz",
    "chapter_markers",
    "key_quotes",
    "show_notes",
    "newsletter",
];

/// What every command on a text takes.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    /// A text, a transcript (`hark transcribe -f json`), subtitles, or a recording, which is transcribed first; `-` reads a text from stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Language model, a name of `hark models` or a GGUF file [default: the one of hark.toml, else the catalogue's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Address of another server's OpenAI-compatible API, whose language model is used; its key is HARK_TEXT_ENDPOINT_KEY
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    pub(crate) endpoint: Option<String>,

    /// Print the whole answer as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SummarizeArgs {
    #[command(flatten)]
    pub(crate) text: TextArgs,

    /// How it is written
    #[arg(short, long, value_name = "STYLE", default_value = "brief", value_parser = named::<SummaryStyle>(&STYLES))]
    pub(crate) style: SummaryStyle,
}

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    pub(crate) text: TextArgs,

    /// What to look for
    #[arg(short, long = "type", value_name = "TYPE", value_parser = named::<AnalysisType>(&ANALYSES))]
    pub(crate) kind: AnalysisType,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) text: TextArgs,

    /// What to write
    #[arg(short, long = "type", value_name = "TYPE", value_parser = named::<GenerationType>(&CONTENTS))]
    pub(crate) kind: GenerationType,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// A text, a transcript (`hark transcribe -f json`), subtitles, or a recording, which is transcribed first; `-` reads a text from stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// What to ask; each question is asked with those before it [default: asks for questions]
    #[arg(value_name = "QUESTION")]
    pub(crate) questions: Vec<String>,

    /// Language model, a name of `hark models` or a GGUF file [default: the one of hark.toml, else the catalogue's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Address of another server's OpenAI-compatible API, whose language model is used; its key is HARK_TEXT_ENDPOINT_KEY
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,

    /// Print a JSON object a line for each answer
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TranslateArgs {
    /// A text, subtitles, a transcript (`hark transcribe -f json`), or a recording, which is transcribed first; `-` reads from stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Language to translate into, as a code such as `pt`
    #[arg(short, long, value_name = "CODE")]
    pub(crate) to: String,

    /// Language of the text [default: found out]
    #[arg(short, long, value_name = "CODE")]
    pub(crate) from: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// A parser of the names that the API uses.
fn named<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(|name| T::deserialize(StrDeserializer::<Error>::new(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_command_line_is_one_of_the_api() {
        fn all<T: DeserializeOwned>(names: &[&str]) {
            for name in names {
                assert!(T::deserialize(StrDeserializer::<Error>::new(name)).is_ok(), "{name}");
            }
        }
        all::<SummaryStyle>(&STYLES);
        all::<AnalysisType>(&ANALYSES);
        all::<GenerationType>(&CONTENTS);
    }
}
