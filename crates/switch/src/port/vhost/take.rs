//! Frames that a driver sends: taken out of its transmit queues.

use abi::SharedBytes;
use abi::region::BUFFER_STRIDE;

use super::device::HEADER_MAX;
use super::memory::Memory;
use super::queue::Virtqueue;
use super::rings::{Broken, Head, flags};
use super::{Scratch, VhostLink};
use crate::counters::{PortCounters, Reason};
use crate::port::guest::snapshot;
use crate::port::offload::{ETHERNET, VnetHeader, checksum_of};
use crate::port::{Batch, Body};

/// A buffer that the driver gave to be read.
#[derive(Clone, Copy)]
pub(super) enum Given {
    /// The header, and the whole frame in one piece.
    Plain(SharedBytes, SharedBytes),
    /// Anything else.
    Pieces,
    /// It breaks the rules.
    Broken(Broken),
}

impl VhostLink {
    /// Takes up to a batch out of a transmit queue. Returns whether there was anything.
    pub(super) fn take(
        &mut self,
        batch: &mut Batch,
        index: usize,
        counters: &PortCounters,
    ) -> Result<bool, Broken> {
        let header_len = self.device.header_len();
        let Scratch { heads, given, .. } = &mut *self.scratch;
        let (queue, memory) = (&mut self.device.queues[index], &self.device.memory);
        let n = queue.peek(&mut heads[..batch.portion.frames as usize])?;
        let heads = &heads[..n];
        let Some(last) = heads.last() else {
            return Ok(false);
        };
        for (head, given) in heads.iter().zip(&mut *given) {
            *given = look(queue, head, memory, header_len);
            if let Given::Plain(_, frame) = given {
                frame.prefetch();
            }
        }
        for (i, (head, given)) in heads.iter().zip(given).enumerate() {
            let taken = match *given {
                Given::Plain(header, frame) => take_plain(batch, i, header, frame),
                Given::Pieces => take_pieces(batch, i, queue, head, memory, header_len)?,
                Given::Broken(broken) => return Err(broken),
            };
            match taken {
                Ok(()) => batch.frames[batch.len - 1].slot = i as u16,
                Err(reason) => counters.dropped(reason, 1),
            }
        }
        queue.take(last.after);
        self.taken = (index, n as u16);
        Ok(true)
    }
}

/// Finds out what a buffer to be read is.
#[inline(always)]
fn look(queue: &Virtqueue, head: &Head, memory: &Memory, header_len: usize) -> Given {
    if head.first.flags & (flags::NEXT | flags::INDIRECT) == 0 {
        return match Virtqueue::piece(&head.first, memory, false) {
            Ok(first) if first.len() > header_len => Given::Plain(first, first.skip(header_len)),
            Ok(_) => Given::Pieces,
            Err(broken) => Given::Broken(broken),
        };
    }
    if let Some([first, second]) = queue.pair(head, memory)
        && first.flags & flags::NEXT != 0
        && first.len as usize == header_len
        && second.flags & flags::NEXT == 0
        && let Ok(header) = Virtqueue::piece(&first, memory, false)
        && let Ok(frame) = Virtqueue::piece(&second, memory, false)
    {
        return Given::Plain(header, frame);
    }
    Given::Pieces
}

/// Takes a frame that is in one piece: as it is, if there is nothing left to do on it.
#[inline(always)]
fn take_plain(
    batch: &mut Batch,
    i: usize,
    header: SharedBytes,
    bytes: SharedBytes,
) -> Result<(), Reason> {
    let header = header.read_array(0).ok_or(Reason::Runt)?;
    let vnet = VnetHeader::parse(&header);
    if bytes.len() < ETHERNET {
        return Err(Reason::Runt);
    }
    if vnet.needs_checksum() || vnet.is_segmented() || bytes.len() > BUFFER_STRIDE {
        let room = batch.stage.room(i);
        let (front, rest) = room.split_at_mut(VnetHeader::LEN);
        front.copy_from_slice(&header);
        let len = bytes.read(rest);
        return match len == bytes.len() {
            true => take_staged(batch, i, len),
            false => Err(Reason::TooLong),
        };
    }
    if let Some(frame) = batch.frames.get_mut(batch.len) {
        frame.len = bytes.len() as u32;
        frame.body = Body::Guest(bytes);
        frame.vlan = 0;
        snapshot(&bytes, &mut frame.head);
        batch.len += 1;
    }
    Ok(())
}

/// Puts the pieces of a frame together in the stage.
fn take_pieces(
    batch: &mut Batch,
    i: usize,
    queue: &Virtqueue,
    head: &Head,
    memory: &Memory,
    header_len: usize,
) -> Result<Result<(), Reason>, Broken> {
    let room = batch.stage.room(i);
    let mut header = [0; HEADER_MAX];
    let (mut headed, mut len, mut whole) = (0, 0, 0);
    queue.pieces(head, memory, false, |mut piece| {
        if headed < header_len {
            let n = piece.read(&mut header[headed..header_len]);
            headed += n;
            piece = piece.skip(n);
        }
        whole += piece.len();
        len += piece.read(&mut room[VnetHeader::LEN + len..]);
        len == whole
    })?;
    if headed < header_len {
        return Ok(Err(Reason::Runt));
    }
    if len < whole {
        return Ok(Err(Reason::TooLong));
    }
    room[..VnetHeader::LEN].copy_from_slice(&header[..VnetHeader::LEN]);
    Ok(take_staged(batch, i, len))
}

/// Takes a frame of `len` bytes that stands in the stage with its header.
fn take_staged(batch: &mut Batch, i: usize, len: usize) -> Result<(), Reason> {
    let frame = batch.stage.take_in(i, VnetHeader::LEN + len, None)?;
    if let Body::Staged(cell) = frame.body {
        let (bytes, vnet) = batch.stage.frame(cell);
        // The next port may pass the header on, to a receiver that trusts it.
        if vnet.needs_checksum() && checksum_of(bytes, vnet).is_err() {
            return Err(Reason::Offload);
        }
    }
    batch.push(frame);
    Ok(())
}
