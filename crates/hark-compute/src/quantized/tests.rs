//! Kernels against a plain product of dequantized weights.

use hark_numeric::f16_to_f32;

use super::*;
use crate::Compute;
use crate::kernels::math::{from_bf16, to_bf16};

/// A generator of numbers that every run repeats.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
    /// Between -1 and 1.
    fn number(&mut self) -> f32 {
        self.bits() as f32 / (1u32 << 30) as f32 - 1.0
    }
}

fn block_of(format: Format, row: usize, granule: usize, block: &mut QuantBlock) {
    let mut random = Random((row * 7919 + granule * 104_729 + 11) as u64);
    random.bits();
    if format == Format::Bf16 {
        for pair in block.values[..64].chunks_exact_mut(2) {
            pair.copy_from_slice(&to_bf16(random.number()).to_le_bytes());
        }
        return;
    }
    block.values.fill_with(|| (random.bits() % (1 << format.bits())) as u8);
    // 0.01 to 0.02, and minima of either sign.
    block.scale = 0x211f + (random.bits() % 0x400) as u16;
    block.min = 0x251f + (random.bits() % 0x400) as u16 + 0x8000 * (random.bits() % 2) as u16;
    block.scales.fill_with(|| if format == Format::Super6 { random.bits() as u8 } else { (random.bits() % 64) as u8 });
    block.mins.fill_with(|| (random.bits() % 64) as u8);
}

/// The weights of a row by the definition of [`QuantBlock`].
fn weights_of(format: Format, row: usize, columns: usize) -> Vec<f32> {
    let mut weights = Vec::new();
    for granule in 0..columns / format.granule() {
        let mut block = QuantBlock::default();
        block_of(format, row, granule, &mut block);
        let (scale, min) = (f16_to_f32(block.scale), f16_to_f32(block.min));
        for i in 0..format.granule() {
            let value = f32::from(block.values[i]);
            weights.push(match format {
                Format::Bf16 => from_bf16(u16::from_le_bytes([block.values[2 * i], block.values[2 * i + 1]])),
                Format::Super4 | Format::Super5 => {
                    value * f32::from(block.scales[i / 32]) * scale - f32::from(block.mins[i / 32]) * min
                }
                Format::Super6 => (value - 32.0) * f32::from(block.scales[i / 16] as i8) * scale,
                _ if format.has_mins() => value * scale + min,
                _ => (value - (1u32 << (format.bits() - 1)) as f32) * scale,
            });
        }
    }
    weights
}

#[test]
fn products_are_those_of_the_dequantized_weights_on_every_set() {
    for format in Format::ALL {
        // A row count that leaves a panel and a pair of panels unfinished.
        for (rows, columns) in [(16, 256), (53, 512), (40, 768)] {
            let dense: Vec<Vec<f32>> = (0..rows).map(|row| weights_of(format, row, columns)).collect();
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let compute = Compute::new(2, isa);
                let read = |row: usize, granule: usize, block: &mut QuantBlock| block_of(format, row, granule, block);
                let matrix = QuantizedMatrix::pack(&compute, format, rows, columns, read).expect("there is memory");
                for count in [1, 2, 3, 4, 5, FEW_ROWS, FEW_ROWS + 1, 40] {
                    check(&compute, &matrix, &dense, count);
                }
            }
        }
    }
}

fn check(compute: &Compute, matrix: &QuantizedMatrix, dense: &[Vec<f32>], count: usize) {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let mut random = Random(count as u64);
    let input: Vec<f32> = (0..count * columns).map(|_| random.number()).collect();
    let mut activations = Activations::default();
    activations.set(compute, &input, count, columns);
    let stride = rows + 3;
    let (mut out, mut again) = (vec![7.0; count * stride], vec![7.0; count * stride]);
    let products = &mut [Product::new(matrix, &mut out, stride), Product::new(matrix, &mut again, stride)];
    matmul(compute, &activations, products);
    assert_eq!(out, again, "both products of a region");
    for row in 0..count {
        let input = &input[row * columns..(row + 1) * columns];
        for (column, weights) in dense.iter().enumerate() {
            let exact: f64 = input.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            let size: f64 = input.iter().zip(weights).map(|(x, w)| f64::from(x * w).powi(2)).sum::<f64>().sqrt();
            let found = f64::from(out[row * stride + column]);
            // Activations have seven bits beside the sign; errors of single products are independent.
            let isa = compute.isa().name();
            let allowed = 0.025 * size + 1e-3 * exact.abs() + 1e-6;
            assert!(
                (found - exact).abs() < allowed,
                "{:?} {rows}x{columns}, {count} rows on {isa}, row {row} column {column}: {found} where {exact} +- {allowed}",
                matrix.format()
            );
        }
        assert!(out[row * stride + rows..(row + 1) * stride].iter().all(|x| *x == 7.0), "what lies beside stays");
    }
}

#[test]
fn int8_products_are_alike_on_every_set_up_to_the_order_of_additions() {
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Bf16) {
        let (rows, columns) = (32, 1024);
        let run = |isa: Isa| {
            let compute = Compute::new(1, isa);
            let read = |row: usize, granule: usize, block: &mut QuantBlock| block_of(format, row, granule, block);
            let matrix = QuantizedMatrix::pack(&compute, format, rows, columns, read).expect("there is memory");
            let mut random = Random(3);
            let input: Vec<f32> = (0..3 * columns).map(|_| random.number()).collect();
            let mut activations = Activations::default();
            activations.set(&compute, &input, 3, columns);
            let mut out = vec![0.0; 3 * rows];
            matmul(&compute, &activations, &mut [Product::new(&matrix, &mut out, rows)]);
            out
        };
        let expected = run(Isa::Portable);
        let largest = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (found, expected) in run(isa).iter().zip(&expected) {
                assert!((found - expected).abs() < 3e-5 * largest, "{format:?} on {}: {found} {expected}", isa.name());
            }
        }
    }
}
