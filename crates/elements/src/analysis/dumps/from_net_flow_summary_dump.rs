use click::Location;

use super::replay::{Read, Replay};
use super::summary::Lines;
use crate::prelude::*;
use crate::userlevel::capture::source::{self, Opened, shown, shown_size};
use crate::userlevel::os_error;

/// Fields of a line that are looked at, and how many of those have to make sense.
const FIELDS: usize = 15;
const SENSE: usize = 10;

const PER_SECOND: i64 = 1_000_000_000;
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// Makes packets of the lines of a NetFlow summary.
///
/// Each line is a flow, with 15 fields or more between bars: 0 and 1, source and destination
/// address; 3 and 4, numbers of the interfaces it came in and went out by; 5 and 6, its packets and
/// bytes; 7 and 8, when it began and ended, in seconds since 1970; 9 and 10, source and destination
/// port; 12, its TCP flags; 13, the IP protocol; 14, the type of service. Empty lines, and lines
/// that start with `!` or `#`, are skipped, as are unreadable lines, the first with a message.
///
/// Packets have an IP header with its length, a TCP or UDP header, and no checksums. Their
/// timestamp is the flow's end, their first timestamp annotation its beginning; the extra packets
/// and extra length annotations count the flow's other packets and bytes. Their network header is
/// marked. Files that are compressed by gzip, bzip2 or zstd are read as they were before.
///
/// # Example
/// ```click
/// FromNetFlowSummaryDump(flows.txt, STOP true)
///     -> ToIPSummaryDump(-, FIELDS ip_src ip_dst count payload_len);
/// ```
///
/// # See also
/// FromIPSummaryDump, FromDump
#[derive(Element)]
#[element(ports = "0/1", handlers)]
pub struct FromNetFlowSummaryDump {
    /// The file; `-` is the standard input.
    #[arg(mandatory, with = FilenameArg, kind = "file name", read = shown)]
    filename: String,
    #[flatten]
    replay: Replay,
    /// The interface whose number becomes the paint: `input`, `output`, or `both`, four bits of
    /// each. Numbers that are too large become the largest.
    #[arg(
        name = "LINK",
        with = WordArg,
        kind = "word",
        default = "input".into(),
        default_text = "input"
    )]
    link_name: String,
    link: Link,
    file: Option<File>,
    /// Where the file ended, or reading it.
    end: u64,
    /// The file's length in bytes, `-` if that is not known.
    #[handler(read = shown_size)]
    filesize: Option<u64>,
}

/// Which interface's number becomes the paint.
#[derive(Clone, Copy, Default)]
enum Link {
    #[default]
    Input,
    Output,
    Both,
}

/// A file that is read.
struct File {
    lines: Lines,
    line: usize,
    /// A line made no sense, and that was said.
    complained: bool,
}

impl File {
    /// Reads on until there is a packet.
    fn read(&mut self, cx: &mut Cx<'_>, name: &str, link: Link) -> Read {
        let Some(mut packet) = cx.pool().empty() else {
            return Read::Nothing;
        };
        self.line += 1;
        let made = match self.lines.next_line() {
            Ok(None) => {
                cx.kill(packet);
                return Read::End;
            }
            Err(error) => {
                cx.kill(packet);
                cx.chatter(format_args!("{name}:{}: {}", self.line, os_error(&error)));
                return Read::End;
            }
            Ok(Some([] | [b'!' | b'#', ..])) => {
                cx.kill(packet);
                return Read::Nothing;
            }
            Ok(Some(line)) => make(line, link, &cx.names(), &mut packet),
        };
        if made.is_some() {
            return Read::Packet(packet);
        }
        cx.kill(packet);
        if !core::mem::replace(&mut self.complained, true) {
            cx.chatter(format_args!("{name}:{}: bad format", self.line));
        }
        Read::Nothing
    }
}

/// The fields of a line. `None` if it has fewer.
fn fields(line: &[u8]) -> Option<[&[u8]; FIELDS]> {
    let mut fields: [&[u8]; FIELDS] = [&[]; FIELDS];
    let mut bars = memchr::memchr_iter(b'|', line);
    let mut start = 0;
    for (number, field) in fields.iter_mut().enumerate() {
        let end = match bars.next() {
            Some(bar) => bar,
            None if number == FIELDS - 1 => line.len(),
            None => return None,
        };
        *field = &line[start..end];
        start = end + 1;
    }
    Some(fields)
}

/// A number, or what stands for one.
fn parse_number(word: &[u8], names: &Context<'_>) -> Option<u32> {
    match plain_decimal(word) {
        Some(number) => u32::try_from(number).ok(),
        None => names.parse(click::text::decode(word).trim()).ok(),
    }
}

/// An address, or what stands for one.
fn parse_address(word: &[u8], names: &Context<'_>) -> Option<Ipv4Addr> {
    let literal = parse_ipv4_literal(word);
    literal.or_else(|| names.parse(click::text::decode(word).trim()).ok())
}

/// Writes the packet of a flow into `packet`, which is empty. `None` if the line makes no sense.
fn make(line: &[u8], link: Link, names: &Context<'_>, packet: &mut Packet) -> Option<()> {
    let words = fields(line)?;
    let mut sense = 0;
    let mut number = |at: usize, most: u32| -> Option<u32> {
        let n = parse_number(words[at], names).filter(|n| *n <= most);
        sense += usize::from(n.is_some());
        n
    };
    let begin = number(7, u32::MAX);
    let end = number(8, u32::MAX);
    let packets = number(5, u32::MAX);
    let bytes = number(6, u32::MAX).unwrap_or(0);
    let protocol = number(13, 255).unwrap_or(0) as u8;
    let tos = number(14, 255).unwrap_or(0) as u8;
    let ports = [number(9, 0xffff), number(10, 0xffff)].map(|port| port.unwrap_or(0) as u16);
    let flags = number(12, 255).unwrap_or(0) as u8;
    let interface = |at: usize| parse_number(words[at], names);
    let paint = match link {
        Link::Input => interface(3).map(|input| input.min(255)),
        Link::Output => interface(4).map(|output| output.min(255)),
        Link::Both => interface(3)
            .zip(interface(4))
            .map(|(input, output)| input.min(15) << 4 | output.min(15)),
    };
    sense += usize::from(paint.is_some());
    let addresses = [0, 1].map(|at| parse_address(words[at], names));
    sense += addresses.iter().flatten().count();
    if sense < SENSE {
        return None;
    }

    let transport = match IpProtocol(protocol) {
        IpProtocol::TCP => TCP_HEADER,
        IpProtocol::UDP => UDP_HEADER,
        _ => 0,
    };
    if !packet.put(IP_HEADER + transport) {
        return None;
    }
    let length = bytes.min(0xffff) as u16;
    let data = packet.data_mut();
    data.fill(0);
    let mut set = |at: usize, bytes: &[u8]| {
        if let Some(place) = data.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    set(0, &[0x45, tos]);
    set(2, &length.to_be_bytes());
    set(9, &[protocol]);
    for (at, address) in [12, 16].into_iter().zip(addresses) {
        set(at, &address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
    }
    if transport > 0 {
        set(20, &ports[0].to_be_bytes());
        set(22, &ports[1].to_be_bytes());
    }
    match IpProtocol(protocol) {
        IpProtocol::TCP => set(32, &[(TCP_HEADER as u8 / 4) << 4, flags]),
        IpProtocol::UDP => set(24, &length.wrapping_sub(IP_HEADER as u16).to_be_bytes()),
        _ => {}
    }
    packet.set_network_header(0, IP_HEADER);
    packet.set_dst_ip(addresses[1].unwrap_or(Ipv4Addr::UNSPECIFIED));
    let nanoseconds = |seconds: u32| i64::from(seconds) * PER_SECOND;
    let begin = nanoseconds(begin.unwrap_or(0));
    packet.set_anno_u64(FIRST_TIMESTAMP, begin as u64);
    packet.set_timestamp(match end {
        Some(0) => begin,
        Some(end) => nanoseconds(end),
        None => 0,
    });
    packet.set_anno(EXTRA_PACKETS, packets.unwrap_or(1).saturating_sub(1));
    packet.set_paint(paint.unwrap_or(0) as u8);
    packet.set_anno(EXTRA_LENGTH, bytes.saturating_sub(packet.len() as u32));
    Some(())
}

/// The next packet of a file, which is closed at its end; `end` becomes its position there.
fn read_packet(
    file: &mut Option<File>,
    end: &mut u64,
    cx: &mut Cx<'_>,
    name: &str,
    link: Link,
) -> Read {
    let Some(open) = file else {
        return Read::End;
    };
    let read = open.read(cx, name, link);
    if matches!(read, Read::End) {
        *end = open.lines.position();
        *file = None;
    }
    read
}

#[handlers]
impl FromNetFlowSummaryDump {
    /// Where in the file the next line is, in bytes.
    #[read]
    fn filepos(&self) -> u64 {
        let file = self.file.as_ref();
        file.map_or(self.end, |file| file.lines.position())
    }
}

impl Element for FromNetFlowSummaryDump {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.link = match self.link_name.to_ascii_lowercase().as_str() {
            "input" => Link::Input,
            "output" => Link::Output,
            "both" => Link::Both,
            _ => return Err(args.fail("'LINK' should be 'input', 'output', or 'both'")),
        };
        self.replay.configured(cx);
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let location = Location::new(format!("{}:0", shown(&self.filename)), 0);
        let opened = source::open(&self.filename, false);
        let opened = opened.map_err(|error| error.report(cx, &location))?;
        if let Some(Opened { source, size }) = opened {
            self.filesize = size;
            let mut lines = Lines::new(source);
            match lines.peek() {
                Ok(Some(_)) => {}
                Ok(None) => return Err(cx.error_at(&location, "empty file")),
                Err(error) => return Err(cx.error_at(&location, os_error(&error))),
            }
            self.file = Some(File {
                lines,
                line: 0,
                complained: false,
            });
        }
        self.replay.initialize(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.replay.cleanup(cx);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.replay.run_timer(cx);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let (file, end, link) = (&mut self.file, &mut self.end, self.link);
        let name = shown(&self.filename);
        self.replay
            .run_task(cx, task, |cx| read_packet(file, end, cx, name, link))
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let (file, end, link) = (&mut self.file, &mut self.end, self.link);
        let name = shown(&self.filename);
        self.replay
            .pull(cx, batch, most, |cx| read_packet(file, end, cx, name, link));
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, make};
    use crate::testing::*;
    use crate::userlevel::testing::TempFile;

    const TEXT: &str = "# flows\n\n\
        192.4.1.32|18.26.4.44|x|14|16|5|10932|998006995|998006999|3917|80|x|18|6|0\n\
        nonsense|x\n1.0.0.1|2.0.0.2|x|300|1|1|100|998006995|0|53|54|x|0|17|8|more\n\
        1.0.0.1|2.0.0.2|x|2|3|2|90|10|20|0|0|x|0|47|0\n";

    fn read(args: &str) -> Rig {
        let file = TempFile::new(&format!("netflow{}", args.len()));
        file.write(TEXT.as_bytes());
        let mut rig = Rig::new(&format!(
            "f :: FromNetFlowSummaryDump({file}, STOP true{args}) -> c :: Collect;"
        ));
        assert_eq!(rig.run(), router::Status::Stopped);
        let lines = rig.printed();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with(":4: bad format"), "{lines:?}");
        rig
    }

    #[test]
    fn flows_become_packets() {
        let mut rig = read("");
        let packets = rig.collected("c");
        let seen: Vec<_> = packets
            .iter()
            .map(|p| {
                let ip = Ipv4Packet::new_quoted(p.data()).unwrap();
                let times = (
                    p.timestamp() / 1_000_000_000,
                    p.anno_u64(FIRST_TIMESTAMP) / 1_000_000_000,
                );
                let missing = (p.anno(EXTRA_PACKETS), p.anno(EXTRA_LENGTH));
                (
                    ip.source().octets()[0],
                    ip.total_len(),
                    p.len(),
                    times,
                    missing,
                    p.paint(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (192, 10932, 40, (998006999, 998006995), (4, 10892), 14),
                (1, 100, 28, (998006995, 998006995), (0, 72), 255),
                (1, 90, 20, (20, 10), (1, 70), 2),
            ]
        );
        assert_eq!(packets[0].data()[20..24], [15, 77, 0, 80]);
        assert_eq!(packets[0].data()[32..34], [0x50, 18]);
        assert_eq!(packets[1].data()[1], 8);
        assert_eq!(packets[1].data()[20..28], [0, 53, 0, 54, 0, 80, 0, 0]);
        assert_eq!(rig.read("f.encap"), "IP");
    }

    #[test]
    fn flows_become_as_many_packets_as_they_had() {
        let mut rig = read(", MULTIPACKET true, LINK both");
        let packets = rig.collected("c");
        assert_eq!(packets.len(), 5 + 1 + 2);
        let times: Vec<_> = packets
            .iter()
            .map(|p| p.timestamp() / 1_000_000_000 % 1000)
            .collect();
        assert_eq!(times, [995, 996, 997, 998, 999, 995, 10, 20]);
        assert_eq!((packets[0].paint(), packets[5].paint()), (0xef, 0xf1));
        Rig::refuses(
            "FromNetFlowSummaryDump(/nowhere/x) -> Discard;",
            "/nowhere/x: No such file or directory",
        );
        Rig::refuses(
            "FromNetFlowSummaryDump(x, LINK y) -> Discard;",
            "'LINK' should be",
        );
    }

    proptest! {
        #[test]
        fn any_line_is_read(words in proptest::collection::vec(prop_oneof!["[0-9]{1,12}", "[0-9.]{1,12}", ".{0,5}"], 0..20)) {
            let mut pool = Pool::heap(1);
            let mut packet = pool.empty().unwrap();
            make(words.join("|").as_bytes(), Link::Both, &Context::blank(), &mut packet);
        }
    }
}
