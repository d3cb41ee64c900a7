//! The Hark service over HTTP.
//!
//! In: requests with keys and recordings, a store, a speech engine. Out: the responses of
//! the contract, every error with the Error body, and workers that claim jobs from the queue. Out of
//! scope: speech recognition, storage, and file formats of transcripts.

mod app;
mod audit;
mod call_slots;
mod chat;
mod config;
mod credentials;
mod document;
mod documentation;
mod embeddings;
mod engine;
mod error;
#[cfg(test)]
mod events;
mod extract;
mod file_limit;
mod first_start;
mod idempotent;
mod indexer;
mod integrity;
mod jobs;
#[cfg(test)]
mod layers;
mod limits;
mod listen;
mod live;
mod mac;
mod mail;
mod marks;
mod metrics;
mod middleware;
mod multipart;
mod nodes;
mod options;
mod paid_call;
mod panics;
mod preferences;
mod probe;
mod queue;
mod random;
mod readiness;
mod recording;
mod retention;
mod retrievers;
mod router;
mod routes;
mod search;
mod service;
mod sign;
mod speech_call;
mod sse;
mod storage;
mod streams;
mod text_work;
mod translation;
mod visit;
mod waveforms;
mod webhooks;
mod wire;

pub use app::Role;
pub use config::{
    Anonymous, Config, Consent, DailyLimit, EnhanceSettings, Hidden, Integrity, JobSettings, LimitUnit, Limits,
    MailConfig, MailSecurity, MatchedPerDay, PaidModels, Recordings, Seconds, StorageQuota, StreamLimits, TextSettings,
    VoiceSettings, Webhooks,
};
pub use engine::{
    Bytes, Dependency, Embed, EmbeddedTexts, EngineError, EngineReport, EngineState, Engines, Enhance, EnhanceWork,
    Enhanced, Language, LanguageOptions, LanguageReport, Live, LiveHandle, LiveRecognizer, Models, PullRefusal, Pulls,
    SoundFormat, SoundOutput, Speak, SpeechEngine, SpeechOptions, SpeechStage, SpeechVoice, SpeechWork, Transcribe,
    Transcribed, Translate, TranslatedTexts, TranslationLanguages, TranslationPair, Voices, Wake, Work,
    default_memory_budget,
};
#[cfg(feature = "instant-engine")]
pub use engine::{InstantEngine, NoModelsEngine, numbered_samples};
pub use error::ServerError;
pub use file_limit::raise_file_limit;
pub use first_start::{FirstKey, first_start};
pub use integrity::{Finding, check_integrity};
pub use panics::log_panics;
pub use router::document;
pub use service::Service;
pub use sign::{PasswordError, hash_password};
pub use webhooks::webhook_secret;
