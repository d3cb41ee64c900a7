//! The whole service over real sockets: a server on a port of its own, SQLite in a temporary folder, a real HTTP client.
//! Words are heard by whisper-base where the test is about words; elsewhere an engine answers at once.

mod account;
mod chat;
mod completions;
mod contract;
mod document;
mod embed;
mod engine;
mod enhance;
mod enhance_speech;
mod errors;
mod health;
mod hostile;
mod isolation;
mod jobs;
mod keys;
mod language;
mod lengths;
mod limits;
mod log;
mod openai;
mod probes;
mod recording;
mod recovery;
mod search;
mod server;
mod speak;
mod speakers;
mod speech;
mod stream;
mod text;
mod transcribe;
mod translate;
mod uploads;
mod watermark;
