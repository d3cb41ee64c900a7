//! Matrices that borrow their memory: rows, a width, and the distance from one row to the next, checked once.

use std::marker::PhantomData;

/// A matrix that is read: `rows` rows of `width` elements, `stride` elements apart.
pub struct MatRef<'a, T> {
    start: *const T,
    rows: usize,
    width: usize,
    stride: usize,
    memory: PhantomData<&'a [T]>,
}

impl<T> Clone for MatRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MatRef<'_, T> {}

// SAFETY: a view that is only read through, as a shared slice is.
unsafe impl<T: Sync> Send for MatRef<'_, T> {}
// SAFETY: as a shared slice, it may be read by several threads at once.
unsafe impl<T: Sync> Sync for MatRef<'_, T> {}

/// Elements that a matrix of this shape reaches over; none where they are more than can be counted.
///
/// Every check of a shape that a kernel relies on goes through this or another checked product: one that overflowed would
/// pass for a small one.
#[inline]
pub(crate) fn reach(rows: usize, width: usize, stride: usize) -> Option<usize> {
    rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(stride)?.checked_add(width))
}

impl<'a, T> MatRef<'a, T> {
    /// A view of `data`.
    ///
    /// # Panics
    /// When `data` is too short for the shape.
    #[inline]
    pub fn new(data: &'a [T], rows: usize, width: usize, stride: usize) -> Self {
        assert!(reach(rows, width, stride).is_some_and(|reach| reach <= data.len()), "the data holds the matrix");
        MatRef { start: data.as_ptr(), rows, width, stride, memory: PhantomData }
    }

    /// A view of memory of which other threads write other rows or columns meanwhile.
    ///
    /// # Safety
    /// For `'a`, the elements of every row can be read, and nobody writes them.
    #[inline]
    pub unsafe fn from_raw(start: *const T, rows: usize, width: usize, stride: usize) -> Self {
        MatRef { start, rows, width, stride, memory: PhantomData }
    }

    /// How many rows there are.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Elements from one row to the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The first element.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const T {
        self.start
    }
}

/// A matrix that is written: `rows` rows of `width` elements, `stride` elements apart.
pub struct MatMut<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    stride: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: a view that is written through by its owner alone, as an exclusive slice is.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// A view of `data`.
    ///
    /// # Panics
    /// When `data` is too short for the shape, or rows overlap.
    #[inline]
    pub fn new(data: &'a mut [T], rows: usize, width: usize, stride: usize) -> Self {
        assert!(reach(rows, width, stride).is_some_and(|reach| reach <= data.len()), "the data holds the matrix");
        assert!(width <= stride || rows <= 1, "rows do not overlap");
        MatMut { start: data.as_mut_ptr(), rows, width, stride, memory: PhantomData }
    }

    /// A view of memory of which other threads use other rows or columns meanwhile.
    ///
    /// # Safety
    /// For `'a`, the elements of every row can be written, nobody else uses them, and rows do not overlap.
    #[inline]
    pub unsafe fn from_raw(start: *mut T, rows: usize, width: usize, stride: usize) -> Self {
        MatMut { start, rows, width, stride, memory: PhantomData }
    }

    /// How many rows there are.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Elements from one row to the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The first element.
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn views_that_reach_beyond_their_data_or_overlap_are_refused() {
        let data = [0f32; 20];
        assert_eq!(MatRef::new(&data, 2, 4, 16).rows(), 2);
        assert!(catch_unwind(|| MatRef::new(&data, 2, 5, 16).rows()).is_err(), "one element too many");
        assert!(catch_unwind(|| MatRef::new(&data, usize::MAX, 5, 16).rows()).is_err(), "a shape that overflows");
        assert_eq!(MatRef::new(&data, 0, 5, 16).rows(), 0);
        assert_eq!(MatMut::new(&mut [0f32; 20], 2, 4, 16).rows(), 2);
        assert!(catch_unwind(|| MatMut::new(&mut [0f32; 20], 3, 5, 4).rows()).is_err(), "rows that overlap");
    }
}
