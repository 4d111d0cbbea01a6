use super::segment::{Segment, Style, make};
use super::tcp_demux::{End, Flows};
use crate::prelude::*;

/// Opens one TCP connection, and gives outgoing segments its addresses, ports and numbers.
///
/// `connect` adds the flow to the TCPDemux upstream and sends a SYN by output 2; when the answer
/// comes, segments can be pulled by output 1. `listen` adds the flow and drops its segments: it does
/// not accept connections yet. Packets must have their IP header marked. Checksums of outgoing
/// segments are left to SetIPChecksum and SetTCPChecksum.
///
/// # Example
/// ```click
/// conn :: TCPConn;
/// FromHost(fake0, 192.0.2.1/24) -> Strip(14) -> CheckIPHeader -> TCPDemux -> [0] conn [0]
///     -> Discard;
/// InfiniteSource(ACTIVE false) -> Queue -> [1] conn [1] -> Discard;
/// conn [2] -> SetIPChecksum -> SetTCPChecksum -> IPPrint -> Discard;
/// ```
///
/// # See also
/// TCPDemux, TCPAck, TCPBuffer
#[derive(Element)]
#[element(ports = "2/3", processing = "hl/hlh", flow = "xy/xyz", handlers)]
#[inputs("incoming segments, from a TCPDemux", "outgoing segments")]
#[outputs("incoming segments", "outgoing segments", "SYNs")]
pub struct TCPConn {
    demux: Option<Link<dyn Flows>>,
    /// The local and the remote end.
    flow: Option<(End, End)>,
    listens: bool,
    established: bool,
    /// The next sequence number to send.
    next: u32,
}

impl TCPConn {
    /// Adds a flow; false if that is impossible.
    fn open(&mut self, cx: &mut Cx<'_>, local: End, remote: End) -> bool {
        let Some(demux) = self.demux else {
            return false;
        };
        if cx.reach(demux, |demux, _| demux.add(local, remote, 0)) != Some(true) {
            return false;
        }
        (self.flow, self.established) = (Some((local, remote)), false);
        true
    }

    fn connect(&mut self, cx: &mut Cx<'_>, local: End, remote: End) -> bool {
        if !self.open(cx, local, remote) {
            return false;
        }
        (self.listens, self.next) = (false, cx.random().next_u32());
        let syn = Segment {
            source: local,
            destination: remote,
            flags: TcpFlags::SYN,
            sequence: self.next,
            acknowledgment: 0,
            payload: 0,
        };
        match make(cx, &syn, &Style::CONTROL, &[]) {
            Some(packet) => cx.emit(2, packet),
            None => cx.chatter("TCPConn: cannot make packet"),
        }
        true
    }

    /// Gives an outgoing segment the connection's addresses, ports and sequence number.
    fn address(&mut self, packet: &mut Packet) -> Option<()> {
        let (local, remote) = self.flow?;
        let segment = Segment::of(packet)?;
        let header = packet.network_header_mut()?;
        let mut ip = Ipv4Packet::new_unchecked(&mut header[..]);
        let header_len = ip.header_len();
        ip.set_source(local.0);
        ip.set_destination(remote.0);
        let mut tcp = TcpPacket::new_unchecked(header.get_mut(header_len..)?);
        tcp.set_source(local.1);
        tcp.set_destination(remote.1);
        tcp.set_sequence(TcpSequence(self.next));
        self.next = self.next.wrapping_add(segment.sequence_length());
        Some(())
    }
}

#[handlers]
impl TCPConn {
    /// `connect SRC SPORT DST DPORT`, or `listen SRC SPORT`.
    #[write]
    fn ctrl(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        if self.flow.is_some() {
            return Err("TCPConn already active".into());
        }
        let mut action = String::new();
        let [mut from, mut to] = [Ipv4Addr::UNSPECIFIED; 2];
        let [mut from_port, mut to_port] = [0; 2];
        let name: String = cx.name().into();
        let mut args = Args::from_words(value, cx.name_database(), &NoElements, &name);
        let read = args
            .read()
            .mandatory_positional("ACTION", &mut action)
            .mandatory_positional("SRC", &mut from)
            .mandatory_positional_with("SPORT", Port::TCP, &mut from_port)
            .positional("DST", &mut to)
            .positional_with("DPORT", Port::TCP, &mut to_port)
            .complete();
        if read.is_err() {
            let errors = args.take_errors();
            let text = errors.first().map(|error| error.text.clone());
            return Err(text.unwrap_or_default().into());
        }
        let local = (from, from_port);
        match action.as_str() {
            "connect" if self.connect(cx, local, (to, to_port)) => Ok(()),
            "connect" => Err("cannot connect".into()),
            "listen" if self.open(cx, local, (Ipv4Addr::UNSPECIFIED, 0)) => {
                self.listens = true;
                Ok(())
            }
            "listen" => Err("cannot listen".into()),
            _ => Err("action must be connect or listen".into()),
        }
    }

    /// Closes the connection.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        if let (Some((local, remote)), Some(demux)) = (self.flow.take(), self.demux) {
            cx.reach(demux, |demux, _| demux.remove(local, remote));
        }
        self.established = false;
    }
}

impl Element for TCPConn {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let found = cx.graph().nearest_upstream(cx.id(), 0, "TCPDemux");
        self.demux = found.first().and_then(|id| cx.link(*id));
        if self.demux.is_none() {
            return Err(cx.error("need at least 1 upstream TCPDemux"));
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
    }

    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let segment = Segment::of(packet).filter(|_| !self.listens);
        let Some(segment) = segment else {
            return Verdict::Drop;
        };
        if segment.has(TcpFlags::SYN | TcpFlags::ACK) && !self.established {
            self.established = true;
            self.next = self.next.wrapping_add(1);
        }
        Verdict::Forward
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        filter(self, cx, batch);
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        if self.flow.is_some() && !self.listens && self.established {
            cx.pull_through(1, most);
        }
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        batch.filter(
            &mut (self, cx),
            |(conn, _), packet| conn.address(packet).is_none().then_some(()),
            |(_, cx), packet, ()| cx.kill(packet),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tcp_buffer::tests::segment;
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> MarkIPHeader -> TCPDemux -> [0] c :: TCPConn [0]
        -> in :: Collect;
        o :: Inject -> MarkIPHeader -> Queue -> [1] c [1] -> p :: Puller;
        c [2] -> CheckIPHeader -> syn :: Collect;";

    #[test]
    fn a_connection_opens_and_numbers_what_is_sent() {
        let mut rig = Rig::new(CONFIG);
        rig.push("o", &segment(99, 0x10, &[7; 10]));
        rig.push("o", &segment(99, 0x10, &[8; 10]));
        assert!(rig.pull("p", 1).is_empty());
        rig.write("c.ctrl", "connect 1.0.0.1 5 2.0.0.2 80");
        assert!(
            rig.try_write("c.ctrl", "connect 1.0.0.1 5 2.0.0.2 80")
                .is_err()
        );
        let syn = rig.data("syn").remove(0);
        assert_eq!(
            (&syn[12..24], syn[33]),
            (&[1, 0, 0, 1, 2, 0, 0, 2, 0, 5, 0, 80][..], 2)
        );
        let word = |data: &[u8]| u32::from_be_bytes(*data[24..].first_chunk().unwrap());
        rig.push("i", &segment(500, 0x12, &[]));
        assert_eq!(rig.data("in").len(), 1);
        let sent = rig.pull("p", 2);
        assert_eq!(sent[0].data()[12..24], syn[12..24]);
        assert_eq!(word(sent[0].data()), word(&syn).wrapping_add(1));
        assert_eq!(word(sent[1].data()), word(&syn).wrapping_add(11));
        rig.write("c.reset", "");
        rig.push("i", &segment(501, 0x10, &[1]));
        assert!(rig.data("in").is_empty());
        assert_eq!(rig.printed(), ["reject packet from unknown flow"]);
    }

    #[test]
    fn a_listener_takes_nothing_yet() {
        let mut rig = Rig::new(CONFIG);
        rig.write("c.ctrl", "listen 1.0.0.1 5");
        rig.push("i", &segment(500, 2, &[]));
        assert!(rig.data("in").is_empty() && rig.printed().is_empty());
        rig.write("c.reset", "");
        let refused = rig.try_write("c.ctrl", "dance 1.0.0.1 5");
        assert_eq!(refused, Err("action must be connect or listen".into()));
        Rig::refuses(
            "Idle -> [0] c :: TCPConn [0] -> Discard; Idle -> [1] c [1]
            -> Discard; c [2] -> Discard;",
            "need at least 1 upstream TCPDemux",
        );
    }
}
