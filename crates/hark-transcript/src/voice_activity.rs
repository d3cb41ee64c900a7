//! Which sound is decoded.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much sound must resemble speech to be transcribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum VoiceActivity {
    /// All sound is transcribed: for singing, and speech under loud music.
    Off,
    /// What voice activity detection finds, and text of what it leaves out that is certain.
    #[default]
    Gentle,
    /// Only what voice activity detection finds.
    Strict,
}

impl VoiceActivity {
    /// Its name in options and forms.
    pub fn name(self) -> &'static str {
        match self {
            VoiceActivity::Off => "off",
            VoiceActivity::Gentle => "gentle",
            VoiceActivity::Strict => "strict",
        }
    }
}

impl FromStr for VoiceActivity {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [VoiceActivity::Off, VoiceActivity::Gentle, VoiceActivity::Strict];
        let found = all.into_iter().find(|activity| activity.name() == name);
        found.ok_or_else(|| "give off, gentle or strict".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for activity in [VoiceActivity::Off, VoiceActivity::Gentle, VoiceActivity::Strict] {
            assert_eq!(activity.name().parse(), Ok(activity));
            assert_eq!(serde_json::to_value(activity).unwrap(), activity.name());
        }
        assert!("loud".parse::<VoiceActivity>().is_err());
    }
}
