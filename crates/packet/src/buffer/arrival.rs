//! How a packet arrived: the first bytes that its frame had then, kept at the far end of the headroom.

use super::{META, Packet};

/// Bytes of a frame that are kept: the headers of Ethernet, IPv6 and TCP, without options, up to TCP's sum.
pub const ARRIVAL: usize = 72;
/// What is kept in front of them: a sum over them, by which it shows that something was written there since.
const SUM: usize = 2;
/// Set in the metadata: the packet's arrival is kept. The bits below number the interface.
const KEPT: u8 = 1 << 7;
/// Set in the metadata: see [`Packet::settle`].
const SETTLES: u8 = 1 << 6;
/// Most interfaces.
const INTERFACES: u8 = 1 << 6;

impl Packet {
    /// Keeps the packet's first bytes, and zeros behind a shorter one, as those of a frame that arrived by `interface`.
    /// Without as much headroom, nothing is kept.
    #[inline]
    pub fn keep_arrival(&mut self, interface: u8) {
        if interface >= INTERFACES || self.headroom() < SUM + ARRIVAL {
            return;
        }
        let mut head = [0; ARRIVAL];
        let len = self.len().min(ARRIVAL);
        match self.data().first_chunk::<ARRIVAL>() {
            Some(all) => head = *all,
            None => head[..len].copy_from_slice(&self.data()[..len]),
        }
        let kept = self.byte(META).cast::<[u8; SUM + ARRIVAL]>();
        let mut bytes = [0; SUM + ARRIVAL];
        bytes[..SUM].copy_from_slice(&sum(&head).to_ne_bytes());
        bytes[SUM..].copy_from_slice(&head);
        // SAFETY: inside the headroom, which is as long, and ours.
        unsafe { kept.write_unaligned(bytes) };
        self.meta_mut().arrival = KEPT | interface;
    }

    /// The interface by which the packet's frame arrived, and its first bytes then; `None` if they were not kept, or
    /// were written over since.
    pub fn arrival(&self) -> Option<(u8, [u8; ARRIVAL])> {
        let arrival = self.meta().arrival;
        if arrival & KEPT == 0 || self.headroom() < SUM + ARRIVAL {
            return None;
        }
        let kept = self.byte(META).cast::<[u8; SUM + ARRIVAL]>();
        // SAFETY: inside the headroom, and initialized by `keep_arrival`.
        let bytes = unsafe { kept.read_unaligned() };
        let (kept, head) = bytes.split_first_chunk::<SUM>()?;
        let head = head.first_chunk::<ARRIVAL>()?;
        let unchanged = sum(head) == u16::from_ne_bytes(*kept);
        unchanged.then_some((arrival & (INTERFACES - 1), *head))
    }

    /// Whether its [arrival](Self::arrival) was kept.
    #[inline]
    pub fn has_arrival(&self) -> bool {
        self.meta().arrival & KEPT != 0
    }

    /// Says that the packet's flow is settled: all its further packets fare as this one does. Says nothing of a packet
    /// whose [arrival](Self::arrival) is not known.
    #[inline]
    pub fn settle(&mut self) {
        let meta = self.meta_mut();
        if meta.arrival & KEPT != 0 {
            meta.arrival |= SETTLES;
        }
    }

    /// Whether the packet's flow is settled.
    #[inline(always)]
    pub fn settles(&self) -> bool {
        self.meta().arrival & SETTLES != 0
    }
}

/// A sum that differs where some bytes do, most likely.
fn sum(head: &[u8; ARRIVAL]) -> u16 {
    let mut sum = 0x5e77u64;
    let words = head.chunks(8);
    for word in words {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        sum = (sum ^ u64::from_ne_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^= sum >> 29;
    }
    (sum >> 40) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn an_arrival_is_known_until_something_is_written_there() {
        let mut pool = Pool::heap(4);
        let mut packet = pool.copy(&[7; ARRIVAL + 6]).unwrap();
        assert_eq!(packet.arrival(), None);
        packet.settle();
        assert!(!packet.settles(), "its arrival is not known");
        packet.keep_arrival(3);
        packet.data_mut()[0] = 1;
        assert_eq!(packet.arrival(), Some((3, [7; ARRIVAL])));
        assert!(packet.push(20));
        packet.pull(20);
        assert_eq!(packet.arrival(), Some((3, [7; ARRIVAL])));
        packet.settle();
        assert!(packet.settles());
        assert_eq!(packet.arrival(), Some((3, [7; ARRIVAL])));
        assert!(packet.push(128));
        packet.data_mut().fill(9);
        packet.pull(128);
        assert_eq!(packet.arrival(), None, "it was written over");
        pool.kill(packet);
        let mut other = pool.copy(&[7; 60]).unwrap();
        assert_eq!((other.arrival(), other.settles()), (None, false));
        other.keep_arrival(64);
        assert_eq!(other.arrival(), None, "no interface has that number");
        pool.kill(other);
    }
}
