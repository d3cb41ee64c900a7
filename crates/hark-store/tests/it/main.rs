//! The contract of the store. Every test runs on SQLite and on a real PostgreSQL.

mod accounts;
mod blobs;
mod crash;
mod encrypted;
mod jobs;
mod keys;
mod ledger;
mod limits;
mod model;
mod sealing;
mod secrets;
mod support;
mod transcripts;
mod unsealed;
mod voiceprints;
