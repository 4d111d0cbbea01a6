//! Where a packet's headers are.

use super::{HEADROOM, META, Packet};
use crate::pool::BUFFER;

impl Packet {
    /// Bytes from the first header before the data up to the data.
    pub(super) fn stripped(&self) -> usize {
        let meta = self.meta();
        let before = |at: u16| (meta.data as usize).saturating_sub(at as usize);
        let offsets = [meta.mac, meta.network, meta.transport];
        let marked = offsets.into_iter().filter(|at| *at != 0);
        marked.map(before).max().unwrap_or(0)
    }

    pub(super) fn shift_headers(&mut self, from: usize, to: usize) {
        let shift = |at| shifted(at, from, to);
        if self.is_extended() {
            self.extension_mut().shift(from, to);
        }
        let meta = self.meta_mut();
        meta.mac = shift(meta.mac);
        meta.network = shift(meta.network);
        meta.transport = shift(meta.transport);
    }

    /// Copies annotations, origin, flow, header offsets, timestamp and type from `other`, of whose data
    /// this packet holds a copy.
    pub fn copy_meta(&mut self, other: &Packet) {
        let from = other.meta();
        let (start, to) = (from.data as usize, self.meta().data as usize);
        let meta = self.meta_mut();
        meta.mac = from.mac;
        meta.network = from.network;
        meta.transport = from.transport;
        meta.packet_type = from.packet_type;
        meta.timestamp = from.timestamp;
        meta.anno = from.anno;
        meta.origin = from.origin;
        meta.flow = from.flow;
        self.shift_headers(start, to);
        self.check_headers();
    }

    /// The cache line of the buffer from which on a copy by lines is the packet's: that at which the usual headroom
    /// ends, or that of what stands in front of it. None if the buffer is no pool's, or has an extension.
    #[inline]
    pub(crate) fn first_line(&self) -> Option<usize> {
        const START: usize = META + HEADROOM;
        const { assert!(META.is_multiple_of(64)) };
        let meta = self.meta();
        // One less than each: a header that is not set is behind all others.
        let before = |at: u16| at.wrapping_sub(1);
        let headers = before(meta.mac)
            .min(before(meta.network))
            .min(before(meta.transport))
            .min(START as u16 - 1);
        let first = (usize::from(headers) + 1).min(meta.data as usize).max(META);
        let usual =
            meta.capacity as usize == BUFFER && !meta.owner.is_null() && !self.is_extended();
        usual.then_some(first / 64)
    }

    fn check_headers(&mut self) {
        let meta = self.meta_mut();
        let capacity = meta.capacity as usize;
        for at in [&mut meta.mac, &mut meta.network, &mut meta.transport] {
            if *at as usize > capacity {
                *at = 0;
            }
        }
    }

    #[cold]
    fn checked_offset(&self, at: usize) -> u16 {
        let at = self.meta().data as usize + at;
        if at > self.meta().capacity as usize {
            return 0;
        }
        u16::try_from(at).unwrap_or(0)
    }

    /// From the header at buffer offset `at` to the end of the data.
    #[inline]
    fn bytes_at(&self, at: u16) -> Option<&[u8]> {
        let meta = self.meta();
        let (at, end) = (at as usize, (meta.data + meta.len) as usize);
        if at == 0 || at > end {
            return None;
        }
        // SAFETY: META <= at <= end <= capacity.
        Some(unsafe { core::slice::from_raw_parts(self.byte(at), end - at) })
    }

    #[inline]
    fn bytes_at_mut(&mut self, at: u16) -> Option<&mut [u8]> {
        let meta = self.meta();
        let (at, end) = (at as usize, (meta.data + meta.len) as usize);
        if at == 0 || at > end {
            return None;
        }
        // SAFETY: META <= at <= end <= capacity, and `self` is borrowed exclusively.
        Some(unsafe { core::slice::from_raw_parts_mut(self.byte(at), end - at) })
    }

    /// From the MAC header to the end of the data. A stripped header stands before the data.
    #[inline]
    pub fn mac_header(&self) -> Option<&[u8]> {
        self.bytes_at(self.meta().mac)
    }

    /// As [`mac_header`](Self::mac_header), mutable.
    #[inline]
    pub fn mac_header_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.meta().mac)
    }

    /// Marks the MAC header `at` bytes into the data.
    #[inline]
    pub fn set_mac_header(&mut self, at: usize) {
        let start = self.meta().data as usize + at;
        // Inside the data, so inside the buffer: its capacity is on another cache line.
        self.meta_mut().mac = if at <= self.len() && start <= usize::from(u16::MAX) {
            start as u16
        } else {
            self.checked_offset(at)
        };
    }

    /// Marks the MAC header of `len` bytes that the data begins with, and the network header behind it. The transport
    /// header stays where it is.
    #[inline]
    pub fn set_whole_mac_header(&mut self, len: usize) {
        let (mac, network) = (self.checked_offset(0), self.checked_offset(len));
        let meta = self.meta_mut();
        meta.mac = mac;
        meta.network = network;
    }

    /// From the network header to the end of the data.
    #[inline]
    pub fn network_header(&self) -> Option<&[u8]> {
        self.bytes_at(self.meta().network)
    }

    /// As [`network_header`](Self::network_header), mutable.
    #[inline]
    pub fn network_header_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.meta().network)
    }

    /// From the transport header to the end of the data.
    #[inline]
    pub fn transport_header(&self) -> Option<&[u8]> {
        self.bytes_at(self.meta().transport)
    }

    /// As [`transport_header`](Self::transport_header), mutable.
    #[inline]
    pub fn transport_header_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.meta().transport)
    }

    /// Marks a network header of `len` bytes `at` bytes into the data. The transport header follows.
    #[inline]
    pub fn set_network_header(&mut self, at: usize, len: usize) {
        let (start, end) = (self.meta().data as usize + at, at + len);
        // Inside the data, so inside the buffer: its capacity is on another cache line.
        let near = end <= self.len() && start + len <= usize::from(u16::MAX);
        let (network, transport) = if near {
            (start as u16, (start + len) as u16)
        } else {
            (self.checked_offset(at), self.checked_offset(end))
        };
        let meta = self.meta_mut();
        meta.network = network;
        meta.transport = transport;
    }

    /// Unmarks the network and transport headers.
    #[inline]
    pub fn clear_network_header(&mut self) {
        let meta = self.meta_mut();
        meta.network = 0;
        meta.transport = 0;
    }

    /// Unmarks the MAC header.
    #[inline]
    pub fn clear_mac_header(&mut self) {
        self.meta_mut().mac = 0;
    }

    fn offset_of(&self, at: u16) -> Option<isize> {
        (at != 0).then(|| at as isize - self.meta().data as isize)
    }

    /// Offset of the MAC header, in bytes from the start of the data; negative: before it.
    #[inline]
    pub fn mac_offset(&self) -> Option<isize> {
        self.offset_of(self.meta().mac)
    }

    /// Offset of the network header, in bytes from the start of the data; negative: before it.
    #[inline]
    pub fn network_offset(&self) -> Option<isize> {
        self.offset_of(self.meta().network)
    }

    /// Offset of the transport header, in bytes from the start of the data.
    #[inline]
    pub fn transport_offset(&self) -> Option<isize> {
        self.offset_of(self.meta().transport)
    }

    /// Length of the network header, in bytes; 0 if there is none.
    #[inline]
    pub fn network_header_len(&self) -> usize {
        let meta = self.meta();
        (meta.transport as usize).saturating_sub(meta.network as usize)
    }
}

/// A header's offset after the data moved within its buffer, or to another one.
pub(crate) fn shifted(at: u16, from: usize, to: usize) -> u16 {
    match at {
        0 => 0,
        at => (at as usize + to)
            .checked_sub(from)
            .filter(|at| *at >= META)
            .and_then(|at| u16::try_from(at).ok())
            .unwrap_or(0),
    }
}
