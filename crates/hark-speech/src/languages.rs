//! Which language a window is in, where the sound alone does not say it for sure, and what is said about other languages.

use std::collections::BTreeMap;

/// What stands for the language of a recording in which each window has its own.
pub const MULTI: &str = "multi";

/// A detected language is believed from this probability on.
pub(crate) const SURE: f32 = 0.7;
/// How many times likelier than by its sound alone a language is that the rest of the recording is in.
const RECORDING_WEIGHT: f32 = 20.0;
/// How many times likelier the language is that the caller usually speaks.
const USUAL_WEIGHT: f32 = 10.0;
/// A window sounds like another language than its text is in from this probability on…
const OTHER_LANGUAGE: f32 = 0.9;
/// …if it has at least so many seconds of speech.
const OTHER_SECONDS: f64 = 2.0;
/// Windows of another language that are nearer than this are told as one stretch, in seconds.
const ONE_STRETCH: f64 = 5.0;
/// Stretches that are told; more are only counted.
const TOLD: usize = 4;

/// Weighs languages by what is known besides the sound.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prior {
    /// Seconds of the recording in each language.
    pub(crate) seconds: BTreeMap<String, f64>,
    /// The language that the caller usually speaks.
    pub(crate) usual: Option<String>,
}

impl Prior {
    /// The likeliest language with its probability by the sound; none without any.
    pub(crate) fn choose(&self, probabilities: &[(String, f32)]) -> Option<(String, f32)> {
        let weighted = |(code, probability): &(String, f32)| probability * self.weight(code);
        probabilities.iter().max_by(|a, b| weighted(a).total_cmp(&weighted(b))).cloned()
    }

    fn weight(&self, code: &str) -> f32 {
        let all: f64 = self.seconds.values().sum();
        if all > 0.0 {
            let share = self.seconds.get(code).copied().unwrap_or_default() / all;
            return 1.0 + RECORDING_WEIGHT * share as f32;
        }
        if self.usual.as_deref() == Some(code) { USUAL_WEIGHT } else { 1.0 }
    }
}

/// A window as its language was heard.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeardLanguage {
    /// Seconds from the start of the recording.
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) code: String,
    pub(crate) probability: f32,
}

/// Where windows sound like other languages than `language`, in which their text is; none where they don't.
pub(crate) fn others_heard(mut windows: Vec<HeardLanguage>, language: &str) -> Option<String> {
    let is_other = |window: &HeardLanguage| {
        window.code != language && window.probability >= OTHER_LANGUAGE && window.to - window.from >= OTHER_SECONDS
    };
    windows.retain(is_other);
    windows.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut stretches: Vec<HeardLanguage> = Vec::new();
    for window in windows {
        match stretches.last_mut() {
            Some(last) if last.code == window.code && window.from - last.to <= ONE_STRETCH => last.to = window.to,
            _ => stretches.push(window),
        }
    }
    let stretch =
        |heard: &HeardLanguage| format!("{} from {} to {}", name(&heard.code), clock(heard.from), clock(heard.to));
    let mut told: Vec<String> = stretches.iter().take(TOLD).map(stretch).collect();
    if stretches.len() > TOLD {
        told.push(format!("{} more", stretches.len() - TOLD));
    }
    let own = name(language);
    (!told.is_empty()).then(|| {
        format!(
            "another language than {own} was heard ({}); the language multi writes each in its own",
            told.join(", ")
        )
    })
}

fn name(code: &str) -> &str {
    hark_whisper::languages::find(code).map_or(code, |language| language.name)
}

/// `1:02:03` or `2:03`.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sounds(probabilities: &[(&str, f32)]) -> Vec<(String, f32)> {
        probabilities.iter().map(|(code, probability)| ((*code).to_owned(), *probability)).collect()
    }

    fn chosen(prior: &Prior, probabilities: &[(&str, f32)]) -> String {
        prior.choose(&sounds(probabilities)).unwrap().0
    }

    #[test]
    fn an_unsure_window_is_in_the_language_of_the_recording_or_of_the_caller() {
        let unsure = [("zh", 0.40), ("en", 0.12), ("de", 0.05)];
        assert_eq!(chosen(&Prior::default(), &unsure), "zh");
        let german = Prior { seconds: BTreeMap::from([("de".to_owned(), 60.0)]), usual: Some("en".into()) };
        assert_eq!(chosen(&german, &unsure), "de", "what the recording is in counts before habits");
        assert_eq!(chosen(&Prior { usual: Some("en".into()), ..Prior::default() }, &unsure), "en");
        let impossible = [("zh", 0.60), ("en", 0.001)];
        assert_eq!(chosen(&Prior { usual: Some("en".into()), ..Prior::default() }, &impossible), "zh");
    }

    fn heard(from: f64, to: f64, code: &str, probability: f32) -> HeardLanguage {
        HeardLanguage { from, to, code: code.into(), probability }
    }

    #[test]
    fn other_languages_are_told_with_their_places_and_only_where_that_is_sure() {
        let windows = vec![
            heard(90.0, 110.0, "es", 0.95),
            heard(0.0, 28.0, "en", 0.99),
            heard(28.0, 50.0, "es", 0.97),
            heard(51.0, 62.0, "es", 0.93),
            heard(62.0, 63.0, "zh", 0.99),
            heard(64.0, 80.0, "de", 0.6),
        ];
        assert_eq!(
            others_heard(windows, "en").unwrap(),
            "another language than english was heard (spanish from 0:28 to 1:02, spanish from 1:30 to 1:50); the language multi \
             writes each in its own"
        );
        assert_eq!(others_heard(vec![heard(0.0, 28.0, "en", 0.99)], "en"), None);
    }
}
