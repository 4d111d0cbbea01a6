//! An interface of the host as a device of a router: what FromNetfront and ToNetfront use outside of guests.

use nix::errno::Errno;

use super::packet_socket::{Direction, PacketSocket, Received, Wish};
use crate::prelude::*;

/// Most bytes of a frame. Longer ones, which the kernel puts together with GRO, are dropped: it is to be off.
const FRAME_MAX: usize = 9216 + 22;

/// A side of an interface.
pub struct HostInterface {
    socket: PacketSocket,
    mac: [u8; 6],
    /// Frames that were received with others in one call.
    ahead: VecDeque<Received>,
}

impl HostInterface {
    /// Opens a side of the interface called `name`. An error is a sentence without the name.
    pub fn open(name: &str, side: Side) -> Result<HostInterface, String> {
        let direction = match side {
            Side::Receive => Direction::Receive,
            Side::Transmit => Direction::Send,
        };
        let socket = PacketSocket::open(name, direction)?;
        if side == Side::Receive {
            socket.ignore_outgoing()?;
            // Frames for others pass through wires and switches.
            socket.set_promiscuous()?;
        }
        let address = super::packet_socket::link_address(name).and_then(|it| it.addr());
        Ok(HostInterface {
            socket,
            mac: address.ok_or("it has no Ethernet address")?,
            ahead: VecDeque::new(),
        })
    }
}

impl Device for HostInterface {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The kernel refuses frames that are too long for the interface.
    fn mtu(&self) -> usize {
        FRAME_MAX - 22
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize) {
        let wish = Wish {
            snaplen: FRAME_MAX,
            headroom: HEADROOM,
            outbound: false,
        };
        let end = (batch.len() + most).min(BATCH);
        while batch.len() < end {
            let Some(received) = self.ahead.pop_front() else {
                // An error is that of an interface that is down or gone: there are no frames.
                let _ = self.socket.receive(pool, &wish, &mut self.ahead);
                if self.ahead.is_empty() {
                    return;
                }
                continue;
            };
            let is_whole = received.length <= received.packet.len();
            match batch.push(received.packet) {
                Err(packet) => pool.kill(packet),
                Ok(()) if is_whole => {}
                Ok(()) => batch.pop().into_iter().for_each(|packet| pool.kill(packet)),
            }
        }
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let mut sent = Batch::new();
        while !batch.is_empty() {
            let count = match self.socket.send(batch.iter()) {
                Ok(count) => count,
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => break,
                // The kernel does not take the first one.
                Err(_) => 1,
            };
            sent.append(batch, count);
            sent.drain().for_each(|packet| pool.kill(packet));
        }
    }

    fn room(&mut self) -> usize {
        BATCH
    }

    fn arm_transmit(&mut self, _thread: u16) -> bool {
        // The kernel says only by the next attempt whether there is room.
        false
    }

    fn descriptor(&self) -> Option<i32> {
        Some(self.socket.fd())
    }

    fn has_received(&mut self) -> bool {
        !self.ahead.is_empty()
    }
}
