//! A pair of packet rings as a network device.

use abi::region::{Interface, Region, accepts};
use abi::ring::{Consumer, Producer, Slot, flags};
use abi::settle::{self, Settled};
use packet::{Batch, Packet, Pool};
use router::Device;

mod segments;

const _: () = assert!(abi::region::BUFFER_STRIDE == packet::BUFFER);
const _: () = assert!(abi::region::RECEIVE_OFFSET == packet::META + packet::HEADROOM);
const _: () = assert!(abi::region::PART_OFFSET == packet::PART_OFFSET);

/// What the switch is told of a packet whose flow is settled; `None` if it can be none.
fn settled(packet: &Packet) -> Option<Settled> {
    let (interface, head) = packet.arrival()?;
    let (before, layout) = settle::Side::of(&head)?;
    let (after, is) = settle::Side::of(packet.data())?;
    if is != layout {
        return None;
    }
    let settle::Layout {
        protocol,
        hops,
        transport,
    } = layout;
    let (came, leaves) = (head.get(hops)?, packet.data().get(hops)?);
    // What the kernel would not change must not have changed: from the version to the time to live, and behind the
    // ports up to the sum.
    let sum = transport + if protocol == settle::TCP { 16 } else { 6 };
    let same = |range: core::ops::Range<usize>| head.get(range.clone()) == packet.data().get(range);
    if !same(14..hops) || !same(transport + 4..sum) {
        return None;
    }
    let hops = came.checked_sub(*leaves).filter(|hops| *hops <= 1)?;
    Some(Settled {
        interface,
        protocol,
        hops,
        before,
        after,
    })
}

/// One interface of the guest: its receive and transmit rings.
///
/// A packet that is forwarded from one interface to another is never copied: its buffer is exchanged
/// for a spare one in the receive ring, and for a spent one in the transmit ring.
pub struct Netfront<R> {
    interface: Interface,
    region: Region,
    index: usize,
    receive: Consumer,
    transmit: Producer,
    /// Rings the switch's doorbell.
    ring_switch: R,
    receive_armed: bool,
    transmit_armed: bool,
    /// Whether the router accepts extended packets.
    accepts_segments: bool,
    /// Free slots that the next packet to be sent needs, as far as is known.
    wanted: u32,
    /// A segmented frame received for a previous router, and segmented for one that does not accept
    /// it.
    segmenting: Option<segments::Segmenting>,
}

impl<R: Fn()> Netfront<R> {
    /// Interface `index` of `region`. `ring_switch` is called when the switch sleeps on a ring
    /// that changed.
    ///
    /// # Safety
    /// Of all devices open on this interface, at most one is used to receive, and one to transmit. The
    /// pools passed to its functions are over this region's buffers.
    pub unsafe fn open(region: &Region, index: usize, ring_switch: R) -> Option<Self> {
        let interface = region.interface(index)?;
        // SAFETY: the interface exists, and each ring's end on this side is used once.
        let (receive, transmit) = unsafe {
            (
                region.receive_consumer(index),
                region.transmit_producer(index),
            )
        };
        Some(Self {
            interface,
            region: *region,
            index,
            receive,
            transmit,
            ring_switch,
            receive_armed: false,
            transmit_armed: false,
            accepts_segments: region.accepts(index) & accepts::SEGMENTS != 0,
            wanted: 1,
            segmenting: None,
        })
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        self.interface.name()
    }

    fn disarm_receive(&mut self) {
        if core::mem::take(&mut self.receive_armed) {
            self.receive.set_sleeps(false);
        }
    }

    fn disarm_transmit(&mut self) {
        if core::mem::take(&mut self.transmit_armed) {
            self.transmit.set_sleeps(false);
        }
    }

    /// Puts one packet into the `i`-th free slot of the transmit ring.
    #[inline]
    fn fill(&mut self, pool: &mut Pool, i: u32, packet: Packet) -> Result<(), Packet> {
        let spent = self.transmit.peek(i).buffer;
        let (buffer, offset, len) = pool.surrender(packet)?;
        self.transmit.fill(
            i,
            Slot {
                offset,
                len,
                ..Slot::spent(buffer)
            },
        );
        // SAFETY: the slot held this buffer and holds another now, so it has no other user.
        unsafe { pool.reclaim(spent) };
        Ok(())
    }

    /// Takes the whole frame out of the `i`-th filled slot in exchange for a spare buffer. `None` if
    /// the pool has none.
    #[inline]
    fn take(&mut self, pool: &mut Pool, i: u32, slot: Slot) -> Option<Option<Packet>> {
        let spare = pool.spare()?;
        // SAFETY: the slot's buffer is replaced before the slot is released.
        let packet = unsafe { pool.adopt(slot.buffer, slot.offset.into(), slot.len.into()) };
        match packet {
            Some(_) => self.receive.replace(i, spare),
            // SAFETY: `spare` came from the pool and was not used.
            None => unsafe { pool.reclaim(spare) },
        }
        Some(packet)
    }
}

impl<R: Fn() + Send> Device for Netfront<R> {
    fn mac(&self) -> [u8; 6] {
        // A copy of a guest may have another.
        let interface = self.region.interface(self.index);
        interface.unwrap_or(self.interface).mac
    }

    fn mtu(&self) -> usize {
        self.interface.mtu.into()
    }

    fn settles(&self) -> Option<u8> {
        let settles = self.region.settles(self.index);
        u8::try_from(self.index).ok().filter(|_| settles)
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize) {
        let most = batch.len() + most.min(batch.room());
        // The host does not break its own rings. A broken ring counts as empty.
        let filled = self.receive.filled(most as u32).unwrap_or(0);
        let mut taken = 0;
        while taken < filled && batch.len() < most && self.segmenting.is_none() {
            let slot = self.receive.peek(taken);
            let (packet, slots) = if slot.flags & (flags::OFFLOADED | flags::MESSAGE) == 0 {
                let Some(packet) = self.take(pool, taken, slot) else {
                    break;
                };
                (packet, 1)
            } else {
                let Some(taken) = self.take_extended(pool, taken, filled, slot) else {
                    break;
                };
                taken
            };
            taken += slots;
            if let Some(packet) = packet {
                packet.prefetch();
                if let Err(packet) = batch.push(packet) {
                    pool.kill(packet);
                }
            }
        }
        if taken > 0 {
            self.disarm_receive();
            self.receive.release(taken);
            if self.receive.take_producer_sleeper().is_some() {
                (self.ring_switch)();
            }
        }
        if self.segmenting.is_some() {
            self.segment(pool, batch, most);
        }
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let room = self.transmit.free(batch.len() as u32).unwrap_or(0) as usize;
        let mut rest = Batch::new();
        if room < batch.len() {
            let mut first = Batch::new();
            first.append(batch, room);
            rest.append(batch, packet::BATCH);
            core::mem::swap(batch, &mut first);
        }
        self.wanted = 1;
        let (mut filled, mut back) = (0, Batch::new());
        let mut packets = batch.drain();
        while let Some(packet) = packets.next() {
            if packet.settles() {
                filled = self.fill_others(pool, filled, packet, &mut packets, &mut back);
                break;
            }
            match self.fill(pool, filled, packet) {
                Ok(()) => filled += 1,
                Err(packet) => {
                    filled = self.fill_others(pool, filled, packet, &mut packets, &mut back);
                    break;
                }
            }
        }
        drop(packets);
        batch.append(&mut back, packet::BATCH);
        batch.append(&mut rest, packet::BATCH);
        if filled > 0 {
            self.disarm_transmit();
            self.transmit.publish(filled);
            // One doorbell until the switch is awake: under KVM each is an exit.
            if self.transmit.take_consumer_sleeper().is_some() {
                (self.ring_switch)();
            }
        }
    }

    fn room(&mut self) -> usize {
        let free = self.transmit.free(self.wanted).unwrap_or(0);
        if free < self.wanted { 0 } else { free as usize }
    }

    fn take_segments(&mut self, accepts_segments: bool) {
        self.accepts_segments = accepts_segments;
        let word = if accepts_segments {
            accepts::SEGMENTS
        } else {
            0
        };
        self.region.set_accepts(self.index, word);
    }

    fn arm_receive(&mut self, thread: u16) -> bool {
        self.receive_armed = true;
        self.receive.set_sleeper(Some(thread.into()));
        !self.has_received()
    }

    fn arm_transmit(&mut self, thread: u16) -> bool {
        self.transmit_armed = true;
        self.transmit.set_sleeper(Some(thread.into()));
        self.room() == 0
    }

    fn has_received(&mut self) -> bool {
        self.segmenting.is_some() || self.receive.filled(1).unwrap_or(0) > 0
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicU32, Ordering};

    use abi::PAGE;
    use abi::region::Geometry;

    use super::*;

    static RUNG: AtomicU32 = AtomicU32::new(0);

    pub(super) struct Wire {
        pub(super) region: Region,
        pub(super) pool: Pool,
        _not_sync: Cell<()>,
    }

    pub(super) fn wire() -> Wire {
        let geometry = Geometry::new(64, 2).unwrap();
        let layout = core::alloc::Layout::from_size_align(geometry.bytes(), PAGE).unwrap();
        // SAFETY: the size is not zero; the memory is never freed.
        let base = NonNull::new(unsafe { alloc::alloc::alloc_zeroed(layout) }).unwrap();
        let interfaces = [
            Interface::new("inside", [2, 0, 0, 0, 0, 1], 1500).unwrap(),
            Interface::new("outside", [2, 0, 0, 0, 0, 2], 1500).unwrap(),
        ];
        // SAFETY: aligned, long enough, and without another user.
        let region = unsafe { Region::format(base, geometry, &interfaces) }.unwrap();
        let (count, first) = (
            geometry.buffers() as usize,
            geometry.ring_buffers() as usize,
        );
        // SAFETY: the pool of this region, never freed.
        let pool = unsafe { Pool::region(region.pool(), count, first) };
        Wire {
            region,
            pool,
            _not_sync: Cell::new(()),
        }
    }

    fn arrive(region: &Region, producer: &mut Producer, data: &[u8]) {
        assert!(producer.free(1).unwrap() > 0);
        let spent = producer.peek(0).buffer;
        region
            .receive_buffer(spent, data.len())
            .unwrap()
            .write(data);
        let slot = Slot {
            offset: abi::region::RECEIVE_OFFSET as u16,
            len: data.len() as u16,
            ..Slot::spent(spent)
        };
        producer.fill(0, slot);
        producer.publish(1);
    }

    #[test]
    fn a_frame_crosses_from_ring_to_ring_without_a_copy() {
        let Wire {
            region, mut pool, ..
        } = wire();
        let free = pool.outstanding();
        // SAFETY: each end is opened once.
        let (mut inside, mut outside) = unsafe {
            (
                Netfront::open(&region, 0, || {}).unwrap(),
                Netfront::open(&region, 1, || {}).unwrap(),
            )
        };
        // SAFETY: as above.
        let (mut to_guest, mut from_guest) =
            unsafe { (region.receive_producer(0), region.transmit_consumer(1)) };
        for round in 0..1000u32 {
            let buffer = to_guest.peek(0).buffer;
            arrive(&region, &mut to_guest, &round.to_be_bytes());
            let mut batch = Batch::new();
            inside.receive(&mut pool, &mut batch, 64);
            assert_eq!(batch.as_slice()[0].data(), round.to_be_bytes());
            outside.transmit(&mut pool, &mut batch);
            assert!(batch.is_empty());
            assert_eq!(from_guest.filled(1).unwrap(), 1);
            let slot = from_guest.peek(0);
            assert_eq!(slot.buffer, buffer, "the very buffer came through");
            let mut data = [0; 4];
            region.frame(slot).unwrap().read(&mut data);
            assert_eq!(data, round.to_be_bytes());
            from_guest.replace(0, slot.buffer);
            from_guest.release(1);
        }
        assert_eq!(pool.outstanding(), free, "no buffer was lost");
    }

    #[test]
    fn what_finds_no_room_stays_in_the_batch() {
        let Wire {
            region, mut pool, ..
        } = wire();
        // SAFETY: opened once.
        let mut device = unsafe { Netfront::open(&region, 0, || {}) }.unwrap();
        for sent in [64, 0] {
            let mut batch = Batch::new();
            for i in 0..64u8 {
                batch.push(pool.copy(&[i; 60]).unwrap()).unwrap();
            }
            device.transmit(&mut pool, &mut batch);
            assert_eq!(batch.len(), 64 - sent);
            pool.recycle(&mut batch);
        }
        assert_eq!(device.room(), 0);
    }

    #[test]
    fn a_sleeping_switch_is_rung_once_and_a_waking_one_is_not() {
        let Wire {
            region, mut pool, ..
        } = wire();
        let ring = || {
            RUNG.fetch_add(1, Ordering::Relaxed);
        };
        // SAFETY: opened once on either side.
        let (mut device, switch) = unsafe {
            (
                Netfront::open(&region, 0, ring).unwrap(),
                region.transmit_consumer(0),
            )
        };
        let (awake, asleep, as_before) = (Some(false), Some(true), None);
        for (sleeps, rings) in [
            (awake, 0),
            (asleep, 1),
            (as_before, 1),
            (asleep, 2),
            (awake, 2),
        ] {
            if let Some(sleeps) = sleeps {
                switch.set_sleeps(sleeps);
            }
            let mut batch = Batch::new();
            batch.push(pool.copy(&[0; 60]).unwrap()).unwrap();
            device.transmit(&mut pool, &mut batch);
            assert_eq!(RUNG.load(Ordering::Relaxed), rings);
        }
    }
}
