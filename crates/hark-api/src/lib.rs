//! Wire types of the Hark service: what crosses a socket or leaves the command line as JSON.
//!
//! In: nothing. Out: plain types with `serde` and their OpenAPI schemas, the table of everything that can go wrong
//! ([`ERRORS`]), and the two words that queue, engine and answers share ([`FaultKind`], [`Lane`]). None of its business: how a value is made, stored or sent.

mod account;
mod admin;
mod audit;
mod completions;
mod enhancement;
mod error;
mod fault;
mod forms;
mod health;
mod integer;
mod keys;
mod object;
mod openai;
mod reference;
mod results;
mod search;
mod session;
mod speakers;
mod speech;
mod text;
mod transcription;
mod transcripts;
mod translation;
mod upload;
mod watermark;
mod webhook;

pub use account::{
    Account, AccountCredits, AccountDeletion, AccountUpdate, AccountUpdated, AnonymousCredits, CloudInstance,
    CloudInstances, Credits, DailyUsage, EmailPreferences, EmailPreferencesUpdate, LedgerEntry, LedgerPage, Usage,
    UsageSummary,
};
pub use admin::{
    AccountAdjustment, AccountList, CatalogueModel, CatalogueModels, ListedAccount, Node, NodeList, NodeModel,
    NodeState, QueueJob, QueueJobState, QueueState,
};
pub use audit::{AuditEvent, AuditLog};
pub use completions::{
    ChatAnswerMessage, ChatChoice, ChatChunkChoice, ChatCompletion, ChatCompletionChunk, ChatCompletionMessage,
    ChatCompletionRequest, ChatCompletionRole, ChatContent, ChatDelta, ChatFinishReason, ChatJsonSchema, ChatPart,
    ChatPromptTokens, ChatResponseFormat, ChatStop, ChatStreamOptions, ChatUsage,
};
pub use enhancement::{Enhancement, EnhancementAccepted};
pub use error::{ApiError, ERRORS, ErrorBody, ErrorEntry, ErrorKind};
pub use fault::{FaultKind, UnknownFault};
pub use forms::{EnhanceForm, EnrollForm, ResponseFormat, SpeakForm, TranscribeForm, WatermarkForm};
pub use hark_transcript::{
    AnalysisType, Channels, DateTime, GenerationType, Lane, Segment, SummaryStyle, TranscriptionResult, VoiceActivity,
    Word,
};
pub use health::{GpuHealth, Health, Liveness, Readiness};
pub use keys::{CreatedKey, Key, KeyList, KeyRoll, KeyScope, KeyUpdate, NewKey};
pub use openai::{
    OpenAiDiarized, OpenAiDiarizedSegment, OpenAiEmbedding, OpenAiEmbeddingUsage, OpenAiEmbeddings,
    OpenAiEmbeddingsRequest, OpenAiEncoding, OpenAiError, OpenAiErrorDetail, OpenAiEvent, OpenAiFormat,
    OpenAiGranularity, OpenAiModel, OpenAiSegment, OpenAiTranscription, OpenAiTranscriptionForm, OpenAiTranslationForm,
    OpenAiUsage, OpenAiVector, OpenAiVerbose, OpenAiWord,
};
pub use reference::{
    Language, LanguageList, LanguagePair, Model, ModelList, ModelState, ModelTier, MultilingualModel, TextModel,
    TextModelTask,
};
pub use results::{ConversationTurn, ResultKind, StoredResult, StoredResultDetail, TranscriptResults};
pub use search::{SearchAnswer, SearchHighlight, SearchHit, SearchMode};
pub use session::{
    AwaitsConfirmation, Password, PasswordChange, PasswordReset, ResetRequest, ResetSent, ResetToken, Session,
    SessionInfo, SessionKind, SessionList, SignIn, SignUp, SignedIn,
};
pub use speakers::{Speaker, SpeakerList};
pub use speech::{OpenAiSpeechRequest, OpenAiStreamFormat, VoiceGender, VoiceInfo, VoiceList};
pub use text::{
    AnalyzeRequest, ChatAnswer, ChatAnswerDelta, ChatAnswerSources, ChatRequest, ChatSource, EmbedRequest, EmbedText,
    Embeddings, GenerateRequest, SummarizeRequest, SummarizeTranscriptRequest, TranscriptAnalyzeRequest,
    TranscriptGenerateRequest, TranslateAnswer, TranslateRequest, TranslatedText, Translation,
};
pub use transcription::Accepted;
pub use transcripts::{
    Done, SegmentChange, SharedTranscript, TranscriptChange, TranscriptDetail, TranscriptPage, TranscriptState,
    TranscriptStatus, TranscriptSummary, Waveform,
};
pub use translation::{TranscriptTranslation, TranslateTranscriptRequest, TranslatedSegment};
pub use upload::{NewUpload, UploadConflict, UploadPart, UploadState};
pub use watermark::{WatermarkPayload, WatermarkReport, WatermarkSpan};
pub use webhook::{WebhookEvent, WebhookRotation, WebhookSecret};
