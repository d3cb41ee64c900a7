//! What players, spreadsheets, office programs and readers of pages may rely on, whatever the transcript looks like.

mod documents;
mod subtitles;
mod support;
mod tables;
