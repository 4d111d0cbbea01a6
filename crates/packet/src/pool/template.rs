//! Batches of equal packets.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, copy_nonoverlapping};

use simd::{Kernel, Level, Simd};

use super::{BUFFER, DATA_MAX, Pool};
use crate::Batch;
use crate::buffer::{HEADROOM, META, Meta, Packet};
use crate::prefetch::prefetch_buffer;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// The data of many equal packets, in whole cache lines.
#[derive(Default)]
pub struct PacketTemplate {
    lines: Vec<Line>,
    len: usize,
}

impl PacketTemplate {
    /// A template for packets that hold `data`.
    pub fn new(data: &[u8]) -> PacketTemplate {
        let line = |chunk: &[u8]| {
            let mut line = Line([0; 64]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            line
        };
        PacketTemplate {
            lines: data.chunks(64).map(line).collect(),
            len: data.len(),
        }
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        // SAFETY: lines are arrays of bytes without gaps, and hold at least `len`.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

/// Writes metadata and data to buffers, in stores of a cache line or half of one where the processor
/// has them.
struct WriteTemplate<'a> {
    /// Free buffers of the pool.
    buffers: &'a [NonNull<Meta>],
    meta: &'a [MaybeUninit<Line>; META / 64],
    /// [`DATA_MAX`] bytes at most.
    lines: &'a [Line],
    /// Buffers that are written next and lie in another processor's cache.
    next: &'a [NonNull<Meta>],
}

impl WriteTemplate<'_> {
    #[inline(always)]
    fn write(&self, buffer: NonNull<Meta>) {
        // SAFETY: a free buffer is its pool's alone. The data starts on a cache line, and a
        // template's lines end within the buffer, since DATA_MAX is a whole number of them.
        unsafe {
            buffer.cast().write(*self.meta);
            let data = buffer.cast::<Line>().add((META + HEADROOM) / 64);
            for (i, line) in self.lines.iter().enumerate() {
                data.add(i).write(*line);
            }
        }
    }
}

impl Kernel for WriteTemplate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        if self.next.is_empty() {
            self.buffers.iter().for_each(|buffer| self.write(*buffer));
            return;
        }
        for (i, buffer) in self.buffers.iter().enumerate() {
            if let Some(next) = self.next.get(i) {
                prefetch_buffer(*next);
            }
            self.write(*buffer);
        }
    }
}

impl Pool {
    /// Adds up to `most` packets with the data of `template` and the timestamp to a batch, as far as
    /// the batch has room and the pool has buffers; returns how many.
    pub fn fill(
        &mut self,
        template: &PacketTemplate,
        timestamp: i64,
        batch: &mut Batch,
        most: usize,
    ) -> usize {
        let most = most.min(batch.room());
        if template.len > DATA_MAX {
            return self.fill_large(template, timestamp, batch, most);
        }
        if most == 1 {
            return self.fill_one(template, timestamp, batch);
        }
        if self.free.len() < most {
            self.stock(most);
        }
        let made = most.min(self.free.len());
        let rest = self.free.len() - made;
        let meta = Meta::new(self.owner.as_ptr(), BUFFER, HEADROOM, template.len).at(timestamp);
        let next = self.returned_before(rest, made);
        let kernel = WriteTemplate {
            buffers: &self.free[rest..],
            // SAFETY: of the same size; uninitialized lines need no value.
            meta: &unsafe { core::mem::transmute::<Meta, [MaybeUninit<Line>; META / 64]>(meta) },
            lines: &template.lines,
            next: &self.free[next],
        };
        simd::run(Level::detected(), kernel);
        batch.put_behind(made, |room| {
            // SAFETY: the batch has room for `made` packets. A packet is its buffer's address. The
            // buffers are packets now and no longer free.
            unsafe {
                copy_nonoverlapping(self.free.as_ptr().add(rest), room.cast(), made);
                self.free.set_len(rest);
            }
        });
        made
    }

    /// As [`fill`](Self::fill), with one packet, which a pool's buffer holds: what is done once a batch takes longer
    /// than the packet.
    #[inline]
    fn fill_one(&mut self, template: &PacketTemplate, timestamp: i64, batch: &mut Batch) -> usize {
        let Some(buffer) = self.buffer() else {
            return 0;
        };
        // SAFETY: the buffer is ours; as for `WriteTemplate`.
        let packet = unsafe {
            let meta = Meta::new(self.owner.as_ptr(), BUFFER, HEADROOM, template.len);
            buffer.write(meta.at(timestamp));
            let data = buffer.cast::<Line>().add((META + HEADROOM) / 64);
            for (i, line) in template.lines.iter().enumerate() {
                data.add(i).write(*line);
            }
            Packet::from_raw(buffer)
        };
        let _ = batch.push(packet);
        1
    }

    #[cold]
    fn fill_large(
        &mut self,
        template: &PacketTemplate,
        timestamp: i64,
        batch: &mut Batch,
        most: usize,
    ) -> usize {
        for made in 0..most {
            let Some(mut packet) = self.copy(template.data()) else {
                return made;
            };
            packet.set_timestamp(timestamp);
            let _ = batch.push(packet);
        }
        most
    }
}
