//! A small T5 v1.1 network with random weights: its files, and its definition in double precision.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

pub const WIDTH: usize = 64;
pub const HEADS: usize = 3;
pub const HEAD: usize = 32;
pub const INNER: usize = 96;
pub const LAYERS: usize = 2;
pub const WORDS: usize = 150;
pub const BUCKETS: usize = 8;
pub const MAX_DISTANCE: usize = 20;
pub const START: u32 = 0;

type Row = Vec<f64>;

/// The tensors of a network by the names of the hub: shape and values.
pub struct Network {
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub config: serde_json::Value,
}

impl Network {
    pub fn random(seed: u32, is_tied: bool) -> Self {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut tensors = BTreeMap::new();
        // Uniform values; outputs of unit inputs have a variance of about `gain` squared.
        let mut matrix = |name: String, outputs: usize, inputs: usize, gain: f32| {
            let scale = gain * (3.0 / inputs as f32).sqrt();
            let values = (0..outputs * inputs).map(|_| scale * next()).collect();
            tensors.insert(name, (vec![outputs, inputs], values));
        };
        matrix("shared.weight".into(), WORDS, WIDTH, 8.0);
        if !is_tied {
            matrix("lm_head.weight".into(), WORDS, WIDTH, 3.0);
        }
        let mut norms =
            vec!["encoder.final_layer_norm.weight".to_owned(), "decoder.final_layer_norm.weight".to_owned()];
        for side in ["encoder", "decoder"] {
            matrix(format!("{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"), BUCKETS, HEADS, 3.0);
            for layer in 0..LAYERS {
                let name = format!("{side}.block.{layer}.layer");
                let attentions: &[&str] =
                    if side == "encoder" { &["SelfAttention"] } else { &["SelfAttention", "EncDecAttention"] };
                for (place, attention) in attentions.iter().enumerate() {
                    for part in ["q", "k", "v"] {
                        // Scores are not scaled: queries and keys are small instead.
                        let gain = if part == "v" { 1.5 } else { 0.6 };
                        matrix(format!("{name}.{place}.{attention}.{part}.weight"), HEADS * HEAD, WIDTH, gain);
                    }
                    matrix(format!("{name}.{place}.{attention}.o.weight"), WIDTH, HEADS * HEAD, 1.5);
                    norms.push(format!("{name}.{place}.layer_norm.weight"));
                }
                let place = attentions.len();
                for part in ["wi_0", "wi_1"] {
                    matrix(format!("{name}.{place}.DenseReluDense.{part}.weight"), INNER, WIDTH, 1.5);
                }
                matrix(format!("{name}.{place}.DenseReluDense.wo.weight"), WIDTH, INNER, 1.5);
                norms.push(format!("{name}.{place}.layer_norm.weight"));
            }
        }
        for norm in norms {
            tensors.insert(norm, (vec![WIDTH], (0..WIDTH).map(|_| 1.0 + 0.2 * next()).collect()));
        }
        let config = json!({
            "model_type": "t5", "feed_forward_proj": "gated-gelu", "d_model": WIDTH, "d_kv": HEAD, "d_ff": INNER,
            "num_heads": HEADS, "num_layers": LAYERS, "num_decoder_layers": LAYERS, "vocab_size": WORDS,
            "relative_attention_num_buckets": BUCKETS, "relative_attention_max_distance": MAX_DISTANCE,
            "layer_norm_epsilon": 1e-6, "tie_word_embeddings": is_tied, "decoder_start_token_id": START,
        });
        Network { tensors, config }
    }

    pub fn write(&self, folder: &Path) {
        std::fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
        let all: Vec<&String> = self.tensors.keys().collect();
        std::fs::write(folder.join("model.safetensors"), self.safetensors(&all)).unwrap();
    }

    /// The same in two files with an index.
    pub fn write_sharded(&self, folder: &Path) {
        std::fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
        let all: Vec<&String> = self.tensors.keys().collect();
        let mut map = serde_json::Map::new();
        for (number, names) in all.chunks(all.len().div_ceil(2)).enumerate() {
            let file = format!("model-{number}.safetensors");
            std::fs::write(folder.join(&file), self.safetensors(names)).unwrap();
            map.extend(names.iter().map(|name| ((*name).clone(), json!(file))));
        }
        let index = json!({"weight_map": map}).to_string();
        std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    }

    fn safetensors(&self, names: &[&String]) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for name in names {
            let (shape, values) = &self.tensors[*name];
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
            header.insert((*name).clone(), entry);
        }
        let header = serde_json::Value::Object(header).to_string();
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend(header.bytes());
        out.extend(data);
        out
    }

    /// A GGUF file without metadata, as candle writes them: matrices as Q8_0, small tensors as floats. The tensors become what was stored.
    pub fn write_gguf(&mut self, folder: &Path) {
        std::fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
        let (mut table, mut data) = (Vec::new(), Vec::new());
        for (name, (shape, values)) in &mut self.tensors {
            let is_quantized = shape.len() == 2 && shape[1].is_multiple_of(32);
            data.resize(usize::next_multiple_of(data.len(), 32), 0);
            table.extend((name.len() as u64).to_le_bytes());
            table.extend(name.bytes());
            table.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|size| table.extend((*size as u64).to_le_bytes()));
            table.extend(if is_quantized { 8u32 } else { 0 }.to_le_bytes());
            table.extend((data.len() as u64).to_le_bytes());
            if !is_quantized {
                data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                continue;
            }
            for block in values.chunks_exact_mut(32) {
                // A power of two, which a half holds exactly.
                let largest = block.iter().fold(0f32, |largest, value| largest.max(value.abs()));
                let exponent = (largest / 127.0).log2().ceil() as i32;
                let scale = (exponent as f32).exp2();
                data.extend((((exponent + 15) as u16) << 10).to_le_bytes());
                for value in block {
                    let number = (*value / scale).round() as i8;
                    data.push(number as u8);
                    *value = f32::from(number) * scale;
                }
            }
        }
        let mut out = b"GGUF".to_vec();
        out.extend(2u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(0u64.to_le_bytes());
        out.extend(table);
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        std::fs::write(folder.join("model-q8.gguf"), out).unwrap();
    }
}

/// The definition, from the paper and the published code of T5.
pub struct Reference<'a>(pub &'a Network);

impl Reference<'_> {
    fn get(&self, name: &str) -> Vec<f64> {
        let (_, values) = self.0.tensors.get(name).unwrap_or_else(|| panic!("{name} is there"));
        values.iter().map(|value| f64::from(*value)).collect()
    }

    fn linear(&self, name: &str, x: &[f64]) -> Row {
        let weights = self.get(name);
        weights.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Row {
        let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        x.iter().zip(self.get(name)).map(|(x, gain)| x / (mean_square + 1e-6).sqrt() * gain).collect()
    }

    /// The bucket of `key - query`.
    fn bucket(relative: i64, is_bidirectional: bool) -> usize {
        let mut buckets = BUCKETS as i64;
        let mut bucket = 0;
        let distance = if is_bidirectional {
            buckets /= 2;
            bucket += if relative > 0 { buckets } else { 0 };
            relative.abs()
        } else {
            (-relative).max(0)
        };
        let exact = buckets / 2;
        bucket += if distance < exact {
            distance
        } else {
            let position = (distance as f64 / exact as f64).ln() / (MAX_DISTANCE as f64 / exact as f64).ln();
            (exact + (position * (buckets - exact) as f64) as i64).min(buckets - 1)
        };
        bucket as usize
    }

    /// Attention of one row to keys and values made of `memory`; `position` where scores have a bias.
    fn attention(&self, name: &str, side: &str, x: &[f64], memory: &[Row], position: Option<usize>) -> Row {
        let part = |part: &str, x: &[f64]| self.linear(&format!("{name}.{part}.weight"), x);
        let query = part("q", x);
        let keys: Vec<Row> = memory.iter().map(|row| part("k", row)).collect();
        let values: Vec<Row> = memory.iter().map(|row| part("v", row)).collect();
        let bias = self.get(&format!("{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
        let mut attended = vec![0.0; HEADS * HEAD];
        for head in 0..HEADS {
            let range = head * HEAD..(head + 1) * HEAD;
            let score = |(at, key): (usize, &Row)| -> f64 {
                let product: f64 = query[range.clone()].iter().zip(&key[range.clone()]).map(|(q, k)| q * k).sum();
                let bias = position.map_or(0.0, |position| {
                    bias[Self::bucket(at as i64 - position as i64, side == "encoder") * HEADS + head]
                });
                (product + bias).exp()
            };
            let weights: Row = keys.iter().enumerate().map(score).collect();
            let total: f64 = weights.iter().sum();
            for (weight, value) in weights.iter().zip(&values) {
                range.clone().for_each(|i| attended[i] += weight / total * value[i]);
            }
        }
        part("o", &attended)
    }

    fn feed_forward(&self, name: &str, x: &[f64]) -> Row {
        let normed = self.norm(&format!("{name}.layer_norm.weight"), x);
        let part = |part: &str, x: &[f64]| self.linear(&format!("{name}.DenseReluDense.{part}.weight"), x);
        let gelu = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
        let hidden: Row =
            part("wi_0", &normed).into_iter().zip(part("wi_1", &normed)).map(|(a, b)| gelu(a) * b).collect();
        part("wo", &hidden)
    }

    fn embed(&self, tokens: &[u32]) -> Vec<Row> {
        let table = self.get("shared.weight");
        tokens.iter().map(|token| table[*token as usize * WIDTH..][..WIDTH].to_vec()).collect()
    }

    fn encode(&self, tokens: &[u32]) -> Vec<Row> {
        let mut states = self.embed(tokens);
        for layer in 0..LAYERS {
            let name = format!("encoder.block.{layer}.layer");
            let normed: Vec<Row> =
                states.iter().map(|x| self.norm(&format!("{name}.0.layer_norm.weight"), x)).collect();
            for (at, state) in states.iter_mut().enumerate() {
                let update =
                    self.attention(&format!("{name}.0.SelfAttention"), "encoder", &normed[at], &normed, Some(at));
                add(state, &update);
            }
            for state in &mut states {
                let update = self.feed_forward(&format!("{name}.1"), state);
                add(state, &update);
            }
        }
        states.iter().map(|x| self.norm("encoder.final_layer_norm.weight", x)).collect()
    }

    /// The logits of every step when the decoder writes `written`, and of the one behind it.
    pub fn logits(&self, source: &[u32], written: &[u32]) -> Vec<Row> {
        let encoded = self.encode(source);
        let inputs: Vec<u32> = std::iter::once(START).chain(written.iter().copied()).collect();
        let mut states = self.embed(&inputs);
        for layer in 0..LAYERS {
            let name = format!("decoder.block.{layer}.layer");
            let normed: Vec<Row> =
                states.iter().map(|x| self.norm(&format!("{name}.0.layer_norm.weight"), x)).collect();
            for (at, state) in states.iter_mut().enumerate() {
                let past = &normed[..=at];
                add(state, &self.attention(&format!("{name}.0.SelfAttention"), "decoder", &normed[at], past, Some(at)));
            }
            for state in &mut states {
                let normed = self.norm(&format!("{name}.1.layer_norm.weight"), state);
                add(state, &self.attention(&format!("{name}.1.EncDecAttention"), "decoder", &normed, &encoded, None));
                let update = self.feed_forward(&format!("{name}.2"), state);
                add(state, &update);
            }
        }
        let is_tied = self.0.config["tie_word_embeddings"] == true;
        let logits = |x: &Row| {
            let mut normed = self.norm("decoder.final_layer_norm.weight", x);
            if is_tied {
                normed.iter_mut().for_each(|x| *x *= (WIDTH as f64).powf(-0.5));
            }
            self.linear(if is_tied { "shared.weight" } else { "lm_head.weight" }, &normed)
        };
        states.iter().map(logits).collect()
    }
}

fn add(state: &mut [f64], update: &[f64]) {
    state.iter_mut().zip(update).for_each(|(state, update)| *state += update);
}
