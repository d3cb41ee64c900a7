//! What the detector of watermarks answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a sound carries the watermark of this server, and what the mark says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WatermarkReport {
    /// Whether the mark is there.
    pub present: bool,
    /// What it says; null where there is no mark or it can't be read.
    pub payload: Option<WatermarkPayload>,
    /// One less the bound on the probability that a sound without the mark looks like this; 0 when nothing was found.
    pub confidence: f64,
    /// The decimal logarithm of that bound, at most 0.
    pub log10_false_alarm: f64,
    /// Where the mark was found, in order.
    pub spans: Vec<WatermarkSpan>,
    /// What the file's metadata says of synthetic speech; null where it says nothing of it.
    pub disclosure: Option<String>,
}

/// What a watermark says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatermarkPayload {
    /// The layout of the payload.
    pub version: u8,
    /// The number of the installation that made the sound.
    pub issuer: u16,
    /// The day on which it was made (UTC), such as `2026-11-18`.
    #[schema(format = Date)]
    pub day: String,
    /// A keyed hash of the request that made it, as the server's log has it: eight hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{8}$")]
    pub request_hash: String,
}

/// A stretch of sound that carries the mark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WatermarkSpan {
    /// Its begin in seconds, some seconds off at most.
    pub start: f64,
    /// Its end in seconds, some seconds off at most.
    pub end: f64,
    /// The speed relative to that at which it was made.
    pub speed: f64,
}
