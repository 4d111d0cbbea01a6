//! The switch's side of a data region in which a guest wrote anything: cursors and slots are
//! bounded, and nothing outside the region is read or written.
#![no_main]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use abi::PAGE;
use abi::chain::{self, follow};
use abi::region::{FRAME_MAX, Geometry, Region};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let geometry = Geometry::new(64, 2).expect("a geometry");
    let layout = Layout::from_size_align(geometry.bytes(), PAGE).expect("a layout");
    // SAFETY: the size is not zero. ASAN watches the region's ends.
    let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
    // The input fills the header and the rings, again and again if it is short.
    for at in 0..geometry.pool() {
        if let Some(byte) = data.get(at % data.len().max(1)) {
            // SAFETY: inside the region.
            unsafe { base.add(at).write(*byte) };
        }
    }
    // SAFETY: aligned, long enough, and alive until the end of this function.
    let region = unsafe { Region::adopt(base, geometry) };
    for i in 0..=geometry.interfaces() {
        let _ = region.accepts(i);
    }
    for i in 0..geometry.interfaces() {
        // SAFETY: each end is opened once.
        let (mut receive, mut transmit) =
            unsafe { (region.receive_producer(i), region.transmit_consumer(i)) };
        let mut copy = [0; FRAME_MAX];
        if let Ok(filled) = transmit.filled(64) {
            assert!(filled <= 64);
            let mut at = 0;
            while at < filled {
                let mut bytes = 0;
                let mut read = |slot| {
                    if let Ok(frame) = region.frame(slot) {
                        bytes += frame.read(&mut copy);
                        let _ = frame.read_array::<64>(0);
                    }
                };
                let first = transmit.peek(at);
                read(first);
                let slots = match follow(&transmit, at, filled, first, read) {
                    Ok(slots) => {
                        assert!(bytes <= chain::BYTES.max(FRAME_MAX));
                        slots
                    }
                    Err(broken) => broken.slots,
                };
                assert!((1..=chain::SLOTS).contains(&slots) && slots <= filled - at);
                at += slots;
            }
            transmit.release(filled);
        }
        if let Ok(free) = receive.free(64) {
            assert!(free <= 64);
            for s in 0..free {
                let slot = receive.peek(s);
                if let Ok(room) = region.receive_buffer(slot.buffer, copy.len()) {
                    room.write(&copy);
                }
                if let Ok(room) = region.part_buffer(slot.buffer, copy.len()) {
                    room.write(&copy);
                }
                receive.fill(s, slot);
            }
            receive.publish(free);
        }
    }
    // SAFETY: allocated above with this layout, and no longer used.
    unsafe { dealloc(base.as_ptr(), layout) };
});
