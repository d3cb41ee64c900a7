//! Intervals and limits of a live session.

/// The constants of a live session, in seconds. `docs/contributors/live.md` says how they were chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct LivePolicy {
    /// Minimum new audio before the next pass (hop); more if more arrived during the last one.
    pub interval: f64,
    /// The target latency of final words: the later a word becomes final, the more look-ahead it had…
    pub emit_within: f64,
    /// …so it is final when it ends at least this long before the end of the audio, if passes are slow…
    pub min_hold: f64,
    /// …and at most this long, if they are fast.
    pub max_hold: f64,
    /// Silence that ends an utterance.
    pub end_silence: f64,
    /// Utterances with at most this silence between them are decoded together.
    pub max_pause: f64,
    /// From this length on the final beginning of an utterance is cut off at the end of a sentence…
    pub trim_from: f64,
    /// …and from this one on at any final word.
    pub trim_anywhere_from: f64,
    /// Audio with final text that a cut leaves, if a sentence begins early enough: words are recognized
    /// better with context before them.
    pub trim_keep: f64,
    /// Maximum tokens of the text before that are in the prompt.
    pub max_prompt_tokens: usize,
    /// Beam width.
    pub beam: usize,
    /// A pass encodes the new audio, re-encodes this much before it…
    pub reencode_before: f64,
    /// …and encodes this much silence after it; the rest is reused from the encoder cache.
    pub encode_after: f64,
}

impl Default for LivePolicy {
    fn default() -> Self {
        LivePolicy {
            interval: 0.4,
            emit_within: 2.3,
            min_hold: 1.2,
            max_hold: 2.0,
            end_silence: 0.6,
            max_pause: 3.0,
            trim_from: 20.0,
            trim_anywhere_from: 25.0,
            trim_keep: 8.0,
            max_prompt_tokens: 60,
            beam: 5,
            reencode_before: 2.0,
            encode_after: 0.6,
        }
    }
}
