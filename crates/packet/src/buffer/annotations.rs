//! A packet's annotations.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::Packet;
use crate::anno::{ANNO_BYTES, Anno, DST_IP, DST_IP6, PAINT};

impl Packet {
    /// All annotations.
    #[inline]
    pub fn annotations(&self) -> &[u8; ANNO_BYTES] {
        // SAFETY: 48 initialized bytes; bytes have no alignment.
        unsafe { &*self.meta().anno.as_ptr().cast() }
    }

    /// All annotations, mutable.
    #[inline]
    pub fn annotations_mut(&mut self) -> &mut [u8; ANNO_BYTES] {
        // SAFETY: as above; any bytes are valid.
        unsafe { &mut *self.meta_mut().anno.as_mut_ptr().cast() }
    }

    /// Sets every annotation to zero.
    #[inline]
    pub fn clear_annotations(&mut self) {
        self.meta_mut().anno = [0; ANNO_BYTES / 8];
    }

    /// A four-byte annotation, in native order. A shorter one is widened. Of a longer one, the first
    /// four bytes are read.
    #[inline]
    pub fn anno(&self, anno: Anno) -> u32 {
        let bytes = self.annotations();
        match anno.size {
            1 => bytes[anno.offset] as u32,
            2 => u16::from_ne_bytes([bytes[anno.offset], bytes[anno.offset + 1]]) as u32,
            _ => u32::from_ne_bytes([
                bytes[anno.offset],
                bytes[anno.offset + 1],
                bytes[anno.offset + 2],
                bytes[anno.offset + 3],
            ]),
        }
    }

    /// Sets an annotation of up to four bytes, in native order; a shorter one takes the low bytes.
    #[inline]
    pub fn set_anno(&mut self, anno: Anno, value: u32) {
        let n = anno.size.min(4);
        self.annotations_mut()[anno.offset..anno.offset + n]
            .copy_from_slice(&value.to_ne_bytes()[..n]);
    }

    /// Sets the four bytes of annotation from `offset` on, if there are as many, in native order.
    #[inline]
    pub fn set_anno_word(&mut self, offset: usize, value: u32) {
        let bytes = self.annotations_mut().get_mut(offset..);
        if let Some(word) = bytes.and_then(|bytes| bytes.first_chunk_mut()) {
            *word = value.to_ne_bytes();
        }
    }

    /// An eight-byte annotation, in native order.
    #[inline]
    pub fn anno_u64(&self, anno: Anno) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.annotations()[anno.offset..anno.offset + 8]);
        u64::from_ne_bytes(bytes)
    }

    /// Sets an eight-byte annotation, in native order.
    #[inline]
    pub fn set_anno_u64(&mut self, anno: Anno, value: u64) {
        self.annotations_mut()[anno.offset..anno.offset + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// The destination IPv4 address annotation.
    #[inline]
    pub fn dst_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.anno(DST_IP).to_ne_bytes())
    }

    /// Sets the destination IPv4 address annotation.
    #[inline]
    pub fn set_dst_ip(&mut self, address: Ipv4Addr) {
        self.set_anno(DST_IP, u32::from_ne_bytes(address.octets()));
    }

    /// The destination IPv6 address annotation.
    #[inline]
    pub fn dst_ip6(&self) -> Ipv6Addr {
        let bytes = self.annotations()[DST_IP6.offset..].first_chunk();
        bytes.map_or(Ipv6Addr::UNSPECIFIED, |bytes| Ipv6Addr::from(*bytes))
    }

    /// Sets the destination IPv6 address annotation.
    #[inline]
    pub fn set_dst_ip6(&mut self, address: Ipv6Addr) {
        if let Some(bytes) = self.annotations_mut()[DST_IP6.offset..].first_chunk_mut() {
            *bytes = address.octets();
        }
    }

    /// The paint annotation.
    #[inline]
    pub fn paint(&self) -> u8 {
        self.annotations()[PAINT.offset]
    }

    /// Sets the paint annotation.
    #[inline]
    pub fn set_paint(&mut self, colour: u8) {
        self.annotations_mut()[PAINT.offset] = colour;
    }
}
