//! The application's memory for one call: its iovecs as one run of bytes.

/// Bytes of several pieces, of which some have been passed.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    pieces: &'a [libc::iovec],
    /// Bytes passed of the first piece.
    at: usize,
}

impl<'a> Parts<'a> {
    /// # Safety
    /// Each piece is memory that can be read, and written if the call receives.
    pub unsafe fn new(pieces: &'a [libc::iovec]) -> Parts<'a> {
        Parts { pieces, at: 0 }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        let all = self.pieces.iter().map(|piece| piece.iov_len);
        all.fold(0usize, usize::saturating_add) - self.at
    }

    /// Passes the next bytes in memory, at most `most`. `None`: no bytes are left.
    fn next(&mut self, most: usize) -> Option<(*mut u8, usize)> {
        loop {
            let piece = self.pieces.first()?;
            let left = piece.iov_len - self.at;
            if left == 0 {
                self.pieces = &self.pieces[1..];
                self.at = 0;
                continue;
            }
            let n = left.min(most);
            let start = piece.iov_base.cast::<u8>().wrapping_add(self.at);
            self.at += n;
            return Some((start, n));
        }
    }

    /// Copies the next bytes to `to`; how many.
    pub fn copy_to(&mut self, to: abi::SharedBytes) -> usize {
        let mut done = 0;
        while done < to.len() {
            let Some((from, n)) = self.next(to.len() - done) else {
                break;
            };
            // SAFETY: memory of the application for reading, by `new`'s promise.
            to.skip(done)
                .write(unsafe { core::slice::from_raw_parts(from, n) });
            done += n;
        }
        done
    }

    /// Fills the next bytes from `from`; how many.
    pub fn copy_from(&mut self, from: abi::SharedBytes) -> usize {
        let mut done = 0;
        while done < from.len() {
            let Some((to, n)) = self.next(from.len() - done) else {
                break;
            };
            // SAFETY: memory of the application for writing, by `new`'s promise. It may not be
            // initialized; reading from shared memory only writes it.
            from.skip(done)
                .read(unsafe { core::slice::from_raw_parts_mut(to, n) });
            done += n;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use abi::SharedBytes;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Bytes pass through pieces of any lengths unchanged, in steps of any lengths.
        #[test]
        fn pieces_are_one_run_of_bytes(
            lengths in proptest::collection::vec(0..9usize, 0..8),
            step in 1..10usize,
        ) {
            let mut memory: Vec<Vec<u8>> = lengths.iter().map(|&n| vec![0; n]).collect();
            let pieces: Vec<_> = memory.iter_mut().map(|piece| libc::iovec {
                iov_base: piece.as_mut_ptr().cast(),
                iov_len: piece.len(),
            }).collect();
            let total: usize = lengths.iter().sum();
            let mut source: Vec<u8> = (1..=total as u8 + 1).collect();
            let mut target = vec![0u8; total + 1];
            // SAFETY: memory of the test.
            unsafe {
                let mut parts = Parts::new(&pieces);
                for chunk in source[..total].chunks_mut(step) {
                    let bytes = SharedBytes::new(NonNull::from(&mut chunk[0]), chunk.len());
                    prop_assert_eq!(parts.copy_from(bytes), chunk.len());
                }
                prop_assert_eq!(parts.left(), 0);
                let mut parts = Parts::new(&pieces);
                let to = SharedBytes::new(NonNull::from(&mut target[0]), total + 1);
                prop_assert_eq!(parts.copy_to(to), total);
            }
            prop_assert_eq!(&target[..total], &source[..total]);
        }
    }
}
