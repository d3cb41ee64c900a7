//! A matrix of quantized weights, interleaved by 16 rows.

use hark_numeric::{QuantBlock, f16_to_f32};

use super::{Format, QUANT_BLOCK, data_bytes};
use crate::Compute;
use crate::buffer::Buffer;
use crate::kernels::{DEPTH, PANEL, TILE};

/// A matrix that multiplies activations from the right: `rows` outputs of `columns` inputs.
pub struct QuantizedMatrix {
    format: Format,
    rows: usize,
    columns: usize,
    panels: Buffer<u8>,
}

impl QuantizedMatrix {
    /// Packs a matrix whose granules `read(row, granule, block)` gives as blocks, in any order, on several threads. None where the
    /// system has no memory for it.
    ///
    /// # Panics
    /// When a row is not made of whole granules.
    pub fn pack(
        compute: &Compute,
        format: Format,
        rows: usize,
        columns: usize,
        read: impl Fn(usize, usize, &mut QuantBlock) + Sync,
    ) -> Option<Self> {
        assert!(columns.is_multiple_of(format.granule()), "rows of whole granules");
        let panel_bytes = columns / format.granule() * format.record_bytes();
        let mut panels = Buffer::<u8>::try_zeroed(rows.div_ceil(PANEL).checked_mul(panel_bytes)?)?;
        if panel_bytes > 0 {
            compute.parallel_chunks(&mut panels, panel_bytes, |panel, bytes, _| {
                let mut blocks: [QuantBlock; PANEL] = std::array::from_fn(|_| QuantBlock::default());
                for (granule, record) in bytes.chunks_exact_mut(format.record_bytes()).enumerate() {
                    for (lane, block) in blocks.iter_mut().enumerate().take(rows - panel * PANEL) {
                        read(panel * PANEL + lane, granule, block);
                    }
                    write_record(format, &blocks, record);
                }
            });
        }
        Some(QuantizedMatrix { format, rows, columns, panels })
    }

    /// How weights are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        self.panels.bytes()
    }

    /// Panels of 16 rows.
    pub(super) fn panel_count(&self) -> usize {
        self.rows.div_ceil(PANEL)
    }

    /// Bytes of a panel.
    pub(super) fn panel_bytes(&self) -> usize {
        self.columns / self.format.granule() * self.format.record_bytes()
    }

    /// The bytes of a panel.
    pub(super) fn panel(&self, index: usize) -> &[u8] {
        &self.panels[index * self.panel_bytes()..][..self.panel_bytes()]
    }
}

/// Interleaves the granules of 16 rows, see [`super::kernel`].
fn write_record(format: Format, blocks: &[QuantBlock; PANEL], record: &mut [u8]) {
    if format == Format::Bf16 {
        for (lane, block) in blocks.iter().enumerate() {
            for k in 0..DEPTH {
                let at = 2 * ((k % DEPTH) / 2 * 2 * PANEL + lane * 2 + k % 2);
                record[at..at + 2].copy_from_slice(&block.values[2 * k..2 * k + 2]);
            }
        }
        debug_assert_eq!(record.len(), 2 * TILE);
        return;
    }
    let (header, data) = record.split_at_mut(format.header_bytes());
    for (lane, block) in blocks.iter().enumerate() {
        write_scales(format, lane, block, header);
    }
    let bits = format.bits();
    for (index, data) in data.chunks_exact_mut(data_bytes(bits)).enumerate() {
        for (lane, block) in blocks.iter().enumerate() {
            write_values(bits, lane, &block.values.as_chunks().0[index], data);
        }
    }
}

fn write_scales(format: Format, lane: usize, block: &QuantBlock, header: &mut [u8]) {
    if format == Format::Super6 {
        header[4 * lane..4 * lane + 4].copy_from_slice(&f16_to_f32(block.scale).to_le_bytes());
    } else {
        header[2 * lane..2 * lane + 2].copy_from_slice(&block.scale.to_le_bytes());
        if format.has_mins() {
            header[32 + 2 * lane..34 + 2 * lane].copy_from_slice(&block.min.to_le_bytes());
        }
    }
    match format {
        Format::Super6 => (0..16).for_each(|i| header[64 + i * PANEL + lane] = block.scales[i]),
        Format::Super4 | Format::Super5 => (0..8).for_each(|i| {
            header[64 + i * PANEL + lane] = block.scales[i];
            header[64 + (8 + i) * PANEL + lane] = block.mins[i];
        }),
        _ => {}
    }
}

/// Puts 32 values of a row in their places, four at a time: those lie together.
fn write_values(bits: usize, lane: usize, values: &[u8; QUANT_BLOCK], data: &mut [u8]) {
    const QUAD: usize = 4 * PANEL;
    if bits == 8 {
        for (quad, line) in values.as_chunks::<4>().0.iter().zip(data.chunks_exact_mut(QUAD)) {
            line[4 * lane..4 * lane + 4].copy_from_slice(quad);
        }
        return;
    }
    let (fifth, nibbles) = data.split_at_mut(if bits == 5 { QUAD } else { 0 });
    let packed: [u8; 16] = std::array::from_fn(|k| values[k] & 15 | (values[k + 16] & 15) << 4);
    for (quad, line) in packed.as_chunks::<4>().0.iter().zip(nibbles.chunks_exact_mut(QUAD)) {
        line[4 * lane..4 * lane + 4].copy_from_slice(quad);
    }
    match bits {
        5 => {
            for (quad, line) in values.as_chunks::<4>().0.iter().zip(fifth.chunks_exact_mut(8)) {
                let high = quad.map(|value| value >> 4 & 1);
                let high = high[0] | high[1] << 1 | high[2] << 2 | high[3] << 3;
                line[lane / 2] |= high << (4 * (lane % 2));
            }
        }
        6 => {
            for (half, line) in values.as_chunks::<16>().0.iter().zip(nibbles[4 * QUAD..].chunks_exact_mut(QUAD)) {
                for (k, byte) in line[4 * lane..4 * lane + 4].iter_mut().enumerate() {
                    let high = |quad: usize| (half[4 * quad + k] >> 4 & 3) << (2 * quad);
                    *byte = high(0) | high(1) | high(2) | high(3);
                }
            }
        }
        _ => {}
    }
}
