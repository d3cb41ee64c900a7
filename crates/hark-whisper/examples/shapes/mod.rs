//! Networks of generated weights in the shapes of the published checkpoints.

use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};

/// The sizes of a checkpoint by its name.
pub fn dims_of(shape: &str) -> Dims {
    let (width, layers, n_mels, n_vocab) = match shape {
        "tiny" => (384, (4, 4), 80, 51_865),
        "base" => (512, (6, 6), 80, 51_865),
        "small" => (768, (12, 12), 80, 51_865),
        "medium" => (1024, (24, 24), 80, 51_865),
        "large-v3" => (1280, (32, 32), 128, 51_866),
        "turbo" => (1280, (32, 4), 128, 51_866),
        other => panic!("unknown shape '{other}': use tiny, base, small, medium, large-v3 or turbo"),
    };
    Dims {
        n_mels,
        n_audio_ctx: 1500,
        n_audio_state: width,
        n_audio_head: width / 64,
        n_audio_layer: layers.0,
        n_text_ctx: 448,
        n_text_state: width,
        n_text_head: width / 64,
        n_text_layer: layers.1,
        n_vocab,
    }
}

/// Numbers that look random, the same in every run, as large as a trained layer's.
pub fn generated(dims: Dims) -> Checkpoint {
    Checkpoint::generated(dims, Vocabulary::bytes_only(dims.n_vocab), |name, shape| {
        let mut state = name.bytes().fold(0x9e37_79b9_u32, |state, byte| state.rotate_left(5) ^ u32::from(byte)) | 1;
        let scale = 1.5 / (shape.iter().skip(1).product::<usize>() as f32).sqrt();
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        // Loud positions and small biases: a text that says the same at every position is taken for a loop and ended.
        let scale = match name {
            "decoder.positional_embedding" => 1000.0 * scale,
            _ if name.ends_with("bias") => 0.05 * scale,
            _ => scale,
        };
        let is_gain = name.contains("ln") && name.ends_with("weight");
        (0..shape.iter().product()).map(|_| if is_gain { 1.0 } else { 2.0 * scale * next() }).collect()
    })
}
