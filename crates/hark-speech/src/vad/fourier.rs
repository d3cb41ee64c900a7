//! The first layer: magnitudes of 256-point Fourier transforms, as bodies over any [`Lanes`].
//!
//! SAFETY of every block: the callers are the kernel sets of [`super::kernels`], whose safe methods check bounds
//! and CPU.

use super::kernels::{BINS, CHUNK, CONTEXT, FRAMES, LINE, Line};
use super::lanes::Lanes;

const FRAME: usize = 256;
const HALF: usize = FRAME / 2;

/// What the Fourier kernel needs: the window and the roots of unity.
pub(super) struct Fourier {
    window: [f32; FRAME],
    /// `(cos, -sin)` of `2πj/128`.
    small: [(f32, f32); HALF / 2],
    /// `(cos, -sin)` of `2πk/256`.
    large: [(f32, f32); HALF / 2 + 1],
}

impl Fourier {
    /// Tables for frames weighted with `window`.
    pub(super) fn new(window: [f32; FRAME]) -> Self {
        let root = |k: usize, n: usize| {
            let angle = std::f64::consts::TAU * k as f64 / n as f64;
            (angle.cos() as f32, -angle.sin() as f32)
        };
        Fourier {
            window,
            small: std::array::from_fn(|j| root(j, HALF)),
            large: std::array::from_fn(|k| root(k, FRAME)),
        }
    }
}

/// One vector holds the same frame of LANES chunks, so the transform itself is plain radix-2 arithmetic.
#[inline(always)]
pub(super) unsafe fn spectrum<L: Lanes>(
    fourier: &Fourier,
    audio: &[f32],
    gains: &[f32],
    stride: usize,
    out: &mut [f32],
) {
    let chunks = gains.len();
    let mut re = [Line([0.0; LINE]); HALF];
    let mut im = [Line([0.0; LINE]); HALF];
    let used = chunks.next_multiple_of(L::LANES).min(stride);
    for frame in 0..FRAMES {
        for column in (0..used).step_by(L::LANES) {
            for lane in 0..L::LANES {
                // A column without a chunk repeats the last one: its results are never read.
                let chunk = (column + lane).min(chunks - 1);
                let samples = &audio[chunk * CHUNK..chunk * CHUNK + CONTEXT + CHUNK];
                place_frame(fourier, samples, gains[chunk], frame, lane, &mut re, &mut im);
            }
            // SAFETY: `re` and `im` have 128 lines of at least LANES floats; `out` has all bins of the frame
            // and `column + LANES <= stride`.
            unsafe {
                let (re, im) = (re.as_mut_ptr().cast::<f32>(), im.as_mut_ptr().cast::<f32>());
                transform::<L>(fourier, re, im);
                magnitudes::<L>(fourier, re, im, stride, out.as_mut_ptr().add(frame * BINS * stride + column));
            }
        }
    }
}

/// Here the lanes are the four frames of the chunk: one transform instead of four.
#[inline(always)]
pub(super) unsafe fn spectrum_of_one<L: Lanes>(fourier: &Fourier, audio: &[f32], gain: f32, out: &mut [f32]) {
    let mut re = [Line([0.0; LINE]); HALF];
    let mut im = [Line([0.0; LINE]); HALF];
    const { assert!(FRAMES <= 4 && L::LANES >= 4) }
    for frame in 0..FRAMES {
        place_frame(fourier, &audio[..CONTEXT + CHUNK], gain, frame, frame, &mut re, &mut im);
    }
    // SAFETY: as in `spectrum`; `out` has all bins, 16 floats each.
    unsafe {
        let (re, im) = (re.as_mut_ptr().cast::<f32>(), im.as_mut_ptr().cast::<f32>());
        transform::<L>(fourier, re, im);
        magnitudes::<L>(fourier, re, im, LINE, out.as_mut_ptr());
    }
}

/// Weighs one frame and lays it into one lane, even samples in `re`, odd ones in `im`, in bit-reversed order.
#[inline(always)]
fn place_frame(
    fourier: &Fourier,
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
        re[at].0[lane] = gain * samples[even] * fourier.window[2 * j];
        im[at].0[lane] = gain * samples[odd] * fourier.window[2 * j + 1];
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
unsafe fn transform<L: Lanes>(fourier: &Fourier, re: *mut f32, im: *mut f32) {
    let mut half = 1;
    while half < HALF {
        for j in 0..half {
            let (cos, sin) = fourier.small[j * (HALF / 2 / half)];
            for low in (j..HALF).step_by(2 * half) {
                // SAFETY: `low + half < 128` lines.
                unsafe {
                    let (c, s) = (L::splat(cos), L::splat(sin));
                    let (low, high) = (low * LINE, (low + half) * LINE);
                    let (hr, hi) = (L::load(re.add(high)), L::load(im.add(high)));
                    let (lr, li) = (L::load(re.add(low)), L::load(im.add(low)));
                    let tr = L::fnma(hi, s, L::mul(hr, c));
                    let ti = L::fma(hi, c, L::mul(hr, s));
                    L::store(re.add(low), L::add(lr, tr));
                    L::store(im.add(low), L::add(li, ti));
                    L::store(re.add(high), L::sub(lr, tr));
                    L::store(im.add(high), L::sub(li, ti));
                }
            }
        }
        half *= 2;
    }
}

/// Unfolds the transform of even + i·odd samples into the 129 bins of the real frame, as magnitudes.
#[inline(always)]
unsafe fn magnitudes<L: Lanes>(fourier: &Fourier, re: *const f32, im: *const f32, stride: usize, out: *mut f32) {
    for k in 0..=HALF / 2 {
        let mirror = (HALF - k) % HALF;
        let (cos, sin) = fourier.large[k];
        // SAFETY: lines k and 128 − k exist; bins k and 128 − k are below 129.
        unsafe {
            let half = L::splat(0.5);
            let (ar, ai) = (L::load(re.add(k * LINE)), L::load(im.add(k * LINE)));
            let (br, bi) = (L::load(re.add(mirror * LINE)), L::load(im.add(mirror * LINE)));
            // Spectra of the even and of the odd samples.
            let (er, ei) = (L::mul(half, L::add(ar, br)), L::mul(half, L::sub(ai, bi)));
            let (or, oi) = (L::mul(half, L::add(ai, bi)), L::mul(half, L::sub(br, ar)));
            let (c, s) = (L::splat(cos), L::splat(sin));
            let tr = L::fnma(oi, s, L::mul(or, c));
            let ti = L::fma(oi, c, L::mul(or, s));
            let magnitude = |r, i| L::sqrt(L::fma(r, r, L::mul(i, i)));
            L::store(out.add(k * stride), magnitude(L::add(er, tr), L::add(ei, ti)));
            L::store(out.add((HALF - k) * stride), magnitude(L::sub(er, tr), L::sub(ti, ei)));
        }
    }
}
