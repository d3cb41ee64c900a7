//! The published alignment heads, for files that do not carry them.

use super::Dims;

/// Decoder layers, decoder width, vocabulary, heads as `(layer, head)`.
type Published = (usize, usize, usize, &'static [(usize, usize)]);

/// Heads as OpenAI published them with each checkpoint. large-v1 has large-v2's shape and can't be told apart: it
/// gets v2's heads unless its files say better.
#[rustfmt::skip]
const PUBLISHED: [Published; 11] = [
    (4, 384, 51864, &[(1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)]),
    (4, 384, 51865, &[(2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)]),
    (6, 512, 51864, &[(3, 3), (4, 7), (5, 1), (5, 5), (5, 7)]),
    (6, 512, 51865, &[(3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6)]),
    (
        12,
        768,
        51864,
        &[
            (6, 6), (7, 0), (7, 3), (7, 8), (8, 2), (8, 5), (8, 7), (9, 0), (9, 4), (9, 8), (9, 10), (10, 0),
            (10, 1), (10, 2), (10, 3), (10, 6), (10, 11), (11, 2), (11, 4),
        ],
    ),
    (
        12,
        768,
        51865,
        &[(5, 3), (5, 9), (8, 0), (8, 4), (8, 7), (8, 8), (9, 0), (9, 7), (9, 9), (10, 5)],
    ),
    (
        24,
        1024,
        51864,
        &[
            (11, 4), (14, 1), (14, 12), (14, 14), (15, 4), (16, 0), (16, 4), (16, 9), (17, 12), (17, 14), (18, 7),
            (18, 10), (18, 15), (20, 0), (20, 3), (20, 9), (20, 14), (21, 12),
        ],
    ),
    (24, 1024, 51865, &[(13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4)]),
    (
        32,
        1280,
        51865,
        &[
            (10, 12), (13, 17), (16, 11), (16, 12), (16, 13), (17, 15), (17, 16), (18, 4), (18, 11), (18, 19),
            (19, 11), (21, 2), (21, 3), (22, 3), (22, 9), (22, 12), (23, 5), (23, 7), (23, 13), (25, 5), (26, 1),
            (26, 12), (27, 15),
        ],
    ),
    (
        32,
        1280,
        51866,
        &[
            (7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6),
        ],
    ),
    (4, 1280, 51866, &[(2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14)]),
];

/// The heads published for a checkpoint of this shape, else all heads of the later half of the decoder.
pub(super) fn heads(dims: &Dims) -> Vec<(usize, usize)> {
    let shape = (dims.n_text_layer, dims.n_text_state, dims.n_vocab);
    if let Some((.., heads)) = PUBLISHED.iter().find(|(layers, state, vocab, _)| (*layers, *state, *vocab) == shape) {
        return heads.to_vec();
    }
    (dims.n_text_layer / 2..dims.n_text_layer)
        .flat_map(|layer| (0..dims.n_text_head).map(move |head| (layer, head)))
        .collect()
}
