//! Prefetching of packets that are processed soon.

use core::ptr::NonNull;

use crate::buffer::{HEADROOM, META, Meta};
use crate::{BATCH, Packet};

/// Cache lines prefetched per packet: its metadata, and its data at the default headroom.
const LINES: usize = 2;
/// Announcements that are prefetched at once after one without a step.
const PAUSE: u8 = u8::MAX;

/// Cache lines of the packets that come next, prefetched a few at a time.
///
/// A core has about a dozen misses in flight and stalls at the next one. Prefetching a batch's lines
/// in a row therefore stalls. So the code that knows the next packets
/// [announces](Self::announce) them, and the code that works on a batch [steps](Self::step).
pub struct Prefetcher {
    /// Addresses of the lines. Nothing is read there.
    lines: [usize; LINES * BATCH],
    next: usize,
    end: usize,
    /// Further announcements that are prefetched at once.
    pause: u8,
}

impl Default for Prefetcher {
    fn default() -> Self {
        Prefetcher {
            lines: [0; LINES * BATCH],
            next: 0,
            end: 0,
            pause: 0,
        }
    }
}

impl Prefetcher {
    /// Announces the packets that come next, at most a batch. The remaining lines of the packets
    /// announced before are prefetched now, since those packets are processed next.
    pub fn announce<'p>(&mut self, packets: impl Iterator<Item = &'p Packet>) {
        let packets = packets.take(BATCH);
        if self.end > 0 && self.next == 0 {
            self.pause = PAUSE;
        }
        self.step(self.end - self.next);
        (self.next, self.end) = (0, 0);
        if self.pause > 0 {
            self.pause -= 1;
            return packets.for_each(Packet::prefetch);
        }
        let lines = packets.flat_map(Packet::lines);
        for (address, line) in self.lines.iter_mut().zip(lines) {
            *address = line.addr();
            self.end += 1;
        }
    }

    /// Prefetches the next `count` lines, or as many as there are.
    #[inline(always)]
    pub fn step(&mut self, count: usize) {
        if self.next < self.end {
            self.ask(count);
        }
    }

    #[inline(never)]
    fn ask(&mut self, count: usize) {
        let count = count.min(self.end - self.next);
        for line in self.lines.iter().skip(self.next).take(count) {
            prefetch_at(core::ptr::without_provenance(*line));
        }
        self.next += count;
    }
}

/// Prefetching of packets' memory.
impl Packet {
    /// Prefetches the metadata and the first line of data at the default headroom.
    #[inline]
    pub fn prefetch(&self) {
        for line in self.lines() {
            prefetch_at(line);
        }
    }

    /// The addresses of these two lines.
    #[inline]
    fn lines(&self) -> [*const u8; LINES] {
        let start = self.raw().as_ptr().cast_const().cast::<u8>();
        [start, start.wrapping_add(META + HEADROOM)]
    }
}

/// Prefetches the cache line that `value` starts in.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_at(core::ptr::from_ref(value).cast());
}

/// Prefetches the cache line in which 64 bytes from the start of `value` on end.
#[inline]
pub fn prefetch_next<T>(value: &T) {
    prefetch_at(core::ptr::from_ref(value).cast::<u8>().wrapping_add(63));
}

/// Prefetches the lines of a free buffer in which a packet begins, to be written.
#[inline(always)]
pub(crate) fn prefetch_buffer(buffer: NonNull<Meta>) {
    let start = buffer.as_ptr().cast_const().cast::<u8>();
    for line in [start, start.wrapping_add(META + HEADROOM)] {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch writes nothing and cannot fault.
        unsafe {
            core::arch::asm!("prefetchw [{line}]", line = in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        prefetch_at(line);
    }
}

/// Prefetches the cache line at an address, which may be any.
#[inline(always)]
fn prefetch_at(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn lines_are_prefetched_in_steps_or_at_once() {
        let mut pool = Pool::heap(100);
        let packets: std::vec::Vec<Packet> = (0..70).filter_map(|_| pool.copy(&[1])).collect();
        let mut prefetcher = Prefetcher::default();
        prefetcher.step(8);
        prefetcher.announce(packets.iter());
        assert_eq!((prefetcher.next, prefetcher.end), (0, LINES * BATCH));
        prefetcher.step(8);
        assert_eq!(prefetcher.next, 8);
        prefetcher.announce(packets.iter().take(3));
        assert_eq!((prefetcher.next, prefetcher.end), (0, 6));
        // More than there are.
        prefetcher.step(8);
        assert_eq!((prefetcher.next, prefetcher.end), (6, 6));
        prefetcher.announce(packets.iter());
        // No step is taken.
        prefetcher.announce(packets.iter());
        assert_eq!((prefetcher.pause, prefetcher.end), (PAUSE - 1, 0));
        for _ in 1..PAUSE {
            prefetcher.announce(packets.iter());
            assert_eq!(prefetcher.end, 0);
        }
        prefetcher.announce(packets.iter());
        assert_eq!(prefetcher.end, LINES * BATCH);
    }
}
