//! From audio to text.
//!
//! In: a recording as a stream of samples, and options. Out: a transcript with times that never run
//! backwards. The steps: voice activity finds speech, windows of up to 30 s are cut at pauses, the scheduler decodes
//! windows of all recordings together, words and segments get times of the recording and are assigned to the
//! speakers at their time. Out of scope: containers and codecs, the Whisper network, accounts, and file formats of transcripts.

mod channels;
mod coverage;
mod device;
mod diarization;
mod edges;
mod error;
mod findings;
mod languages;
pub mod live;
mod load;
mod recording;
mod scheduler;
mod second_look;
mod segments;
mod speakers;
mod tracks;
mod transcriber;
mod unheard;
pub mod vad;
mod voiceprint;
pub mod windows;

pub use device::DeviceChoice;
pub use diarization::{Speakers, Voices};
pub use error::SpeechError;
pub use hark_cuda::Precision;
pub use hark_cuda::cuda::monitor::{GpuReading, read as read_gpu};
pub use hark_media::CancelToken;
pub use hark_transcript::{Channels, Lane, VoiceActivity};
pub use languages::MULTI;
pub use load::{BackendLoader, Devices, LoadOptions, load_on_cpu};
pub use scheduler::{EngineState, Meter, Reload, Reply, Scheduler, WindowRequest};
pub use speakers::{assign, label};
pub use transcriber::{Progress, Request, Transcriber, Transcription};
pub use voiceprint::Voiceprint;

pub use hark_speakers::EMBEDDING_WIDTH;

pub use hark_compute::{Compute, Isa};
pub use hark_whisper::backend::BackendError;
pub use hark_whisper::decode::{EngineStats, Task};
