//! The VNIC: frames to and from the switch's port, by the rings of a data region, as a guest's.
//!
//! A frame is copied out of the region before it is looked at, as the switch may change what lies there, and is
//! assembled outside for the same reason.

use std::os::fd::OwnedFd;

use abi::region::BUFFER_STRIDE;
use abi::ring::{Slot, flags};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetFrame, EthernetProtocol};

use crate::sys::{self, RegionInterface};

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// The VNIC, as smoltcp has it.
pub(super) struct Vnic {
    /// The frame that was taken last.
    frame: Box<[u8; BUFFER_STRIDE]>,
    len: usize,
    /// Whether smoltcp has yet to take it.
    pending: bool,
    /// Slots of the receive ring that were taken and not given back.
    taken: u32,
    filled: u32,
    sender: Sender,
}

/// The sending side.
struct Sender {
    rings: RegionInterface,
    doorbell: OwnedFd,
    mtu: u16,
    frame: Box<[u8; BUFFER_STRIDE]>,
    /// Filled slots that are not published.
    put: u32,
    /// Slots known to be free, those filled among them.
    free: u32,
    /// Frames that were sent, requests for a neighbour's address left out.
    sent: u64,
}

impl Vnic {
    pub fn new(rings: RegionInterface, doorbell: OwnedFd, mtu: u16) -> Vnic {
        Vnic {
            frame: Box::new([0; BUFFER_STRIDE]),
            len: 0,
            pending: false,
            taken: 0,
            filled: 0,
            sender: Sender {
                rings,
                doorbell,
                mtu: mtu.min((BUFFER_STRIDE - ETHERNET) as u16),
                frame: Box::new([0; BUFFER_STRIDE]),
                put: 0,
                free: 0,
                sent: 0,
            },
        }
    }

    /// Takes the next frame; `false`: there is none now.
    pub fn next(&mut self) -> bool {
        self.pending = false;
        loop {
            if self.taken == self.filled {
                self.release();
                // A switch that lies about its cursor sends nothing more.
                self.filled = self.sender.rings.receive.filled(1).unwrap_or(0);
                if self.filled == 0 {
                    return false;
                }
            }
            let slot = self.sender.rings.receive.peek(self.taken);
            self.taken += 1;
            // Frames of several slots come only to ports that ask for them.
            if slot.flags & flags::OFFLOADED == 0
                && let Ok(bytes) = self.sender.rings.region.frame(slot)
            {
                self.len = bytes.read(&mut self.frame[..]);
                self.pending = true;
                return true;
            }
        }
    }

    /// The frame that was taken last.
    pub fn frame(&self) -> &[u8] {
        &self.frame[..self.len]
    }

    fn release(&mut self) {
        self.sender.rings.receive.release(self.taken);
        self.filled -= self.taken;
        self.taken = 0;
    }

    /// Shows the switch what was sent, and gives slots back.
    pub fn flush(&mut self) {
        if self.taken > 0 {
            self.release();
        }
        self.sender.flush();
    }

    /// Whether there is room for a frame.
    pub fn has_room(&mut self) -> bool {
        self.sender.has_room()
    }

    /// Frames that were sent, requests for a neighbour's address left out.
    pub fn sent(&self) -> u64 {
        self.sender.sent
    }

    /// Announces that the NSM is about to wait, for frames and, if it is `blocked`, for room; `false`: do not.
    pub fn sleep(&mut self, blocked: bool) -> bool {
        let rings = &mut self.sender.rings;
        rings.receive.set_sleeps(true);
        rings.transmit.set_sleeps(blocked);
        let frames = rings.receive.filled(1).unwrap_or(0) > 0;
        let room = blocked && rings.transmit.free(1).unwrap_or(0) > 0;
        if frames || room {
            self.awake();
        }
        !frames && !room
    }

    /// Ends a [`sleep`](Self::sleep).
    pub fn awake(&mut self) {
        self.sender.rings.receive.set_sleeps(false);
        self.sender.rings.transmit.set_sleeps(false);
    }
}

impl Sender {
    fn has_room(&mut self) -> bool {
        if self.free == self.put {
            self.free = self.rings.transmit.free(self.put + 1).unwrap_or(self.put);
        }
        self.free > self.put
    }

    fn flush(&mut self) {
        if self.put > 0 {
            self.rings.transmit.publish(self.put);
            self.free -= self.put;
            self.put = 0;
            if self.rings.transmit.consumer_sleeps() {
                sys::wake(&self.doorbell);
            }
        }
    }

    fn send(&mut self, len: usize) {
        if !self.has_room() {
            return;
        }
        let slot = Slot {
            len: len as u16,
            ..Slot::spent(self.rings.transmit.peek(self.put).buffer)
        };
        // A buffer that the pool does not have is the switch's doing; its slot goes on empty.
        let filled = match self.rings.region.frame(slot) {
            Ok(bytes) => {
                bytes.write(&self.frame[..len]);
                slot
            }
            Err(_) => Slot::spent(slot.buffer),
        };
        self.rings.transmit.fill(self.put, filled);
        self.put += 1;
        if !asks_for_neighbour(&self.frame[..len]) {
            self.sent += 1;
        }
    }
}

/// Whether a frame asks where a neighbour is: ARP, or a Neighbor Solicitation (RFC 4861, 4.3).
fn asks_for_neighbour(frame: &[u8]) -> bool {
    const ICMPV6: u8 = 58;
    const SOLICITATION: u8 = 135;
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else {
        return false;
    };
    let payload = ethernet.payload();
    match ethernet.ethertype() {
        EthernetProtocol::Arp => true,
        EthernetProtocol::Ipv6 => {
            payload.get(6) == Some(&ICMPV6) && payload.get(40) == Some(&SOLICITATION)
        }
        _ => false,
    }
}

/// A frame or a packet that has come.
pub(super) struct Received<'a>(pub(super) &'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// A frame to be sent.
pub(super) struct Send<'a>(&'a mut Sender);

impl TxToken for Send<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        // smoltcp keeps to the MTU, which is shorter.
        let result = f(&mut self.0.frame[..len]);
        self.0.send(len);
        result
    }
}

impl Device for Vnic {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Send<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Send<'_>)> {
        let pending = std::mem::take(&mut self.pending);
        pending.then(|| (Received(&self.frame[..self.len]), Send(&mut self.sender)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Send<'_>> {
        self.sender.has_room().then_some(Send(&mut self.sender))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(self.sender.mtu) + ETHERNET;
        capabilities
    }
}
