//! A small encoder with random weights against a plain forward pass in double precision, and files that are not models.

use std::collections::HashMap;
use std::path::Path;

use hark_compute::{Compute, Isa};
use hark_embed::{EmbedError, Embedder, Tokenizer};
use serde_json::{Value, json};

const WIDTH: usize = 64;
const HEADS: usize = 2;
const INNER: usize = 128;
const LAYERS: usize = 2;
const POSITIONS: usize = 48;
const PIECES: [&str; 20] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "un", "##believ", "##able", "##s", ",", ".", "世", "cafe",
    "[", "]", "cl", "##s2", "x",
];

struct Small {
    folder: tempfile::TempDir,
    reference: Reference,
}

/// BERT by its definition, in double precision.
struct Reference {
    width: usize,
    heads: usize,
    layers: usize,
    tensors: HashMap<String, (Vec<usize>, Vec<f32>)>,
}

fn config() -> Value {
    json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS, "vocab_size": PIECES.len(), "layer_norm_eps": 1e-12,
    })
}

fn tokenizer() -> Value {
    let vocabulary: HashMap<&str, usize> = PIECES.iter().copied().zip(0..).collect();
    json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": vocabulary},
    })
}

fn write_json(folder: &Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).expect("the folder takes a file");
}

impl Small {
    fn new() -> Self {
        let mut shapes: Vec<(String, Vec<usize>)> = vec![
            ("embeddings.word_embeddings.weight".into(), vec![PIECES.len(), WIDTH]),
            ("embeddings.position_embeddings.weight".into(), vec![POSITIONS, WIDTH]),
            ("embeddings.token_type_embeddings.weight".into(), vec![2, WIDTH]),
        ];
        let mut norm = |name: String| {
            shapes.push((format!("{name}.weight"), vec![WIDTH]));
            shapes.push((format!("{name}.bias"), vec![WIDTH]));
        };
        norm("embeddings.LayerNorm".into());
        for layer in 0..LAYERS {
            norm(format!("encoder.layer.{layer}.attention.output.LayerNorm"));
            norm(format!("encoder.layer.{layer}.output.LayerNorm"));
        }
        for layer in 0..LAYERS {
            for (part, outputs, inputs) in [
                ("attention.self.query", WIDTH, WIDTH),
                ("attention.self.key", WIDTH, WIDTH),
                ("attention.self.value", WIDTH, WIDTH),
                ("attention.output.dense", WIDTH, WIDTH),
                ("intermediate.dense", INNER, WIDTH),
                ("output.dense", WIDTH, INNER),
            ] {
                shapes.push((format!("encoder.layer.{layer}.{part}.weight"), vec![outputs, inputs]));
                shapes.push((format!("encoder.layer.{layer}.{part}.bias"), vec![outputs]));
            }
        }
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let tensors = shapes.into_iter().map(|(name, shape)| {
            let values = (0..shape.iter().product()).map(|_| random()).collect();
            (name, (shape, values))
        });
        let reference = Reference { width: WIDTH, heads: HEADS, layers: LAYERS, tensors: tensors.collect() };
        let small = Small { folder: tempfile::tempdir().expect("a temporary folder"), reference };
        small.write_weights();
        write_json(small.path(), "config.json", &config());
        write_json(small.path(), "tokenizer.json", &tokenizer());
        small
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write_weights(&self) {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, (shape, values)) in &self.reference.tensors {
            let start = data.len();
            values.iter().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
            header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
        }
        let header = Value::Object(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&data);
        std::fs::write(self.path().join("model.safetensors"), file).expect("the folder takes a file");
    }

    fn load(&self, isa: Isa) -> Embedder {
        Embedder::load(&Compute::new(2, isa), self.path()).expect("the small model loads")
    }
}

impl Reference {
    fn row(&self, name: &str, row: usize, width: usize) -> Vec<f64> {
        self.tensors[name].1[row * width..(row + 1) * width].iter().map(|x| f64::from(*x)).collect()
    }

    fn linear(&self, x: &[Vec<f64>], name: &str) -> Vec<Vec<f64>> {
        let (shape, weights) = &self.tensors[&format!("{name}.weight")];
        let bias = &self.tensors[&format!("{name}.bias")].1;
        let one = |x: &Vec<f64>, output: usize| {
            let weights = &weights[output * shape[1]..(output + 1) * shape[1]];
            f64::from(bias[output]) + x.iter().zip(weights).map(|(a, b)| a * f64::from(*b)).sum::<f64>()
        };
        x.iter().map(|x| (0..shape[0]).map(|output| one(x, output)).collect()).collect()
    }

    fn norm(&self, x: &mut [Vec<f64>], name: &str) {
        let (gain, shift) =
            (self.row(&format!("{name}.weight"), 0, self.width), self.row(&format!("{name}.bias"), 0, self.width));
        for row in x {
            let mean = row.iter().sum::<f64>() / self.width as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / self.width as f64;
            for ((x, gain), shift) in row.iter_mut().zip(&gain).zip(&shift) {
                *x = (*x - mean) / (variance + 1e-12).sqrt() * gain + shift;
            }
        }
    }

    /// The embedding of tokens.
    fn embed(&self, tokens: &[u32]) -> Vec<f64> {
        let add = |x: &mut [Vec<f64>], y: &[Vec<f64>]| {
            x.iter_mut().zip(y).for_each(|(x, y)| x.iter_mut().zip(y).for_each(|(x, y)| *x += y));
        };
        let segment = self.row("embeddings.token_type_embeddings.weight", 0, self.width);
        let mut x: Vec<Vec<f64>> = Vec::new();
        for (position, token) in tokens.iter().enumerate() {
            let word = self.row("embeddings.word_embeddings.weight", *token as usize, self.width);
            let place = self.row("embeddings.position_embeddings.weight", position, self.width);
            x.push((0..self.width).map(|i| word[i] + place[i] + segment[i]).collect());
        }
        self.norm(&mut x, "embeddings.LayerNorm");
        let dim = self.width / self.heads;
        for layer in 0..self.layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let [queries, keys, values] =
                ["query", "key", "value"].map(|part| self.linear(&x, &name(&format!("attention.self.{part}"))));
            let mut attended = vec![vec![0.0; self.width]; x.len()];
            for head in 0..self.heads {
                let part = head * dim..(head + 1) * dim;
                for (query, out) in queries.iter().zip(&mut attended) {
                    let dot =
                        |key: &Vec<f64>| part.clone().map(|i| query[i] * key[i]).sum::<f64>() / (dim as f64).sqrt();
                    let weights: Vec<f64> = keys.iter().map(|key| dot(key).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    for (weight, value) in weights.iter().zip(&values) {
                        part.clone().for_each(|i| out[i] += weight / total * value[i]);
                    }
                }
            }
            add(&mut x, &self.linear(&attended, &name("attention.output.dense")));
            self.norm(&mut x, &name("attention.output.LayerNorm"));
            let mut hidden = self.linear(&x, &name("intermediate.dense"));
            hidden.iter_mut().flatten().for_each(|x| *x *= normal(*x));
            add(&mut x, &self.linear(&hidden, &name("output.dense")));
            self.norm(&mut x, &name("output.LayerNorm"));
        }
        let mean: Vec<f64> =
            (0..self.width).map(|i| x.iter().map(|row| row[i]).sum::<f64>() / x.len() as f64).collect();
        let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
        mean.into_iter().map(|x| x / length).collect()
    }
}

/// The normal distribution: 1/2 plus the integral of its density, by Simpson's rule.
fn normal(x: f64) -> f64 {
    let steps = 400;
    let h = x / f64::from(steps);
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let weight = |step: i32| if step == 0 || step == steps { 1.0 } else { 2.0 + 2.0 * f64::from(step % 2) };
    0.5 + (0..=steps).map(|step| weight(step) * density(h * f64::from(step))).sum::<f64>() * h / 3.0
}

fn cosine(a: &[f32], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum()
}

#[test]
fn vectors_are_those_of_the_plain_forward_pass_on_every_instruction_set_and_in_any_batch() {
    let small = Small::new();
    let long = "the cat sat unbelievables , x . ".repeat(20);
    let texts = ["The cat sat.", "", "unbelievable", "x", &long, "the cat sat on, 世 Café", &long[..60]];
    let reader = Tokenizer::read(&small.path().join("tokenizer.json")).expect("the tokenizer is read");
    let expected: Vec<Vec<f64>> =
        texts.iter().map(|text| small.reference.embed(&reader.encode(text, POSITIONS).0)).collect();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let embedder = small.load(isa);
        assert_eq!((embedder.dimensions(), embedder.max_tokens()), (WIDTH, POSITIONS));
        let together = embedder.embed(&texts, &|| false).expect("an embedding");
        for ((text, found), expected) in texts.iter().zip(&together).zip(&expected) {
            let cosine = cosine(&found.vector, expected);
            assert!(cosine > 0.9995, "{}: {cosine} for {text:?}", isa.name());
            let length: f32 = found.vector.iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-5, "{length}");
            let alone = &embedder.embed(&[text], &|| false).expect("an embedding")[0];
            assert_eq!((alone.tokens, alone.is_truncated), (found.tokens, found.is_truncated));
            assert!(alone.vector.iter().zip(&found.vector).all(|(a, b)| (a - b).abs() < 1e-4), "{text:?} alone");
        }
        assert_eq!((together[4].tokens, together[4].is_truncated), (POSITIONS, true));
        assert_eq!((together[1].tokens, together[1].is_truncated), (2, false), "no text is two tokens");
    }
    assert!(small.load(Isa::best()).embed(&[], &|| false).expect("nothing").is_empty());
    let cancelled = small.load(Isa::best()).embed(&["the"], &|| true);
    assert!(matches!(cancelled, Err(EmbedError::Cancelled)));
}

#[test]
fn words_become_their_longest_pieces_and_no_text_spells_a_control_token() {
    let small = Small::new();
    let reader = Tokenizer::read(&small.path().join("tokenizer.json")).expect("the tokenizer is read");
    let pieces = |text: &str| {
        let (tokens, _) = reader.encode(text, 100);
        assert_eq!((PIECES[tokens[0] as usize], PIECES[*tokens.last().unwrap() as usize]), ("[CLS]", "[SEP]"));
        tokens[1..tokens.len() - 1].iter().map(|token| PIECES[*token as usize]).collect::<Vec<_>>()
    };
    assert_eq!(pieces("The\tCATS\u{200b}, unbelievable."), ["the", "cat", "##s", ",", "un", "##believ", "##able", "."]);
    assert_eq!(pieces("CAFÉ cafe\u{301}"), ["cafe", "cafe"]);
    assert_eq!(pieces("x世x"), ["x", "世", "x"]);
    assert_eq!(pieces("[CLS][SEP]"), ["[", "cl", "##s", "]", "[", "[UNK]", "]"]);
    assert_eq!(pieces(&"x".repeat(101)), ["[UNK]"]);
    assert_eq!(pieces("  \u{0} \u{fffd} "), [""; 0]);
    let (cut, is_cut) = reader.encode("the cat sat", 4);
    assert_eq!((cut.len(), is_cut), (4, true));
    let (whole, is_cut) = reader.encode("the cat", 4);
    assert_eq!((whole.len(), is_cut), (4, false));
}

#[test]
fn files_that_are_no_such_model_are_refused_and_say_why() {
    let problem = |change: &dyn Fn(&mut Small)| {
        let mut small = Small::new();
        change(&mut small);
        let Err(error) = Embedder::load(&Compute::new(1, Isa::Portable), small.path()) else { panic!("it loads") };
        error.to_string()
    };
    let with = |name: &'static str, key: &'static str, value: Value| {
        move |small: &mut Small| {
            let mut config = if name == "config.json" { config() } else { tokenizer() };
            *config.pointer_mut(key).expect("the key is there") = value.clone();
            write_json(small.path(), name, &config);
        }
    };
    for (key, value, word) in [
        ("/model_type", json!("t5"), "t5"),
        ("/hidden_size", json!(0), "impossible"),
        ("/hidden_size", json!(u64::MAX), "impossible"),
        ("/hidden_size", json!(96), "multiples of 32"),
        ("/num_attention_heads", json!(3), "impossible"),
        ("/vocab_size", json!(3), "more tokens"),
        ("/num_hidden_layers", json!(3), "encoder.layer.2"),
        ("/max_position_embeddings", json!(64), "position_embeddings"),
        ("/layer_norm_eps", json!("big"), "invalid type"),
    ] {
        let message = problem(&with("config.json", key, value.clone()));
        assert!(message.contains(word), "{key} {value}: {message}");
    }
    let message = problem(&with("tokenizer.json", "/model/type", json!("BPE")));
    assert!(message.contains("WordPiece"), "{message}");
    let message = problem(&with("tokenizer.json", "/model/unk_token", json!("[NONE]")));
    assert!(message.contains("lacks [NONE]"), "{message}");
    let message = problem(&|small| {
        let weights =
            &mut small.reference.tensors.get_mut("encoder.layer.1.output.dense.weight").expect("it is there").1;
        weights[5] = f32::NAN;
        small.write_weights();
    });
    assert!(message.contains("not finite"), "{message}");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let message = problem(&|small| std::fs::remove_file(small.path().join(name)).expect("it was there"));
        assert!(message.contains(name), "{message}");
        let message = problem(&|small| std::fs::write(small.path().join(name), "{").expect("it can be written"));
        assert!(message.contains(name), "{message}");
    }
}

#[test]
#[ignore = "needs models"]
fn the_installed_model_gives_the_vectors_of_its_definition() {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let models = set("HARK_MODELS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hark/models")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hark/models")))
        .expect("HARK_MODELS or HOME says where models are");
    let folder = models.join("all-minilm-l6-v2");
    let embedder = Embedder::load(&Compute::from_options(None, None), &folder).expect("the model is installed");
    assert_eq!((embedder.dimensions(), embedder.max_tokens()), (384, 256));
    let file = hark_weights::WeightsFile::open(&folder.join("model.safetensors")).expect("the weights are there");
    let tensors = hark_weights::safetensors::read(&file).expect("the weights are read");
    let floats = tensors.iter().filter(|tensor| tensor.dtype() == hark_weights::Dtype::F32);
    let tensors = floats.map(|tensor| (tensor.name().to_owned(), (tensor.shape().to_vec(), tensor.to_f32()))).collect();
    let reference = Reference { width: 384, heads: 12, layers: 6, tensors };
    let reader = Tokenizer::read(&folder.join("tokenizer.json")).expect("the tokenizer is read");
    let long = "Minutes of the meeting: the budget was approved, the deadline was moved to 4 May. ".repeat(20);
    let texts = [
        "",
        "Hello, world!",
        "Ünïcödé Straße naïve café — “quotes” … 100%",
        "東京は日本の首都です。",
        "नमस्ते दुनिया, Привет мир",
        "antidisestablishmentarianism supercalifragilisticexpialidocious",
        &long[..200],
        &long,
    ];
    let found = embedder.embed(&texts, &|| false).expect("an embedding");
    for (text, found) in texts.iter().zip(&found) {
        let cosine = cosine(&found.vector, &reference.embed(&reader.encode(text, 256).0));
        assert!(cosine > 0.9999, "{cosine} for {text:?}");
    }
    assert!(found[7].is_truncated && found[7].tokens == 256);
}
