//! Speech synthesis, as an operator may set it.

use hark_store::Plan;
use serde::Deserialize;

/// The `[voice]` table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VoiceSettings {
    /// The speech model, a name of the catalogue; its default when not given. One that only clones speaks in the voice of references, and the default one in voices by name.
    pub model: Option<String>,
    /// Whether requests with a reference clip must state the consent of its speaker.
    pub consent: Consent,
    /// The number of this installation in watermarks; derived from the key when not given.
    pub issuer: Option<u16>,
    /// Speeches in the voice of a reference clip that an account may have made in a day, by plan.
    pub matched_per_day: MatchedPerDay,
}

/// How the consent of a speaker is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    /// Every request states it.
    #[default]
    Required,
    /// The operator has it from all users, by contract for example.
    Assumed,
}

/// Speeches in matched voices of an account in a day (UTC), by plan; 0 is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MatchedPerDay {
    /// Of a free account.
    pub free: u32,
    /// Of a pro account.
    pub pro: u32,
    /// Of a business account.
    pub business: u32,
    /// Of an enterprise account.
    pub enterprise: u32,
}

impl Default for MatchedPerDay {
    fn default() -> Self {
        MatchedPerDay { free: 10, pro: 200, business: 0, enterprise: 0 }
    }
}

impl MatchedPerDay {
    /// The limit of a plan; `None` is unlimited.
    pub(crate) fn of(&self, plan: Plan) -> Option<i64> {
        let limit = match plan {
            // Speech needs an account.
            Plan::Anonymous | Plan::Free => self.free,
            Plan::Pro => self.pro,
            Plan::Business => self.business,
            Plan::Enterprise => self.enterprise,
        };
        (limit > 0).then_some(i64::from(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_with_defaults_and_a_misspelt_key_is_an_error() {
        let read = |json: &str| serde_json::from_str::<VoiceSettings>(json);
        let settings = read(r#"{"consent": "assumed", "issuer": 7, "matched_per_day": {"free": 3}}"#).unwrap();
        assert_eq!((settings.consent, settings.issuer), (Consent::Assumed, Some(7)));
        let limits = settings.matched_per_day;
        let of = [Plan::Free, Plan::Pro, Plan::Business].map(|plan| limits.of(plan));
        assert_eq!(of, [Some(3), Some(200), None]);
        assert_eq!(read("{}").unwrap().consent, Consent::Required);
        for wrong in [r#"{"consent": "yes"}"#, r#"{"issuer": 70000}"#, r#"{"matched_per_day": {"gold": 1}}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
