//! A small Marian network with random weights: its file, and its definition in double precision.

use std::collections::HashMap;
use std::path::Path;

pub const WIDTH: usize = 64;
pub const HEADS: usize = 2;
pub const INNER: usize = 96;
pub const ENCODER_LAYERS: usize = 2;
pub const DECODER_LAYERS: usize = 2;
pub const WORDS: usize = 150;

pub const CONFIG: &str = "dec-cell: ssru\ndec-depth: 2\ndim-emb: 64\ndim-vocabs:\n  - 150\n  - 150\nenc-depth: 2\ntransformer-decoder-autoreg: rnn\n\
transformer-dim-ffn: 96\ntransformer-ffn-activation: relu\ntransformer-ffn-depth: 2\ntransformer-heads: 2\ntransformer-no-projection: false\n\
transformer-postprocess: dan\ntransformer-postprocess-emb: d\ntransformer-postprocess-top: \"\"\ntransformer-preprocess: \"\"\n\
transformer-tied-layers: []\ntransformer-train-position-embeddings: false\ntype: transformer\nversion: v1\n\0";

/// A matrix `[outputs][inputs]` of whole numbers with their multiplier, or floats.
pub enum Item {
    Int8 { outputs: usize, inputs: usize, values: Vec<i8>, multiplier: f32 },
    Float { values: Vec<f32> },
}

/// The items of a network by name.
pub struct Network {
    pub items: Vec<(String, Item)>,
    pub config: String,
}

impl Network {
    pub fn random(seed: u32) -> Self {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut items = Vec::new();
        let mut matrix = |name: String, outputs: usize, inputs: usize, gain: f32| {
            let values = (0..outputs * inputs).map(|_| (next() * 127.0) as i8).collect();
            // Uniform values: outputs of unit inputs have a variance of about `gain` squared.
            let multiplier = 127.0 * (inputs as f32 / 3.0).sqrt() / gain;
            items.push((name, Item::Int8 { outputs, inputs, values, multiplier }));
        };
        matrix("Wemb".into(), WORDS, WIDTH, 0.6);
        let layers = |name: &'static str, count: usize| (1..=count).map(move |layer| format!("{name}_l{layer}"));
        let mut vectors = vec![("decoder_ff_logit_out_b".to_owned(), WORDS, 0.0)];
        for layer in layers("encoder", ENCODER_LAYERS).chain(layers("decoder", DECODER_LAYERS)) {
            let is_encoder = layer.starts_with("encoder");
            let attention = if is_encoder { "self" } else { "context" };
            for part in ["q", "k", "v", "o"] {
                matrix(format!("{layer}_{attention}_W{part}"), WIDTH, WIDTH, 1.5);
                vectors.push((format!("{layer}_{attention}_b{part}"), WIDTH, 0.0));
            }
            matrix(format!("{layer}_ffn_W1"), INNER, WIDTH, 1.5);
            matrix(format!("{layer}_ffn_W2"), WIDTH, INNER, 1.5);
            vectors.extend([(format!("{layer}_ffn_b1"), INNER, 0.0), (format!("{layer}_ffn_b2"), WIDTH, 0.0)]);
            let mut norms = vec![format!("{layer}_{attention}_Wo"), format!("{layer}_ffn_ffn")];
            if !is_encoder {
                matrix(format!("{layer}_rnn_W"), WIDTH, WIDTH, 1.5);
                matrix(format!("{layer}_rnn_Wf"), WIDTH, WIDTH, 1.5);
                vectors.push((format!("{layer}_rnn_bf"), WIDTH, 0.0));
                norms.push(format!("{layer}_rnn_ffn"));
            }
            for norm in norms {
                vectors.extend([(format!("{norm}_ln_scale"), WIDTH, 1.0), (format!("{norm}_ln_bias"), WIDTH, 0.0)]);
            }
        }
        for (name, length, mean) in vectors {
            items.push((name, Item::Float { values: (0..length).map(|_| mean + 0.2 * next()).collect() }));
        }
        Network { items, config: CONFIG.to_owned() }
    }

    /// The model file.
    pub fn bytes(&self) -> Vec<u8> {
        let data = |item: &Item| -> Vec<u8> {
            match item {
                Item::Int8 { values, multiplier, .. } => {
                    let mut bytes: Vec<u8> = values.iter().map(|value| *value as u8).collect();
                    bytes.extend(multiplier.to_le_bytes());
                    bytes.resize(bytes.len().next_multiple_of(256), 0);
                    bytes
                }
                Item::Float { values } => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            }
        };
        let mut parts: Vec<(&str, u64, Vec<i32>, Vec<u8>)> = Vec::new();
        for (name, item) in &self.items {
            let (kind, shape) = match item {
                // Tables are declared as they lie, other matrices the other way round.
                Item::Int8 { outputs, inputs, .. } if name == "Wemb" => (0x4101, vec![*outputs as i32, *inputs as i32]),
                Item::Int8 { outputs, inputs, .. } => (0x4101, vec![*inputs as i32, *outputs as i32]),
                Item::Float { values } => (0x404, vec![1, values.len() as i32]),
            };
            parts.push((name, kind, shape, data(item)));
        }
        let config = self.config.as_bytes().to_vec();
        parts.push(("special:model.yml", 0x101, vec![config.len() as i32], config));
        let mut out = Vec::new();
        let push = |out: &mut Vec<u8>, number: usize| out.extend((number as u64).to_le_bytes());
        push(&mut out, 1);
        push(&mut out, parts.len());
        for (name, kind, shape, data) in &parts {
            [name.len() + 1, *kind as usize, shape.len(), data.len()].iter().for_each(|n| push(&mut out, *n));
        }
        parts.iter().for_each(|(name, ..)| out.extend([name.as_bytes(), &[0]].concat()));
        parts.iter().flat_map(|(_, _, shape, _)| shape).for_each(|n| out.extend(n.to_le_bytes()));
        push(&mut out, 0);
        parts.iter().for_each(|(.., data)| out.extend(data));
        out
    }

    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.bytes()).expect("the folder takes a file");
    }

    pub fn reference(&self) -> Reference {
        let floats = self.items.iter().map(|(name, item)| {
            let values: Vec<f64> = match item {
                Item::Int8 { values, multiplier, .. } => {
                    values.iter().map(|value| f64::from(*value) / f64::from(*multiplier)).collect()
                }
                Item::Float { values } => values.iter().map(|value| f64::from(*value)).collect(),
            };
            (name.clone(), values)
        });
        Reference { tensors: floats.collect() }
    }
}

/// The network by its definition.
pub struct Reference {
    tensors: HashMap<String, Vec<f64>>,
}

type Row = Vec<f64>;

impl Reference {
    fn get(&self, name: &str) -> &[f64] {
        self.tensors.get(name).unwrap_or_else(|| panic!("{name} is there"))
    }

    fn linear(&self, weights: &str, bias: Option<&str>, x: &[f64]) -> Row {
        let weights = self.get(weights).chunks_exact(x.len());
        let mut out: Row = weights.map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect();
        if let Some(bias) = bias {
            out.iter_mut().zip(self.get(bias)).for_each(|(out, bias)| *out += bias);
        }
        out
    }

    fn norm(&self, name: &str, x: &[f64], update: &[f64]) -> Row {
        let sum: Row = x.iter().zip(update).map(|(x, update)| x + update).collect();
        let mean = sum.iter().sum::<f64>() / sum.len() as f64;
        let variance = sum.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / sum.len() as f64;
        let (gain, shift) = (self.get(&format!("{name}_ln_scale")), self.get(&format!("{name}_ln_bias")));
        let normed = sum.iter().map(|x| (x - mean) / (variance + 1e-6).sqrt());
        normed.zip(gain).zip(shift).map(|((x, gain), shift)| x * gain + shift).collect()
    }

    fn feed_forward(&self, name: &str, x: &[f64]) -> Row {
        let mut hidden = self.linear(&format!("{name}_W1"), Some(&format!("{name}_b1")), x);
        hidden.iter_mut().for_each(|x| *x = x.max(0.0));
        let out = self.linear(&format!("{name}_W2"), Some(&format!("{name}_b2")), &hidden);
        self.norm(&format!("{name}_ffn"), x, &out)
    }

    fn attention(&self, name: &str, x: &[f64], keys: &[Row], values: &[Row]) -> Row {
        let query = self.linear(&format!("{name}_Wq"), Some(&format!("{name}_bq")), x);
        let size = WIDTH / HEADS;
        let mut attended = vec![0.0; WIDTH];
        for head in 0..HEADS {
            let part = head * size..(head + 1) * size;
            let dot = |key: &Row| -> f64 {
                query[part.clone()].iter().zip(&key[part.clone()]).map(|(q, k)| q * k).sum::<f64>()
                    / (size as f64).sqrt()
            };
            let weights: Row = keys.iter().map(|key| dot(key).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (weight, value) in weights.iter().zip(values) {
                part.clone().for_each(|i| attended[i] += weight / total * value[i]);
            }
        }
        let out = self.linear(&format!("{name}_Wo"), Some(&format!("{name}_bo")), &attended);
        self.norm(&format!("{name}_Wo"), x, &out)
    }

    fn embed(&self, word: Option<u32>, position: usize) -> Row {
        let half = WIDTH / 2;
        (0..WIDTH)
            .map(|i| {
                let angle = position as f64 * (10_000f64).powf(-((i % half) as f64) / (half as f64 - 1.0));
                let signal = if i < half { angle.sin() } else { angle.cos() };
                let word = word.map_or(0.0, |word| self.get("Wemb")[word as usize * WIDTH + i]);
                word * (WIDTH as f64).sqrt() + signal
            })
            .collect()
    }

    fn rows(&self, name: &str, states: &[Row]) -> [Vec<Row>; 2] {
        ["k", "v"].map(|part| {
            let (weights, bias) = (format!("{name}_W{part}"), format!("{name}_b{part}"));
            states.iter().map(|state| self.linear(&weights, Some(&bias), state)).collect()
        })
    }

    fn encode(&self, tokens: &[u32]) -> Vec<Row> {
        let mut states: Vec<Row> = (0..).zip(tokens).map(|(at, token)| self.embed(Some(*token), at)).collect();
        for layer in (1..=ENCODER_LAYERS).map(|layer| format!("encoder_l{layer}")) {
            let name = format!("{layer}_self");
            let [keys, values] = self.rows(&name, &states);
            states = states.iter().map(|state| self.attention(&name, state, &keys, &values)).collect();
            states = states.iter().map(|state| self.feed_forward(&format!("{layer}_ffn"), state)).collect();
        }
        states
    }

    /// The logits of every step when the decoder writes `written`, and of the one behind it.
    pub fn logits(&self, source: &[u32], written: &[u32]) -> Vec<Row> {
        let encoded = self.encode(source);
        let names: Vec<String> = (1..=DECODER_LAYERS).map(|layer| format!("decoder_l{layer}")).collect();
        let memory: Vec<[Vec<Row>; 2]> =
            names.iter().map(|name| self.rows(&format!("{name}_context"), &encoded)).collect();
        let mut cells = vec![vec![0.0; WIDTH]; DECODER_LAYERS];
        let inputs = std::iter::once(None).chain(written.iter().copied().map(Some));
        let step = |(position, word): (usize, Option<u32>)| {
            let mut x = self.embed(word, position);
            for ((layer, cell), [keys, values]) in names.iter().zip(&mut cells).zip(&memory) {
                let gate = self.linear(&format!("{layer}_rnn_Wf"), Some(&format!("{layer}_rnn_bf")), &x);
                let candidate = self.linear(&format!("{layer}_rnn_W"), None, &x);
                for i in 0..WIDTH {
                    let keep = 1.0 / (1.0 + (-gate[i]).exp());
                    cell[i] = keep * cell[i] + (1.0 - keep) * candidate[i];
                }
                let out: Row = cell.iter().map(|x| x.max(0.0)).collect();
                x = self.norm(&format!("{layer}_rnn_ffn"), &x, &out);
                x = self.attention(&format!("{layer}_context"), &x, keys, values);
                x = self.feed_forward(&format!("{layer}_ffn"), &x);
            }
            self.linear("Wemb", Some("decoder_ff_logit_out_b"), &x)
        };
        inputs.enumerate().map(step).collect()
    }
}
