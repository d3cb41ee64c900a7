//! Where the mark lies: cells of time and frequency with keyed signs.
//!
//! The sizes come from measurements (docs/experiments/watermark.md): narrower bands fall between the harmonics of high voices, wider ones
//! and longer slots leave fewer cells, shorter slots smear into each other.

use crate::code::RATE;
use crate::key::Key;
use crate::payload::BITS;

/// The lower edge of the first band: telephones carry 300 to 3400 Hz.
pub(crate) const LOW_HZ: f64 = 300.0;
/// The width of a band.
pub(crate) const BAND_HZ: f64 = 155.0;
/// The number of bands.
pub(crate) const BANDS: usize = 20;
/// The upper edge of the last band.
pub(crate) const HIGH_HZ: f64 = LOW_HZ + BAND_HZ * BANDS as f64;
/// The length of a slot: a cell is one band in one slot.
pub(crate) const SLOT_S: f64 = 0.016;
/// The window through which the level of a cell is measured.
pub(crate) const WINDOW_S: f64 = 0.025;
/// Slots of a frame; the cells of a symbol lie within one frame, which bounds how long the embedder looks ahead.
pub(crate) const FRAME_SLOTS: usize = 12;
const FRAMES: usize = 12;
/// Slots of a period, after which the pattern repeats: 2.3 s.
pub(crate) const PERIOD: usize = FRAME_SLOTS * FRAMES;
/// Cells of a frame that carry the known pattern: a tenth finds the alignment in any sound whose payload can be read.
const SYNC_CELLS: usize = 24;
/// Coded bits of a frame.
const SYMBOLS: usize = (BITS * RATE).div_ceil(FRAMES);

/// What a cell carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sync,
    /// One of the coded bits.
    Coded(u16),
}

/// A cell of the period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) role: Role,
    pub(crate) sign: f32,
}

/// The cells of one period, for one key.
pub(crate) struct Pattern {
    /// `BANDS` cells for each slot.
    cells: Vec<Cell>,
}

impl Pattern {
    pub(crate) fn new(key: &Key) -> Self {
        let mut random = key.stream(b"hark watermark cells 1");
        let mut coded: Vec<u16> = (0..FRAMES * SYMBOLS).map(|at| (at % (BITS * RATE)) as u16).collect();
        random.shuffle(&mut coded);
        let mut cells = Vec::with_capacity(PERIOD * BANDS);
        for symbols in coded.chunks_exact(SYMBOLS) {
            let mut roles: Vec<Role> = (0..BANDS * FRAME_SLOTS)
                .map(|at| match at.checked_sub(SYNC_CELLS) {
                    None => Role::Sync,
                    Some(at) => Role::Coded(symbols[at % SYMBOLS]),
                })
                .collect();
            random.shuffle(&mut roles);
            cells.extend(roles.into_iter().map(|role| Cell { role, sign: f32::from(random.sign()) }));
        }
        Pattern { cells }
    }

    /// The cells of a slot, which may be any slot of the endless repetition.
    pub(crate) fn slot(&self, slot: usize) -> &[Cell] {
        &self.cells[slot % PERIOD * BANDS..][..BANDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coded_bit_has_several_cells_and_every_frame_its_synchronization() {
        let pattern = Pattern::new(&Key::new([1; 32]));
        let mut cells = vec![0; BITS * RATE];
        for frame in pattern.cells.chunks(BANDS * FRAME_SLOTS) {
            assert_eq!(frame.iter().filter(|cell| cell.role == Role::Sync).count(), SYNC_CELLS);
            for cell in frame {
                if let Role::Coded(at) = cell.role {
                    cells[usize::from(at)] += 1;
                }
            }
        }
        assert!(cells.iter().all(|&count| count >= 6), "{cells:?}");
        assert!(2.0 * PERIOD as f64 * SLOT_S < 4.75, "two periods fit into five seconds that run 5 % faster");
        let plus = pattern.cells.iter().filter(|cell| cell.sign > 0.0).count();
        assert!((plus as f64 / pattern.cells.len() as f64 - 0.5).abs() < 0.05);
    }

    #[test]
    fn another_key_has_another_pattern() {
        let signs =
            |key| -> Vec<bool> { Pattern::new(&Key::new(key)).cells.iter().map(|cell| cell.sign > 0.0).collect() };
        let (one, two) = (signs([1; 32]), signs([2; 32]));
        let same = one.iter().zip(&two).filter(|(one, two)| one == two).count();
        assert!((same as f64 / one.len() as f64 - 0.5).abs() < 0.05, "{same} of {} signs agree", one.len());
    }
}
