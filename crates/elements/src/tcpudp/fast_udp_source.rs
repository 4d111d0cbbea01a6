use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use packet::Batch;
use packet::checksum::pseudo_header_v4;
use packet::wire::{EtherAddress, IpProtocol, Ipv4Header, Ipv4Packet, UdpHeader, UdpPacket};
use router::args::{Args, Failed, Port};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Steady};

use crate::gap_rate::GapRate;

/// Length of the Ethernet, IP and UDP headers.
const HEADERS: usize = 42;
const IP: usize = 14;
const UDP: usize = 34;

/// Gives Ethernet frames with UDP datagrams that are all alike, at a rate.
///
/// A tool to measure with: frames are copies of one that is made ahead. Bytes behind the headers
/// are zero.
///
/// # Arguments
/// - `RATE` (integer): frames a second; 0: as many as are pulled.
/// - `LIMIT` (integer): most frames; -1: no limit.
/// - `LENGTH` (integer): a frame's bytes, from 60 to 65549; less becomes 60.
/// - `SRCETH` (Ethernet address), `SRCIP` (IP address), `SPORT` (UDP port): who they are from.
/// - `DSTETH` (Ethernet address), `DSTIP` (IP address), `DPORT` (UDP port): who they are for.
/// - `CHECKSUM` (boolean, true): whether to compute the UDP checksum.
/// - `INTERVAL` (integer, 0): frames after which both ports go up by 1; 0: never.
/// - `ACTIVE` (boolean, true): whether it gives any.
///
/// # Ports
/// No input; one pull output.
///
/// # Handlers
/// - `count` (read): frames given.
/// - `rate` (read): frames a second from the first to the last, when LIMIT is reached; until then,
///   0.
/// - `rate`, `limit`, `active` (write): the arguments; `active` set to true resets too.
/// - `reset` (write): starts from the beginning.
///
/// # Example
/// ```click
/// FastUDPSource(100000, 500, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 0:0:0:0:0:2, 2.0.0.2, 1234)
///     -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, RatedSource, UDPIPEncap
pub struct FastUDPSource {
    rate: GapRate,
    limit: Option<u64>,
    interval: u32,
    active: bool,
    checksum: bool,
    ports: (u16, u16),
    destination: Ipv4Addr,
    /// The frame that is copied.
    frame: Vec<u8>,
    count: u64,
    first: Steady,
    last: Option<Steady>,
}

impl Default for FastUDPSource {
    fn default() -> Self {
        FastUDPSource {
            rate: GapRate::default(),
            limit: None,
            interval: 0,
            active: true,
            checksum: true,
            ports: (0, 0),
            destination: Ipv4Addr::UNSPECIFIED,
            frame: Vec::new(),
            count: 0,
            first: Steady::default(),
            last: None,
        }
    }
}

impl Class for FastUDPSource {
    const NAME: &'static str = "FastUDPSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "l";
}

fn limit(number: i32) -> Option<u64> {
    u64::try_from(number).ok()
}

impl FastUDPSource {
    /// Sets the frame's ports, moved on by as often as INTERVAL passed, and its checksum.
    fn set_ports(&mut self) {
        let passed = self.count.checked_div(self.interval.into()).unwrap_or(0) as u16;
        let length = (self.frame.len() - UDP) as u16;
        let (ip, datagram) = self.frame.split_at_mut(UDP);
        let ip = Ipv4Packet::new_unchecked(&mut ip[IP..]);
        let (source, destination) = (ip.source(), ip.destination());
        let mut udp = UdpPacket::new_unchecked(datagram);
        let header = UdpHeader {
            source: self.ports.0.wrapping_add(passed),
            destination: self.ports.1.wrapping_add(passed),
            length,
        };
        header.emit(&mut udp);
        if self.checksum {
            let protocol = IpProtocol::UDP.0;
            udp.fill_checksum(pseudo_header_v4(source, destination, protocol, length));
        }
    }

    fn make_frame(&mut self, ethers: [EtherAddress; 2], source: Ipv4Addr, length: usize) {
        self.frame = alloc::vec![0; length.max(HEADERS)];
        let total_len = (self.frame.len() - IP) as u16;
        let (ether, rest) = self.frame.split_at_mut(IP);
        ether[..6].copy_from_slice(&ethers[1].0);
        ether[6..12].copy_from_slice(&ethers[0].0);
        ether[12..].copy_from_slice(&[0x08, 0x00]);
        let header = Ipv4Header {
            tos: 0,
            total_len,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 250,
            protocol: IpProtocol::UDP,
            source,
            destination: self.destination,
        };
        header.emit(&mut Ipv4Packet::new_unchecked(rest));
        self.set_ports();
    }

    fn reset(&mut self) {
        (self.count, self.last) = (0, None);
        self.set_ports();
    }

    /// Frames that may be given now.
    fn allowed(&mut self, now: Steady) -> u64 {
        let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.count));
        match (self.active, self.rate.rate()) {
            (false, _) => 0,
            (true, 0) => left,
            (true, _) => left.min(self.rate.allowed(now)),
        }
    }
}

impl Declared for FastUDPSource {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut rate, mut most, mut length) = (0u32, 0i32, 0u32);
        let mut ethers = [EtherAddress::default(); 2];
        let [from_ether, to_ether] = &mut ethers;
        let mut source = Ipv4Addr::UNSPECIFIED;
        args.mandatory_positional("RATE", &mut rate)
            .mandatory_positional("LIMIT", &mut most)
            .mandatory_positional("LENGTH", &mut length)
            .mandatory_positional("SRCETH", from_ether)
            .mandatory_positional("SRCIP", &mut source)
            .mandatory_positional_with("SPORT", Port::UDP, &mut self.ports.0)
            .mandatory_positional("DSTETH", to_ether)
            .mandatory_positional("DSTIP", &mut self.destination)
            .mandatory_positional_with("DPORT", Port::UDP, &mut self.ports.1)
            .positional("CHECKSUM", &mut self.checksum)
            .positional("INTERVAL", &mut self.interval)
            .positional("ACTIVE", &mut self.active)
            .complete()?;
        if length < 60 {
            args.warning("packet length < 60, defaulting to 60");
        }
        if length as usize > usize::from(u16::MAX) + IP {
            return Err(args.fail("LENGTH must be at most 65549"));
        }
        self.rate.set_rate(rate.into(), cx.steady());
        self.limit = limit(most);
        self.make_frame(ethers, source, length.max(60) as usize);
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").read_write("rate").write("limit").button("reset");
        list.write("active").add("active", HandlerFlags::CHECKBOX);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match (name, self.last) {
            ("count", _) => Ok(self.count.to_string()),
            ("rate", None) => Ok("0".to_string()),
            ("rate", Some(last)) => {
                let time = u128::from(last.since(self.first).max(1_000_000));
                Ok((u128::from(self.count) * 1_000_000_000 / time).to_string())
            }
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let names = cx.names();
        match name {
            "limit" => {
                let number = names.parse::<i32>(value);
                self.limit = limit(number.map_err(|_| "limit parameter must be integer >= 0")?);
            }
            "rate" => {
                let rate = names.parse::<u32>(value);
                let rate = rate.map_err(|_| "rate parameter must be integer >= 0")?;
                self.rate.set_rate(rate.into(), cx.steady());
            }
            "active" => {
                let active = names.parse(value);
                self.active = active.map_err(|_| "active parameter must be boolean")?;
                if self.active {
                    self.reset();
                }
            }
            "reset" => self.reset(),
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for FastUDPSource {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let now = cx.steady();
        let allowed = self.allowed(now).min(most as u64);
        for _ in 0..allowed {
            let Some(mut packet) = cx.pool().copy(&self.frame) else {
                break;
            };
            packet.set_network_header(IP, UDP - IP);
            packet.set_dst_ip(self.destination);
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
                break;
            }
            if self.count == 0 {
                self.first = now;
            }
            self.count += 1;
            if self.interval > 0 && self.count.is_multiple_of(self.interval.into()) {
                self.set_ports();
            }
        }
        if self.rate.rate() > 0 {
            self.rate.count(batch.len() as u64);
        }
        if self.limit == Some(self.count) && !batch.is_empty() {
            self.last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Rig, ether, udp};

    const FROM_TO: &str = "0:0:0:0:0:1, 1.0.0.1, 7, 0:0:0:0:0:2, 2.0.0.2, 9";

    fn rig(before: &str, after: &str) -> Rig {
        let config = std::format!("s :: FastUDPSource({before}, {FROM_TO}{after}) -> p :: Puller;");
        Rig::new(&config)
    }

    fn frame(ports: (u16, u16)) -> std::vec::Vec<u8> {
        let (a, b) = ([1, 0, 0, 1].into(), [2, 0, 0, 2].into());
        let packet = udp((a, ports.0), (b, ports.1), &[0; 18]);
        ether([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1], 0x800, &packet)
    }

    #[test]
    fn frames_are_whole_and_ports_move_on() {
        let mut rig = rig("0, 5, 60", ", true, 2");
        let pulled = rig.pull("p", 9);
        let expected = [(7, 9), (7, 9), (8, 10), (8, 10), (9, 11)].map(frame);
        for (packet, expected) in pulled.iter().zip(&expected) {
            // The TTL, and so the IP header's checksum, are others.
            assert_eq!(packet.data()[..22], expected[..22]);
            assert_eq!(packet.data()[26..], expected[26..]);
            assert_eq!(crate::testing::checksum(&packet.data()[14..34]), 0);
        }
        assert_eq!((pulled.len(), pulled[0].network_offset()), (5, Some(14)));
        assert!(rig.pull("p", 1).is_empty());
        assert_eq!((rig.read("s.count"), rig.read("s.rate")), ("5".into(), "5000".into()));
        rig.write("s.reset", "");
        assert_eq!(rig.pull("p", 1)[0].data()[34..36], [0, 7]);
    }

    #[test]
    fn the_rate_is_kept() {
        let mut rig = rig("1000, -1, 20", "");
        assert!(rig.printed()[1].contains("packet length < 60, defaulting to 60"));
        let mut count = 0;
        for _ in 0..1000 {
            rig.advance(1_000_000);
            count += rig.pull("p", 64).len();
        }
        assert!((999..=1001).contains(&count), "{count}");
        rig.write("s.active", "false");
        rig.advance(1_000_000_000);
        assert!(rig.pull("p", 64).is_empty());
        assert!(rig.try_write("s.rate", "x").is_err());
    }
}
