//! A host interface's port: an AF_PACKET socket, many frames a system call in both directions. A port
//! that several lanes serve has a group of sockets, over which the kernel spreads flows.
//!
//! AF_PACKET's rings were measured and are not used. TPACKET_V3 delivers frames by the block, up to a
//! millisecond late. A transmit ring is no faster than `sendmmsg`. A V2 receive ring saves the lane
//! some 300 ns a frame and costs the sender half of that, but has no space for 64 KB segments.

use std::array;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags};

use super::backend::{Attachment, Backend, HostBackend, Kind, Outcome};
use super::gro::Gro;
use super::opening::{Interface, LinkError, Opened, SOCKET_QUEUE, refused};
use super::{BATCH, Batch, QUEUES_MAX, refusal};
use crate::counters::{PortCounters, Reason};
use crate::sys::packet as socket;

/// Fewest frames that are asked for at a time.
const FEW: usize = 8;

/// A raw socket on a host interface with virtio-net headers (see [`super::links::HostLink::attach`]).
pub struct PacketLink {
    socket: OwnedFd,
    mtu: u16,
    /// The interface went down and no frame has come since.
    down: bool,
    /// Frames that are asked for at a time: to ask for many where few come takes longer than they
    /// do.
    asks: usize,
}

impl PacketLink {
    /// A port on a bound packet socket; `mtu` is the interface's.
    pub fn new(socket: OwnedFd, mtu: u16) -> PacketLink {
        PacketLink {
            socket,
            mtu,
            down: false,
            asks: FEW,
        }
    }

    /// Sends all messages that the kernel takes. The kernel stops at a message that it refuses; the
    /// next call then begins with it, and returns its error.
    fn send_all(
        &mut self,
        messages: &mut [MMsgHdr<'_>],
        counters: &PortCounters,
        len: impl Fn(usize) -> u64,
    ) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        let (mut at, mut frames, mut bytes) = (0, 0, 0);
        while at < messages.len() {
            match rustix::net::sendmmsg(&self.socket, &mut messages[at..], SendFlags::DONTWAIT) {
                Ok(n) => {
                    frames += n as u64;
                    bytes += (at..at + n).map(&len).sum::<u64>();
                    at += n.max(1);
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    // A full queue takes none of the others either.
                    let all = matches!(error, Errno::AGAIN | Errno::NOBUFS);
                    let lost = if all { messages.len() - at } else { 1 };
                    let reason = refusal(error);
                    counters.dropped(reason.unwrap_or(Reason::Closed), lost as u64);
                    outcome.gone |= reason.is_none();
                    at += lost;
                }
            }
        }
        counters.went_out(frames, bytes);
        outcome
    }
}

impl HostBackend for PacketLink {
    type Record = ();

    fn attach((): (), link: Attachment<'_>) -> Result<Vec<PacketLink>, String> {
        let sockets = link.files.into_iter();
        Ok(sockets
            .map(|socket| PacketLink::new(socket, link.mtu))
            .collect())
    }
}

impl Kind for PacketLink {
    const UPLINK: bool = true;
    const INTERFACE: bool = true;
}

impl Backend for PacketLink {
    fn another_way(&self) -> Option<PacketLink> {
        let socket = self.socket.try_clone().ok()?;
        Some(PacketLink::new(socket, self.mtu))
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let asked = self.asks;
        let came = batch.stage.receive_many(self.socket.as_fd(), asked);
        self.asks = match came {
            Ok(all) if all == asked => (2 * asked).min(BATCH),
            Ok(some) if some >= asked / 4 => asked,
            _ => (asked / 2).max(FEW),
        };
        let n = match came {
            Ok(n) => n,
            Err(Errno::AGAIN) => return Outcome::NOTHING,
            // A frame that the virtio-net header cannot describe is gone with the error.
            Err(Errno::INVAL) => {
                counters.dropped(Reason::Offload, 1);
                return Outcome::BUSY;
            }
            Err(_) => {
                self.down = true;
                return Outcome::BUSY;
            }
        };
        self.down = false;
        for i in 0..n {
            let received = batch.stage.many.received(i);
            let frame = match received.truncated {
                true => Err(Reason::TooLong),
                false => batch.stage.take_in(i, received.len, received.tag),
            };
            match frame {
                Ok(frame) => batch.push(frame),
                Err(reason) => counters.dropped(reason, 1),
            }
        }
        Outcome::BUSY
    }

    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        let mut fitting = [0; BATCH];
        let mut n = 0;
        for &i in which.iter().take(BATCH) {
            if batch.fits(&batch.frames[usize::from(i)], self.mtu) {
                fitting[n] = i;
                n += 1;
            } else {
                counters.dropped(Reason::TooLong, 1);
            }
        }
        let which = &fitting[..n];
        batch.fill_outbox(which);
        let outgoing: [_; BATCH] = array::from_fn(|index| match index < n {
            true => batch.outgoing(which, index),
            false => (&[][..], [0; _]),
        });
        let parts: [_; BATCH] = array::from_fn(|index| {
            let (frame, vnet) = &outgoing[index];
            [IoSlice::new(vnet), IoSlice::new(frame)]
        });
        let mut controls: [_; BATCH] = array::from_fn(|_| SendAncillaryBuffer::default());
        let mut control = controls.iter_mut();
        let mut messages = parts.each_ref().map(|parts| {
            let control = control.next().expect("as many as there are parts");
            MMsgHdr::new(parts, control)
        });
        self.send_all(&mut messages[..n], counters, |index| {
            outgoing[index].0.len() as u64
        })
    }

    /// The kernel reports an interface that goes down, but not the removal of an interface that is
    /// down: see [`is_gone`](Self::is_gone).
    fn is_down(&self) -> bool {
        self.down
    }

    fn is_gone(&self) -> bool {
        !socket::is_bound(self.socket.as_fd())
    }

    fn catch_up(&mut self, counters: &PortCounters) {
        let lost = socket::drops(self.socket.as_fd());
        if lost > 0 {
            counters.dropped(Reason::SocketFull, lost);
        }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }
}

/// Attaches an interface with a socket for each lane, over which the kernel spreads flows.
pub(super) fn open(interface: &Interface<'_>, lanes: usize) -> Result<Opened<()>, LinkError> {
    let sockets = lanes.clamp(1, QUEUES_MAX as usize);
    let files = socket::open(interface.index, SOCKET_QUEUE, sockets)
        .map_err(|source| refused("attach", interface.name, source))?;
    Ok(Opened {
        record: (),
        name: interface.name.into(),
        mtu: interface.mtu,
        files,
        mac: interface.mac,
        gro: Gro::turn_on(interface.name),
    })
}
