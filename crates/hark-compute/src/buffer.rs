//! Zeroed memory aligned for tiles, on huge pages where the system gives them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};

/// A cache line, which is also a tile row.
const LINE: usize = 64;
/// A huge page. Large buffers ask for them: a step streams through hundreds of megabytes, and the processor reads ahead
/// only within a page.
const HUGE: usize = 2 << 20;

/// What is mapped for a buffer of that many bytes, if it gets a mapping of its own: whole huge pages where it fills most of
/// them, and otherwise as many as it fills.
#[cfg(target_os = "linux")]
fn mapped_size(bytes: usize) -> Option<usize> {
    // Under a sanitizer all buffers come from the heap, whose ends it watches.
    if cfg!(hark_sanitize) {
        return None;
    }
    let whole = bytes.next_multiple_of(HUGE);
    if bytes >= whole / 4 * 3 { Some(whole) } else { Some(bytes).filter(|&bytes| bytes > HUGE) }
}

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
    ///
    /// # Panics
    /// When so many do not fit the address space; the process ends when the system has no memory for them.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(Self::layout(len)))
    }

    /// `len` zeros, or none where the system has no memory for them.
    ///
    /// # Panics
    /// When so many do not fit the address space.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let layout = Self::layout(len);
        #[cfg(target_os = "linux")]
        if let Some(size) = mapped_size(layout.size()) {
            return map_aligned(size).map(|start| Buffer { start: start.cast(), len });
        }
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
        if start.is_null() { None } else { Some(Buffer { start, len }) }
    }

    fn layout(len: usize) -> Layout {
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.max(LINE).checked_next_multiple_of(LINE));
        bytes
            .and_then(|bytes| Layout::from_size_align(bytes, LINE).ok())
            // What is mapped is up to two huge pages longer.
            .filter(|layout| layout.size() <= isize::MAX as usize - 2 * HUGE)
            .expect("a buffer fits the address space")
    }

    /// Bytes that it takes when all of it is touched.
    pub fn bytes(&self) -> u64 {
        Self::layout(self.len).size() as u64
    }

    /// Makes everything zero again and gives the memory back to the system until it is touched, where the buffer is large.
    pub fn clear(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(size) = mapped_size(Self::layout(self.len).size()) {
            // SAFETY: the mapping is this buffer's own, private and anonymous: its pages read as zeros afterwards. `&mut self`
            // says that nobody else looks at it.
            if unsafe { libc::madvise(self.start.cast(), size, libc::MADV_DONTNEED) } == 0 {
                return;
            }
        }
        // SAFETY: zero bytes are zeros of every plain type, and all of the buffer is ours.
        unsafe { std::ptr::write_bytes(self.start, 0, self.len) };
    }

    /// A pointer that several threads may write through, each to its own part.
    pub fn shared(&mut self) -> SharedMut<T> {
        SharedMut(self.start)
    }
}

/// `size` fresh zeros that begin with a huge page, as not every kernel's mappings do.
#[cfg(target_os = "linux")]
fn map_aligned(size: usize) -> Option<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let mapped = size + HUGE;
    // SAFETY: a fresh anonymous mapping; no address of ours is given away.
    let first = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if first == libc::MAP_FAILED {
        return None;
    }
    let before = first.addr().next_multiple_of(HUGE) - first.addr();
    // SAFETY: the range is ours, and nobody knows of its ends yet. `munmap` takes whole pages: those in which the buffer
    // ends stay. The advice changes no contents. A failure of either changes nothing.
    unsafe {
        let start = first.byte_add(before);
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(HUGE);
        let end = (before + size).next_multiple_of(page);
        if before > 0 {
            libc::munmap(first, before);
        }
        if end < mapped {
            libc::munmap(first.byte_add(end), mapped - end);
        }
        libc::madvise(start, size, libc::MADV_HUGEPAGE);
        Some(start)
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
        // SAFETY: `start` points to `len` initialized values that live as long as `self`, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        #[cfg(target_os = "linux")]
        if let Some(size) = mapped_size(layout.size()) {
            // SAFETY: what `map_aligned` left of its mapping, up to a whole page.
            unsafe { libc::munmap(self.start.cast(), size) };
            return;
        }
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.start.cast(), layout) }
    }
}

/// A pointer that crosses to other threads; whoever writes through it keeps to its own part.
pub struct SharedMut<T>(*mut T);

impl<T> Clone for SharedMut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedMut<T> {}

// SAFETY: a bare address; every use of it is an unsafe block with its own reason. What lies there may be used by any thread.
unsafe impl<T: Send> Send for SharedMut<T> {}
// SAFETY: sharing the address reads nothing; `T: Send` since what lies there may be used by any thread.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    /// Wraps the start of an array that threads share.
    pub fn new(start: *mut T) -> Self {
        SharedMut(start)
    }

    /// The address of element `index`.
    #[inline(always)]
    pub fn at(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a buffer fits the address space")]
    fn a_length_whose_bytes_overflow_is_refused() {
        // In bytes this is 0: unchecked, the buffer would be one line long and its slice half the address space.
        drop(Buffer::<f32>::zeroed(1 << 62));
    }

    #[test]
    fn a_cleared_buffer_is_zero_again_and_can_be_written() {
        for len in [10, HUGE / 4, 3 * HUGE] {
            let mut buffer = Buffer::<f32>::zeroed(len);
            for round in 1..3 {
                buffer.fill(round as f32);
                buffer.clear();
                assert!(buffer.iter().all(|&number| number == 0.0), "{len} numbers, round {round}");
            }
        }
    }

    #[test]
    fn buffers_of_every_size_are_zero_aligned_and_writable_to_their_ends() {
        // Around one huge page and two, and around what is most of them.
        for bytes in [1, 64, HUGE / 2, HUGE / 4 * 3 - 1, HUGE / 4 * 3, HUGE, HUGE + 1, HUGE / 4 * 6 - 64, 2 * HUGE + 65]
        {
            let mut buffers: Vec<Buffer<u8>> = (0..3).map(|_| Buffer::zeroed(bytes)).collect();
            for buffer in &mut buffers {
                assert_eq!(buffer.as_ptr().addr() % LINE, 0);
                assert!(buffer.iter().all(|&byte| byte == 0), "{bytes} zeros");
                buffer.fill(7);
            }
            // The others stay when one goes.
            buffers.swap_remove(1);
            assert!(buffers.iter().all(|buffer| buffer.iter().all(|&byte| byte == 7)));
        }
    }
}
