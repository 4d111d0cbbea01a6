use crate::prelude::*;

/// The largest segment of a peer that does not say (RFC 9293, section 3.7.1).
const MSS_DEFAULT: u16 = 536;
/// A peer that takes less is not served: there would be no end to it.
const MSS_MIN: u32 = 20;
/// The largest segment that the element itself takes.
const OWN_MSS: u16 = 1460;
/// Most bytes of data: where a peer is must fit 16 bits, with a SYN and a FIN.
const DATA_MAX: usize = 0xffff - 2;

/// Answers every TCP connection with the same data, without keeping state.
///
/// The state of a connection, its maximum segment size and progress, is encoded in the sequence
/// numbers that the peer returns. Each acknowledgment is answered with the next segment, the last
/// one with a FIN. Data from the peer is acknowledged and ignored. Lost segments are sent again
/// only on the peer's request, and a host that guesses sequence numbers gets data: use it for tests
/// and for busy signals.
///
/// Packets must have their IP header marked. Answers have their IP header marked.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIPHeader
///     -> r :: StatelessTCPResponder("busy, try later\r\n") -> IPPrint -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// TCPReflector, TCPIPSend
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs("answers", "packets that are not TCP, and later fragments")]
pub struct StatelessTCPResponder {
    /// The answer; at most 65533 bytes.
    #[arg(positional)]
    data: Vec<u8>,
    ident: u16,
    /// Connections that peers reset.
    #[handler(read)]
    resets: u64,
    /// Segments with flags or numbers that no honest peer sends.
    #[handler(read)]
    evil: u64,
}

/// Why there is no answer.
enum Silence {
    /// It is no TCP.
    Foreign,
    /// There is nothing to say.
    Done,
}

/// What an answer says.
struct Answer<'d> {
    source: (core::net::Ipv4Addr, u16),
    destination: (core::net::Ipv4Addr, u16),
    sequence: TcpSequence,
    acknowledgment: TcpSequence,
    flags: TcpFlags,
    data: &'d [u8],
}

/// What a connection's sequence numbers start from: the segment size in the upper half.
fn base(mss: u32, port: u16) -> TcpSequence {
    TcpSequence(mss << 16) + (u32::from(port) << 8)
}

/// The largest segment that a SYN's sender takes.
fn segment_size(tcp: &TcpPacket<&[u8]>) -> u16 {
    let sizes = tcp.options().flatten().filter_map(|option| match option {
        TcpOption::MaximumSegmentSize(size) => Some(size),
        _ => None,
    });
    sizes.last().unwrap_or(MSS_DEFAULT)
}

impl StatelessTCPResponder {
    /// Where a peer's acknowledgment says it is (1: nothing yet), and its segment size; `None` if
    /// it was made up.
    fn place(&self, tcp: &TcpPacket<&[u8]>) -> Option<(usize, u32)> {
        let number = tcp.acknowledgment() - TcpSequence(u32::from(tcp.source()) << 8);
        let (mss, at) = (number >> 16, (number & 0xffff) as usize);
        (mss >= MSS_MIN && (1..=self.data.len() + 2).contains(&at)).then_some((at, mss))
    }

    fn answer(&mut self, packet: &Packet) -> Result<Answer<'_>, Silence> {
        let header = packet.network_header().ok_or(Silence::Foreign)?;
        let ip = Ipv4Packet::new_checked(header).map_err(|_| Silence::Foreign)?;
        if ip.protocol() != IpProtocol::TCP || !ip.is_first_fragment() {
            return Err(Silence::Foreign);
        }
        let tcp = TcpPacket::new_checked(ip.payload()).map_err(|_| Silence::Foreign)?;
        let flags = tcp.flags();
        if flags.contains(TcpFlags::RST) {
            self.resets += 1;
            return Err(Silence::Done);
        }
        let (syn, fin) = (flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::FIN));
        let answer = Answer {
            source: (ip.destination(), tcp.destination()),
            destination: (ip.source(), tcp.source()),
            sequence: tcp.acknowledgment(),
            acknowledgment: tcp.sequence()
                + (tcp.payload().len() as u32 + u32::from(syn) + u32::from(fin)),
            flags: TcpFlags::ACK,
            data: &[],
        };
        if syn && !flags.contains(TcpFlags::ACK) {
            let mss = u32::from(segment_size(&tcp));
            if mss < MSS_MIN {
                self.evil += 1;
                return Err(Silence::Done);
            }
            return Ok(Answer {
                sequence: base(mss, tcp.source()),
                flags: TcpFlags::SYN | TcpFlags::ACK,
                ..answer
            });
        }
        let place = (!syn && flags.contains(TcpFlags::ACK)).then(|| self.place(&tcp));
        let Some((at, mss)) = place.flatten() else {
            self.evil += 1;
            return Err(Silence::Done);
        };
        let done = at - 1;
        if done > self.data.len() {
            // The peer has all, and our FIN.
            let silent = tcp.payload().is_empty() && !fin;
            return if silent {
                Err(Silence::Done)
            } else {
                Ok(answer)
            };
        }
        let most = mss.min(tcp.window().into()) as usize;
        let data = self.data.get(done..).unwrap_or_default();
        let last = data.len() <= most;
        Ok(Answer {
            data: data.get(..most).unwrap_or(data),
            flags: if last {
                TcpFlags::ACK | TcpFlags::FIN
            } else {
                TcpFlags::ACK
            },
            ..answer
        })
    }

    fn make(cx: &mut Cx<'_>, answer: &Answer<'_>, ident: u16) -> Option<Packet> {
        let syn = answer.flags.contains(TcpFlags::SYN);
        let header_len = if syn { 24 } else { 20 };
        let length = 20 + header_len + answer.data.len();
        let mut packet = cx.pool().packet(HEADROOM, length)?;
        let bytes = packet.data_mut();
        let header = Ipv4Header {
            tos: 0,
            total_len: length as u16,
            ident,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 200,
            protocol: IpProtocol::TCP,
            source: answer.source.0,
            destination: answer.destination.0,
        };
        let mut ip = Ipv4Packet::new_unchecked(bytes);
        header.emit(&mut ip);
        let pseudo = ip.pseudo_header();
        let payload = ip.payload_mut();
        payload.get_mut(header_len..)?.copy_from_slice(answer.data);
        let header = TcpHeader {
            source: answer.source.1,
            destination: answer.destination.1,
            sequence: answer.sequence,
            acknowledgment: answer.acknowledgment,
            flags: answer.flags,
            window: 0xffff,
            urgent: 0,
        };
        let mut tcp = TcpPacket::new_unchecked(payload);
        header.emit(&mut tcp);
        tcp.set_header_len_and_flags(header_len, answer.flags);
        if syn {
            let [high, low] = OWN_MSS.to_be_bytes();
            tcp.option_bytes_mut().copy_from_slice(&[2, 4, high, low]);
        }
        tcp.fill_checksum(pseudo);
        packet.set_network_header(0, 20);
        packet.set_dst_ip(answer.destination.0);
        Some(packet)
    }
}

impl Element for StatelessTCPResponder {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.data.len() > DATA_MAX {
            return Err(args.fail(format_args!("DATA too long; max {DATA_MAX} bytes")));
        }
        Ok(())
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        // Even numbers, as Click's: two in a row of one host are told apart.
        let ident = self.ident;
        self.ident = ident.wrapping_add(2);
        let answer = match self.answer(packet) {
            Ok(answer) => Self::make(cx, &answer, ident),
            Err(Silence::Foreign) => return Verdict::To(1),
            Err(Silence::Done) => None,
        };
        let Some(answer) = answer else {
            return Verdict::Drop;
        };
        let asked = core::mem::replace(packet, answer);
        cx.kill(asked);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 54321);
    const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 80);

    fn rig(data: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> CheckIPHeader -> r :: StatelessTCPResponder({data}) -> c :: Collect;
            r[1] -> other :: Collect;"
        ))
    }

    /// A client's segment; its checksum does not matter.
    fn segment(flags: u8, (sequence, acknowledgment): (u32, u32), mss: Option<u16>) -> Vec<u8> {
        let options: Vec<u8> = mss.map_or(Vec::new(), |mss| {
            let [high, low] = mss.to_be_bytes();
            [2, 4, high, low].to_vec()
        });
        let mut packet = tcp(CLIENT, SERVER, flags, &options);
        packet[24..28].copy_from_slice(&sequence.to_be_bytes());
        packet[28..32].copy_from_slice(&acknowledgment.to_be_bytes());
        packet[32] = (5 + options.len() as u8 / 4) << 4;
        packet
    }

    struct Reply {
        sequence: u32,
        acknowledgment: u32,
        flags: TcpFlags,
        data: Vec<u8>,
    }

    fn exchange(rig: &mut Rig, packet: &[u8]) -> Option<Reply> {
        rig.push("i", packet);
        let packet = rig.data("c").pop()?;
        assert_eq!(checksum(&packet[..20]), 0);
        let ip = Ipv4Packet::new_checked(&packet[..]).unwrap();
        let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
        assert!(tcp.verify_checksum(ip.pseudo_header()));
        assert_eq!((ip.source(), tcp.source()), SERVER);
        assert_eq!((ip.destination(), tcp.destination()), CLIENT);
        Some(Reply {
            sequence: tcp.sequence().0,
            acknowledgment: tcp.acknowledgment().0,
            flags: tcp.flags(),
            data: tcp.payload().to_vec(),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_client_gets_all_data(length in 0usize..5000, mss in 20u16..1500, start: u32) {
            let data: Vec<u8> = (0..length).map(|i| b'a' + (i % 26) as u8).collect();
            let text = core::str::from_utf8(&data).unwrap();
            let mut rig = rig(&format!("\"{text}\""));
            let syn = exchange(&mut rig, &segment(2, (start, 0), Some(mss))).unwrap();
            prop_assert_eq!(syn.flags, TcpFlags::SYN | TcpFlags::ACK);
            let own = start.wrapping_add(1);
            prop_assert_eq!(syn.acknowledgment, own);
            let (mut next, mut got) = (syn.sequence.wrapping_add(1), Vec::new());
            loop {
                let reply = exchange(&mut rig, &segment(0x10, (own, next), None)).unwrap();
                prop_assert_eq!((reply.sequence, reply.acknowledgment), (next, own));
                prop_assert!(reply.data.len() <= mss.into());
                next = next.wrapping_add(reply.data.len() as u32);
                got.extend(reply.data);
                if reply.flags.contains(TcpFlags::FIN) {
                    break;
                }
            }
            prop_assert_eq!(got, data);
            // The FIN's acknowledgment is not answered; the client's own FIN is.
            next = next.wrapping_add(1);
            prop_assert!(exchange(&mut rig, &segment(0x10, (own, next), None)).is_none());
            let last = exchange(&mut rig, &segment(0x11, (own, next), None)).unwrap();
            prop_assert_eq!(last.acknowledgment, own.wrapping_add(1));
            prop_assert!(last.data.is_empty());
            prop_assert_eq!(rig.read("r.evil"), "0");
        }
    }

    #[test]
    fn what_no_peer_sends_is_counted() {
        let mut rig = rig("abc");
        // A made-up number, SYN and ACK together, neither, a tiny segment size.
        for packet in [
            segment(0x10, (1, 0), None),
            segment(0x12, (1, 0), None),
            segment(0x08, (1, 0), None),
            segment(0x02, (1, 0), Some(19)),
        ] {
            assert!(exchange(&mut rig, &packet).is_none());
        }
        assert!(exchange(&mut rig, &segment(0x04, (1, 0), None)).is_none());
        rig.assert_handlers(&[("r.evil", "4"), ("r.resets", "1")]);
        rig.push("i", &udp(CLIENT, SERVER, &[1]));
        assert_eq!(rig.data("other").len(), 1);
    }
}
