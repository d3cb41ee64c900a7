//! A small MarianMT network with random weights: its files, and its definition in double precision.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

pub const WIDTH: usize = 64;
pub const HEADS: usize = 2;
pub const INNER: usize = 96;
pub const ENCODER_LAYERS: usize = 3;
pub const DECODER_LAYERS: usize = 2;
pub const WORDS: usize = 150;
pub const END: u32 = 0;
pub const PAD: u32 = WORDS as u32 - 1;

type Row = Vec<f64>;

/// The tensors of a network by the names of the hub: shape and values.
pub struct Network {
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub config: serde_json::Value,
}

impl Network {
    pub fn random(seed: u32) -> Self {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        // Uniform matrices, whose outputs of unit inputs have a variance of about `gain` squared; and vectors around a mean.
        let mut matrices = vec![("model.shared".to_owned(), WORDS, WIDTH, 0.6)];
        let mut vectors = Vec::new();
        for (side, layers) in [("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)] {
            for layer in (0..layers).map(|layer| format!("model.{side}.layers.{layer}")) {
                let attentions: &[&str] =
                    if side == "encoder" { &["self_attn"] } else { &["self_attn", "encoder_attn"] };
                let mut norms = vec![format!("{layer}.final_layer_norm")];
                for attention in attentions {
                    for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                        matrices.push((format!("{layer}.{attention}.{part}"), WIDTH, WIDTH, 1.5));
                        vectors.push((format!("{layer}.{attention}.{part}.bias"), WIDTH, 0.0));
                    }
                    norms.push(format!("{layer}.{attention}_layer_norm"));
                }
                matrices.push((format!("{layer}.fc1"), INNER, WIDTH, 1.5));
                matrices.push((format!("{layer}.fc2"), WIDTH, INNER, 1.5));
                vectors.extend([(format!("{layer}.fc1.bias"), INNER, 0.0), (format!("{layer}.fc2.bias"), WIDTH, 0.0)]);
                for norm in norms {
                    vectors.extend([(format!("{norm}.weight"), WIDTH, 1.0), (format!("{norm}.bias"), WIDTH, 0.0)]);
                }
            }
        }
        let mut tensors = BTreeMap::new();
        for (name, outputs, inputs, gain) in matrices {
            let scale = gain * (3.0 / inputs as f32).sqrt();
            let values = (0..outputs * inputs).map(|_| scale * next()).collect();
            tensors.insert(format!("{name}.weight"), (vec![outputs, inputs], values));
        }
        for (name, length, mean) in vectors {
            tensors.insert(name, (vec![length], (0..length).map(|_| mean + 0.2 * next()).collect()));
        }
        tensors.insert("final_logits_bias".into(), (vec![1, WORDS], (0..WORDS).map(|_| 0.2 * next()).collect()));
        let config = json!({
            "model_type": "marian", "activation_function": "swish", "d_model": WIDTH, "vocab_size": WORDS,
            "encoder_layers": ENCODER_LAYERS, "decoder_layers": DECODER_LAYERS, "encoder_attention_heads": HEADS,
            "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER,
            "max_position_embeddings": 512, "scale_embedding": true, "static_position_embeddings": true,
            "normalize_before": false, "eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": PAD,
            "bad_words_ids": [[PAD]], "num_beams": 1,
        });
        Network { tensors, config }
    }

    /// Writes the folder's files.
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
}

/// The definition, from the papers and the published code of MarianMT.
pub struct Reference<'a>(pub &'a Network);

impl Reference<'_> {
    fn get(&self, name: &str) -> Vec<f64> {
        let (_, values) = self.0.tensors.get(name).unwrap_or_else(|| panic!("{name} is there"));
        values.iter().map(|value| f64::from(*value)).collect()
    }

    fn linear(&self, name: &str, x: &[f64]) -> Row {
        let weights = self.get(&format!("{name}.weight"));
        let sums = weights.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>());
        sums.zip(self.get(&format!("{name}.bias"))).map(|(sum, bias)| sum + bias).collect()
    }

    fn add_norm(&self, name: &str, x: &[f64], update: &[f64]) -> Row {
        let sum: Row = x.iter().zip(update).map(|(x, update)| x + update).collect();
        let mean = sum.iter().sum::<f64>() / sum.len() as f64;
        let variance = sum.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / sum.len() as f64;
        let (gain, shift) = (self.get(&format!("{name}.weight")), self.get(&format!("{name}.bias")));
        let normed = sum.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt());
        normed.zip(gain).zip(shift).map(|((x, gain), shift)| x * gain + shift).collect()
    }

    /// Attention of every state to the memory: all of it, or as much as stands before the state and the state itself.
    fn attention(&self, layer: &str, kind: &str, states: &[Row], memory: &[Row], is_causal: bool) -> Vec<Row> {
        let name = format!("{layer}.{kind}");
        let part = |part: &str, rows: &[Row]| -> Vec<Row> {
            rows.iter().map(|x| self.linear(&format!("{name}.{part}_proj"), x)).collect()
        };
        let (queries, keys, values) = (part("q", states), part("k", memory), part("v", memory));
        let size = WIDTH / HEADS;
        let attend = |(at, query): (usize, &Row)| -> Row {
            let seen = if is_causal { at + 1 } else { memory.len() };
            let mut attended = vec![0.0; WIDTH];
            for head in 0..HEADS {
                let range = head * size..(head + 1) * size;
                let score = |key: &Row| -> f64 {
                    let product: f64 = query[range.clone()].iter().zip(&key[range.clone()]).map(|(q, k)| q * k).sum();
                    (product / (size as f64).sqrt()).exp()
                };
                let weights: Row = keys[..seen].iter().map(score).collect();
                let total: f64 = weights.iter().sum();
                for (weight, value) in weights.iter().zip(&values) {
                    range.clone().for_each(|i| attended[i] += weight / total * value[i]);
                }
            }
            attended
        };
        let attended: Vec<Row> = queries.iter().enumerate().map(attend).collect();
        let updates = part("out", &attended);
        states.iter().zip(&updates).map(|(x, update)| self.add_norm(&format!("{name}_layer_norm"), x, update)).collect()
    }

    fn feed_forward(&self, layer: &str, x: &[f64]) -> Row {
        let is_relu = self.0.config["activation_function"] == "relu";
        let activation = |x: f64| if is_relu { x.max(0.0) } else { x / (1.0 + (-x).exp()) };
        let hidden: Row = self.linear(&format!("{layer}.fc1"), x).into_iter().map(activation).collect();
        self.add_norm(&format!("{layer}.final_layer_norm"), x, &self.linear(&format!("{layer}.fc2"), &hidden))
    }

    /// The position's sines and cosines: those of the file where it has them.
    fn signal(&self, position: usize) -> Row {
        if let Some((_, table)) = self.0.tensors.get("model.encoder.embed_positions.weight") {
            return table[position * WIDTH..][..WIDTH].iter().map(|value| f64::from(*value)).collect();
        }
        let angle = |i: usize| position as f64 / 10_000f64.powf(2.0 * (i % (WIDTH / 2)) as f64 / WIDTH as f64);
        (0..WIDTH).map(|i| if i < WIDTH / 2 { angle(i).sin() } else { angle(i).cos() }).collect()
    }

    fn embed(&self, tokens: &[u32]) -> Vec<Row> {
        let table = self.get("model.shared.weight");
        let scale = if self.0.config["scale_embedding"] == true { (WIDTH as f64).sqrt() } else { 1.0 };
        let state = |(position, token): (usize, &u32)| {
            let row = table[*token as usize * WIDTH..][..WIDTH].iter();
            row.zip(self.signal(position)).map(|(value, signal)| value * scale + signal).collect()
        };
        tokens.iter().enumerate().map(state).collect()
    }

    fn encode(&self, tokens: &[u32]) -> Vec<Row> {
        let mut states = self.embed(tokens);
        for layer in (0..ENCODER_LAYERS).map(|layer| format!("model.encoder.layers.{layer}")) {
            states = self.attention(&layer, "self_attn", &states, &states, false);
            states = states.iter().map(|x| self.feed_forward(&layer, x)).collect();
        }
        states
    }

    /// The logits of every step when the decoder writes `written`, and of the one behind it.
    pub fn logits(&self, source: &[u32], written: &[u32]) -> Vec<Row> {
        let encoded = self.encode(source);
        let inputs: Vec<u32> = std::iter::once(PAD).chain(written.iter().copied()).collect();
        let mut states = self.embed(&inputs);
        for layer in (0..DECODER_LAYERS).map(|layer| format!("model.decoder.layers.{layer}")) {
            states = self.attention(&layer, "self_attn", &states, &states, true);
            states = self.attention(&layer, "encoder_attn", &states, &encoded, false);
            states = states.iter().map(|x| self.feed_forward(&layer, x)).collect();
        }
        let (table, bias) = (self.get("model.shared.weight"), self.get("final_logits_bias"));
        let logits = |x: &Row| -> Row {
            let words = table.chunks_exact(WIDTH).zip(&bias);
            words.map(|(row, bias)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias).collect()
        };
        states.iter().map(logits).collect()
    }
}
