//! The host's side of a control region in which a guest wrote anything: console, answers, state and
//! requests to the control store are bounded.
#![no_main]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use abi::PAGE;
use abi::control::{CONSOLE_BYTES, MESSAGE_MAX, REGION_BYTES, Region};
use abi::message::{PAYLOAD_MAX, receive};
use abi::store::RING_BYTES;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let layout = Layout::from_size_align(REGION_BYTES, PAGE).expect("a layout");
    // SAFETY: the size is not zero. ASAN watches the region's ends.
    let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
    let scribble = || {
        for at in 0..REGION_BYTES {
            if let Some(byte) = data.get(at % data.len().max(1)) {
                // SAFETY: inside the region.
                unsafe { base.add(at).write(*byte) };
            }
        }
    };
    {
        // SAFETY: aligned, long enough, and used in this block only.
        let channel = unsafe { Region::new(base) }.store();
        let mut store = channel.connect();
        channel.guest().look();
        assert!(!store.has_requests());
        scribble();
        let mut bytes = [0; 2 * RING_BYTES];
        for _ in 0..16 {
            let read = store.read(&mut bytes).unwrap_or(0);
            let written = store.write(&bytes).unwrap_or(0);
            assert!(read <= RING_BYTES && written <= RING_BYTES);
            store.set_waits(read == 0);
        }
    }
    scribble();
    {
        // SAFETY: aligned, long enough, and used in this block only.
        let region = unsafe { Region::new(base) };
        let mut message = [0; MESSAGE_MAX];
        assert!(region.message(&mut message).len() <= MESSAGE_MAX);
        let _ = (region.state(), region.place(0), region.heartbeat(0));
        let mut console = region.console().consumer();
        if let Ok(length) = console.available() {
            assert!(length <= CONSOLE_BYTES);
            let mut text = vec![0; length];
            let _ = console.read(&mut text);
        }
        let mut answers = region.answers().consumer();
        let mut payload = [0; PAYLOAD_MAX];
        for _ in 0..1024 {
            match receive(&mut answers, &mut payload) {
                Ok(Some(header)) => assert!(header.length as usize <= PAYLOAD_MAX),
                _ => break,
            }
        }
    }
    // SAFETY: allocated above with this layout, and no longer used.
    unsafe { dealloc(base.as_ptr(), layout) };
});
