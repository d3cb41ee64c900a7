//! PL-BERT: an ALBERT encoder over phonemes, one layer's weights used twelve times.

use hark_compute::conv1d::{Conv1d, Precision};
use hark_compute::ops::Activation;
use hark_compute::vector::{Left, Vectors};
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::{Affine, Convolution, Pass, Steps, Target, layer_norm};
use crate::TtsError;
use crate::phonemes::SYMBOLS;

const EMBEDDING: usize = 128;
const WIDTH: usize = 768;
const INNER: usize = 2048;
const HEADS: usize = 12;
const HEAD: usize = WIDTH / HEADS;
const LAYERS: usize = 12;
const POSITIONS: usize = 512;
/// Output columns.
const OUT: usize = 512;
const EPSILON: f64 = 1e-12;
/// Rows of a panel of the left side of a product.
const PANEL: usize = 16;

struct Norm {
    gain: Vec<f32>,
    shift: Vec<f32>,
}

impl Norm {
    fn apply(&self, rows: &mut Steps) {
        for row in rows.data.chunks_exact_mut(rows.columns) {
            layer_norm(row, EPSILON, |column, x| x * self.gain[column] + self.shift[column]);
        }
    }
}

/// The encoder and the linear layer behind it.
pub(crate) struct Bert {
    symbols: Vec<f32>,
    /// The embedding of each position, that of the token type included.
    positions: Vec<f32>,
    embedding_norm: Norm,
    widen: Convolution,
    query_key_value: Convolution,
    dense: Convolution,
    attention_norm: Norm,
    inner: Convolution,
    outer: Convolution,
    norm: Norm,
    out: Convolution,
}

impl Bert {
    pub(crate) fn read(graph: &Graph) -> Result<Self, FileError> {
        let named = |name: &str, shape: &[usize]| graph.named(&format!("encoder.bert.{name}"), shape);
        let types = named("embeddings.token_type_embeddings.weight", &[2, EMBEDDING])?;
        let mut positions = named("embeddings.position_embeddings.weight", &[POSITIONS, EMBEDDING])?;
        for row in positions.chunks_exact_mut(EMBEDDING) {
            row.iter_mut().zip(&types[..EMBEDDING]).for_each(|(position, kind)| *position += kind);
        }
        let layer = "encoder.albert_layer_groups.0.albert_layers.0";
        let norm = |name: &str, width: usize| {
            let gain = named(&format!("{name}.weight"), &[width])?;
            Ok::<_, FileError>(Norm { gain, shift: named(&format!("{name}.bias"), &[width])? })
        };
        let node = "/encoder/bert/encoder/albert_layer_groups.0/albert_layers.0";
        let parts = ["query", "key", "value"]
            .map(|part| graph.linear_values(&format!("{node}/attention/{part}"), WIDTH, WIDTH));
        let [query, key, value] = parts;
        let parts = [query?, key?, value?];
        let bias: Vec<f32> = parts.iter().flat_map(|(_, bias)| bias.iter().copied()).collect();
        let query_key_value = Conv1d::pack((3 * WIDTH, WIDTH, 1), Some(&bias), Precision::Split, |output, input, _| {
            parts[output / WIDTH].0[input * WIDTH + output % WIDTH]
        });
        Ok(Bert {
            symbols: named("embeddings.word_embeddings.weight", &[SYMBOLS, EMBEDDING])?,
            positions,
            embedding_norm: norm("embeddings.LayerNorm", EMBEDDING)?,
            widen: graph.linear("/encoder/bert/encoder/embedding_hidden_mapping_in", WIDTH, EMBEDDING)?,
            query_key_value: Convolution::new(query_key_value, WIDTH, 0),
            dense: graph.linear(&format!("{node}/attention/dense"), WIDTH, WIDTH)?,
            attention_norm: norm(&format!("{layer}.attention.LayerNorm"), WIDTH)?,
            inner: graph.linear(&format!("{node}/ffn"), INNER, WIDTH)?,
            outer: graph.linear(&format!("{node}/ffn_output"), WIDTH, INNER)?,
            norm: norm(&format!("{layer}.full_layer_layer_norm"), WIDTH)?,
            out: graph.linear("/encoder/bert_encoder", OUT, WIDTH)?,
        })
    }

    /// A row of 512 for each id; there are at most 512.
    pub(crate) fn run(&self, pass: &mut Pass, ids: &[u32]) -> Result<Steps, TtsError> {
        let mut x = Steps::zeroed(ids.len(), EMBEDDING);
        for (position, &id) in ids.iter().enumerate() {
            let symbol = &self.symbols[id as usize * EMBEDDING..][..EMBEDDING];
            let place = &self.positions[position * EMBEDDING..][..EMBEDDING];
            for (x, (symbol, place)) in x.row_mut(position).iter_mut().zip(symbol.iter().zip(place)) {
                *x = symbol + place;
            }
        }
        self.embedding_norm.apply(&mut x);
        let mut x = self.widen.apply(pass, &x, Activation::Identity)?;
        for _ in 0..LAYERS {
            let parts = self.query_key_value.apply(pass, &x, Activation::Identity)?;
            let context = attend(pass, &parts);
            add(pass, &self.dense, &context, Activation::Identity, &mut x)?;
            self.attention_norm.apply(&mut x);
            let inner = self.inner.apply(pass, &x, Activation::Identity)?;
            add(pass, &self.outer, &inner, Activation::GeluTanh, &mut x)?;
            self.norm.apply(&mut x);
        }
        self.out.apply(pass, &x, Activation::Identity)
    }

    pub(crate) fn memory(&self) -> u64 {
        let layers = [&self.widen, &self.query_key_value, &self.dense, &self.inner, &self.outer, &self.out];
        layers.into_iter().map(Convolution::memory).sum::<u64>()
            + (self.symbols.len() + self.positions.len()) as u64 * 4
    }
}

/// `x += layer(activation(from))`.
fn add(
    pass: &mut Pass,
    layer: &Convolution,
    from: &Steps,
    activation: Activation,
    x: &mut Steps,
) -> Result<(), TtsError> {
    let affine = Affine::uniform(from.columns, 1.0);
    let columns = x.columns;
    let target = Target { accumulate: true, ..Target::new(&mut x.data, columns) };
    layer.run(pass, (&from.data, from.columns, from.len()), &affine, activation, target)
}

/// What a thread needs for a head.
#[derive(Default)]
struct Workspace {
    query: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    scores: Vec<f32>,
    weights: Vec<f32>,
    context: Vec<f32>,
}

/// Attention of every row over all rows, head by head, in float32; rows are queries, keys and values beside each other.
fn attend(pass: &Pass, parts: &Steps) -> Steps {
    let count = parts.len();
    let rows = count.next_multiple_of(PANEL);
    let vectors = Vectors::of(pass.compute.isa());
    let factor = 1.0 / (HEAD as f32).sqrt();
    let mut heads = vec![0f32; HEADS * count * HEAD];
    let mut workspaces: Vec<Workspace> = (0..pass.compute.threads()).map(|_| Workspace::default()).collect();
    let shared = std::sync::Mutex::new(heads.chunks_exact_mut(count * HEAD).map(Some).collect::<Vec<_>>());
    pass.compute.parallel_for_with(&mut workspaces, HEADS, |head, workspace, _| {
        let Workspace { query, keys, values, scores, weights, context } = workspace;
        query.resize(rows * HEAD, 0.0);
        keys.resize(HEAD * rows, 0.0);
        values.resize(count * HEAD, 0.0);
        scores.resize(rows * rows, 0.0);
        weights.resize(rows * count, 0.0);
        context.resize(rows * HEAD, 0.0);
        for row in 0..count {
            let from = parts.row(row);
            let part = |part: usize| &from[part * WIDTH + head * HEAD..][..HEAD];
            for (column, x) in part(0).iter().enumerate() {
                query[row / PANEL * PANEL * HEAD + column * PANEL + row % PANEL] = x * factor;
            }
            part(1).iter().enumerate().for_each(|(column, x)| keys[column * rows + row] = *x);
            values[row * HEAD..][..HEAD].copy_from_slice(part(2));
        }
        let left = Left { data: query, panel: PANEL * HEAD, step: PANEL, rows, depth: HEAD };
        vectors.gemm(left, keys, rows, rows, None, scores);
        for row in 0..count {
            let scores = &mut scores[row * rows..][..count];
            let most = scores.iter().fold(f32::MIN, |most, x| most.max(*x));
            let mut total = 0f32;
            for x in scores.iter_mut() {
                *x = (*x - most).exp();
                total += *x;
            }
            for (column, x) in scores.iter().enumerate() {
                weights[row / PANEL * PANEL * count + column * PANEL + row % PANEL] = x / total;
            }
        }
        let left = Left { data: weights, panel: PANEL * count, step: PANEL, rows, depth: count };
        vectors.gemm(left, values, HEAD, HEAD, None, context);
        let out = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[head].take();
        if let Some(out) = out {
            out.copy_from_slice(&context[..count * HEAD]);
        }
    });
    let mut out = Steps::zeroed(count, WIDTH);
    for (head, rows) in heads.chunks_exact(count * HEAD).enumerate() {
        for (row, from) in rows.chunks_exact(HEAD).enumerate() {
            out.row_mut(row)[head * HEAD..][..HEAD].copy_from_slice(from);
        }
    }
    out
}
