//! On a GPU: every kernel beside its plain twin, and the network beside the plain one. Run by `tests/gpu/run`.

use hark_cuda::cuda::{CudaBuffer, CudaDevice, CudaOptions};
use hark_cuda::device::{
    AnswerBuffers, Device, DeviceBuffer, DeviceQuery, DeviceTokens, Entries, EntryGroups, Fp8Rows, KvCache,
    LinearWeights, MOST_BEST, NormWeights, Output, StepEntry, Unfold, WindowKeys, as_bytes, bytes_of_bf16,
    f32_of_bytes, groups_of, u32_of_bytes,
};
use hark_cuda::plain::{PlainBuffer, PlainDevice};
use hark_cuda::{GpuBackend, GpuOptions, Precision};
use hark_numeric::{SplitMix64, bf16_to_f32};
use hark_whisper::backend::TokenMap;

mod network;

fn gpu() -> CudaDevice {
    let folders = std::env::var_os("HARK_CUDA_LIBRARIES").map(|list| std::env::split_paths(&list).collect());
    let cache = std::env::var_os("HARK_CUDA_CACHE").map(Into::into);
    CudaDevice::open(&CudaOptions { ordinal: 0, libraries: folders.unwrap_or_default(), cache }).expect("a GPU")
}

/// The same memory on both devices.
struct Both {
    gpu: CudaBuffer,
    plain: PlainBuffer,
}

struct Pair {
    gpu: CudaDevice,
    plain: PlainDevice,
    random: SplitMix64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Pair { gpu: gpu(), plain: PlainDevice::default(), random: SplitMix64::new(seed) }
    }

    fn put(&self, bytes: &[u8]) -> Both {
        let both = Both {
            gpu: self.gpu.allocate(bytes.len()).expect("memory"),
            plain: self.plain.allocate(bytes.len()).expect("memory"),
        };
        self.gpu.upload(bytes, &both.gpu).expect("it copies");
        self.plain.upload(bytes, &both.plain).expect("it copies");
        both
    }

    fn numbers(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| (self.random.unit() * 2.0 - 1.0) * scale).collect()
    }

    fn bf16(&mut self, count: usize, scale: f32) -> Both {
        let numbers = self.numbers(count, scale);
        self.put(&bytes_of_bf16(&numbers))
    }

    fn f32(&mut self, count: usize, scale: f32) -> Both {
        let numbers = self.numbers(count, scale);
        self.put(as_bytes(&numbers))
    }

    fn below(&mut self, count: usize) -> usize {
        (self.random.bits() % count as u64) as usize
    }

    fn bytes(&self, both: &Both, bytes: usize) -> [Vec<u8>; 2] {
        let (mut gpu, mut plain) = (vec![0; bytes], vec![0; bytes]);
        self.gpu.download(&both.gpu, &mut gpu).expect("it copies");
        self.plain.download(&both.plain, &mut plain).expect("it copies");
        [gpu, plain]
    }

    /// Fails where results are further apart than `limit`, relative to their root mean square.
    fn same_bf16(&self, what: &str, both: &Both, count: usize, limit: f32) {
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks_exact(2).map(|two| bf16_to_f32(u16::from_ne_bytes([two[0], two[1]]))).collect()
        };
        let [gpu, plain] = self.bytes(both, count * 2);
        same(what, &numbers(&gpu), &numbers(&plain), limit);
    }

    fn same_f32(&self, what: &str, both: &Both, count: usize, limit: f32) {
        let [gpu, plain] = self.bytes(both, count * 4);
        same(what, &f32_of_bytes(&gpu), &f32_of_bytes(&plain), limit);
    }
}

fn same(what: &str, gpu: &[f32], plain: &[f32], limit: f32) {
    let scale = (plain.iter().map(|x| x * x).sum::<f32>() / plain.len() as f32).sqrt().max(f32::MIN_POSITIVE);
    let (mut worst, mut place) = (0.0, 0);
    for (index, (one, other)) in gpu.iter().zip(plain).enumerate() {
        let apart = (one - other).abs();
        if apart.is_nan() || apart > worst {
            (worst, place) = (apart, index);
        }
    }
    eprintln!("{what}: at most {:.2e} of the root mean square apart", worst / scale);
    assert!(worst <= limit * scale, "{what}: number {place} is {} and should be {}", gpu[place], plain[place]);
}

macro_rules! both {
    ($pair:ident, $device:ident, $side:ident => $call:expr) => {{
        {
            #[allow(unused_variables)]
            let $device = &$pair.gpu;
            macro_rules! $side {
                ($both:expr) => {
                    &$both.gpu
                };
            }
            $call.expect("the GPU does it");
        }
        {
            #[allow(unused_variables)]
            let $device = &$pair.plain;
            macro_rules! $side {
                ($both:expr) => {
                    &$both.plain
                };
            }
            $call.expect("the plain device does it");
        }
    }};
}

#[test]
fn convolutions_unfold() {
    let mut pair = Pair::new(1);
    for (windows, frames_in, frames_out, channels, stride, is_f32) in [
        (2, 3000, 3000, 80, 1, true),
        (1, 3000, 80, 128, 1, true),
        (3, 80, 40, 128, 2, false),
        (2, 3000, 1500, 64, 2, false),
    ] {
        let count = windows * frames_in * channels;
        let from = if is_f32 { pair.f32(count, 1.0) } else { pair.bf16(count, 1.0) };
        let to = pair.bf16(windows * frames_out * 3 * channels, 1.0);
        let unfold = Unfold { windows, frames_in, frames_out, channels, stride, is_f32 };
        both!(pair, device, of => device.unfold(&unfold, of!(from), of!(to)));
        pair.same_bf16("unfold", &to, windows * frames_out * 3 * channels, 0.0);
    }
}

#[test]
fn products_of_every_kind() {
    let mut pair = Pair::new(2);
    for (rows, inputs, outputs) in
        [(1, 512, 1536), (5, 384, 384), (130, 1280, 5120), (300, 240, 512), (16, 768, 51_872)]
    {
        let from = pair.bf16(rows * inputs, 1.0);
        let weight = pair.bf16(outputs * inputs, 1.0 / (inputs as f32).sqrt());
        let bias: Vec<f32> = pair.numbers(outputs, 0.5);
        let (in_f32, in_bf16) = (pair.put(as_bytes(&bias)), pair.put(&bytes_of_bf16(&bias)));
        for has_bias in [true, false] {
            let of_gpu = LinearWeights {
                weight: weight.gpu.clone(),
                scales: None,
                bias_f32: has_bias.then(|| in_f32.gpu.clone()),
                bias_bf16: has_bias.then(|| in_bf16.gpu.clone()),
                outputs,
                inputs,
            };
            let of_plain = LinearWeights {
                weight: weight.plain.clone(),
                scales: None,
                bias_f32: has_bias.then(|| in_f32.plain.clone()),
                bias_bf16: has_bias.then(|| in_bf16.plain.clone()),
                outputs,
                inputs,
            };
            for output in [Output::Bf16, Output::Gelu, Output::F32, Output::AddF32] {
                let to = pair.f32(rows * outputs, 1.0);
                pair.gpu.linear(rows, &from.gpu, &of_gpu, &to.gpu, output).expect("the GPU multiplies");
                pair.plain
                    .linear(rows, &from.plain, &of_plain, &to.plain, output)
                    .expect("the plain device multiplies");
                let what = format!("{rows} × {inputs} × {outputs}, {output:?}");
                match output {
                    Output::Bf16 | Output::Gelu => pair.same_bf16(&what, &to, rows * outputs, 0.05),
                    Output::F32 | Output::AddF32 => pair.same_f32(&what, &to, rows * outputs, 1e-3),
                }
            }
        }
    }
}

#[test]
fn norms_positions_and_embeddings() {
    let mut pair = Pair::new(3);
    for (rows, width) in [(1, 64), (5, 384), (33, 512), (7, 768), (130, 1280), (9, 2048)] {
        let (from, to) = (pair.f32(rows * width, 3.0), pair.bf16(rows * width, 1.0));
        let (gain, bias) = (pair.f32(width, 1.0), pair.f32(width, 1.0));
        let gpu = NormWeights { gain: gain.gpu.clone(), bias: bias.gpu.clone() };
        let plain = NormWeights { gain: gain.plain.clone(), bias: bias.plain.clone() };
        let list: Vec<u32> = (0..rows).map(|_| pair.below(rows) as u32).collect();
        let (list, flag) = (pair.put(as_bytes(&list)), pair.put(&[0; 4]));
        pair.gpu.layer_norm(rows, width, &from.gpu, &gpu, &to.gpu, Some(&list.gpu), Some(&flag.gpu)).expect("it norms");
        pair.plain
            .layer_norm(rows, width, &from.plain, &plain, &to.plain, Some(&list.plain), Some(&flag.plain))
            .expect("it norms");
        pair.same_bf16("layer norm", &to, rows * width, 0.02);
        assert_eq!(pair.bytes(&flag, 4), [[0; 4], [0; 4]]);
        pair.gpu.upload(&f32::NAN.to_ne_bytes(), &from.gpu.offset((rows / 2 * width + 5) * 4)).expect("it copies");
        pair.gpu.layer_norm(rows, width, &from.gpu, &gpu, &to.gpu, None, Some(&flag.gpu)).expect("it norms");
        assert_eq!(pair.bytes(&flag, 4)[0], [1, 0, 0, 0], "a row with NaN is told");

        let (convolved, positions, stream) =
            (pair.bf16(2 * rows * width, 1.0), pair.f32(rows * width, 1.0), pair.f32(2 * rows * width, 1.0));
        both!(pair, device, of => device.add_positions(2 * rows, rows, width, of!(convolved), of!(positions), of!(stream)));
        pair.same_f32("positions", &stream, 2 * rows * width, 0.0);

        let (embedding, places) = (pair.bf16(100 * width, 1.0), pair.f32(20 * width, 1.0));
        let entries: Vec<u32> = (0..rows)
            .flat_map(|_| {
                let (token, position) = (pair.below(100) as u32, pair.below(20) as u32);
                StepEntry { token, position, row: 0, slot: 0 }.words()
            })
            .collect();
        let (entries, past) = (pair.put(as_bytes(&entries)), pair.put(&[0; 4]));
        both!(pair, device, of => {
            let entries = Entries { count: rows, entries: of!(entries), past: of!(past), are_distinct: false, groups: None };
            device.embed_tokens(&entries, width, of!(embedding), of!(places), of!(stream))
        });
        pair.same_f32("embeddings", &stream, rows * width, 0.0);
    }
}

#[test]
fn products_of_normed_rows() {
    let mut pair = Pair::new(7);
    for (rows, inputs, outputs) in [(1, 1280, 3840), (3, 384, 1536), (8, 1280, 1280), (8, 64, 40), (9, 512, 512)] {
        let (stream, normed) = (pair.f32(rows * inputs, 3.0), pair.bf16(rows * inputs, 1.0));
        let (gain, bias) = (pair.f32(inputs, 1.0), pair.f32(inputs, 1.0));
        let weight = pair.bf16(outputs * inputs, 1.0 / (inputs as f32).sqrt());
        let of_layer = pair.bf16(outputs, 0.5);
        let to = pair.bf16(rows * outputs, 1.0);
        both!(pair, device, of => {
            let norm = NormWeights { gain: of!(gain).clone(), bias: of!(bias).clone() };
            let (weight, bias_bf16) = (of!(weight).clone(), Some(of!(of_layer).clone()));
            let layer = LinearWeights { weight, scales: None, bias_f32: None, bias_bf16, outputs, inputs };
            device.norm_linear(rows, of!(stream), &norm, of!(normed), &layer, of!(to), Output::Gelu)
        });
        pair.same_bf16(&format!("norm and product, {rows} × {inputs} × {outputs}"), &to, rows * outputs, 0.05);
    }
}

#[test]
fn rows_and_products_in_e4m3() {
    let mut pair = Pair::new(9);
    for (rows, inputs, outputs) in [(1, 64, 64), (40, 512, 1536), (33, 384, 384), (130, 1280, 5120), (300, 5120, 1280)]
    {
        let rows_of = |pair: &Pair, count: usize| (pair.put(&vec![0; count * inputs]), pair.put(&vec![0; count * 4]));
        let (from, weight) = (pair.bf16(rows * inputs, 3.0), pair.bf16(outputs * inputs, 1.0 / (inputs as f32).sqrt()));
        let [(row_numbers, row_scales), (numbers, scales)] = [rows_of(&pair, rows), rows_of(&pair, outputs)];
        both!(pair, device, of => {
            let to = Fp8Rows { numbers: of!(row_numbers).clone(), scales: of!(row_scales).clone() };
            device.quantize(rows, inputs, of!(from), &to)
        });
        both!(pair, device, of => {
            let to = Fp8Rows { numbers: of!(numbers).clone(), scales: of!(scales).clone() };
            device.quantize(outputs, inputs, of!(weight), &to)
        });
        let [ours, theirs] = pair.bytes(&row_numbers, rows * inputs);
        assert!(ours == theirs, "rows in e4m3");
        pair.same_f32("scales", &row_scales, rows, 0.0);
        let bias = pair.bf16(outputs, 0.5);
        for (output, has_bias) in
            [(Output::Bf16, true), (Output::Gelu, true), (Output::AddF32, true), (Output::Bf16, false)]
        {
            let to = pair.f32(rows * outputs, 1.0);
            both!(pair, device, of => {
                let from = Fp8Rows { numbers: of!(row_numbers).clone(), scales: of!(row_scales).clone() };
                let (weight, scales) = (of!(numbers).clone(), Some(of!(scales).clone()));
                let bias_bf16 = has_bias.then(|| of!(bias).clone());
                let layer = LinearWeights { weight, scales, bias_f32: None, bias_bf16, outputs, inputs };
                device.linear_fp8(rows, &from, &layer, of!(to), output)
            });
            let what = format!("in e4m3, {rows} × {inputs} × {outputs}, {output:?}");
            match output {
                Output::Bf16 | Output::Gelu => pair.same_bf16(&what, &to, rows * outputs, 0.06),
                Output::F32 | Output::AddF32 => pair.same_f32(&what, &to, rows * outputs, 0.02),
            }
        }
        if inputs > 2048 {
            continue;
        }
        let (stream, gain, bias) = (pair.f32(rows * inputs, 3.0), pair.f32(inputs, 1.0), pair.f32(inputs, 1.0));
        both!(pair, device, of => {
            let to = Fp8Rows { numbers: of!(row_numbers).clone(), scales: of!(row_scales).clone() };
            let norm = NormWeights { gain: of!(gain).clone(), bias: of!(bias).clone() };
            device.layer_norm_fp8(rows, inputs, of!(stream), &norm, &to)
        });
        pair.same_f32("scales of normed rows", &row_scales, rows, 1e-4);
        let [ours, theirs] = pair.bytes(&row_numbers, rows * inputs);
        let apart = ours.iter().zip(&theirs).filter(|(one, other)| one != other).count();
        let is_near = ours.iter().zip(&theirs).all(|(one, other)| one.abs_diff(*other) <= 1 || one & 0x7f == 0);
        assert!(is_near && apart * 100 <= rows * inputs, "{apart} of {} normed numbers in e4m3", rows * inputs);
    }
}

#[test]
fn attention_over_whole_windows() {
    let mut pair = Pair::new(4);
    for (windows, frames, width, scale) in [
        (1, 1, 64, 1.0),
        (2, 40, 128, 4.0),
        (1, 64, 64, 8.0),
        (3, 129, 192, 3.0),
        (1, 128, 64, 2.0),
        (2, 1500, 128, 6.0),
        (3, 1500, 1280, 1.0),
        (1, 700, 64, 60.0),
    ] {
        let (from, to) = (pair.bf16(windows * frames * 3 * width, scale), pair.bf16(windows * frames * width, 1.0));
        both!(pair, device, of => device.encoder_attention(windows, frames, width, of!(from), of!(to)));
        pair.same_bf16(&format!("{windows} windows of {frames} frames"), &to, windows * frames * width, 0.05);
    }
}

#[test]
fn attention_to_the_past_and_to_the_window() {
    let mut pair = Pair::new(5);
    for (count, width, layers, frames) in
        [(1, 64, 2, 40), (3, 128, 3, 1500), (20, 384, 2, 1500), (70, 512, 2, 333), (40, 1280, 2, 1500)]
    {
        let (rows, slots, layer) = (count.max(12), 3, layers - 1);
        let positions = if count > 12 { 130 } else { 448 };
        let numbers = rows * layers * positions * 2 * width;
        let mut list = Vec::new();
        let mut past: Vec<u16> = vec![0; count * positions];
        // Each row of the cache once.
        let ends: Vec<usize> =
            (0..count).map(|_| [0, 1, 17, 127, 128, 300, 447][pair.below(7)].min(positions - 1)).collect();
        for (index, &position) in ends.iter().enumerate() {
            let row = if index % 9 == 8 { StepEntry::NONE } else { index as u32 };
            for at in 0..position {
                // A place that no entry of this step writes.
                let owner = pair.below(rows);
                past[index * positions + at] = if ends.get(owner) == Some(&at) { index as u16 } else { owner as u16 };
            }
            past[index * positions + position] = index as u16;
            let slot = pair.below(slots) as u32;
            list.extend(StepEntry { token: 0, position: position as u32, row, slot }.words());
        }
        let list = pair.put(as_bytes(&list));
        let past = pair.put(&past.iter().flat_map(|row| row.to_ne_bytes()).collect::<Vec<u8>>());
        let (from, to) = (pair.bf16(count * 3 * width, 2.0), pair.put(&vec![0; count * width * 2]));
        let what = |what: &str| format!("{what}, {count} entries of width {width}");
        for are_distinct in [false, true] {
            let cache = pair.bf16(numbers, 2.0);
            both!(pair, device, of => {
                let entries = Entries { count, entries: of!(list), past: of!(past), are_distinct, groups: None };
                let cache = KvCache { numbers: of!(cache).clone(), layers, positions, width };
                device.self_attention(&entries, of!(from), &cache, layer, of!(to))
            });
            pair.same_bf16(&what("stored keys and values"), &cache, numbers, 0.0);
            pair.same_bf16(&what("self-attention"), &to, count * width, 0.05);
        }

        let stride = frames * 2 * width + 64;
        // Windows go to slots in another order.
        let rows = pair.bf16(slots * frames * 2 * width, 2.0);
        let order: Vec<u32> = (0..slots as u32).rev().collect();
        let (order, windows) = (pair.put(as_bytes(&order)), pair.put(&vec![0; slots * stride * 2]));
        both!(pair, device, of => {
            let to =
                WindowKeys { numbers: of!(windows), slot_stride: stride, scales: None, scale_stride: 0, frames, width };
            device.store_window_keys(slots, of!(rows), of!(order), &to)
        });
        pair.same_bf16(&what("keys of windows"), &windows, slots * stride, 0.0);
        let to = pair.put(&vec![0; count * width * 2]);
        both!(pair, device, of => {
            let entries = Entries { count, entries: of!(list), past: of!(past), are_distinct: false, groups: None };
            let windows =
                WindowKeys { numbers: of!(windows), slot_stride: stride, scales: None, scale_stride: 0, frames, width };
            device.cross_attention(&entries, of!(from), &windows, of!(to))
        });
        pair.same_bf16(&what("cross-attention"), &to, count * width, 0.05);

        let (first, head, part) = (count / 3, width / 64 - 1, frames - frames / 4);
        let to = pair.f32(count * frames, 1.0);
        both!(pair, device, of => {
            let entries = Entries { count, entries: of!(list), past: of!(past), are_distinct: false, groups: None };
            let windows =
                WindowKeys { numbers: of!(windows), slot_stride: stride, scales: None, scale_stride: 0, frames, width };
            device.head_scores(&entries, first, head, part, of!(from), &windows, of!(to))
        });
        pair.same_f32(&what("scores of a head"), &to, (count - first) * part, 1e-3);

        // The same windows in e4m3.
        let heads = 2 * width / 64;
        let (numbers, scales) = (pair.put(&vec![0; slots * stride]), pair.put(&vec![0; slots * heads * 4]));
        both!(pair, device, of => {
            let scales = Some(of!(scales));
            let to =
                WindowKeys { numbers: of!(numbers), slot_stride: stride, scales, scale_stride: heads, frames, width };
            device.store_window_keys(slots, of!(rows), of!(order), &to)
        });
        let [ours, theirs] = pair.bytes(&numbers, slots * stride);
        assert!(ours == theirs, "keys and values in e4m3");
        pair.same_f32("scales of heads", &scales, slots * heads, 0.0);
        let to = pair.put(&vec![0; count * width * 2]);
        both!(pair, device, of => {
            let entries = Entries { count, entries: of!(list), past: of!(past), are_distinct: false, groups: None };
            let scales = Some(of!(scales));
            let windows =
                WindowKeys { numbers: of!(numbers), slot_stride: stride, scales, scale_stride: heads, frames, width };
            device.cross_attention(&entries, of!(from), &windows, of!(to))
        });
        pair.same_bf16(&what("cross-attention in e4m3"), &to, count * width, 0.05);
        let to = pair.f32(count * frames, 1.0);
        both!(pair, device, of => {
            let entries = Entries { count, entries: of!(list), past: of!(past), are_distinct: false, groups: None };
            let scales = Some(of!(scales));
            let windows =
                WindowKeys { numbers: of!(numbers), slot_stride: stride, scales, scale_stride: heads, frames, width };
            device.head_scores(&entries, first, head, part, of!(from), &windows, of!(to))
        });
        pair.same_f32(&what("scores of a head in e4m3"), &to, (count - first) * part, 1e-3);

        // Entries that share windows.
        for each in [2, 5, count] {
            let slot_of = |index: usize| (index / each % slots) as u32;
            let list: Vec<u32> = (0..count)
                .flat_map(|index| StepEntry { token: 0, position: 0, row: 0, slot: slot_of(index) }.words())
                .collect();
            let mut groups = groups_of((0..count as u32).map(|index| slot_of(index as usize)));
            assert!(groups.iter().map(|group| group[1]).sum::<u32>() as usize == count);
            groups.push([0, 0]);
            let (list, groups_list) = (pair.put(as_bytes(&list)), pair.put(as_bytes(groups.as_flattened())));
            for is_fp8 in [false, true] {
                let to = pair.put(&vec![0; count * width * 2]);
                both!(pair, device, of => {
                    let groups = Some(EntryGroups { count: groups.len(), list: of!(groups_list) });
                    let entries = Entries { count, entries: of!(list), past: of!(past), are_distinct: false, groups };
                    let (numbers, scales) =
                        if is_fp8 { (of!(numbers), Some(of!(scales))) } else { (of!(windows), None) };
                    let windows =
                        WindowKeys { numbers, slot_stride: stride, scales, scale_stride: heads, frames, width };
                    device.cross_attention(&entries, of!(from), &windows, of!(to))
                });
                pair.same_bf16(&what(&format!("shared cross-attention, e4m3 {is_fp8}")), &to, count * width, 0.05);
            }
        }
    }
}

#[test]
fn answers() {
    let mut pair = Pair::new(6);
    let vocabulary = 51_866;
    let map = TokenMap {
        end: 50_257,
        no_speech: Some(50_363),
        first_timestamp: 50_365,
        languages: (50_259..50_359).collect(),
        ..TokenMap::default()
    };
    let marks: Vec<u8> = (0..vocabulary)
        .map(|token| {
            if token % 11 == 3 {
                1
            } else if token % 13 == 2 {
                2
            } else {
                0
            }
        })
        .collect();
    let (marks, languages) = (pair.put(&marks), pair.put(as_bytes(&map.languages)));
    let (pitch, count, most) = (51_872, 40, MOST_BEST);
    // Steps of an eighth: many scores are equal.
    let logits: Vec<f32> = (0..count * pitch).map(|_| (pair.random.unit() * 160.0).floor() / 8.0).collect();
    let logits = pair.put(as_bytes(&logits));
    let mut words = Vec::new();
    let mut queries = Vec::new();
    for index in 0..count {
        let first = 50_365 + pair.below(1000) as u32;
        let sampled = index % 5 == 4;
        let flags =
            (index as u32 % 16) | if sampled { DeviceQuery::SAMPLE } else { 0 } | if index % 7 == 0 { 48 } else { 0 };
        let query = DeviceQuery {
            row: if index % 10 == 9 { StepEntry::NONE } else { (count - 1 - index) as u32 },
            flags,
            first,
            last: first + 1 + pair.below(400) as u32,
            top_k: [0, 1, 6, 64][pair.below(4)],
            temperature: 0.5 + pair.random.unit(),
            uniform: pair.random.unit(),
            unused: 0,
        };
        words.extend(query.words());
        queries.push(query);
    }
    let list = pair.put(as_bytes(&words));
    let zeros = |words: usize| vec![0; count * words * 4];
    let flag = pair.put(&7u32.to_ne_bytes());
    let best = pair.put(&vec![0; AnswerBuffers::<()>::bytes(count)]);
    let others = pair.put(&zeros(101));
    both!(pair, device, of => {
        let tokens = DeviceTokens { marks: of!(marks).clone(), languages: of!(languages).clone(), map: map.clone(), vocabulary };
        let to = AnswerBuffers { best: of!(best).clone(), others: of!(others).clone() };
        device.answer(count, of!(flag), of!(list), of!(logits), pitch, &tokens, &to)
    });
    pair.same_f32("no speech and languages", &others, count * 101, 1e-2);
    let all = pair.bytes(&best, AnswerBuffers::<()>::bytes(count));
    assert!(all.iter().all(|all| all[..4] == 7u32.to_ne_bytes()), "the flag is copied");
    let half = |part: usize| {
        all.each_ref().map(|all| -> Vec<u8> {
            let answers = all[AnswerBuffers::<()>::HEADER..].chunks_exact(AnswerBuffers::<()>::TOKENS);
            answers.skip(part).step_by(2).flatten().copied().collect()
        })
    };
    let [ours, theirs] = half(0).map(|bytes| u32_of_bytes(&bytes));
    let [our_probs, their_probs] = half(1).map(|bytes| f32_of_bytes(&bytes));
    for (index, query) in queries.iter().enumerate() {
        let row = index * most..(index + 1) * most;
        if query.flags & DeviceQuery::SAMPLE != 0 {
            // Rounding may move a draw to the next token, whose likelihood is of the same distribution.
            let near =
                our_probs[row.start] == their_probs[row.start] || (ours[row.start].abs_diff(theirs[row.start])) < 40;
            assert!(near, "query {index} drew {} and {}", ours[row.start], theirs[row.start]);
            continue;
        }
        assert_eq!(ours[row.clone()], theirs[row.clone()], "query {index}: {query:?}");
        for (one, other) in our_probs[row.clone()].iter().zip(&their_probs[row]) {
            assert!(one == other || (one - other).abs() < 1e-3, "query {index}: {one} {other}");
        }
    }
}

fn backend(truth: &network::Truth, precision: Precision) -> GpuBackend<CudaDevice> {
    let options = GpuOptions { slots: Some(6), rows: 3, encode_at_once: 2, precision };
    GpuBackend::load(gpu(), &truth.checkpoint, truth.tokens.clone(), options).expect("it loads")
}

#[test]
fn the_network_is_the_plain_one() {
    for dims in [
        network::dims(128, 80, (2, 2), 40),
        network::dims(512, 80, (2, 2), 1500),
        network::dims(1280, 128, (2, 2), 700),
    ] {
        let truth = network::Truth::of(dims);
        for (precision, limit) in [(Precision::Bf16, 0.12), (Precision::Fp8Windows, 0.25), (Precision::Fp8, 0.5)] {
            let mut backend = backend(&truth, precision);
            network::check_steps(&truth, &mut backend, limit);
            if precision == Precision::Bf16 {
                network::check_answers(&truth, &mut backend);
                network::check_alignment(&truth, &mut backend, 0.06);
                network::check_agreement(&truth, &mut backend, 2e-3);
            }
        }
    }
}
