use crate::prelude::*;
use crate::rewriter::base::{Connections, Rewriter};
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::payload::replace;

/// Lets FTP clients behind a rewriter use active transfers.
///
/// An FTP client tells the server, by a PORT command on the control connection, an address and port
/// to connect to. This element watches control packets from the client to the rewriter for PORT
/// commands. It makes the data rewriter add a mapping for the data connection, from that port to
/// the server's port 20 (one below that of the control connection). It replaces the address and
/// port in the command by the mapped ones, and makes the control rewriter adjust sequence numbers
/// if the command's length changes. Nothing else changes: packets must pass the control rewriter
/// after this element, and must have their IP header marked.
///
/// A command that is split over packets, or belongs to a connection without a mapping in the
/// control rewriter, passes unchanged.
///
/// # Example
/// ```click
/// rw :: TCPRewriter(pattern 1.0.0.1 9000-14000 - - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(dst tcp port 21, tcp);
/// c [0] -> FTPPortMapper(rw, rw, 0) -> [0] rw;
/// c [1] -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// TCPRewriter, IPRewriter
#[derive(Element)]
#[element(ports = "1/1")]
pub struct FTPPortMapper {
    /// The TCPRewriter or IPRewriter that the packets pass afterwards.
    #[arg(mandatory)]
    control_rewriter: Option<Link<dyn Connections>>,
    /// The rewriter that packets of data connections pass; may be the same.
    #[arg(mandatory)]
    data_rewriter: Option<Link<dyn Rewriter>>,
    /// The input of DATA_REWRITER whose specification says how data connections are rewritten.
    #[arg(mandatory)]
    data_rewriter_input: usize,
}

impl Element for FTPPortMapper {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let inputs = self
            .data_rewriter
            .map(|link| cx.graph().info(link.id()).inputs.len());
        if inputs.is_none_or(|inputs| self.data_rewriter_input >= inputs) {
            return Err(args.fail("DATA_REWRITER_INPUT out of range"));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let Some(control) = self.control_rewriter.map(|link| link.id()) else {
            return Ok(());
        };
        if !is_downstream(cx, control) {
            let info = cx.graph().info(control);
            let warning = format!(
                "control packet rewriter ‘{} :: {}’ is not downstream",
                info.name, info.class.name
            );
            cx.warning(warning);
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(command) = Command::of(packet) {
            self.map(cx, &command, packet);
        }
        Verdict::Forward
    }
}

/// Whether packets of the element at work can get to `wanted`.
fn is_downstream(cx: &Cx<'_>, wanted: ElementId) -> bool {
    let graph = cx.graph();
    let (mut seen, mut ahead) = (Vec::new(), alloc::vec![cx.id()]);
    while let Some(id) = ahead.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        for port in 0..graph.info(id).outputs.len() {
            ahead.extend(graph.downstream(id, port).map(|(id, _)| id));
        }
    }
    seen.contains(&wanted)
}

/// A PORT command, and where it stands.
struct Command {
    /// The control connection.
    key: FlowKey,
    address: Ipv4Addr,
    port: u16,
    /// Length of the TCP header, and where in the segment the address starts and ends.
    start: usize,
    end: usize,
    /// The sequence number behind the segment.
    next: u32,
}

impl Command {
    /// The command in `packet`, if there is one.
    fn of(packet: &Packet) -> Option<Command> {
        let (ip, segment) = headers::parts(packet)?;
        if headers::protocol(ip) != IpProtocol::TCP {
            return None;
        }
        let key = headers::key(ip, segment)?;
        let header = segment.first_chunk::<20>()?;
        let length = usize::from(header[12] >> 4) * 4;
        let data = segment.get(length.max(20)..)?;
        let (word, rest) = data.split_at_checked(5)?;
        if !word.eq_ignore_ascii_case(b"PORT ") {
            return None;
        }
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        let rest = rest.get(spaces..)?;
        let (numbers, used) = numbers(rest)?;
        let [a, b, c, d, high, low] = numbers;
        let start = length + 5 + spaces;
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        Some(Command {
            key,
            address: Ipv4Addr::new(a, b, c, d),
            port: u16::from_be_bytes([high, low]),
            start,
            end: start + used,
            next: number.wrapping_add(data.len() as u32),
        })
    }
}

/// Six numbers below 256 with commas between and a line end behind, and how long they are.
pub fn numbers(text: &[u8]) -> Option<([u8; 6], usize)> {
    let length = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b',')?;
    if !matches!(text[length], b'\r' | b'\n') {
        return None;
    }
    let mut numbers = [0u8; 6];
    let mut parts = text[..length].split(|byte| *byte == b',');
    for number in &mut numbers {
        for digit in parts.next()? {
            *number = number.checked_mul(10)?.checked_add(digit - b'0')?;
        }
    }
    parts.next().is_none().then_some((numbers, length))
}

impl FTPPortMapper {
    /// Prepares the rewriters for what `command` announces, and rewrites it.
    fn map(&self, cx: &mut Cx<'_>, command: &Command, packet: &mut Packet) -> Option<()> {
        let (control, data, key) = (self.control_rewriter?, self.data_rewriter?, command.key);
        let known = cx.reach(control, |rewriter, cx| rewriter.base().lookup(cx, 0, key));
        let (flow, _) = known??;
        let server = (key.destination(), key.destination_port().wrapping_sub(1));
        let coming = FlowKey::new((command.address, command.port), server);
        let input = self.data_rewriter_input;
        let rewritten = cx.reach(data, |rewriter, cx| {
            rewriter.obtain(cx, IpProtocol::TCP, coming, input)
        });
        let key_outside = rewritten??.key;
        let [a, b, c, d] = key_outside.source().octets();
        let [high, low] = key_outside.source_port().to_be_bytes();
        let text = format!("{a},{b},{c},{d},{high},{low}");
        let by = replace(packet, command.start..command.end, text.as_bytes())?;
        cx.reach(control, |rewriter, cx| {
            let base = rewriter.base();
            base.change_sequence(cx, 0, key, command.next, by)
        });
        // The annotation of the control connection's packets goes for its data, too.
        cx.reach(data, |rewriter, cx| {
            let base = rewriter.base();
            base.set_reply_annotation(cx, 0, coming, flow.reply_annotation);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(200, 200, 200, 200), 30);
    const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 21);
    const OUTSIDE: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 1024);

    fn rig(class: &str) -> Rig {
        Rig::new(&format!(
            "rw :: {class}(pattern 1.0.0.1 1024-65535# - - 0 0, REPLY_ANNO PAINT);
             i :: Inject -> CheckIPHeader -> FTPPortMapper(rw, rw, 0) -> [0] rw [0]
                 -> CheckIPHeader -> CheckTCPHeader -> c :: Collect;"
        ))
    }

    fn segment(
        from: (Ipv4Addr, u16),
        to: (Ipv4Addr, u16),
        (seq, ack): (u32, u32),
        options: &[u8],
        payload: &[u8],
    ) -> Vec<u8> {
        let mut packet = tcp(from, to, 0x10, &[options, payload].concat());
        packet[24..28].copy_from_slice(&seq.to_be_bytes());
        packet[28..32].copy_from_slice(&ack.to_be_bytes());
        packet[32] = (5 + options.len() as u8 / 4) << 4;
        complete_tcp(&mut packet);
        packet
    }

    /// What the client's data become: sequence and acknowledgment number, and text.
    fn sends(rig: &mut Rig, seq: u32, ack: u32, text: &str) -> (u32, u32, String) {
        rig.push(
            "i",
            &segment(CLIENT, SERVER, (seq, ack), &[], text.as_bytes()),
        );
        seen(rig, OUTSIDE, SERVER)
    }

    fn answers(rig: &mut Rig, seq: u32, ack: u32, options: &[u8]) -> (u32, u32, String) {
        rig.push("i", &segment(SERVER, OUTSIDE, (seq, ack), options, &[]));
        seen(rig, SERVER, CLIENT)
    }

    fn seen(rig: &mut Rig, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> (u32, u32, String) {
        let packet = rig.data("c").pop().expect("the packet comes out intact");
        let number = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
        assert_eq!(packet[12..16], from.0.octets());
        assert_eq!(packet[16..20], to.0.octets());
        let data = 20 + usize::from(packet[32] >> 4) * 4;
        let text = String::from_utf8_lossy(&packet[data..]).into_owned();
        (number(24), number(28), text)
    }

    fn triple(seq: u32, ack: u32, text: &str) -> (u32, u32, String) {
        (seq, ack, text.into())
    }

    #[test]
    fn commands_are_rewritten_and_numbers_follow() {
        for class in ["TCPRewriter", "IPRewriter"] {
            let mut rig = rig(class);
            assert_eq!(sends(&mut rig, 0, 0, "x"), triple(0, 0, "x"));
            let command = "PORT 200,200,200,200,200,200\n";
            let rewritten = "PORT 1,0,0,1,4,1\n";
            // Sent twice, it makes one mapping, and one change.
            for _ in 0..2 {
                assert_eq!(sends(&mut rig, 1, 0, command), triple(1, 0, rewritten));
            }
            assert_eq!(sends(&mut rig, 30, 0, "fubar\n"), triple(18, 0, "fubar\n"));
            assert_eq!(sends(&mut rig, 0, 0, "x"), triple(0, 0, "x"));
            assert_eq!(answers(&mut rig, 0, 1, &[]), triple(0, 1, ""));
            assert_eq!(answers(&mut rig, 0, 18, &[]), triple(0, 30, ""));
            let second = sends(&mut rig, 36, 0, "port   200,200,200,200,200,201\r\n");
            assert_eq!(second, triple(24, 0, "port   1,0,0,1,4,2\r\n"));
            assert_eq!(sends(&mut rig, 68, 0, "more"), triple(44, 0, "more"));
            assert_eq!(rig.read("rw.size"), "3");
            let table = rig.read(&format!(
                "rw.{}",
                if class == "TCPRewriter" {
                    "table"
                } else {
                    "tcp_table"
                }
            ));
            assert_contains(&table, "=> (1.0.0.1, 1024, 2.0.0.2, 21) seq -24 [*0 0]");
            // The server connects from its port 20.
            let data = tcp((SERVER.0, 20), (OUTSIDE.0, 1025), 2, &[]);
            rig.push("i", &data);
            let connected = rig.data("c").pop().unwrap();
            assert_eq!(connected[16..20], CLIENT.0.octets());
            assert_eq!(connected[22..24], [200, 200]);
        }
    }

    #[test]
    fn selective_acknowledgments_follow() {
        let mut rig = rig("TCPRewriter");
        sends(&mut rig, 0, 0, "x");
        sends(&mut rig, 1, 0, "PORT 200,200,200,200,200,200\n");
        let mut options = std::vec![1, 1, 5, 18];
        for edge in [1u32, 10, 18, 20] {
            options.extend(edge.to_be_bytes());
        }
        rig.push("i", &segment(SERVER, OUTSIDE, (0, 0), &options, &[]));
        let packet = rig.data("c").pop().expect("the packet comes out intact");
        let edges: Vec<u8> = (0..4).map(|i| packet[44 + 4 * i + 3]).collect();
        assert_eq!(edges, [1, 10, 30, 32]);
    }

    #[test]
    fn what_is_no_command_passes() {
        let mut rig = rig("TCPRewriter");
        sends(&mut rig, 0, 0, "x");
        for text in [
            "PORT 200,200,200,200,200,200",
            "PORT 200,200,200,200,200\n",
            "PORT 200,200,200,200,200,256\n",
            "PORT 200,200,200,200,200,1,2\n",
            "PORT x\n",
            "PORT ",
            "POR",
        ] {
            assert_eq!(sends(&mut rig, 1, 0, text), triple(1, 0, text));
        }
        assert_eq!(rig.read("rw.size"), "1");
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, message) in [
            (
                "u, rw, 0",
                "CONTROL_REWRITER: element type mismatch, expected TCPRewriter",
            ),
            (
                "rw, d, 0",
                "DATA_REWRITER: element type mismatch, expected IPRewriterBase",
            ),
            ("rw, u, 1", "DATA_REWRITER_INPUT out of range"),
        ] {
            let errors = Rig::errors(&format!(
                "rw :: TCPRewriter(drop); u :: UDPRewriter(drop); Idle -> u -> d :: Discard;
                 Idle -> FTPPortMapper({arguments}) -> rw -> d;"
            ));
            assert!(errors.contains(message), "{arguments}: {errors}");
        }
        let mut rig = Rig::new(
            "rw :: TCPRewriter(drop); Idle -> rw -> d :: Discard;
             Idle -> FTPPortMapper(rw, rw, 0) -> d;",
        );
        let printed = rig.printed().concat();
        assert!(printed.contains("is not downstream"), "{printed}");
    }
}
