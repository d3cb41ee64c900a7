//! A small GGUF model with random weights, and a forward pass over it in plain arithmetic.

use std::sync::Arc;

use hark_lm::RopeStyle;
use hark_weights::WeightsFile;

/// The shape of the small model.
pub struct Shape {
    /// `general.architecture`.
    pub architecture: &'static str,
    pub heads: usize,
    pub kv_heads: usize,
    pub has_bias: bool,
    pub has_qk_norm: bool,
    pub rope: RopeStyle,
    pub is_tied: bool,
    /// Scaled embeddings, norms behind each part, GeGLU, a window in every other layer.
    pub is_gemma: bool,
    /// Caps of attention scores and of logits.
    pub softcaps: Option<(f32, f32)>,
    /// Queries, keys and values in one matrix, gate and up in one, rotary factors for short and long contexts.
    pub is_phi: bool,
}

pub const WIDTH: usize = 64;
pub const HEAD: usize = 32;
pub const HIDDEN: usize = 96;
pub const LAYERS: usize = 2;
pub const VOCABULARY: usize = 258;
pub const CONTEXT: usize = 96;
const CHAT_TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] ~ ':' ~ m.content ~ '<|im_end|>' }}{% endfor %}a:";
const EPSILON: f32 = 1e-5;
const ROPE_BASE: f32 = 1000.0;
/// Positions that local layers see.
const WINDOW: usize = 20;
/// The rotary base of Gemma 3's local layers.
const LOCAL_ROPE_BASE: f32 = 10_000.0;
/// Sines and cosines of Phi 3 are multiplied by this.
const ROPE_MAGNITUDE: f32 = 1.1;
/// Phi 3 has factors for contexts up to this, and others for longer ones.
pub const ORIGINAL_CONTEXT: usize = 64;

pub const QWEN2: Shape = Shape {
    architecture: "qwen2",
    heads: 4,
    kv_heads: 2,
    has_bias: true,
    has_qk_norm: false,
    rope: RopeStyle::Halves,
    is_tied: true,
    is_gemma: false,
    softcaps: None,
    is_phi: false,
};
pub const QWEN3: Shape = Shape { architecture: "qwen3", has_bias: false, has_qk_norm: true, is_tied: false, ..QWEN2 };
pub const LLAMA: Shape = Shape {
    architecture: "llama",
    heads: 3,
    kv_heads: 1,
    has_bias: false,
    has_qk_norm: false,
    rope: RopeStyle::Interleaved,
    is_tied: false,
    ..QWEN2
};
pub const GEMMA2: Shape =
    Shape { architecture: "gemma2", has_bias: false, is_gemma: true, softcaps: Some((2.0, 3.0)), ..QWEN2 };
pub const GEMMA3: Shape = Shape { architecture: "gemma3", has_bias: false, has_qk_norm: true, is_gemma: true, ..QWEN2 };
pub const PHI3: Shape = Shape { architecture: "phi3", has_bias: false, is_tied: false, is_phi: true, ..QWEN2 };

/// A tensor as it is stored and as the reference uses it.
struct Stored {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    bytes: Vec<u8>,
    values: Vec<f32>,
}

/// The small model.
pub struct SmallModel {
    shape: Shape,
    tensors: Vec<Stored>,
}

fn random(seed: &mut u64) -> f32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as f32 / (1u32 << 30) as f32 - 1.0
}

/// f16 bits of a power of two between 2^-14 and 2^15.
fn half_of_power(power: i32) -> u16 {
    ((power + 15) as u16) << 10
}

impl SmallModel {
    pub fn new(shape: Shape) -> Self {
        let mut model = SmallModel { shape, tensors: Vec::new() };
        let mut seed = 42;
        let (heads, kv_heads) = (model.shape.heads, model.shape.kv_heads);
        model.matrix("token_embd.weight", VOCABULARY, WIDTH, &mut seed);
        if !model.shape.is_tied {
            model.matrix("output.weight", VOCABULARY, WIDTH, &mut seed);
        }
        model.vector("output_norm.weight", WIDTH, 1.0, &mut seed);
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            model.vector(&name("attn_norm.weight"), WIDTH, 1.0, &mut seed);
            if model.shape.is_phi {
                model.matrix(&name("attn_qkv.weight"), (heads + 2 * kv_heads) * HEAD, WIDTH, &mut seed);
            } else {
                model.matrix(&name("attn_q.weight"), heads * HEAD, WIDTH, &mut seed);
                model.matrix(&name("attn_k.weight"), kv_heads * HEAD, WIDTH, &mut seed);
                model.matrix(&name("attn_v.weight"), kv_heads * HEAD, WIDTH, &mut seed);
            }
            if model.shape.has_bias {
                model.vector(&name("attn_q.bias"), heads * HEAD, 0.0, &mut seed);
                model.vector(&name("attn_k.bias"), kv_heads * HEAD, 0.0, &mut seed);
                model.vector(&name("attn_v.bias"), kv_heads * HEAD, 0.0, &mut seed);
            }
            if model.shape.has_qk_norm {
                model.vector(&name("attn_q_norm.weight"), HEAD, 1.0, &mut seed);
                model.vector(&name("attn_k_norm.weight"), HEAD, 1.0, &mut seed);
            }
            model.matrix(&name("attn_output.weight"), WIDTH, heads * HEAD, &mut seed);
            model.vector(&name("ffn_norm.weight"), WIDTH, 1.0, &mut seed);
            if model.shape.is_phi {
                model.matrix(&name("ffn_up.weight"), 2 * HIDDEN, WIDTH, &mut seed);
            } else {
                model.matrix(&name("ffn_gate.weight"), HIDDEN, WIDTH, &mut seed);
                model.matrix(&name("ffn_up.weight"), HIDDEN, WIDTH, &mut seed);
            }
            model.matrix(&name("ffn_down.weight"), WIDTH, HIDDEN, &mut seed);
            if model.shape.is_gemma {
                model.vector(&name("post_attention_norm.weight"), WIDTH, 1.0, &mut seed);
                model.vector(&name("post_ffw_norm.weight"), WIDTH, 1.0, &mut seed);
            }
        }
        if model.shape.is_phi {
            model.vector("rope_factors_short.weight", HEAD / 2, 1.2, &mut seed);
            model.vector("rope_factors_long.weight", HEAD / 2, 4.0, &mut seed);
        }
        model
    }

    /// A matrix in Q8_0 whose blocks have scales that are powers of two: its values are exact.
    fn matrix(&mut self, name: &str, rows: usize, columns: usize, seed: &mut u64) {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        for block in 0..rows * columns / 32 {
            let power = -9 - (block % 3) as i32;
            bytes.extend(half_of_power(power).to_le_bytes());
            for _ in 0..32 {
                let quant = (random(seed) * 127.0) as i8;
                bytes.push(quant as u8);
                values.push(f32::from(quant) * (power as f32).exp2());
            }
        }
        self.tensors.push(Stored { name: name.to_owned(), shape: vec![rows, columns], kind: 8, bytes, values });
    }

    fn vector(&mut self, name: &str, length: usize, middle: f32, seed: &mut u64) {
        let values: Vec<f32> = (0..length).map(|_| middle + 0.3 * random(seed)).collect();
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensors.push(Stored { name: name.to_owned(), shape: vec![length], kind: 0, bytes, values });
    }

    /// The bytes of the GGUF file.
    pub fn gguf(&self) -> Vec<u8> {
        let Shape { architecture, heads, kv_heads, .. } = self.shape;
        let key = |rest: &str| format!("{architecture}.{rest}");
        let number = |key: String, value: usize| entry(&key, 4, &(value as u32).to_le_bytes());
        let float = |key: String, value: f32| entry(&key, 6, &value.to_le_bytes());
        let text = |key: &str, value: &str| entry(key, 8, &string(value));
        // GPT-2's alphabet for the first 256 tokens, then one merged token and one control token.
        let mut next = 255;
        let mut names: Vec<String> = (0..=255u8)
            .map(|byte| match byte {
                b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
                _ => {
                    next += 1;
                    char::from_u32(next).expect("a letter").to_string()
                }
            })
            .collect();
        names.extend(["ab".to_owned(), "<|im_end|>".to_owned()]);
        let kinds: Vec<u8> =
            (0..VOCABULARY).flat_map(|token| if token == 257 { 3u32 } else { 1 }.to_le_bytes()).collect();
        let array = |kind: u32, count: usize, bytes: &[u8]| {
            [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes(), bytes].concat()
        };
        let names: Vec<u8> = names.iter().flat_map(|name| string(name)).collect();
        let mut metadata = vec![
            text("general.architecture", architecture),
            number(key("block_count"), LAYERS),
            number(key("context_length"), CONTEXT),
            number(key("embedding_length"), WIDTH),
            number(key("feed_forward_length"), HIDDEN),
            number(key("attention.head_count"), heads),
            number(key("attention.head_count_kv"), kv_heads),
            number(key("attention.key_length"), HEAD),
            number(key("attention.value_length"), HEAD),
            float(key("attention.layer_norm_rms_epsilon"), EPSILON),
            float(key("rope.freq_base"), ROPE_BASE),
            text("tokenizer.ggml.model", "gpt2"),
            text("tokenizer.ggml.pre", "qwen2"),
            entry("tokenizer.ggml.tokens", 9, &array(8, VOCABULARY, &names)),
            entry("tokenizer.ggml.token_type", 9, &array(5, VOCABULARY, &kinds)),
            entry("tokenizer.ggml.merges", 9, &array(8, 1, &string("a b"))),
            number("tokenizer.ggml.eos_token_id".to_owned(), 257),
            text("tokenizer.chat_template", CHAT_TEMPLATE),
        ];
        if self.shape.is_gemma {
            metadata.push(number(key("attention.sliding_window"), WINDOW));
            metadata.push(number(key("attention.sliding_window_pattern"), 2));
        }
        if let Some((attention, logits)) = self.shape.softcaps {
            metadata.push(float(key("attn_logit_softcapping"), attention));
            metadata.push(float(key("final_logit_softcapping"), logits));
        }
        if self.shape.is_phi {
            metadata.push(number(key("rope.scaling.original_context_length"), ORIGINAL_CONTEXT));
            metadata.push(float(key("rope.scaling.attn_factor"), ROPE_MAGNITUDE));
        }
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((metadata.len() as u64).to_le_bytes());
        metadata.iter().for_each(|entry| out.extend(entry));
        let mut data: Vec<u8> = Vec::new();
        for tensor in &self.tensors {
            data.resize(data.len().next_multiple_of(32), 0);
            out.extend(string(&tensor.name));
            out.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().rev().for_each(|size| out.extend((*size as u64).to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        out
    }

    pub fn file(&self) -> Arc<WeightsFile> {
        WeightsFile::from_bytes("small.gguf", self.gguf())
    }

    fn get(&self, name: &str) -> &[f32] {
        &self.tensors.iter().find(|tensor| tensor.name == name).expect("the tensor is there").values
    }

    /// The rows of a part of a matrix that Phi 3 stores in one with others.
    fn projection(&self, layer: usize, which: &str) -> &[f32] {
        let (queries, keys) = (self.shape.heads * HEAD, self.shape.kv_heads * HEAD);
        let (tensor, rows) = match (self.shape.is_phi, which) {
            (true, "attn_q") => ("attn_qkv", 0..queries),
            (true, "attn_k") => ("attn_qkv", queries..queries + keys),
            (true, "attn_v") => ("attn_qkv", queries + keys..queries + 2 * keys),
            (true, "ffn_gate") => ("ffn_up", 0..HIDDEN),
            (true, "ffn_up") => ("ffn_up", HIDDEN..2 * HIDDEN),
            (_, other) => return self.get(&format!("blk.{layer}.{other}.weight")),
        };
        &self.get(&format!("blk.{layer}.{tensor}.weight"))[rows.start * WIDTH..rows.end * WIDTH]
    }

    /// The angle of a pair of elements for each position, and what sines and cosines are multiplied by.
    fn rope(&self, is_local: bool, is_long: bool) -> (Vec<f32>, f32) {
        let base = if is_local && self.shape.architecture == "gemma3" { LOCAL_ROPE_BASE } else { ROPE_BASE };
        let factors = self
            .shape
            .is_phi
            .then(|| self.get(if is_long { "rope_factors_long.weight" } else { "rope_factors_short.weight" }));
        let frequency =
            |pair: usize| base.powf(-2.0 * pair as f32 / HEAD as f32) / factors.map_or(1.0, |factors| factors[pair]);
        ((0..HEAD / 2).map(frequency).collect(), if self.shape.is_phi { ROPE_MAGNITUDE } else { 1.0 })
    }

    /// The logits behind every token, by the definition of the architecture.
    pub fn reference(&self, tokens: &[u32], is_long: bool) -> Vec<Vec<f32>> {
        let Shape { heads, kv_heads, is_gemma, softcaps, .. } = self.shape;
        let capped = |x: f32, cap: Option<f32>| cap.map_or(x, |cap| cap * (x / cap).tanh());
        let embeddings = self.get("token_embd.weight");
        let embedding_scale = if is_gemma { (WIDTH as f32).sqrt() } else { 1.0 };
        let embed = |token: &u32| &embeddings[*token as usize * WIDTH..][..WIDTH];
        let mut rows: Vec<Vec<f32>> =
            tokens.iter().map(|token| embed(token).iter().map(|x| x * embedding_scale).collect()).collect();
        for layer in 0..LAYERS {
            let part = |part: &str| self.get(&format!("blk.{layer}.{part}"));
            let is_local = is_gemma && layer % 2 == 0;
            let (frequencies, magnitude) = self.rope(is_local, is_long);
            let post_norm = |x: Vec<f32>, name: &str| if is_gemma { rms_norm(&x, part(name)) } else { x };
            let project = |x: &[f32], which: &str, heads: usize, position: usize| {
                let mut out = product(self.projection(layer, &format!("attn_{which}")), x);
                if self.shape.has_bias {
                    out = add(&out, part(&format!("attn_{which}.bias")));
                }
                assert_eq!(out.len(), heads * HEAD);
                if which == "v" {
                    return out;
                }
                let heads = out.chunks_exact(HEAD).map(|head| {
                    let head = match self.shape.has_qk_norm {
                        true => rms_norm(head, part(&format!("attn_{which}_norm.weight"))),
                        false => head.to_vec(),
                    };
                    rotate(&head, position, self.shape.rope, &frequencies, magnitude)
                });
                heads.collect::<Vec<_>>().concat()
            };
            let normed: Vec<_> = rows.iter().map(|row| rms_norm(row, part("attn_norm.weight"))).collect();
            let keys: Vec<_> = normed.iter().enumerate().map(|(at, x)| project(x, "k", kv_heads, at)).collect();
            let values: Vec<_> = normed.iter().enumerate().map(|(at, x)| project(x, "v", kv_heads, at)).collect();
            for position in 0..rows.len() {
                let query = project(&normed[position], "q", heads, position);
                let first = if is_local { (position + 1).saturating_sub(WINDOW) } else { 0 };
                let attended: Vec<f32> = (0..heads)
                    .flat_map(|head| {
                        let kv = head / (heads / kv_heads) * HEAD;
                        let (keys, values) = (&keys[first..=position], &values[first..=position]);
                        let cap = |score: f32| capped(score, softcaps.map(|caps| caps.0));
                        attend(&query[head * HEAD..][..HEAD], keys, values, kv, cap)
                    })
                    .collect();
                let added = post_norm(product(part("attn_output.weight"), &attended), "post_attention_norm.weight");
                rows[position] = add(&rows[position], &added);
            }
            for row in &mut rows {
                let x = rms_norm(row, part("ffn_norm.weight"));
                let up = product(self.projection(layer, "ffn_up"), &x);
                let gate = product(self.projection(layer, "ffn_gate"), &x);
                let activated = |x: f32| match is_gemma {
                    true => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
                    false => x / (1.0 + (-x).exp()),
                };
                let hidden: Vec<f32> = gate.iter().zip(up).map(|(gate, up)| activated(*gate) * up).collect();
                *row = add(row, &post_norm(product(part("ffn_down.weight"), &hidden), "post_ffw_norm.weight"));
            }
        }
        let output = self.get(if self.shape.is_tied { "token_embd.weight" } else { "output.weight" });
        let logits = rows.iter().map(|row| product(output, &rms_norm(row, self.get("output_norm.weight"))));
        logits.map(|row| row.into_iter().map(|x| capped(x, softcaps.map(|caps| caps.1))).collect()).collect()
    }
}

fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [string(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn product(matrix: &[f32], x: &[f32]) -> Vec<f32> {
    matrix.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
}

fn add(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn rms_norm(x: &[f32], gain: &[f32]) -> Vec<f32> {
    let mean = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    x.iter().zip(gain).map(|(x, gain)| x / (mean + EPSILON).sqrt() * gain).collect()
}

fn rotate(head: &[f32], position: usize, style: RopeStyle, frequencies: &[f32], magnitude: f32) -> Vec<f32> {
    let mut out = head.to_vec();
    for (pair, frequency) in frequencies.iter().enumerate() {
        let angle = position as f32 * frequency;
        let (cos, sin) = (angle.cos() * magnitude, angle.sin() * magnitude);
        let (i, j) = match style {
            RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
            RopeStyle::Halves => (pair, pair + HEAD / 2),
        };
        out[i] = head[i] * cos - head[j] * sin;
        out[j] = head[i] * sin + head[j] * cos;
    }
    out
}

fn attend(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], at: usize, cap: impl Fn(f32) -> f32) -> Vec<f32> {
    let dot = |key: &Vec<f32>| query.iter().zip(&key[at..]).map(|(q, k)| q * k).sum::<f32>();
    let weights: Vec<f32> = keys.iter().map(|key| cap(dot(key) / (HEAD as f32).sqrt()).exp()).collect();
    let sum: f32 = weights.iter().sum();
    (0..HEAD).map(|d| values.iter().zip(&weights).map(|(v, w)| v[at + d] * w).sum::<f32>() / sum).collect()
}
