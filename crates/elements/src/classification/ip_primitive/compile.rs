//! A checked primitive's tests.

use super::super::expression::{Compare, Expression, Joint};
use super::super::flat;
use super::super::instruction::{NETWORK, TRANSPORT, Test};
use super::{Kind, Primitive, Relation, Side, TCP, TCP_OR_UDP, UDP, word};

/// The word that holds the protocol, and the one with the fragment offset.
const PROTOCOL_WORD: u16 = NETWORK + 8;
const FRAGMENT_WORD: u16 = NETWORK + 4;

impl Primitive {
    /// Turns a checked primitive into tests.
    pub(in super::super) fn compile(&self, out: &mut Expression) {
        let mark = out.open();
        if let Some(protocol) = self.protocol {
            push_protocol(protocol, out);
        }
        let transport_field = matches!(self.kind, Kind::Field(field) if field.protocol != 0);
        if matches!(self.kind, Kind::Port | Kind::TcpOption) || transport_field {
            // Only a first fragment has a transport header.
            out.push_test(Test::new(FRAGMENT_WORD, 0, 0x1fff));
        }
        match self.kind {
            Kind::Host => self.push_sides(out, Primitive::push_address),
            Kind::Ether => self.push_sides(out, Primitive::push_ether),
            Kind::Port => self.push_sides(out, |this, source, out| {
                this.push_comparison(out, TRANSPORT, if source { 16 } else { 0 }, false);
            }),
            Kind::Proto if self.protocol.is_none_or(|protocol| protocol < 256) => {
                let pseudo = word(&self.value) as i32 >= 256;
                if !pseudo {
                    self.push_comparison(out, PROTOCOL_WORD, 16, true);
                } else {
                    self.push_negated_pseudo(out);
                }
            }
            Kind::Frag => {
                let mark = out.open();
                out.push_test(Test::new(FRAGMENT_WORD, 0, 0x3fff));
                if !self.negated {
                    out.negate_present(mark);
                }
            }
            Kind::TcpOption => {
                let flags = self.number() << 16;
                out.push_test(Test::new(TRANSPORT + 12, flags, flags));
            }
            Kind::Field(field) => {
                let base = if field.protocol != 0 {
                    TRANSPORT
                } else {
                    NETWORK
                };
                let offset = base + ((field.offset >> 3) & !3) as u16;
                let shift = 32 - (field.offset % 32 + field.bits);
                self.push_comparison(out, offset, shift, true);
            }
            _ => {}
        }
        out.close_all(mark);
    }

    /// `proto != tcpudp`: the negated test of the pseudo-protocol.
    fn push_negated_pseudo(&self, out: &mut Expression) {
        let mark = out.open();
        push_protocol(self.number() as i32, out);
        if self.number() as i32 != TCP_OR_UDP {
            out.push_test(Test::ALWAYS);
        }
        out.negate_present(mark);
    }

    /// One test for the source, one for the destination, as the side says.
    fn push_sides(&self, out: &mut Expression, push: impl Fn(&Primitive, bool, &mut Expression)) {
        let mark = out.open();
        if self.side != Some(Side::Destination) {
            push(self, true, out);
        }
        if self.side != Some(Side::Source) {
            push(self, false, out);
        }
        let either = self.side == Some(Side::Either);
        out.close(mark, if either { Joint::Or } else { Joint::And });
        if self.negated {
            out.negate_present(mark);
        }
    }

    fn push_address(&self, source: bool, out: &mut Expression) {
        let mark = out.open();
        if let Some([value, mask]) = self.ip6 {
            push_version(6, out);
            let first = NETWORK
                + if source {
                    flat::SOURCE
                } else {
                    flat::DESTINATION
                };
            for (offset, shift) in (first..).step_by(4).zip([96, 64, 32, 0]) {
                let (value, mask) = ((value >> shift) as u32, (mask >> shift) as u32);
                if mask != 0 {
                    out.push_test(Test::new(offset, value, mask));
                }
            }
        } else {
            let offset = NETWORK + if source { 12 } else { 16 };
            let (value, mask) = (
                word(&self.value).swap_bytes(),
                word(&self.mask).swap_bytes(),
            );
            // An IPv6 packet has 0.0.0.0 there.
            if self.both && value & mask == 0 {
                push_version(4, out);
            }
            out.push_test(Test::new(offset, value, mask));
        }
        out.close_all(mark);
    }

    fn push_ether(&self, source: bool, out: &mut Expression) {
        let mark = out.open();
        let ([a, b, c, d, e, f], [m, n, o, p, q, r]) = (self.value, self.mask);
        let words = if source {
            [
                (8, [a, b, c, d], [m, n, o, p]),
                (12, [e, f, 0, 0], [q, r, 0, 0]),
            ]
        } else {
            [
                (0, [0, 0, a, b], [0, 0, m, n]),
                (4, [c, d, e, f], [o, p, q, r]),
            ]
        };
        for (offset, value, mask) in words {
            let (value, mask) = (u32::from_be_bytes(value), u32::from_be_bytes(mask));
            out.push_test(Test::new(offset, value, mask));
        }
        out.close(mark, Joint::And);
    }

    /// The value compared with the word at `offset`, shifted; the caller
    /// negates it unless `negate`.
    fn push_comparison(&self, out: &mut Expression, offset: u16, shift: u32, negate: bool) {
        let mark = out.open();
        let (value, mask) = (self.number(), word(&self.mask));
        if self.relation == Relation::Equal {
            let (value, mask) = (value & mask, mask);
            out.push_test(Test::new(offset, value << shift, mask << shift));
        } else {
            out.push_compare(Compare {
                offset,
                shift,
                mask,
                above: value & mask,
                short_yes: false,
            });
        }
        if self.negated && negate {
            out.negate_present(mark);
        }
    }
}

fn push_version(version: u32, out: &mut Expression) {
    out.push_test(Test::new(NETWORK, version << 28, 0xf << 28));
}

fn push_protocol(protocol: i32, out: &mut Expression) {
    let test = |number: i32| Test::new(PROTOCOL_WORD, (number as u32) << 16, 0xff_0000);
    match protocol {
        TCP_OR_UDP => {
            let mark = out.open();
            out.push_test(test(TCP));
            out.push_test(test(UDP));
            out.close(mark, Joint::Or);
        }
        0..=255 => out.push_test(test(protocol)),
        _ => {}
    }
}
