//! Options that recordings and live sessions share: model, language, prompt, and the concurrency limit.

use hark_api::ErrorKind;
use hark_models::{default_name, needs_paid_plan};
use hark_whisper::languages;

use crate::app::{App, Role};
use crate::config::{Config, PaidModels};
use crate::engine::{EngineError, Models};
use crate::error::Failure;
use crate::middleware::Caller;

/// The maximum length of a prompt: the model reads no more.
pub(crate) const MAX_PROMPT: usize = 4000;

/// The model that serves the requested one, with or without an active paid plan.
pub(crate) fn model(asked: &str, is_paid: bool, config: &Config) -> Result<String, Failure> {
    if is_paid || !needs_paid_plan(asked) {
        return Ok(asked.to_owned());
    }
    match config.paid_models {
        PaidModels::Serve => Ok(default_name().to_owned()),
        PaidModels::Require => {
            Err(Failure::new(ErrorKind::PlanNeeded, format!("the model {asked} needs an active paid plan")))
        }
    }
}

/// The checkpoint that serves a model; a process without models leaves that to the worker that claims the job.
pub(crate) fn checkpoint(model: String, role: Role, models: &dyn Models) -> Result<String, Failure> {
    match models.resolve(&model) {
        Ok(checkpoint) => Ok(checkpoint),
        Err(EngineError::ModelMissing(_)) if role == Role::Account => Ok(model),
        Err(error) => Err(error.into()),
    }
}

/// The code of a language given by code or name; `None` to detect it.
pub(crate) fn language(text: &str) -> Result<Option<String>, Failure> {
    if text.is_empty() || text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    match languages::find(text) {
        Some(language) => Ok(Some(language.code.to_owned())),
        None => Err(Failure::invalid(format!(
            "`language` is {text:?}: give a code such as en, es or zh, or auto; GET /v1/languages lists them"
        ))),
    }
}

/// Validates a text for the model, such as a prompt.
pub(crate) fn words(name: &str, text: &str) -> Result<String, Failure> {
    if text.chars().count() > MAX_PROMPT {
        return Err(Failure::invalid(format!("`{name}` is longer than {MAX_PROMPT} characters")));
    }
    Ok(text.to_owned())
}

/// Checks the concurrency limit of the plan.
pub(crate) fn too_many_at_once(app: &App, caller: &Caller, used: i64) -> Failure {
    let what = hark_store::Limit::ConcurrentJobs;
    let error = hark_store::Error::Limit { what, limit: caller.plan().concurrency(), used };
    let mut failure = Failure::of_store(error, app.clock.now());
    failure.error.upgrade = !caller.plan().is_paid();
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paid_model_without_a_plan_is_served_by_another_or_refused_as_configured() {
        let mut config = Config::default();
        let served = |asked: &str, is_paid: bool, config: &Config| model(asked, is_paid, config);
        assert_eq!(served("large-v3", false, &config).unwrap(), "large-v3-turbo");
        assert_eq!(served("large-v3", true, &config).unwrap(), "large-v3");
        config.paid_models = PaidModels::Require;
        let refused = served("svc-ai-enhanced", false, &config).unwrap_err();
        assert_eq!((refused.error.status(), refused.error.upgrade), (402, true));
        assert_eq!(served("medium", false, &config).unwrap(), "medium");
    }
}
