//! Pinned host memory that copies to and from a device go through: the processor fills one piece while the device reads others.

use std::cell::Cell;
use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::CudaError;
use super::driver::Stream;

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
/// Pieces on their way to the device: two batches of spectrograms.
const PIECES: usize = 16;

/// Pinned memory.
struct Pinned(*mut c_void);

impl Pinned {
    fn new() -> Result<Self, CudaError> {
        // SAFETY: it is written before it is read, and freed by its owner alone.
        Ok(Pinned(unsafe { result::malloc_host(PIECE, 0)? }))
    }

    /// Its first `bytes`, [`PIECE`] at most.
    ///
    /// # Safety
    /// No copy is using it.
    #[expect(clippy::mut_from_ref, reason = "memory of the driver, which its owner uses on one thread")]
    unsafe fn bytes(&self, bytes: usize) -> &mut [u8] {
        // SAFETY: as many are there, and the caller says that nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast(), bytes.min(PIECE)) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `new`; the driver waits for copies that use it.
        let _ = unsafe { result::free_host(self.0) };
    }
}

/// A piece, and the event after the last copy from it.
struct Piece {
    memory: Pinned,
    copied: sys::CUevent,
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: it was made with the piece; a copy that still runs is waited for.
        unsafe {
            let _ = result::event::synchronize(self.copied);
            let _ = result::event::destroy(self.copied);
        }
    }
}

/// Pinned memory of a device.
pub struct Staging {
    up: Vec<Piece>,
    next: Cell<usize>,
    down: Pinned,
}

impl Staging {
    pub fn new() -> Result<Self, CudaError> {
        let piece = || -> Result<Piece, CudaError> {
            let memory = Pinned::new()?;
            let copied = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            Ok(Piece { memory, copied })
        };
        let up = (0..PIECES).map(|_| piece()).collect::<Result<_, _>>()?;
        Ok(Staging { up, next: Cell::new(0), down: Pinned::new()? })
    }

    /// Copies to the device, in the order of the stream; returns when `from` was read.
    pub fn upload(&self, stream: &Stream, from: &[u8], to: u64) -> Result<(), CudaError> {
        for (index, part) in from.chunks(PIECE).enumerate() {
            let piece = &self.up[self.next.get()];
            self.next.set((self.next.get() + 1) % PIECES);
            // SAFETY: the copy before from this piece is waited for; the caller vouches for the memory at `to`.
            unsafe {
                result::event::synchronize(piece.copied)?;
                let staged = piece.memory.bytes(part.len());
                staged.copy_from_slice(part);
                result::memcpy_htod_async(to + (index * PIECE) as u64, staged, stream.raw())?;
                result::event::record(piece.copied, stream.raw())?;
            }
        }
        Ok(())
    }

    /// Waits for the stream, and copies from the device.
    pub fn download(&self, stream: &Stream, from: u64, to: &mut [u8]) -> Result<(), CudaError> {
        for (index, part) in to.chunks_mut(PIECE).enumerate() {
            // SAFETY: no copy uses the piece, since each is waited for; the caller vouches for the memory at `from`.
            unsafe {
                let staged = self.down.bytes(part.len());
                result::memcpy_dtoh_async(staged, from + (index * PIECE) as u64, stream.raw())?;
                stream.synchronize()?;
                part.copy_from_slice(staged);
            }
        }
        Ok(())
    }
}
