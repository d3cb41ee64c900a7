//! The shape of a network: what the YAML in the model file says.

/// The shape of a network.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) inner: usize,
    pub(super) encoder_layers: usize,
    pub(super) decoder_layers: usize,
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

impl Config {
    /// Reads the YAML; an error says what is not supported.
    pub(super) fn parse(yaml: &str) -> Result<Self, String> {
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
        };
        let is_whole = config.width.is_multiple_of(32) && config.inner.is_multiple_of(32);
        if !is_whole || !config.width.is_multiple_of(config.heads * 32) {
            return Err("its rows and heads must be multiples of 32 elements".to_owned());
        }
        Ok(config)
    }

    /// Elements of a head.
    pub(super) fn head_dim(&self) -> usize {
        self.width / self.heads
    }
}
