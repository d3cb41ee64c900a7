//! A small network of Chatterbox's architecture with random weights (feature `test-support`).
//!
//! Its four files have the inputs, outputs, dimensions and operators of the real export wherever these matter to the code around them: a Llama with rotary grouped-query attention
//! over caches, two tables of positions, text up to the first 0, a decoder that leaves out the clip. What it says is noise.

use std::path::Path;

use hark_onnx::testing::{Element, Graph, Size, Value};
use serde_json::json;

use crate::LANGUAGES;

const WIDTH: usize = 32;
const HEADS: usize = 2;
const HEAD: usize = WIDTH / HEADS;
const LAYERS: usize = 2;
const VOCABULARY: usize = 8194;
/// Tokens of speech that the small network likes; all others are very unlikely.
const LIKELY: usize = 64;
/// Embeddings of the voice before the text.
const CONDITIONING: usize = 33;
/// Samples of a token.
const PER_TOKEN: usize = 960;

const BATCH: Size = Size::Any("batch_size");

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub struct SmallModel {
    /// The logit of the token that ends speech. By default one token of some twenty is that one.
    pub stop: f32,
    /// Whether caches are 16-bit floats, as in the 16-bit exports.
    pub has_half_caches: bool,
    /// The file of the language model.
    pub language_model: &'static str,
}

impl Default for SmallModel {
    fn default() -> Self {
        SmallModel { stop: 2.5, has_half_caches: false, language_model: "language_model_q4.onnx" }
    }
}

impl SmallModel {
    /// Writes all files of the model to a folder.
    pub fn write(&self, folder: &Path) {
        encoder().write_external(&folder.join("speech_encoder.onnx"));
        embedder().write_external(&folder.join("embed_tokens.onnx"));
        self.language().write_external(&folder.join(self.language_model));
        decoder().write_external(&folder.join("conditional_decoder.onnx"));
        let write = |name: &str, value: serde_json::Value| {
            std::fs::write(folder.join(name), value.to_string()).expect("a file can be written");
        };
        write("tokenizer.json", tokenizer());
        write("Cangjie5_TC.json", json!(["你\tonf", "好\tvnd"]));
    }

    fn language(&self) -> Graph {
        let (mut graph, cache) = (Graph::new(30), if self.has_half_caches { Element::F16 } else { Element::F32 });
        graph.input("inputs_embeds", Element::F32, &[BATCH, Size::Any("sequence_length"), Size::Is(WIDTH)]);
        graph.input("attention_mask", Element::I64, &[BATCH, Size::Any("total_sequence_length")]);
        let past = [BATCH, Size::Is(HEADS), Size::Any("past_sequence_length"), Size::Is(HEAD)];
        let present = [BATCH, Size::Is(HEADS), Size::Any("total_sequence_length"), Size::Is(HEAD)];
        graph.output("logits", Element::F32, &[BATCH, Size::Any("sequence_length"), Size::Is(VOCABULARY)]);
        graph.integers("one", &[1], &[1]);
        graph.integers("second", &[], &[1]);
        graph.node("ReduceSum", &["attention_mask", "one"], &["lengths"], &[("keepdims", Value::Int(0))]);
        graph.node("Sub", &["lengths", "one"], &["last"], &[]);
        graph.node("Cast", &["last"], &["seqlens_k"], &[("to", Value::Int(6))]);
        graph.node("Shape", &["attention_mask"], &["mask_shape"], &[]);
        graph.node("Gather", &["mask_shape", "second"], &["total_64"], &[("axis", Value::Int(0))]);
        graph.node("Cast", &["total_64"], &["total"], &[("to", Value::Int(6))]);
        let angle = |at: usize| (at / (HEAD / 2)) as f32 / 10_000f32.powf((at % (HEAD / 2)) as f32 / (HEAD / 2) as f32);
        let (cos, sin): (Vec<f32>, Vec<f32>) =
            (0..2048 * HEAD / 2).map(|at| (angle(at).cos(), angle(at).sin())).unzip();
        graph.floats("cos_cache", &[2048, HEAD / 2], &cos);
        graph.floats("sin_cache", &[2048, HEAD / 2], &sin);
        if self.has_half_caches {
            for table in ["cos_cache", "sin_cache"] {
                cast(&mut graph, table, Element::F16);
            }
        }
        let mut hidden = "inputs_embeds".to_owned();
        for layer in 0..LAYERS {
            for which in ["key", "value"] {
                graph.input(&format!("past_key_values.{layer}.{which}"), cache, &past);
                graph.output(&format!("present.{layer}.{which}"), cache, &present);
            }
            hidden = self.layer(&mut graph, layer, &hidden);
        }
        norm(&mut graph, "final", &hidden);
        graph.random("head.w", &[WIDTH, VOCABULARY], 0.5);
        let bias: Vec<f32> = (0..VOCABULARY)
            .map(|token| match token {
                6562 => self.stop,
                token if token < LIKELY => 0.0,
                _ => -40.0,
            })
            .collect();
        graph.floats("head.b", &[VOCABULARY], &bias);
        graph.node("MatMul", &["final.out", "head.w"], &["head.out"], &[]);
        graph.node("Add", &["head.out", "head.b"], &["logits"], &[]);
        graph
    }

    fn layer(&self, graph: &mut Graph, layer: usize, hidden: &str) -> String {
        let name = |part: &str| format!("l{layer}.{part}");
        norm(graph, &name("n1"), hidden);
        for part in ["q", "k", "v"] {
            linear(graph, &name(part), &name("n1.out"), WIDTH, WIDTH);
        }
        // With 16-bit caches attention is in 16 bits, too, and the rest is not.
        let ports = ["q.out", "k.out", "v.out"].map(name);
        let ports = if self.has_half_caches { ports.map(|port| cast(graph, &port, Element::F16)) } else { ports };
        let tables = ["cos_cache", "sin_cache"].map(|table| match self.has_half_caches {
            true => format!("{table}.half"),
            false => table.to_owned(),
        });
        let past = ["key", "value"].map(|which| format!("past_key_values.{layer}.{which}"));
        let present = ["key", "value"].map(|which| format!("present.{layer}.{which}"));
        let ([q, k, v], [cos, sin], out) = (&ports, &tables, name("attention"));
        graph.node(
            "com.microsoft:GroupQueryAttention",
            &[q, k, v, &past[0], &past[1], "seqlens_k", "total", cos, sin],
            &[&out, &present[0], &present[1]],
            &[
                ("num_heads", Value::Int(HEADS as i64)),
                ("kv_num_heads", Value::Int(HEADS as i64)),
                ("do_rotary", Value::Int(1)),
            ],
        );
        let out = if self.has_half_caches { cast(graph, &out, Element::F32) } else { out };
        linear(graph, &name("o"), &out, WIDTH, WIDTH);
        graph.node("Add", &[hidden, &name("o.out")], &[&name("h1")], &[]);
        norm(graph, &name("n2"), &name("h1"));
        linear(graph, &name("gate"), &name("n2.out"), WIDTH, 2 * WIDTH);
        linear(graph, &name("up"), &name("n2.out"), WIDTH, 2 * WIDTH);
        graph.node("Sigmoid", &[&name("gate.out")], &[&name("open")], &[]);
        graph.node("Mul", &[&name("gate.out"), &name("open")], &[&name("silu")], &[]);
        graph.node("Mul", &[&name("silu"), &name("up.out")], &[&name("gated")], &[]);
        linear(graph, &name("down"), &name("gated"), 2 * WIDTH, WIDTH);
        graph.node("Add", &[&name("h1"), &name("down.out")], &[&name("h2")], &[]);
        name("h2")
    }
}

/// Casts a value; the new one has its name with the kind behind it.
fn cast(graph: &mut Graph, from: &str, to: Element) -> String {
    let name = format!("{from}.{}", if to == Element::F16 { "half" } else { "wide" });
    graph.node("Cast", &[from], &[&name], &[("to", Value::Int(to as i64))]);
    name
}

fn norm(graph: &mut Graph, name: &str, from: &str) {
    let (scale, out) = (format!("{name}.scale"), format!("{name}.out"));
    graph.floats(&scale, &[WIDTH], &[1.0; WIDTH]);
    let attributes = [("axis", Value::Int(-1)), ("epsilon", Value::Float(1e-5))];
    graph.node("SimplifiedLayerNormalization", &[from, &scale], &[&out], &attributes);
}

fn linear(graph: &mut Graph, name: &str, from: &str, inputs: usize, outputs: usize) {
    let (weights, out) = (format!("{name}.w"), format!("{name}.out"));
    graph.random(&weights, &[inputs, outputs], 1.0 / (inputs as f32).sqrt());
    graph.node("MatMul", &[from, &weights], &[&out], &[]);
}

/// Blocks of the clip through convolutions: 25 tokens and 50 rows of features a second.
fn encoder() -> Graph {
    let mut graph = Graph::new(10);
    graph.input("audio_values", Element::F32, &[BATCH, Size::Any("num_samples")]);
    graph.output("audio_features", Element::F32, &[BATCH, Size::Any("sequence_length"), Size::Is(WIDTH)]);
    graph.output("audio_tokens", Element::I64, &[BATCH, Size::Any("audio_sequence_length")]);
    graph.output("speaker_embeddings", Element::F32, &[BATCH, Size::Is(192)]);
    graph.output("speaker_features", Element::F32, &[BATCH, Size::Any("feature_dim"), Size::Is(80)]);
    graph.integers("axis1", &[1], &[1]);
    graph.node("Unsqueeze", &["audio_values", "axis1"], &["channel"], &[]);
    for (name, bands, block) in [("mel", 80, PER_TOKEN / 2), ("code", 97, PER_TOKEN)] {
        let (weights, out) = (format!("{name}.w"), format!("{name}.out"));
        graph.random(&weights, &[bands, 1, block], 0.2);
        graph.node("Conv", &["channel", &weights], &[&out], &[("strides", Value::Ints(&[block as i64]))]);
    }
    graph.node("ArgMax", &["code.out"], &["audio_tokens"], &[("axis", Value::Int(1)), ("keepdims", Value::Int(0))]);
    graph.node("Transpose", &["mel.out"], &["speaker_features"], &[("perm", Value::Ints(&[0, 2, 1]))]);
    graph.node("ReduceMean", &["speaker_features", "axis1"], &["mean"], &[("keepdims", Value::Int(0))]);
    graph.random("speaker.w", &[80, 192], 0.5);
    graph.node("MatMul", &["mean", "speaker.w"], &["speaker_embeddings"], &[]);
    graph.random("voice.w", &[192, WIDTH], 0.5);
    graph.node("MatMul", &["speaker_embeddings", "voice.w"], &["voice"], &[]);
    graph.node("Unsqueeze", &["voice", "axis1"], &["voice1"], &[]);
    graph.random("learned", &[1, CONDITIONING, WIDTH], 1.0);
    graph.node("Add", &["voice1", "learned"], &["audio_features"], &[]);
    graph
}

/// Text up to the first 0 from one pair of tables, speech from another, and the exaggeration as a line.
fn embedder() -> Graph {
    let mut graph = Graph::new(20);
    let sequence = Size::Any("sequence_length");
    graph.input("input_ids", Element::I64, &[BATCH, sequence]);
    graph.input("position_ids", Element::I64, &[BATCH, sequence]);
    graph.input("exaggeration", Element::F32, &[BATCH]);
    graph.output("inputs_embeds", Element::F32, &[BATCH, sequence, Size::Is(WIDTH)]);
    for (name, rows) in [("text", 2454), ("speech", VOCABULARY), ("text_at", 2050), ("speech_at", 4100)] {
        graph.random(&format!("{name}.table"), &[rows, WIDTH], 1.0);
    }
    graph.integers("zero", &[], &[0]);
    graph.integers("one", &[], &[1]);
    graph.integers("axis1", &[1], &[1]);
    graph.integers("axis2", &[1], &[2]);
    graph.integers("exaggeration_id", &[], &[6563]);
    graph.node("Equal", &["input_ids", "zero"], &["is_zero"], &[]);
    graph.node("Cast", &["is_zero"], &["zeros"], &[("to", Value::Int(7))]);
    graph.node("CumSum", &["zeros", "one"], &["zeros_before"], &[("exclusive", Value::Int(1))]);
    graph.node("Equal", &["zeros_before", "zero"], &["none_before"], &[]);
    graph.node("ReduceMax", &["zeros", "axis1"], &["any_zero"], &[("keepdims", Value::Int(1))]);
    graph.node("Equal", &["any_zero", "one"], &["has_zero"], &[]);
    graph.node("And", &["none_before", "has_zero"], &["up_to_zero"], &[]);
    graph.node("Equal", &["input_ids", "exaggeration_id"], &["is_exaggeration"], &[]);
    graph.node("Not", &["is_exaggeration"], &["is_token"], &[]);
    graph.node("And", &["up_to_zero", "is_token"], &["is_text"], &[]);
    graph.node("Or", &["is_text", "is_exaggeration"], &["no_speech"], &[]);
    for (ids, kept) in [("input_ids", ""), ("position_ids", "_at")] {
        let (text, speech) = (format!("text{kept}.ids"), format!("speech{kept}.ids"));
        graph.node("Where", &["is_text", ids, "zero"], &[&text], &[]);
        graph.node("Where", &["no_speech", "zero", ids], &[&speech], &[]);
    }
    for name in ["text", "speech", "text_at", "speech_at"] {
        let (table, ids, out) = (format!("{name}.table"), format!("{name}.ids"), format!("{name}.out"));
        graph.node("Gather", &[&table, &ids], &[&out], &[]);
    }
    graph.node("Add", &["text.out", "text_at.out"], &["text.sum"], &[]);
    graph.node("Add", &["speech.out", "speech_at.out"], &["speech.sum"], &[]);
    graph.integers("axes12", &[2], &[1, 2]);
    graph.node("Unsqueeze", &["exaggeration", "axes12"], &["how_much"], &[]);
    graph.random("emotion.w", &[1, 1, WIDTH], 1.0);
    graph.node("Mul", &["how_much", "emotion.w"], &["emotion"], &[]);
    graph.node("Unsqueeze", &["is_text", "axis2"], &["is_text2"], &[]);
    graph.node("Unsqueeze", &["is_exaggeration", "axis2"], &["is_exaggeration2"], &[]);
    graph.node("Where", &["is_exaggeration2", "emotion", "speech.sum"], &["others"], &[]);
    graph.node("Where", &["is_text2", "text.sum", "others"], &["inputs_embeds"], &[]);
    graph
}

/// A block of samples for each token behind those of the clip.
fn decoder() -> Graph {
    let mut graph = Graph::new(40);
    graph.input("speech_tokens", Element::I64, &[BATCH, Size::Any("num_speech_tokens")]);
    graph.input("speaker_embeddings", Element::F32, &[BATCH, Size::Is(192)]);
    graph.input("speaker_features", Element::F32, &[BATCH, Size::Any("feature_dim"), Size::Is(80)]);
    graph.output("waveform", Element::F32, &[BATCH, Size::Any("num_samples")]);
    graph.integers("one", &[1], &[1]);
    graph.integers("two", &[1], &[2]);
    graph.integers("far", &[1], &[1 << 40]);
    graph.integers("flat", &[2], &[0, -1]);
    graph.node("Shape", &["speaker_features"], &["shape"], &[]);
    graph.node("Gather", &["shape", "one"], &["rows"], &[]);
    graph.node("Div", &["rows", "two"], &["clip"], &[]);
    graph.node("Slice", &["speech_tokens", "clip", "far", "one"], &["new"], &[]);
    graph.random("codes", &[6561, 16], 1.0);
    graph.node("Gather", &["codes", "new"], &["embedded"], &[]);
    graph.random("speaker.w", &[192, 16], 0.1);
    graph.node("MatMul", &["speaker_embeddings", "speaker.w"], &["speaker"], &[]);
    graph.node("Unsqueeze", &["speaker", "one"], &["speaker1"], &[]);
    graph.node("Add", &["embedded", "speaker1"], &["voiced"], &[]);
    graph.random("sound.w", &[16, PER_TOKEN], 0.3);
    graph.node("MatMul", &["voiced", "sound.w"], &["blocks"], &[]);
    graph.node("Tanh", &["blocks"], &["limited"], &[]);
    graph.node("Reshape", &["limited", "flat"], &["waveform"], &[]);
    graph
}

fn tokenizer() -> serde_json::Value {
    let mut vocabulary = serde_json::Map::new();
    let mut add = |text: String| {
        let id = 30 + vocabulary.len();
        vocabulary.insert(text, id.into());
    };
    (' '..='~').chain("\u{301}。，".chars()).for_each(|letter| add(letter.to_string()));
    for pair in ["th", "the", "in"] {
        add(pair.to_owned());
    }
    let mut added = vec![json!({"id": 2, "content": "[SPACE]"}), json!({"id": 1, "content": "[UNK]"})];
    added
        .extend(LANGUAGES.iter().enumerate().map(|(at, code)| json!({"id": 700 + at, "content": format!("[{code}]")})));
    let parts = ('a'..='z').chain(['1', '.']);
    added.extend(parts.enumerate().map(|(at, part)| json!({"id": 800 + at, "content": format!("[cj_{part}]")})));
    json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "[SPACE]"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[EXAGGERATION]", "type_id": 0}}, {"SpecialToken": {"id": "[START]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[STOP]", "type_id": 0}},
                {"SpecialToken": {"id": "[START_SPEECH]", "type_id": 0}}, {"SpecialToken": {"id": "[START_SPEECH]", "type_id": 0}}
            ],
            "special_tokens": {
                "[EXAGGERATION]": {"id": "[EXAGGERATION]", "ids": [6563], "tokens": ["[EXAGGERATION]"]},
                "[START]": {"id": "[START]", "ids": [255], "tokens": ["[START]"]},
                "[STOP]": {"id": "[STOP]", "ids": [0], "tokens": ["[STOP]"]},
                "[START_SPEECH]": {"id": "[START_SPEECH]", "ids": [6561], "tokens": ["[START_SPEECH]"]}
            }
        },
        "model": {"type": "BPE", "unk_token": "[UNK]", "vocab": vocabulary, "merges": ["t h", "th e", "i n"]}
    })
}
