extern crate std;

use std::alloc::{Layout, alloc_zeroed, dealloc};

use proptest::prelude::*;

use super::*;

/// A region in memory of the test's own.
struct Memory {
    region: Region,
    layout: Layout,
}

impl Memory {
    fn new(geometry: Geometry) -> Memory {
        let layout = Layout::from_size_align(geometry.bytes(), PAGE).unwrap();
        // SAFETY: the size is never 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        let interfaces: std::vec::Vec<Interface> = (0..geometry.interfaces())
            .map(|i| Interface::new(&std::format!("eth{i}"), [2, 0, 0, 0, 0, i as u8], 1500))
            .map(Option::unwrap)
            .collect();
        // SAFETY: aligned, long enough, and freed only in `drop`.
        let region = unsafe { Region::format(base, geometry, &interfaces) }.unwrap();
        Memory { region, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.region.base.as_ptr(), self.layout) };
    }
}

#[test]
fn a_fresh_region_opens_with_its_geometry_and_descriptors() {
    let geometry = Geometry::new(64, 3).unwrap();
    let memory = Memory::new(geometry);
    // SAFETY: the memory outlives the region.
    let region = unsafe { Region::open(memory.region.base, geometry.bytes()) }.unwrap();
    assert_eq!(region.geometry(), geometry);
    let second = region.interface(1).unwrap();
    assert_eq!(second.name(), "eth1");
    assert_eq!(second.mac, [2, 0, 0, 0, 0, 1]);
    assert_eq!(second.mtu, 1500);
    assert!(region.interface(3).is_none());
}

#[test]
fn the_rings_of_a_fresh_region_hold_each_buffer_once() {
    let geometry = Geometry::new(128, 2).unwrap();
    let memory = Memory::new(geometry);
    let mut held = std::vec::Vec::new();
    for i in 0..2 {
        // SAFETY: each side is opened once.
        let (mut rx, mut tx) = unsafe {
            (
                memory.region.receive_producer(i),
                memory.region.transmit_producer(i),
            )
        };
        assert_eq!(rx.free(1), Ok(128));
        assert_eq!(tx.free(1), Ok(128));
        held.extend((0..128).flat_map(|s| [rx.peek(s).buffer, tx.peek(s).buffer]));
    }
    held.sort_unstable();
    assert!(held.into_iter().eq(0..geometry.ring_buffers()));
}

#[test]
fn what_a_guest_takes_is_said_for_each_interface() {
    let memory = Memory::new(Geometry::new(64, INTERFACES_MAX).unwrap());
    let region = &memory.region;
    assert!((0..INTERFACES_MAX).all(|i| region.accepts(i) == 0));
    region.set_accepts(INTERFACES_MAX - 1, accepts::SEGMENTS);
    region.set_accepts(INTERFACES_MAX, accepts::SEGMENTS);
    assert_eq!(region.accepts(INTERFACES_MAX - 1), accepts::SEGMENTS);
    assert!((0..INTERFACES_MAX - 1).all(|i| region.accepts(i) == 0));
    assert_eq!(region.accepts(INTERFACES_MAX), 0);
    region.set_settles(1, true);
    region.set_settles(INTERFACES_MAX, true);
    assert!((0..=INTERFACES_MAX).all(|i| region.settles(i) == (i == 1)));
    region.set_settles(1, false);
    assert!(!region.settles(1));
    let last = region.interface(INTERFACES_MAX - 1).unwrap();
    assert_eq!(last.name(), "eth31");
}

#[test]
fn memory_that_is_no_region_is_refused() {
    let geometry = Geometry::new(64, 1).unwrap();
    let memory = Memory::new(geometry);
    let base = memory.region.base;
    // SAFETY: the memory outlives the regions.
    unsafe {
        assert!(Region::open(base, PAGE - 1).is_err());
        assert!(Region::open(base, geometry.bytes() - PAGE).is_err());
        base.cast::<u64>().write(0);
        assert!(Region::open(base, geometry.bytes()).is_err());
    }
}

proptest! {
    #[test]
    fn a_slot_names_bytes_inside_the_pool_or_nothing(
        buffer in any::<u32>(), near in 0u32..1024, use_near in any::<bool>(),
        offset in any::<u16>(), len in any::<u16>(),
    ) {
        let geometry = Geometry::new(64, 1).unwrap();
        let memory = Memory::new(geometry);
        let buffer = if use_near { near } else { buffer };
        let slot = Slot { offset, len, ..Slot::spent(buffer) };
        let inside = buffer < geometry.buffers()
            && usize::from(offset) + usize::from(len) <= BUFFER_STRIDE;
        match memory.region.frame(slot) {
            Ok(bytes) => {
                prop_assert!(inside);
                let start = bytes.start.as_ptr() as usize - memory.region.base.as_ptr() as usize;
                prop_assert!(start >= geometry.pool());
                prop_assert!(start + bytes.len() <= geometry.bytes());
            }
            Err(_) => prop_assert!(!inside),
        }
    }

    #[test]
    fn arrays_are_read_and_written_where_slices_would_be(
        at in 0usize..80, len in 0u16..80, fill in any::<[u8; 16]>(),
    ) {
        let memory = Memory::new(Geometry::new(64, 1).unwrap());
        let slot = Slot { offset: 100, len, ..Slot::spent(7) };
        let bytes = memory.region.frame(slot).unwrap();
        let fits = at + 16 <= usize::from(len);
        prop_assert_eq!(bytes.write_array(at, &fill), fits);
        prop_assert_eq!(bytes.read_array::<16>(at), fits.then_some(fill));
        let mut copy = [0; 16];
        if fits {
            bytes.skip(at).read(&mut copy);
            prop_assert_eq!(copy, fill);
        }
    }

    #[test]
    fn a_copy_is_the_same_after_any_requests_on_the_way(
        from in 0u16..400, len in 0u16..400, room in 0u16..400, later in 0u16..400,
    ) {
        let memory = Memory::new(Geometry::new(64, 1).unwrap());
        let part = |buffer, offset, len| {
            memory.region.frame(Slot { offset, len, ..Slot::spent(buffer) }).unwrap()
        };
        let all: [u8; 400] = core::array::from_fn(|i| i as u8);
        part(1, from, len).write(&all);
        let copied = (len.min(room)).into();
        let next = (part(3, 0, later), part(4, 1, 300));
        prop_assert_eq!(part(1, from, len).copy_to_before(&part(2, 5, room), next), copied);
        let mut there = [0; 401];
        part(2, 5, 401).read(&mut there);
        prop_assert_eq!(&there[..copied], &all[..copied]);
        prop_assert!(there[copied..].iter().all(|byte| *byte == 0));
    }
}
