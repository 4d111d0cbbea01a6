//! Values that start at a line of the cache.

use core::ops::{Deref, DerefMut};

/// A value that starts at a line of the cache. An aligned vector is read without touching two lines: a heap gives
/// memory aligned to 16 bytes, with which every other vector of 32 bytes and each of 64 crosses a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

impl<T> Deref for Aligned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T, const N: usize> Aligned<[T; N]> {
    /// The numbers of all arrays, which fill their lines.
    #[inline(always)]
    pub fn flattened(arrays: &[Aligned<[T; N]>]) -> &[T] {
        const { assert!(size_of::<Aligned<[T; N]>>() == size_of::<[T; N]>()) };
        // SAFETY: as long as its array, an aligned array has no padding; N numbers for each array.
        unsafe { core::slice::from_raw_parts(arrays.as_ptr().cast(), arrays.len() * N) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_arrays_are_one_slice() {
        let arrays = vec![Aligned([1u64, 2, 3, 4, 5, 6, 7, 8]); 3];
        assert_eq!(arrays.as_ptr() as usize % 64, 0);
        let whole: Vec<u64> = (0..24).map(|i| i % 8 + 1).collect();
        assert_eq!(Aligned::flattened(&arrays), whole);
        assert!(Aligned::<[u64; 8]>::flattened(&[]).is_empty());
    }
}
