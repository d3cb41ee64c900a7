//! How many windows a checkpoint decodes at once on this machine, and the memory they use.

use super::encoder::EncoderCache;
use crate::weights::Dims;
use hark_compute::attention::Int8KeyValues;

/// The more windows a step takes, the fewer times the weights are read; beyond this it gains little. Two of the slots are
/// kept free for clips.
const MAX_SLOTS: usize = 34;
/// Two slots that are kept free for clips, and one for everything else.
pub const MIN_SLOTS: usize = 3;
/// The share of the workspace for encoder caches, which live sessions use to re-encode their windows.
const ENCODER_CACHE_SHARE: f64 = 0.3;
/// The useful maximum of encoder caches.
const MAX_ENCODER_CACHES: usize = 32;

/// Bytes of a slot in use: one a number for the window's keys and values, two for those of every token of every hypothesis;
/// a text without a prompt is at most half of the context.
pub fn slot_bytes(dims: &Dims, rows: usize) -> u64 {
    let texts = rows * dims.n_text_ctx / 2 * 2 * dims.n_text_layer * dims.n_text_state * 2;
    Int8KeyValues::bytes(dims.n_text_layer * dims.n_text_head, dims.n_audio_ctx) + texts as u64
}

/// Bytes of the caches of a window: two per value in the encoder, one in the decoder.
pub fn encoder_cache_bytes(dims: &Dims) -> u64 {
    EncoderCache::bytes(dims) + Int8KeyValues::bytes(dims.n_text_layer * dims.n_text_head, dims.n_audio_ctx)
}

/// How many windows are decoded at once, `rows` hypotheses each, with `workspace` bytes for them.
pub fn slots(dims: &Dims, rows: usize, workspace: u64) -> usize {
    let fit = (workspace as f64 * (1.0 - ENCODER_CACHE_SHARE)) as u64 / slot_bytes(dims, rows).max(1);
    (fit as usize).clamp(MIN_SLOTS, MAX_SLOTS)
}

/// How many live windows keep their encoder cache between two passes.
pub fn encoder_caches(dims: &Dims, workspace: u64) -> usize {
    let fit = (workspace as f64 * ENCODER_CACHE_SHARE) as u64 / encoder_cache_bytes(dims).max(1);
    (fit as usize).clamp(1, MAX_ENCODER_CACHES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(width: usize, encoder: usize, decoder: usize) -> Dims {
        Dims {
            n_mels: 80,
            n_audio_ctx: 1500,
            n_audio_state: width,
            n_audio_head: width / 64,
            n_audio_layer: encoder,
            n_text_ctx: 448,
            n_text_state: width,
            n_text_head: width / 64,
            n_text_layer: decoder,
            n_vocab: 51_866,
        }
    }

    #[test]
    fn large_models_decode_fewer_windows_at_once_and_stay_within_their_memory() {
        let (base, small, medium) = (dims(512, 6, 6), dims(768, 12, 12), dims(1024, 24, 24));
        let (large, turbo) = (dims(1280, 32, 32), dims(1280, 32, 4));
        let workspace = 3600 << 20;
        assert_eq!([base, small, turbo].map(|dims| slots(&dims, 5, workspace)), [34; 3]);
        assert_eq!([medium, large].map(|dims| slots(&dims, 5, workspace)), [14, 8]);
        for dims in [base, small, medium, large, turbo] {
            let taken = slots(&dims, 5, workspace) as u64 * slot_bytes(&dims, 5)
                + encoder_caches(&dims, workspace) as u64 * encoder_cache_bytes(&dims);
            assert!(taken <= workspace, "{dims:?} takes {taken}");
        }
        // A wider beam takes more; however large the model or small the machine, a clip finds its place beside a file.
        assert!(slots(&large, 10, workspace) < slots(&large, 5, workspace));
        assert_eq!(slots(&dims(1 << 14, 32, 256), 5, workspace), MIN_SLOTS);
        assert_eq!((slots(&small, 5, 0), encoder_caches(&small, 0)), (MIN_SLOTS, 1));
        assert_eq!(slots(&small, 5, 400 << 20), 4);
        // A live window of large-v3 is 370 MB.
        assert_eq!([base, medium, large, turbo].map(|dims| encoder_caches(&dims, workspace)), [32, 5, 3, 4]);
    }
}
