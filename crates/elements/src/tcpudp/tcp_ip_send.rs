use crate::prelude::*;

/// Makes TCP packets when its handler is written.
///
/// The packets have no data and right checksums; their IP header is marked. A new write replaces
/// the packets not yet sent.
///
/// # Example
/// ```click
/// send :: TCPIPSend -> IPPrint -> Discard;
/// DriverManager(write send.send 1.0.0.1 1000 2.0.0.2 80 1 0 2, stop);
/// ```
///
/// # See also
/// InfiniteSource, FastTCPFlows
#[derive(Element)]
#[element(ports = "0/1", processing = "h", handlers)]
pub struct TCPIPSend {
    template: Vec<u8>,
    left: u32,
    stop: bool,
    task: Option<TaskId>,
}

fn packet(
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    numbers: (u32, u32),
    flags: u8,
) -> [u8; 40] {
    let mut bytes = [0; 40];
    let header = Ipv4Header {
        tos: 0,
        total_len: 40,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 255,
        protocol: IpProtocol::TCP,
        source: source.0,
        destination: destination.0,
    };
    let mut ip = Ipv4Packet::new_unchecked(&mut bytes[..]);
    header.emit(&mut ip);
    let pseudo = ip.pseudo_header();
    let header = TcpHeader {
        source: source.1,
        destination: destination.1,
        sequence: TcpSequence(numbers.0),
        acknowledgment: TcpSequence(numbers.1),
        flags: TcpFlags::from_bits(flags.into()),
        window: 32120,
        urgent: 0,
    };
    let mut tcp = TcpPacket::new_unchecked(ip.payload_mut());
    header.emit(&mut tcp);
    tcp.fill_checksum(pseudo);
    bytes
}

impl TCPIPSend {
    /// Sends as many packets as go at once; stops the driver after the last if it is to be.
    fn send_some(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..self.left.min(cx.limit() as u32) {
            let Some(mut packet) = cx.pool().packet(HEADROOM, self.template.len()) else {
                // Others hold the buffers: later.
                return;
            };
            packet.data_mut().copy_from_slice(&self.template);
            packet.set_network_header(0, 20);
            cx.emit(0, packet);
            self.left -= 1;
        }
        if self.left == 0 && core::mem::take(&mut self.stop) {
            cx.stop();
        }
    }
}

#[handlers]
impl TCPIPSend {
    /// `SRC SPORT DST DPORT SEQNO ACKNO FLAGS [COUNT [STOP]]`: sends COUNT (1) packets with these
    /// addresses, ports, numbers and flags (an integer); with STOP true, stops the driver then.
    #[write]
    fn send(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let nobody = (Ipv4Addr::UNSPECIFIED, 0);
        let (mut source, mut destination) = (nobody, nobody);
        let (mut numbers, mut flags, mut count, mut stop) = ((0, 0), 0, 1, false);
        router::parse_words(cx, value, |args| {
            args.read()
                .mandatory_positional("SRC", &mut source.0)
                .mandatory_positional_with("SPORT", Port::TCP, &mut source.1)
                .mandatory_positional("DST", &mut destination.0)
                .mandatory_positional_with("DPORT", Port::TCP, &mut destination.1)
                .mandatory_positional("SEQNO", &mut numbers.0)
                .mandatory_positional("ACKNO", &mut numbers.1)
                .mandatory_positional("FLAGS", &mut flags)
                .positional("COUNT", &mut count)
                .positional("STOP", &mut stop)
                .complete()
        })?;
        self.template = packet(source, destination, numbers, flags).to_vec();
        (self.left, self.stop) = (count, stop);
        self.send_some(cx);
        if let Some(task) = self.task.filter(|_| self.left > 0) {
            cx.schedule(task);
        }
        Ok(())
    }
}

impl Element for TCPIPSend {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.task = Some(cx.task());
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        self.send_some(cx);
        if self.left > 0 {
            cx.schedule(task);
        }
        Ran::Worked
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_are_sent_when_asked_for() {
        let mut rig = Rig::new("s :: TCPIPSend -> c :: Collect;");
        rig.write("s.send", "1.0.0.1 1000 2.0.0.2 80 1 2 18 150 true");
        rig.run();
        let packets = rig.data("c");
        assert_eq!(packets.len(), 150);
        assert_eq!(rig.router.run_count(), 0);
        let (a, b) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        let mut expected = tcp((a, 1000), (b, 80), 18, &[]);
        expected[34..36].copy_from_slice(&32120u16.to_be_bytes());
        expected[36..38].copy_from_slice(&packets[0][36..38]);
        expected[6..12].copy_from_slice(&packets[0][6..12]);
        assert_eq!(packets[0], expected);
        assert_eq!(packets[0][6..10], [0x40, 0, 255, 6]);
        assert_eq!(checksum(&packets[0][..20]), 0);
        let pseudo = [&packets[0][12..20], &[0, 6, 0, 20], &packets[0][20..]].concat();
        assert_eq!(checksum(&pseudo), 0);
    }

    #[test]
    fn one_packet_is_sent_at_once_and_none_if_so_asked() {
        let mut rig = Rig::new("s :: TCPIPSend -> c :: Collect;");
        rig.write("s.send", "1.0.0.1 1000 2.0.0.2 80 1 2 18");
        assert_eq!(rig.data("c").len(), 1);
        rig.write("s.send", "1.0.0.1 1000 2.0.0.2 80 1 2 18 0");
        assert!(rig.data("c").is_empty());
        for wrong in [
            "",
            "1.0.0.1 1000 2.0.0.2 80 1 2 256",
            "x 1000 2.0.0.2 80 1 2 18",
        ] {
            assert!(rig.try_write("s.send", wrong).is_err(), "{wrong:?}");
        }
    }
}
