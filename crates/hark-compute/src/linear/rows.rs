//! The left side of a product.

use std::marker::PhantomData;

/// bf16 activations: a view of `count` rows, `stride` elements apart.
///
/// Kernels read whole blocks: rows up to a multiple of 16, and of each up to a multiple of 32 elements. What uses a view
/// checks that so much is there.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    start: *const u16,
    /// Elements that can be read from `start` on.
    reach: usize,
    stride: usize,
    count: usize,
    memory: PhantomData<&'a [u16]>,
}

// SAFETY: a view that is only read through, as a shared slice is.
unsafe impl Send for Rows<'_> {}
// SAFETY: as a shared slice, it may be read by several threads at once.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    /// `count` rows that begin with `memory`, `stride` elements apart.
    #[inline]
    pub fn new(memory: &'a [u16], stride: usize, count: usize) -> Self {
        Rows { start: memory.as_ptr(), reach: memory.len(), stride, count, memory: PhantomData }
    }

    /// As [`Rows::new`], over memory of which others write other rows meanwhile.
    ///
    /// # Safety
    /// For `'a`, `reach` elements can be read from `start` on, and nobody writes the rows while they are read.
    #[inline]
    pub unsafe fn from_raw(start: *const u16, reach: usize, stride: usize, count: usize) -> Self {
        Rows { start, reach, stride, count, memory: PhantomData }
    }

    /// How many rows there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The address of an element.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> *const u16 {
        self.start.wrapping_add(row * self.stride + column)
    }

    /// Elements from one row to the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// `count` rows from `first` on, starting at `column`.
    #[inline]
    pub fn part(&self, first: usize, count: usize, column: usize) -> Rows<'a> {
        let offset = first * self.stride + column;
        assert!(offset <= self.reach, "the part begins inside the view");
        Rows { start: self.at(first, column), reach: self.reach - offset, count, ..*self }
    }

    /// Checks that `width` elements of every row can be read, and of rows up to a multiple of `block`.
    #[inline]
    pub fn check(&self, width: usize, block: usize) {
        let needed = self.count.checked_next_multiple_of(block).and_then(|rows| {
            rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(self.stride)?.checked_add(width))
        });
        assert!(needed.is_some_and(|needed| needed <= self.reach), "the view reaches all rows and their padding");
    }
}
