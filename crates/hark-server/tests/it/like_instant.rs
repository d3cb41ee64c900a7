//! What engines of tests have in common.

/// The models of an engine of a test that differs from the instant one only in how it transcribes.
macro_rules! models_like_instant {
    ($engine:ty) => {
        impl hark_server::Models for $engine {
            fn models(&self) -> Vec<hark_api::Model> {
                Vec::new()
            }

            fn resolve(&self, model: &str) -> Result<String, hark_server::EngineError> {
                hark_server::InstantEngine::default().resolve(model)
            }

            fn device(&self) -> Option<String> {
                None
            }
        }
    };
}
pub(crate) use models_like_instant;
