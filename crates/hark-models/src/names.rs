//! The names that requests to the service may use, and the plan that each takes.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::catalogue::Catalogue;

/// A name of the service's contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicName {
    /// The name in requests.
    pub id: String,
    /// The name people read, where it is not its checkpoint's.
    #[serde(default)]
    pub title: Option<String>,
    /// The checkpoints that may serve it, best first; the first is the one that the name means.
    pub served_by: Vec<String>,
    /// Who may use it.
    #[serde(default)]
    pub plan: ModelPlan,
    /// Names of other services' models that stand for it.
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// Who may use a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelPlan {
    /// Everybody.
    #[default]
    Free,
    /// Accounts with an active paid plan.
    Paid,
}

impl PublicName {
    /// The checkpoint that the name means; others stand in for it.
    pub fn checkpoint(&self) -> &str {
        self.served_by.first().map_or("", String::as_str)
    }

    /// Whether it takes an active paid plan.
    pub fn is_paid(&self) -> bool {
        self.plan == ModelPlan::Paid
    }
}

/// The names of the built-in catalogue, the default first.
pub fn public_names() -> &'static [PublicName] {
    static NAMES: LazyLock<Vec<PublicName>> = LazyLock::new(|| Catalogue::builtin().public_names().to_vec());
    &NAMES
}

/// The name that a request means which names no model.
pub fn default_name() -> &'static str {
    public_names().first().map_or("", |name| &name.id)
}

/// Whether the name takes an active paid plan.
pub fn needs_paid_plan(id: &str) -> bool {
    public_names().iter().any(|name| name.id == id && name.is_paid())
}

/// Names of other services' models that stand for one of ours.
pub fn foreign_names() -> impl Iterator<Item = &'static str> {
    public_names().iter().flat_map(|name| &name.aliases).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    #[test]
    fn the_first_name_is_free_and_every_checkpoint_is_a_transcription_model_of_the_catalogue() {
        let catalogue = Catalogue::builtin();
        assert_eq!(default_name(), "large-v3-turbo");
        assert!(!needs_paid_plan(default_name()));
        for name in public_names() {
            assert!(!name.served_by.is_empty(), "{}", name.id);
            for checkpoint in &name.served_by {
                let model = catalogue.get(checkpoint).unwrap_or_else(|| panic!("{}: no {checkpoint}", name.id));
                assert_eq!(model.role, Role::Transcription, "{checkpoint}");
            }
        }
    }

    #[test]
    fn the_large_model_and_the_services_own_take_a_paid_plan() {
        let paid: Vec<&str> =
            public_names().iter().filter(|name| name.is_paid()).map(|name| name.id.as_str()).collect();
        assert_eq!(paid, ["large-v3", "svc-ai-enhanced"]);
        assert!(!needs_paid_plan("whisper-tiny"));
    }
}
