//! What becomes of the channels of a recording.

use serde::{Deserialize, Serialize};

/// What becomes of the channels of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Channels {
    /// Two channels that share nothing, as those of a recorded call, are transcribed apart; all others are mixed.
    #[default]
    Auto,
    /// Each is transcribed by itself and is a speaker.
    Separate,
    /// They are mixed into one.
    Mono,
}

impl Channels {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Channels::Auto => "auto",
            Channels::Separate => "separate",
            Channels::Mono => "mono",
        }
    }
}

impl std::str::FromStr for Channels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Channels::Auto),
            "separate" => Ok(Channels::Separate),
            "mono" => Ok(Channels::Mono),
            _ => Err(format!("{text:?} is no choice of channels: give auto, separate or mono")),
        }
    }
}
