//! A guest's side of one interface, for tests of a worker.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::region::{Geometry, Interface};
use abi::ring::Slot;
use rustix::event::EventfdFlags;

use crate::memory::{GuestSide, SharedRegion};
use crate::port::Link;
use crate::port::guest::GuestLink;

/// A guest that is attached as a port.
pub(crate) struct RingGuest<Port> {
    pub side: GuestSide,
    pub port: Port,
    /// The last byte of its address.
    pub mac: u8,
    doorbell: OwnedFd,
}

impl<Port> RingGuest<Port> {
    /// A guest with rings of so many slots. `attach` gets its link and its doorbell.
    pub fn new(mac: u8, slots: u32, attach: impl FnOnce(Link, OwnedFd) -> Port) -> Self {
        let geometry = Geometry::new(slots, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, mac], 1500).unwrap();
        let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
        let region = Arc::new(region);
        let link = GuestLink::new(region.switch_side(0).unwrap(), 1500).behind_first_lap();
        let link = Link::Guest(link);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = rustix::event::eventfd(0, flags).unwrap();
        RingGuest {
            side: region.guest_side(0).unwrap(),
            port: attach(link, doorbell.try_clone().unwrap()),
            mac,
            doorbell,
        }
    }

    /// A frame to another guest with a number in it.
    pub fn frame(&self, to: u8, number: u32, len: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, self.mac, 0x88, 0xb5];
        frame.extend(number.to_be_bytes());
        frame.resize(len, number as u8);
        frame
    }

    /// Sends one frame. Returns whether the ring had a slot for it.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        if self.side.transmit.free(1) == Ok(0) {
            return false;
        }
        let slot = Slot {
            len: bytes.len() as u16,
            ..Slot::spent(self.side.transmit.peek(0).buffer)
        };
        self.side.region.frame(slot).unwrap().write(bytes);
        self.side.transmit.fill(0, slot);
        self.side.transmit.publish(1);
        if self.side.transmit.consumer_sleeps() {
            self.ring();
        }
        true
    }

    /// Rings its doorbell.
    pub fn ring(&self) {
        rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
    }

    /// Makes it ring another doorbell than its own from now on.
    pub fn rings(&mut self, doorbell: impl AsFd) {
        self.doorbell = doorbell.as_fd().try_clone_to_owned().unwrap();
    }

    /// The frames that have come.
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        let n = self.side.receive.filled(u32::MAX).unwrap();
        let frames = (0..n).map(|i| {
            let bytes = self.side.region.frame(self.side.receive.peek(i)).unwrap();
            let mut frame = vec![0; bytes.len()];
            bytes.read(&mut frame);
            frame
        });
        let frames = frames.collect();
        self.side.receive.release(n);
        frames
    }
}
