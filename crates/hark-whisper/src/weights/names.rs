//! OpenAI's names for the tensors of a Whisper network, and how other formats name the same.

use std::collections::HashMap;

use super::Dims;
use super::source::Source;

/// Bounds no Whisper comes near: they keep a hostile header from asking for a huge network.
const MAX_LAYERS: usize = 256;
const MAX_WIDTH: usize = 1 << 14;
const MAX_POSITIONS: usize = 1 << 16;
const MAX_TOKENS: usize = 1 << 20;

/// Every tensor of a network of these sizes: OpenAI's name and shape.
pub fn canonical_tensors(dims: &Dims) -> Vec<(String, Vec<usize>)> {
    let mut list = Vec::new();
    let mut add = |name: String, shape: &[usize]| list.push((name, shape.to_vec()));
    let (audio, text) = (dims.n_audio_state, dims.n_text_state);

    add("encoder.conv1.weight".into(), &[audio, dims.n_mels, 3]);
    add("encoder.conv1.bias".into(), &[audio]);
    add("encoder.conv2.weight".into(), &[audio, audio, 3]);
    add("encoder.conv2.bias".into(), &[audio]);
    add("encoder.positional_embedding".into(), &[dims.n_audio_ctx, audio]);
    add("encoder.ln_post.weight".into(), &[audio]);
    add("encoder.ln_post.bias".into(), &[audio]);
    add("decoder.token_embedding.weight".into(), &[dims.n_vocab, text]);
    add("decoder.positional_embedding".into(), &[dims.n_text_ctx, text]);
    add("decoder.ln.weight".into(), &[text]);
    add("decoder.ln.bias".into(), &[text]);

    let layers = (0..dims.n_audio_layer).map(|i| (format!("encoder.blocks.{i}"), audio, audio, &["attn"][..])).chain(
        (0..dims.n_text_layer).map(|i| (format!("decoder.blocks.{i}"), text, audio, &["attn", "cross_attn"][..])),
    );
    for (block, width, keys_from, attentions) in layers {
        for attention in attentions {
            let keys_from = if *attention == "cross_attn" { keys_from } else { width };
            add(format!("{block}.{attention}_ln.weight"), &[width]);
            add(format!("{block}.{attention}_ln.bias"), &[width]);
            for (linear, from) in [("query", width), ("key", keys_from), ("value", keys_from), ("out", width)] {
                add(format!("{block}.{attention}.{linear}.weight"), &[width, from]);
                if linear != "key" {
                    add(format!("{block}.{attention}.{linear}.bias"), &[width]);
                }
            }
        }
        add(format!("{block}.mlp_ln.weight"), &[width]);
        add(format!("{block}.mlp_ln.bias"), &[width]);
        add(format!("{block}.mlp.0.weight"), &[4 * width, width]);
        add(format!("{block}.mlp.0.bias"), &[4 * width]);
        add(format!("{block}.mlp.2.weight"), &[width, 4 * width]);
        add(format!("{block}.mlp.2.bias"), &[width]);
    }
    list
}

/// OpenAI's name for a tensor that Hugging Face calls `name`; OpenAI's own names stay as they are.
pub(super) fn from_hugging_face(name: &str) -> String {
    let name = name.strip_prefix("model.").unwrap_or(name);
    match name {
        "encoder.embed_positions.weight" => return "encoder.positional_embedding".into(),
        "decoder.embed_positions.weight" => return "decoder.positional_embedding".into(),
        _ => {}
    }
    let mut parts: Vec<&str> = name.split('.').collect();
    let in_layer = parts.get(1) == Some(&"layers");
    let is_encoder = parts[0] == "encoder";
    for part in &mut parts {
        *part = match *part {
            "layers" => "blocks",
            "self_attn" => "attn",
            "encoder_attn" => "cross_attn",
            "self_attn_layer_norm" => "attn_ln",
            "encoder_attn_layer_norm" => "cross_attn_ln",
            "final_layer_norm" => "mlp_ln",
            "layer_norm" if !in_layer && is_encoder => "ln_post",
            "layer_norm" if !in_layer => "ln",
            "q_proj" => "query",
            "k_proj" => "key",
            "v_proj" => "value",
            "out_proj" => "out",
            "fc1" => "mlp.0",
            "fc2" => "mlp.2",
            "embed_tokens" => "token_embedding",
            other => other,
        };
    }
    parts.join(".")
}

/// Adds the encoder's fixed positions when the files leave them out.
pub(super) fn add_missing_positions(tensors: &mut HashMap<String, Source>) {
    let name = "encoder.positional_embedding";
    let width = tensors.get("encoder.conv1.weight").and_then(|t| t.shape().first().copied());
    if let (false, Some(width)) = (tensors.contains_key(name), width)
        && width <= MAX_WIDTH
    {
        tensors.insert(name.into(), Source::Sinusoids { shape: [1500, width] });
    }
}

/// Reads the network's sizes off its tensors; heads are 64 wide unless the files say otherwise, as in every Whisper.
pub(super) fn measure(
    tensors: &HashMap<String, Source>,
    audio_heads: Option<usize>,
    text_heads: Option<usize>,
) -> Result<Dims, String> {
    let shape = |name: &str| -> Result<&[usize], String> {
        tensors.get(name).map(Source::shape).ok_or_else(|| format!("it has no {name}, so it is not a Whisper model"))
    };
    let matrix = |name: &str| -> Result<(usize, usize), String> {
        match shape(name)? {
            [rows, columns] => Ok((*rows, *columns)),
            other => Err(format!("{name} has shape {other:?}")),
        }
    };
    let layers = |side: &str| {
        (0..=MAX_LAYERS).take_while(|i| tensors.contains_key(&format!("{side}.blocks.{i}.attn_ln.weight"))).count()
    };
    let &[n_audio_state, n_mels, 3] = shape("encoder.conv1.weight")? else {
        return Err("encoder.conv1.weight is no convolution of width 3".into());
    };
    let (n_audio_ctx, _) = matrix("encoder.positional_embedding")?;
    let (n_vocab, n_text_state) = matrix("decoder.token_embedding.weight")?;
    let (n_text_ctx, _) = matrix("decoder.positional_embedding")?;
    let dims = Dims {
        n_mels,
        n_audio_ctx,
        n_audio_state,
        n_audio_head: audio_heads.unwrap_or(n_audio_state / 64),
        n_audio_layer: layers("encoder"),
        n_text_ctx,
        n_text_state,
        n_text_head: text_heads.unwrap_or(n_text_state / 64),
        n_text_layer: layers("decoder"),
        n_vocab,
    };
    for (what, value, most) in [
        ("mel channels", dims.n_mels, MAX_WIDTH),
        ("audio positions", dims.n_audio_ctx, MAX_POSITIONS),
        ("encoder width", dims.n_audio_state, MAX_WIDTH),
        ("encoder heads", dims.n_audio_head, dims.n_audio_state),
        ("encoder layers", dims.n_audio_layer, MAX_LAYERS),
        ("text positions", dims.n_text_ctx, MAX_POSITIONS),
        ("decoder width", dims.n_text_state, MAX_WIDTH),
        ("decoder heads", dims.n_text_head, dims.n_text_state),
        ("decoder layers", dims.n_text_layer, MAX_LAYERS),
        ("tokens", dims.n_vocab, MAX_TOKENS),
    ] {
        if value == 0 || value > most {
            return Err(format!("{value} {what} is impossible"));
        }
    }
    for (width, heads) in [(dims.n_audio_state, dims.n_audio_head), (dims.n_text_state, dims.n_text_head)] {
        if !width.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide a width of {width}"));
        }
    }
    Ok(dims)
}
