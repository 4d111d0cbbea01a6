use super::segment::{HEADERS, Segment, Style, make};
use crate::prelude::*;

/// Turns TCP segments into text and text into TCP segments, by a handler.
///
/// Reading `data` pulls the next segment with data from input 0 and shows the data. Writing `data`
/// sends the text from output 0, in segments of up to MTU bytes of data, without addresses, ports and
/// numbers, which a TCPConn and a TCPAck add. Packets from input 1 are dropped.
///
/// # Example
/// ```click
/// b :: BufferConverter(1400);
/// FromDump(in.pcap, FORCE_IP true) -> Queue -> [0] b -> IPPrint -> Discard;
/// Idle -> [1] b;
/// DriverManager(wait 1s, print b.data, write b.data hello, stop);
/// ```
///
/// # See also
/// TCPBuffer, TCPConn, TCPAck
#[derive(Element)]
#[element(ports = "2/1", processing = "lh/h", flow = "xy/z", handlers)]
#[inputs("segments to be read", "ICMP errors about the path's MTU")]
#[outputs("segments written")]
pub struct BufferConverter {
    /// Most bytes of data of a segment.
    #[arg(mandatory, name = "MTU")]
    most: u16,
}

/// The data of a segment.
fn payload(packet: &Packet) -> Option<&[u8]> {
    let header = packet.network_header()?;
    let segment = Segment::parse(header)?;
    let total = usize::from(Ipv4Packet::new_quoted(header).ok()?.total_len());
    header.get(total.checked_sub(segment.payload as usize)?..total)
}

#[handlers]
impl BufferConverter {
    /// The data of the next segment; empty if there is none.
    #[read]
    fn data(&mut self, cx: &mut Cx<'_>) -> String {
        // What is on the packets' way may call this element's handlers.
        while let Some(packet) = cx.call_out(self, |cx| cx.pull_one(0)) {
            let text = payload(&packet).map(click::text::decode);
            let text = text.unwrap_or_default().into_owned();
            cx.kill(packet);
            if !text.is_empty() {
                return text;
            }
        }
        String::new()
    }

    /// Sends text.
    #[write(raw)]
    fn write_data(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), &'static str> {
        let blank = Segment {
            source: (Ipv4Addr::UNSPECIFIED, 0),
            destination: (Ipv4Addr::UNSPECIFIED, 0),
            flags: TcpFlags::PSH,
            sequence: 0,
            acknowledgment: 0,
            payload: 0,
        };
        for data in click::text::encode(text).chunks(self.most.into()) {
            let packet = make(cx, &blank, &Style::CONTROL, data);
            cx.emit(
                0,
                packet.ok_or("no packet buffer is free: write the rest later")?,
            );
        }
        Ok(())
    }
}

impl Element for BufferConverter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let most = usize::from(u16::MAX) - HEADERS;
        if self.most == 0 || usize::from(self.most) > most {
            return Err(args.fail(format_args!("MTU must be from 1 to {most}")));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        // There is no such output.
        1
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const A: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 5);

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> MarkIPHeader -> q :: Queue -> [0] b :: BufferConverter({arguments})
                -> c :: Collect; j :: Inject -> [1] b;"
        ))
    }

    #[test]
    fn data_is_read_a_segment_at_a_time() {
        let mut rig = rig("1400");
        let mut padded = tcp(A, A, 0x18, b"two");
        padded.extend([0; 4]);
        rig.push_all(
            "i",
            &[tcp(A, A, 0x18, b"one"), tcp(A, A, 0x10, b""), padded],
        );
        rig.assert_handlers(&[("b.data", "one"), ("b.data", "two")]);
        rig.assert_handlers(&[("b.data", ""), ("q.length", "0")]);
    }

    #[test]
    fn text_can_be_written_while_data_is_read() {
        let config = "i :: Inject -> MarkIPHeader -> Queue
            -> Script(TYPE PACKET, write b.data reply, return 0)
            -> [0] b :: BufferConverter(1400) -> c :: Collect; Idle -> [1] b;";
        let mut rig = Rig::new(config);
        rig.push("i", &tcp(A, A, 0x18, b"one"));
        assert_eq!(rig.read("b.data"), "one");
        assert_eq!(&rig.data("c")[0][40..], b"reply");
        assert!(rig.printed().is_empty());
    }

    #[test]
    fn text_is_sent_in_segments() {
        let mut rig = rig("3");
        rig.write("b.data", "hello");
        let sent = rig.data("c");
        assert_eq!((&sent[0][40..], &sent[1][40..]), (&b"hel"[..], &b"lo"[..]));
        assert_eq!((checksum(&sent[0][..20]), sent[0][33]), (0, 8));
        rig.push("j", &[1]);
        assert!(rig.data("c").is_empty());
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for most in ["0", "65500"] {
            let config = format!(
                "b :: BufferConverter({most}); Idle -> [0] b -> Discard;
                Idle -> [1] b;"
            );
            Rig::refuses(&config, "MTU must be from 1 to 65495");
        }
    }
}
