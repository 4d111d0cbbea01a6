//! The data path allocates nothing: while frames flow, no lane's thread allocates. That holds with
//! limited, delayed, tagged and patched ports, with limited flows, and with any number of new
//! addresses.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use abi::ring::Slot;
use common::attach_to_lanes;
use switch::lanes::{Lanes, Options};
use switch::memory::GuestSide;
use switch::protocol::{FlowOn, PatchEnd, PortId};

/// The system's allocator, counting what other threads than the test's own allocate.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_TEST: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if !IS_TEST.try_with(Cell::get).unwrap_or(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: all is the system allocator's; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Guest {
    side: GuestSide,
    doorbell: OwnedFd,
    port: PortId,
    mac: u8,
}

fn guest(lanes: &mut Lanes, mac: u8, domain: u32, properties: &str) -> Guest {
    let (macs, properties) = ([[2, 0, 0, 0, 0, mac]], properties.parse().unwrap());
    let (region, doorbell, ports) = attach_to_lanes(lanes, 64, &macs, domain, &properties);
    Guest {
        side: region.guest_side(0).unwrap(),
        doorbell,
        port: ports[0],
        mac,
    }
}

impl Guest {
    /// Sends a UDP packet if a slot is free: to a guest, from an address by a number, to a port.
    fn send(&mut self, to: u8, source: u16, port: u8, len: usize) {
        if self.side.transmit.free(1) == Ok(0) {
            return;
        }
        let mut frame = [0; 1514];
        let [high, low] = source.to_be_bytes();
        let head = [
            [2, 0, 0, 0, 0, to, 2, 0, 0, high, low, self.mac],
            [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17],
            [0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9],
            [0, port, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        frame[..48].copy_from_slice(head.as_flattened());
        if to == 0xff {
            frame[..6].fill(0xff);
        }
        let slot = Slot {
            len: len as u16,
            ..Slot::spent(self.side.transmit.peek(0).buffer)
        };
        self.side.region.frame(slot).unwrap().write(&frame[..len]);
        self.side.transmit.fill(0, slot);
        self.side.transmit.publish(1);
        if self.side.transmit.consumer_sleeps() {
            rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
        }
    }

    /// Frees the slots of what has come. Returns how many frames.
    fn receive(&mut self) -> u32 {
        let n = self.side.receive.filled(u32::MAX).unwrap();
        self.side.receive.release(n);
        n
    }
}

fn main() {
    IS_TEST.set(true);
    let options = Options {
        lanes: 2,
        cpus: Vec::new(),
    };
    let (mut lanes, _counters) = Lanes::start(&options).unwrap();
    let mut guests: Vec<_> = (1..)
        .zip([
            (0, "cpus=0"),
            (0, "cpus=1"),
            (0, "cpus=0,maxbw=30M"),
            (0, "cpus=1,delay=1ms,jitter=100us,loss=1%"),
            (0, "cpus=0,vlan=7"),
            (0, "cpus=1,vlan=7,maxbw=20M"),
            // In domains without limits.
            (1, "cpus=0"),
            (1, "cpus=0"),
            (1, "cpus=1"),
        ])
        .map(|(mac, (domain, properties))| guest(&mut lanes, mac, domain, properties))
        .collect();
    let end = |domain: u32, properties: &str| PatchEnd {
        name: format!("end{domain}"),
        domain,
        properties: properties.parse().unwrap(),
    };
    let ends = [end(0, ""), end(1, "")];
    lanes.attach_patch(ends).unwrap();
    for (name, port, properties) in [("slow", 7, "maxbw=1M"), ("first", 8, "priority=high")] {
        let attributes = format!("transport=udp,remote_port={port}");
        let on = FlowOn::Port(guests[0].port);
        let (attributes, properties) = (attributes.parse().unwrap(), properties.parse().unwrap());
        lanes.add_flow(name, on, attributes, properties).unwrap();
    }
    // All lanes have done all jobs when they have done this one.
    lanes.catch_up(0);

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(4);
    let (mut number, mut received) = (0u16, 0);
    while Instant::now() < until {
        for guest in &mut guests {
            number = number.wrapping_add(1);
            let to = [2, 3, 4, 6, 9, 1, 0xff, 200, 8, 7][usize::from(number) % 10];
            // Some addresses that are never seen again, some that are.
            let source = if number % 4 == 0 { number } else { 0 };
            let port = 6 + (number / 10 % 4) as u8;
            let len = if number % 3 == 0 { 1514 } else { 60 };
            guest.send(to, source, port, len);
        }
        // Some rings are full for a while.
        if number / 1024 % 4 != 3 {
            received += guests.iter_mut().map(Guest::receive).sum::<u32>();
        }
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let stats = lanes.stats();
    println!("{received} frames, {stats:?}");
    assert!(received > 2_000, "frames flow");
    assert!(stats.iter().all(|lane| lane.handoffs > 0), "between lanes");
    assert_eq!(allocations, 0, "allocations on lanes");
    println!("no lane has allocated anything");
}
