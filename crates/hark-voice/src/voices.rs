//! The voices by name: which language each speaks best, and which one speaks where none is named.

use hark_say::Language;

/// The codes of the languages of speech synthesis (contract, `POST /v1/tts`): those that can be cloned.
pub use hark_clone::LANGUAGES;

/// Speeds at which the model still speaks clearly.
pub const SPEEDS: std::ops::RangeInclusive<f32> = 0.5..=2.0;

/// The voice for languages that have none of their own.
const FALLBACK: &str = "af_heart";

/// Whether a voice sounds like a woman's or a man's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gender {
    /// A woman's voice.
    Female,
    /// A man's voice.
    Male,
}

/// A voice that comes with the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetVoice {
    /// Its name, such as `af_heart`.
    pub name: String,
    /// The code of the language that it speaks best, such as `en-us`.
    pub language: &'static str,
    /// What it sounds like.
    pub gender: Gender,
}

impl PresetVoice {
    /// What the name of a voice says: its first letter is the language, the second the gender. None for other names.
    pub fn of_name(name: &str) -> Option<Self> {
        let (prefix, rest) = name.split_once('_')?;
        let mut letters = prefix.chars();
        let language = match letters.next()? {
            'a' => "en-us",
            'b' => "en-gb",
            'e' => "es",
            'f' => "fr",
            'h' => "hi",
            'i' => "it",
            'j' => "ja",
            'p' => "pt-br",
            'z' => "zh",
            _ => return None,
        };
        let gender = match letters.next()? {
            'f' => Gender::Female,
            'm' => Gender::Male,
            _ => return None,
        };
        (letters.next().is_none() && !rest.is_empty()).then(|| PresetVoice { name: name.to_owned(), language, gender })
    }
}

/// The voice that speaks a language where none is named.
pub(crate) fn default_for(language: &Language) -> &'static str {
    match language.code {
        "en-gb" => "bf_emma",
        "es" => "ef_dora",
        "fr" => "ff_siwis",
        "hi" => "hf_alpha",
        "it" => "if_sara",
        "ja" => "jf_alpha",
        "pt-br" => "pf_dora",
        _ => FALLBACK,
    }
}

/// The names of OpenAI's voices, and what speaks for them here.
const ALIASES: [(&str, &str); 13] = [
    ("alloy", "af_alloy"),
    ("ash", "am_adam"),
    ("ballad", "bm_george"),
    ("cedar", "am_michael"),
    ("coral", "af_sarah"),
    ("echo", "am_echo"),
    ("fable", "bm_fable"),
    ("marin", "af_heart"),
    ("nova", "af_nova"),
    ("onyx", "am_onyx"),
    ("sage", "af_kore"),
    ("shimmer", "af_bella"),
    ("verse", "am_puck"),
];

/// The voice that speaks where one of OpenAI's is named.
pub fn preset_of_alias(alias: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(name, _)| name.eq_ignore_ascii_case(alias)).map(|(_, preset)| *preset)
}

/// The names of OpenAI's voices for which a voice speaks.
pub fn aliases_of(preset: &str) -> impl Iterator<Item = &'static str> + '_ {
    ALIASES.iter().filter(move |(_, one)| *one == preset).map(|(name, _)| *name)
}

/// A language as the contract writes it: `en` for `en-us`.
pub(crate) fn public_code(language: &Language) -> &'static str {
    language.code.split('-').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_language_and_gender_and_other_names_tell_nothing() {
        let voice = PresetVoice::of_name("bm_george").unwrap();
        assert_eq!((voice.language, voice.gender), ("en-gb", Gender::Male));
        assert_eq!(PresetVoice::of_name("zf_xiaoni").unwrap().language, "zh");
        for other in ["", "alloy", "_heart", "a_heart", "af_", "xf_heart", "ax_heart", "aff_heart"] {
            assert_eq!(PresetVoice::of_name(other), None, "{other}");
        }
    }

    #[test]
    fn every_alias_and_every_default_is_a_voice_that_speaks_the_language() {
        for (alias, preset) in ALIASES {
            assert_eq!(preset_of_alias(&alias.to_uppercase()), Some(preset));
            assert!(PresetVoice::of_name(preset).unwrap().language.starts_with("en"));
        }
        assert_eq!(preset_of_alias("af_heart"), None);
        for language in hark_say::LANGUAGES {
            let voice = PresetVoice::of_name(default_for(language)).unwrap();
            assert!(voice.language == language.code || voice.name == FALLBACK, "{}", language.code);
            assert!(LANGUAGES.contains(&public_code(language)), "{}", language.code);
        }
    }
}
