//! Copies of packets.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use simd::{Kernel, Level, Simd};

use super::template::Line;
use super::{BUFFER, Pool};
use crate::Batch;
use crate::buffer::{HEADROOM, META, Packet};
use crate::prefetch::prefetch_buffer;

/// Packets between a copy and the prefetch of its buffer.
const AHEAD: usize = 4;

/// See [`Pool::clone_all`].
struct CloneAll<'a> {
    pool: &'a mut Pool,
    packets: &'a Batch,
    copies: &'a mut Batch,
}

impl Kernel for CloneAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for packet in self.packets.iter() {
            let free = &self.pool.free;
            if let Some(next) = free.len().checked_sub(AHEAD).and_then(|at| free.get(at)) {
                prefetch_buffer(*next);
            }
            if let Some(copy) = self.pool.clone_inlined(packet) {
                let _ = self.copies.push(copy);
            }
        }
    }
}

impl Pool {
    /// A copy of `packet`: data, annotations, header offsets, and the headroom from the first header
    /// on, so that stripped headers can be unstripped.
    #[inline]
    pub fn clone(&mut self, packet: &Packet) -> Option<Packet> {
        self.clone_inlined(packet)
    }

    /// Adds copies of packets to a batch, each as [`clone`](Self::clone) makes it. Where there is no buffer for a copy,
    /// it is left out.
    pub fn clone_all(&mut self, packets: &Batch, copies: &mut Batch) {
        self.clone_all_at(Level::detected(), packets, copies);
    }

    /// As [`clone_all`](Self::clone_all), with the instructions of `level`.
    pub(crate) fn clone_all_at(&mut self, level: Level, packets: &Batch, copies: &mut Batch) {
        let kernel = CloneAll {
            pool: self,
            packets,
            copies,
        };
        simd::run(level, kernel);
    }

    /// See [`clone`](Self::clone). It is compiled for the caller's instruction set.
    #[inline(always)]
    fn clone_inlined(&mut self, packet: &Packet) -> Option<Packet> {
        match packet.first_line() {
            Some(first) => self.clone_lines(packet, first),
            None => self.clone_moved(packet),
        }
    }

    /// As [`clone`](Self::clone), of a packet whose copy is laid out as the packet is, from the cache line
    /// `first` on.
    #[inline(always)]
    fn clone_lines(&mut self, packet: &Packet, first: usize) -> Option<Packet> {
        let buffer = self.buffer()?;
        let meta = packet.meta();
        let end = (meta.data as usize + meta.len as usize).div_ceil(64);
        // SAFETY: the buffer is ours, and as long as the packet's. Both are whole cache lines, the first of which are
        // the metadata.
        unsafe {
            let (from, to): (NonNull<MaybeUninit<Line>>, NonNull<MaybeUninit<Line>>) =
                (packet.raw().cast(), buffer.cast());
            let copy = |line| to.add(line).write(from.add(line).read());
            for line in 0..META / 64 {
                copy(line);
            }
            for line in first..end.min(BUFFER / 64) {
                copy(line);
            }
            (*buffer.as_ptr()).owner = self.owner();
            Some(Packet::from_raw(buffer))
        }
    }

    /// As [`clone`](Self::clone), of a packet in a buffer of another size, or with an extension.
    #[inline(never)]
    pub(crate) fn clone_moved(&mut self, packet: &Packet) -> Option<Packet> {
        let front = [
            packet.mac_offset(),
            packet.network_offset(),
            packet.transport_offset(),
        ]
        .into_iter()
        .flatten()
        .min()
        .map_or(0, |at| (-at).max(0) as usize);
        // Bytes stripped without a marked header are kept too, down to the headroom that every
        // packet starts with.
        let front = front
            .max(packet.headroom().saturating_sub(HEADROOM))
            .min(packet.headroom());
        let whole = packet.data_from(front);
        let mut copy = self.packet(HEADROOM, whole.len())?;
        copy.data_mut().copy_from_slice(whole);
        copy.pull(front);
        copy.copy_meta(packet);
        if packet.is_extended() && !self.clone_extension(packet, &mut copy) {
            self.kill(copy);
            return None;
        }
        Some(copy)
    }
}
