//! How soon and how often a live session looks at its sound.

/// The constants of a live session, in seconds. `docs/contributors/live.md` says how they were chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct LivePolicy {
    /// New sound before the next pass, at least; more when more came during the last one.
    pub interval: f64,
    /// A word should be emitted this long after its end: the later it is settled, the more of what follows it was decoded…
    pub emit_within: f64,
    /// …so it is settled when it ends at least this long before the end of the sound, where passes are slow…
    pub min_hold: f64,
    /// …and at most this long, where they are quick.
    pub max_hold: f64,
    /// Silence that ends an utterance.
    pub end_silence: f64,
    /// A longer silence parts what was said before from what comes: until then they are looked at together.
    pub longest_pause: f64,
    /// From this length on the settled beginning of an utterance is cut off at the end of a sentence…
    pub trim_from: f64,
    /// …and from this one on at any settled word.
    pub trim_anywhere_from: f64,
    /// Sound that a cut leaves, with its text, before what is new, where a sentence begins early enough: words are heard
    /// better behind others.
    pub keep_back: f64,
    /// Most tokens of the text before that a pass is prompted with.
    pub max_prompt_tokens: usize,
    /// Hypotheses followed.
    pub beam: usize,
    /// A pass encodes what is new, so much sound before it…
    pub encode_back: f64,
    /// …and so much silence behind it; the rest stays as the pass before left it.
    pub encode_ahead: f64,
}

impl Default for LivePolicy {
    fn default() -> Self {
        LivePolicy {
            interval: 0.4,
            emit_within: 2.3,
            min_hold: 1.2,
            max_hold: 2.0,
            end_silence: 0.6,
            longest_pause: 3.0,
            trim_from: 20.0,
            trim_anywhere_from: 25.0,
            keep_back: 8.0,
            max_prompt_tokens: 60,
            beam: 5,
            encode_back: 2.0,
            encode_ahead: 0.6,
        }
    }
}
