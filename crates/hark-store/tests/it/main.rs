//! The contract of the store. Every test runs on SQLite and on a real PostgreSQL.

mod accounts;
mod audit;
mod away;
mod backup;
mod blobs;
mod crash;
mod encrypted;
mod identity;
mod integrity;
mod jobs;
mod keys;
mod ledger;
mod limits;
mod live;
mod model;
mod quarantine;
mod retries;
mod sealing;
mod secrets;
mod share;
mod support;
mod transcripts;
mod unavailable;
mod unsealed;
mod upgrade;
mod voiceprints;
