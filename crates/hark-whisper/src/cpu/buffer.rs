//! Zeroed memory aligned for tiles, on huge pages where the system gives them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};

/// A cache line, which is also a tile row.
const LINE: usize = 64;
/// Buffers of at least this size ask for huge pages: a step streams through hundreds of megabytes, and with
/// 4 KiB pages the address translation alone is noticeable.
const HUGE: usize = 2 << 20;

/// A number whose zero is all zero bits.
pub trait Plain: Copy + Send + Sync + 'static {}
impl Plain for i8 {}
impl Plain for u8 {}
impl Plain for i32 {}
impl Plain for u16 {}
impl Plain for f32 {}

/// A fixed-size, zero-initialized, cache-line aligned array.
pub struct Buffer<T: Plain> {
    start: *mut T,
    len: usize,
}

// SAFETY: the buffer owns its memory and `T` is plain data.
unsafe impl<T: Plain> Send for Buffer<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Plain> Sync for Buffer<T> {}

impl<T: Plain> Buffer<T> {
    /// `len` zeros. A large buffer takes memory only as it is touched.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        #[cfg(target_os = "linux")]
        if layout.size() >= HUGE {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a fresh anonymous mapping; no address of ours is given away.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), protection, flags, -1, 0) };
            if start == libc::MAP_FAILED {
                handle_alloc_error(layout);
            }
            // SAFETY: the range is ours; the advice changes no contents, and its failure changes nothing.
            unsafe { libc::madvise(start, layout.size(), libc::MADV_HUGEPAGE) };
            return Buffer { start: start.cast(), len };
        }
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { start, len }
    }

    fn layout(len: usize) -> Layout {
        let bytes = (len * size_of::<T>()).max(LINE).next_multiple_of(LINE);
        Layout::from_size_align(bytes, LINE).expect("a buffer fits the address space")
    }

    /// A pointer that several members may write through, each to its own part.
    pub fn shared(&mut self) -> SharedMut<T> {
        SharedMut(self.start)
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `start` points to `len` initialized values that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        #[cfg(target_os = "linux")]
        if layout.size() >= HUGE {
            // SAFETY: mapped in `zeroed` with this very size.
            unsafe { libc::munmap(self.start.cast(), layout.size()) };
            return;
        }
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.start.cast(), layout) }
    }
}

/// A pointer that crosses to the members of a team; whoever writes through it keeps to its own part.
pub struct SharedMut<T>(*mut T);

impl<T> Clone for SharedMut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedMut<T> {}

// SAFETY: a bare address; every use of it is an unsafe block with its own reason.
unsafe impl<T> Send for SharedMut<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    /// Wraps the start of an array that the team's members share.
    pub fn new(start: *mut T) -> Self {
        SharedMut(start)
    }

    /// The address of element `index`.
    #[inline(always)]
    pub fn at(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}
