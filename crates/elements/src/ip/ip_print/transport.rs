//! The part of IPPrint's line that depends on what an IP packet carries.

use core::fmt::Write;

use packet::wire::ports;

use crate::prelude::*;

/// An IP packet and its transport part.
pub struct Transport<'p> {
    ip: Ipv4Packet<&'p [u8]>,
    /// From the transport header to the end of the packet.
    all: &'p [u8],
    /// The same, as far as the IP length says.
    bytes: &'p [u8],
    /// What the IP length says of its length, in bytes; nonsense may make it negative.
    pub length: i32,
    /// Length of the whole packet, link header and padding included.
    packet_len: usize,
}

/// The header ends too early.
struct Truncated;

impl From<core::fmt::Error> for Truncated {
    fn from(_: core::fmt::Error) -> Self {
        Truncated
    }
}

impl<'p> Transport<'p> {
    /// The transport part of `packet`, whose IP header is `ip`.
    pub fn of(ip: &Ipv4Packet<&'p [u8]>, packet: &'p Packet) -> Transport<'p> {
        let all = packet.transport_header().unwrap_or_default();
        let length = i32::from(ip.total_len()) - ip.header_len() as i32;
        let bytes = all.get(..length.max(0) as usize).unwrap_or(all);
        Transport {
            ip: *ip,
            all,
            bytes,
            length,
            packet_len: packet.len(),
        }
    }

    /// What follows the transport header, to the end of the packet.
    pub fn payload(&self) -> &'p [u8] {
        let header = match self.ip.protocol() {
            _ if !self.ip.is_first_fragment() => 0,
            // A header cut short before its length has nothing behind it.
            IpProtocol::TCP => match self.all.get(12) {
                Some(words) => usize::from(words >> 4) * 4,
                None => return &[],
            },
            IpProtocol::UDP => UdpPacket::<&[u8]>::HEADER_LEN,
            _ => 0,
        };
        self.all.get(header..).unwrap_or_default()
    }

    /// Writes addresses, ports, and what the transport header says.
    pub fn write(&self, line: &mut String, cx: &Cx<'_>, swap: bool) -> core::fmt::Result {
        let (written, name) = match self.ip.protocol() {
            IpProtocol::TCP => (self.write_tcp(line), "tcp"),
            IpProtocol::UDP => (self.write_udp(line), "udp"),
            IpProtocol::ICMP => (self.write_icmp(line, cx, swap), "icmp"),
            other => {
                self.write_addresses(line);
                return write!(line, ": ip-proto-{other}");
            }
        };
        match written {
            Ok(()) => Ok(()),
            Err(Truncated) => write!(line, "truncated-{name}"),
        }
    }

    fn write_addresses(&self, line: &mut String) {
        line.put_address(self.ip.source());
        line.put(" > ");
        line.put_address(self.ip.destination());
    }

    /// Writes addresses and ports; or the addresses alone and, in a later fragment, `protocol`.
    /// Returns whether there are ports.
    fn write_ports(&self, line: &mut String, protocol: &str) -> Result<bool, Truncated> {
        if !self.ip.is_first_fragment() {
            self.write_addresses(line);
            line.put(": ");
            line.put(protocol);
            return Ok(false);
        }
        let Some((from, to)) = ports(self.bytes) else {
            self.write_addresses(line);
            line.put(": ");
            return Err(Truncated);
        };
        line.put_address(self.ip.source());
        line.put(".");
        line.put_decimal(from);
        line.put(" > ");
        line.put_address(self.ip.destination());
        line.put(".");
        line.put_decimal(to);
        line.put(": ");
        Ok(true)
    }

    fn write_tcp(&self, line: &mut String) -> Result<(), Truncated> {
        if !self.write_ports(line, "tcp")? {
            return Ok(());
        }
        // Flags end at byte 14, the window at 16.
        if self.bytes.len() < 14 {
            return Err(Truncated);
        }
        let mut header = [0; 20];
        let there = self.bytes.len().min(header.len());
        header[..there].copy_from_slice(&self.bytes[..there]);
        let tcp = TcpPacket::new_unchecked(&header[..]);
        let flags = tcp.flags();
        let mut length = self.length - tcp.header_len() as i32;
        let before = line.len();
        for (flag, letter, counts) in [
            (TcpFlags::SYN, 'S', true),
            (TcpFlags::FIN, 'F', true),
            (TcpFlags::RST, 'R', false),
            (TcpFlags::PSH, 'P', false),
        ] {
            if flags.contains(flag) {
                line.push(letter);
                length += i32::from(counts);
            }
        }
        if line.len() == before {
            line.push('.');
        }
        let first = tcp.sequence().0;
        let end = first.wrapping_add_signed(length);
        let (packet, ip) = (self.packet_len, self.ip.total_len());
        write!(line, " {first}:{end}({length},{packet},{ip})")?;
        if flags.contains(TcpFlags::ACK) {
            write!(line, " ack {}", tcp.acknowledgment().0)?;
        }
        if self.bytes.len() < 16 {
            return Err(Truncated);
        }
        write!(line, " win {}", tcp.window())?;
        Ok(())
    }

    fn write_udp(&self, line: &mut String) -> Result<(), Truncated> {
        if !self.write_ports(line, "udp")? {
            return Ok(());
        }
        if self.bytes.len() < UdpPacket::<&[u8]>::HEADER_LEN {
            return Err(Truncated);
        }
        let length = UdpPacket::new_unchecked(self.bytes).length();
        line.put("udp ");
        line.put_decimal(length);
        Ok(())
    }

    fn write_icmp(&self, line: &mut String, cx: &Cx<'_>, swap: bool) -> Result<(), Truncated> {
        self.write_addresses(line);
        line.push_str(": ");
        if !self.ip.is_first_fragment() {
            line.push_str("icmp");
            return Ok(());
        }
        if self.bytes.len() < 2 {
            return Err(Truncated);
        }
        let (kind, code) = (Icmpv4Type(self.bytes[0]), self.bytes[1]);
        match kind {
            Icmpv4Type::ECHO_REPLY => self.write_echo(line, "echo-reply", swap),
            Icmpv4Type::ECHO => self.write_echo(line, "echo", swap),
            Icmpv4Type::UNREACHABLE => self.write_unreachable(line, cx, code),
            _ => {
                match name_of(cx, Kind::IcmpType, kind.0) {
                    Some(name) => write!(line, "icmp {name}")?,
                    None => write!(line, "icmp type {}", kind.0)?,
                }
                match name_of(cx, Kind::IcmpCode(kind.0), code) {
                    Some(name) => write!(line, " {name}")?,
                    None if code != 0 => write!(line, " code {code}")?,
                    None => {}
                }
                Ok(())
            }
        }
    }

    fn write_echo(&self, line: &mut String, name: &str, swap: bool) -> Result<(), Truncated> {
        write!(line, "icmp {name} ")?;
        let icmp = Icmpv4Packet::new_checked(self.bytes).map_err(|_| Truncated)?;
        let turn = |value: u16| if swap { value } else { value.swap_bytes() };
        let (ident, sequence) = (turn(icmp.ident()), turn(icmp.sequence()));
        write!(line, "({ident}, {sequence})")?;
        Ok(())
    }

    fn write_unreachable(&self, line: &mut String, cx: &Cx<'_>, code: u8) -> Result<(), Truncated> {
        let name = name_of(cx, Kind::IcmpCode(Icmpv4Type::UNREACHABLE.0), code);
        let name = name.map_or_else(|| alloc::format!("code {code}"), String::from);
        let icmp = Icmpv4Packet::new_unchecked(self.bytes);
        let quoted = icmp.payload();
        if quoted.len() < Ipv4Packet::<&[u8]>::HEADER_LEN {
            write!(line, "icmp unreachable {name} ")?;
            return Err(Truncated);
        }
        let quoted = Ipv4Packet::new_unchecked(quoted);
        let (to, protocol) = (quoted.destination(), quoted.protocol().0);
        write!(line, "icmp {to} unreachable {name}")?;
        let protocol_name = name_of(cx, Kind::IpProtocol, protocol);
        match Icmpv4Unreachable(code) {
            Icmpv4Unreachable::PROTOCOL => match protocol_name {
                Some(name) => write!(line, " {name}")?,
                None => write!(line, " {protocol}")?,
            },
            Icmpv4Unreachable::PORT => {
                match protocol_name {
                    Some(name) => write!(line, " {name}")?,
                    None => write!(line, " protocol {protocol}")?,
                }
                let transport = quoted.bytes().get(quoted.header_len()..);
                let (_, port) = transport.and_then(ports).ok_or(Truncated)?;
                write!(line, "/{port}")?;
            }
            Icmpv4Unreachable::FRAGMENTATION_NEEDED if icmp.next_hop_mtu() != 0 => {
                write!(line, " (mtu {})", icmp.next_hop_mtu())?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The name of a number, as the element that prints sees it.
fn name_of<'c>(cx: &'c Cx<'_>, kind: Kind, number: u8) -> Option<&'c str> {
    let context = cx.names();
    context.names.name_of(kind, number.into(), context.element)
}
