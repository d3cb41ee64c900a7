//! The shape of a network: what the YAML in the model file says.

/// The shape of a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) encoder_layers: usize,
    pub(crate) decoder_layers: usize,
    /// Of feed-forward layers.
    pub(crate) activation: Activation,
}

/// The activation of feed-forward layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    /// `x * sigmoid(x)`
    Swish,
}

/// What the supported architecture has; anything else would be computed wrongly.
const REQUIRED: [(&str, &str); 12] = [
    ("type", "transformer"),
    ("dec-cell", "ssru"),
    ("transformer-decoder-autoreg", "rnn"),
    ("transformer-ffn-activation", "relu"),
    ("transformer-ffn-depth", "2"),
    ("transformer-postprocess", "dan"),
    ("transformer-preprocess", ""),
    ("transformer-postprocess-emb", "d"),
    ("transformer-postprocess-top", ""),
    ("transformer-tied-layers", "[]"),
    ("transformer-train-position-embeddings", "false"),
    ("transformer-no-projection", "false"),
];

/// What is wrong with a network whose shape is not [`Config::is_whole`].
pub(crate) const NOT_WHOLE: &str = "its rows and heads must be multiples of 32 elements";

impl Config {
    /// Reads the YAML; an error says what is not supported.
    pub(crate) fn parse(yaml: &str) -> Result<Self, String> {
        let value = |key: &str| {
            let lines = yaml.lines().filter(|line| !line.starts_with([' ', '#']));
            let value = lines.filter_map(|line| line.split_once(':')).find(|(name, _)| *name == key)?.1;
            Some(value.trim().trim_matches(['"', '\'']))
        };
        for (key, needed) in REQUIRED {
            match value(key) {
                Some(found) if found == needed => {}
                Some(found) => return Err(format!("{key} is \"{found}\", and only \"{needed}\" is supported")),
                None => return Err(format!("its configuration does not say {key}")),
            }
        }
        let number = |key: &str, most: usize| {
            let number = value(key).and_then(|value| value.parse().ok());
            number.filter(|number| (1..=most).contains(number)).ok_or(format!("{key} is missing or impossible"))
        };
        let config = Config {
            width: number("dim-emb", 4096)?,
            heads: number("transformer-heads", 64)?,
            inner: number("transformer-dim-ffn", 16_384)?,
            encoder_layers: number("enc-depth", 64)?,
            decoder_layers: number("dec-depth", 64)?,
            activation: Activation::Relu,
        };
        match config.is_whole() {
            true => Ok(config),
            false => Err(NOT_WHOLE.to_owned()),
        }
    }

    /// Whether rows and heads are whole blocks, as kernels want them.
    pub(crate) fn is_whole(&self) -> bool {
        self.inner.is_multiple_of(32) && self.width.is_multiple_of(self.heads * 32)
    }

    /// What products of queries and keys are multiplied by.
    pub(crate) fn score_scale(&self) -> f32 {
        1.0 / (self.head_dim() as f32).sqrt()
    }

    /// Elements of a head.
    pub(crate) fn head_dim(&self) -> usize {
        self.width / self.heads
    }
}
