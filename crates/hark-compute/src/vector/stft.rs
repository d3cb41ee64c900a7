//! Magnitudes of 256-point Fourier transforms of chunks of sound, as bodies over any width of vector.
//!
//! One vector holds the same frame of several chunks, so nothing is ever shuffled; a library's transform takes one
//! frame at a time.
//!
//! SAFETY of every block: the callers are the kernel sets of [`super`], whose safe methods check bounds and CPU.

use super::LINE;
use crate::simd::Simd;

/// Samples of a chunk.
pub const CHUNK: usize = 512;
/// Samples before each chunk that its first frame sees.
pub const CONTEXT: usize = 64;
/// Frames of a chunk, 128 samples apart.
pub const FRAMES: usize = 4;
/// Frequency bins of a frame.
pub const BINS: usize = 129;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

const FRAME: usize = 256;
const HALF: usize = FRAME / 2;

/// The window and the roots of unity.
pub struct Stft {
    window: [f32; FRAME],
    /// `(cos, -sin)` of `2πj/128`.
    small: [(f32, f32); HALF / 2],
    /// `(cos, -sin)` of `2πk/256`.
    large: [(f32, f32); HALF / 2 + 1],
}

impl Stft {
    /// Tables for frames weighted with `window`.
    pub fn new(window: [f32; FRAME]) -> Self {
        let root = |k: usize, n: usize| {
            let angle = std::f64::consts::TAU * k as f64 / n as f64;
            (angle.cos() as f32, -angle.sin() as f32)
        };
        Stft { window, small: std::array::from_fn(|j| root(j, HALF)), large: std::array::from_fn(|k| root(k, FRAME)) }
    }
}

/// One vector holds the same frame of LANES chunks, so the transform itself is plain radix-2 arithmetic.
#[inline(always)]
pub(super) unsafe fn spectrum<S: Simd>(stft: &Stft, audio: &[f32], gains: &[f32], stride: usize, out: &mut [f32]) {
    let chunks = gains.len();
    let mut re = [Line([0.0; LINE]); HALF];
    let mut im = [Line([0.0; LINE]); HALF];
    let used = chunks.next_multiple_of(S::LANES).min(stride);
    for frame in 0..FRAMES {
        for column in (0..used).step_by(S::LANES) {
            for lane in 0..S::LANES {
                // A column without a chunk repeats the last one: its results are never read.
                let chunk = (column + lane).min(chunks - 1);
                let samples = &audio[chunk * CHUNK..chunk * CHUNK + CONTEXT + CHUNK];
                place_frame(stft, samples, gains[chunk], frame, lane, &mut re, &mut im);
            }
            // SAFETY: `re` and `im` have 128 lines of at least LANES floats; `out` has all bins of the frame
            // and `column + LANES <= stride`.
            unsafe {
                let (re, im) = (re.as_mut_ptr().cast::<f32>(), im.as_mut_ptr().cast::<f32>());
                transform::<S>(stft, re, im);
                magnitudes::<S>(stft, re, im, stride, out.as_mut_ptr().add(frame * BINS * stride + column));
            }
        }
    }
}

/// Here the lanes are the four frames of the chunk: one transform instead of four.
#[inline(always)]
pub(super) unsafe fn spectrum_of_one<S: Simd>(stft: &Stft, audio: &[f32], gain: f32, out: &mut [f32]) {
    let mut re = [Line([0.0; LINE]); HALF];
    let mut im = [Line([0.0; LINE]); HALF];
    const { assert!(FRAMES <= 4 && S::LANES >= 4) }
    for frame in 0..FRAMES {
        place_frame(stft, &audio[..CONTEXT + CHUNK], gain, frame, frame, &mut re, &mut im);
    }
    // SAFETY: as in `spectrum`; `out` has all bins, 16 floats each.
    unsafe {
        let (re, im) = (re.as_mut_ptr().cast::<f32>(), im.as_mut_ptr().cast::<f32>());
        transform::<S>(stft, re, im);
        magnitudes::<S>(stft, re, im, LINE, out.as_mut_ptr());
    }
}

/// Weighs one frame and lays it into one lane, even samples in `re`, odd ones in `im`, in bit-reversed order.
#[inline(always)]
fn place_frame(
    stft: &Stft,
    samples: &[f32],
    gain: f32,
    frame: usize,
    lane: usize,
    re: &mut [Line; HALF],
    im: &mut [Line; HALF],
) {
    for j in 0..HALF {
        // 128 points: seven bits, reversed.
        let at = (j as u8).reverse_bits() as usize >> 1;
        let [even, odd] = [2 * j, 2 * j + 1].map(|i| reflected(frame * HALF + i));
        re[at].0[lane] = gain * samples[even] * stft.window[2 * j];
        im[at].0[lane] = gain * samples[odd] * stft.window[2 * j + 1];
    }
}

/// Where sample `i` of context and chunk is read: past the end, the sound is mirrored.
#[inline(always)]
fn reflected(i: usize) -> usize {
    const LAST: usize = CONTEXT + CHUNK - 1;
    if i > LAST { 2 * LAST - i } else { i }
}

/// In-place transform of 128 complex points that lie in bit-reversed order, one per line.
#[inline(always)]
unsafe fn transform<S: Simd>(stft: &Stft, re: *mut f32, im: *mut f32) {
    let mut half = 1;
    while half < HALF {
        for j in 0..half {
            let (cos, sin) = stft.small[j * (HALF / 2 / half)];
            for low in (j..HALF).step_by(2 * half) {
                // SAFETY: `low + half < 128` lines.
                unsafe {
                    let (c, s) = (S::splat(cos), S::splat(sin));
                    let (low, high) = (low * LINE, (low + half) * LINE);
                    let (hr, hi) = (S::load(re.add(high)), S::load(im.add(high)));
                    let (lr, li) = (S::load(re.add(low)), S::load(im.add(low)));
                    let tr = S::fnma(hi, s, S::mul(hr, c));
                    let ti = S::fma(hi, c, S::mul(hr, s));
                    S::store(re.add(low), S::add(lr, tr));
                    S::store(im.add(low), S::add(li, ti));
                    S::store(re.add(high), S::sub(lr, tr));
                    S::store(im.add(high), S::sub(li, ti));
                }
            }
        }
        half *= 2;
    }
}

/// Unfolds the transform of even + i·odd samples into the 129 bins of the real frame, as magnitudes.
#[inline(always)]
unsafe fn magnitudes<S: Simd>(stft: &Stft, re: *const f32, im: *const f32, stride: usize, out: *mut f32) {
    for k in 0..=HALF / 2 {
        let mirror = (HALF - k) % HALF;
        let (cos, sin) = stft.large[k];
        // SAFETY: lines k and 128 − k exist; bins k and 128 − k are below 129.
        unsafe {
            let half = S::splat(0.5);
            let (ar, ai) = (S::load(re.add(k * LINE)), S::load(im.add(k * LINE)));
            let (br, bi) = (S::load(re.add(mirror * LINE)), S::load(im.add(mirror * LINE)));
            // Spectra of the even and of the odd samples.
            let (er, ei) = (S::mul(half, S::add(ar, br)), S::mul(half, S::sub(ai, bi)));
            let (or, oi) = (S::mul(half, S::add(ai, bi)), S::mul(half, S::sub(br, ar)));
            let (c, s) = (S::splat(cos), S::splat(sin));
            let tr = S::fnma(oi, s, S::mul(or, c));
            let ti = S::fma(oi, c, S::mul(or, s));
            let magnitude = |r, i| S::sqrt(S::fma(r, r, S::mul(i, i)));
            S::store(out.add(k * stride), magnitude(S::add(er, tr), S::add(ei, ti)));
            S::store(out.add((HALF - k) * stride), magnitude(S::sub(er, tr), S::sub(ti, ei)));
        }
    }
}
