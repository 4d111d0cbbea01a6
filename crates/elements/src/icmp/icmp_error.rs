use super::encap::code_of;
use crate::prelude::*;

/// Answers IP packets with ICMP errors.
///
/// The error is an IP packet to the sender of the faulty packet, and carries as much of that packet
/// as fits. It takes the packet's source route back. Its destination address annotation is set, and
/// its timestamp is the current time.
///
/// As RFC 1812, section 4.3.2.7, requires, these packets cause no error: ICMP errors, later
/// fragments, packets that arrived by link-level broadcast or multicast, packets to a broadcast or
/// multicast address, and packets whose source is not a single host. Packets must have their IP
/// header marked; others cause no error.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL
///     -> out :: Queue -> ToDevice(eth1);
/// ttl[1] -> ICMPError(18.26.4.24, timeexceeded) -> out;
/// ```
///
/// # See also
/// DecIPTTL, FixIPSrc, IPGWOptions, IPFragmenter
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct ICMPError {
    /// The source of the errors.
    #[arg(mandatory, name = "SRC", read, write, error = "expected IP address")]
    source: Ipv4Addr,
    /// `unreachable` (3), `sourcequench` (4), `redirect` (5), `timeexceeded` (11) or
    /// `parameterproblem` (12). A redirect's gateway is the packet's destination address
    /// annotation.
    #[arg(mandatory, name = "TYPE", with = NamedInt(Kind::IcmpType), kind = "integer or name")]
    type_number: i32,
    /// The ICMP code: `net`, `host`, `protocol`, `port`, `needfrag` for `unreachable`; `net`,
    /// `host` for `redirect`; `transit`, `reassembly` for `timeexceeded`; `erroratptr`,
    /// `missingopt`, `length` for `parameterproblem`. The pointer of `erroratptr` is the packet's
    /// ICMP parameter problem annotation, as IPGWOptions sets it.
    #[arg(positional, name = "CODE", with = WordArg, kind = "integer or name", default = "0".into(), default_text = "0")]
    code_name: String,
    /// Further addresses that are not a single host's, such as subnets' broadcast addresses.
    #[arg(positional, name = "BADADDRS")]
    bad: Vec<Ipv4Addr>,
    /// Longest error, in bytes.
    #[arg(default = 576, read, write, error = "expected integer")]
    mtu: u32,
    /// The next link's MTU in a `needfrag` error.
    #[arg(default = 0, name = "PMTU", read, write, error = "expected integer")]
    path_mtu: u32,
    /// Whether to set the annotation with which FixIPSrc replaces the source address.
    #[arg(name = "SET_FIX_ANNO", default = true)]
    fix_source: bool,
    #[init(Icmpv4Type::UNREACHABLE)]
    kind: Icmpv4Type,
    code: u8,
    #[init(1)]
    ident: u16,
    /// When the batch at work came, in nanoseconds since 1970; 0: not looked yet.
    now: i64,
}

/// A parameter problem with a pointer.
const ERROR_AT_POINTER: u8 = 0;

/// Longest option field, a multiple of four.
const OPTIONS_MAX: usize = 40;

impl ICMPError {
    fn single_host(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad.contains(&address)
    }

    /// Whether a source address may be answered (RFC 1812, sections 4.2.2.11 and 5.3.7).
    fn answerable(&self, address: Ipv4Addr) -> bool {
        let network = address.octets()[0];
        self.single_host(address) && network != 0 && network != 127 && network < 240
    }

    /// Whether an error may be sent about a packet (RFC 1812, section 4.3.2.7).
    fn allowed(&self, ip: &Ipv4Packet<&[u8]>, packet: &Packet) -> bool {
        if ip.protocol() == IpProtocol::ICMP {
            // The type alone does not do: a message is at least its checksum long.
            let icmp = ip.bytes().get(ip.header_len()..).unwrap_or_default();
            if icmp.len() < 4 || Icmpv4Type(icmp[0]).is_error() {
                return false;
            }
        }
        self.single_host(ip.destination())
            && !matches!(
                packet.packet_type(),
                PacketType::Broadcast | PacketType::Multicast
            )
            && self.answerable(ip.source())
            && ip.is_first_fragment()
    }

    /// The error about `packet`; `None` if there is to be none.
    fn answer(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Option<Packet> {
        let header = packet.network_header()?;
        let ip = Ipv4Packet::new_quoted(header).ok()?;
        if !self.allowed(&ip, packet) {
            return None;
        }
        let pointer = packet.anno(ICMP_PARAMPROB) as u8;
        let about_pointer =
            self.kind == Icmpv4Type::PARAMETER_PROBLEM && self.code == ERROR_AT_POINTER;
        let route = source_route(&ip);
        if route.is_some() && self.kind == Icmpv4Type::REDIRECT {
            return None;
        }
        // A source route that is itself the problem is not to be taken (section 4.3.2.6).
        let route = route.filter(|route| {
            let place = route.at..route.at + route.bytes.len();
            !(about_pointer && place.contains(&usize::from(pointer)))
        });
        let mut options = [0; OPTIONS_MAX];
        let options = reverse(route, &mut options);

        let header_len = Ipv4Packet::<&[u8]>::HEADER_LEN + options.len();
        let head = header_len + Icmpv4Packet::<&[u8]>::HEADER_LEN;
        let room = (self.mtu.min(0xffff) as usize).checked_sub(head)?;
        let quoted = header.get(..room).unwrap_or(header);
        let length = head + quoted.len();

        let mut error = cx.pool().packet(HEADROOM, length)?;
        let bytes = error.data_mut();
        self.write_ip(&mut bytes[..header_len], length, ip.source(), options);
        bytes[head..].copy_from_slice(quoted);
        let mut icmp = Icmpv4Packet::new_unchecked(&mut bytes[header_len..]);
        icmp.set_icmp_type(self.kind);
        icmp.set_code(self.code);
        icmp.set_rest(self.particulars(packet, pointer, about_pointer));
        icmp.fill_checksum();

        error.set_network_header(0, header_len);
        error.set_dst_ip(ip.source());
        if self.fix_source {
            error.set_anno(FIX_IP_SRC, 1);
        }
        if self.now == 0 {
            self.now = cx.wall();
        }
        error.set_timestamp(self.now);
        Some(error)
    }

    /// Writes the IP header with its options to `bytes`, which it fills.
    fn write_ip(&mut self, bytes: &mut [u8], length: usize, to: Ipv4Addr, options: &[u8]) {
        let header = Ipv4Header {
            tos: 0,
            total_len: length as u16,
            ident: self.ident,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 200,
            protocol: IpProtocol::ICMP,
            source: self.source,
            destination: to,
        };
        self.ident = self.ident.wrapping_add(1);
        let header_len = bytes.len();
        let mut ip = Ipv4Packet::new_unchecked(bytes);
        header.emit(&mut ip);
        if !options.is_empty() {
            ip.set_header_len(header_len);
            ip.option_bytes_mut().copy_from_slice(options);
            ip.fill_checksum();
        }
    }

    /// Bytes 4 to 8 of the ICMP header.
    fn particulars(&self, packet: &Packet, pointer: u8, about_pointer: bool) -> [u8; 4] {
        match self.kind {
            _ if about_pointer => [pointer, 0, 0, 0],
            Icmpv4Type::REDIRECT => packet.dst_ip().octets(),
            Icmpv4Type::UNREACHABLE if self.code == Icmpv4Unreachable::FRAGMENTATION_NEEDED.0 => {
                let [high, low] = (self.path_mtu as u16).to_be_bytes();
                [0, 0, high, low]
            }
            _ => [0; 4],
        }
    }
}

/// The source route of a packet, if its pointer makes sense.
fn source_route<'a>(ip: &'a Ipv4Packet<&[u8]>) -> Option<Ipv4Option<'a>> {
    let mut options = ip.options().map_while(Result::ok);
    options.find(|option| {
        let pointer = option.bytes.get(2).copied().unwrap_or(0);
        matches!(
            option.kind,
            Ipv4OptionKind::LOOSE_SOURCE_ROUTE | Ipv4OptionKind::STRICT_SOURCE_ROUTE
        ) && pointer >= 4
            && pointer.is_multiple_of(4)
            && usize::from(pointer) <= option.bytes.len() + 1
    })
}

/// The options of an answer to a packet that took `route`: back over the hops behind it.
fn reverse<'b>(route: Option<Ipv4Option<'_>>, buffer: &'b mut [u8; OPTIONS_MAX]) -> &'b [u8] {
    let Some(route) = route else {
        return &[];
    };
    // Kind, length, pointer and whole addresses: one byte short of a multiple of four.
    let length = usize::from(route.bytes[2]) - 1;
    buffer[..3].copy_from_slice(&[route.kind.0, length as u8, 4]);
    let (back, _) = buffer[3..length].as_chunks_mut::<4>();
    let (taken, _) = route.bytes[3..length].as_chunks::<4>();
    for (to, from) in back.iter_mut().zip(taken.iter().rev()) {
        *to = *from;
    }
    buffer[length] = Ipv4OptionKind::END.0;
    &buffer[..length + 1]
}

impl Element for ICMPError {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let Ok(kind) = u8::try_from(self.type_number) else {
            return Err(args.fail("ICMP type must be between 0 and 255"));
        };
        self.kind = Icmpv4Type(kind);
        if !self.kind.is_error() {
            return Err(args.fail(format_args!("ICMP type {kind} is not an error type")));
        }
        let code = code_of(&args.context(), kind, &self.code_name);
        let text = "argument 2 takes ICMP code (integer between 0 and 255)";
        self.code = code.ok_or_else(|| args.fail(text))?;
        Ok(())
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.answer(cx, packet) {
            Some(error) => {
                cx.kill(core::mem::replace(packet, error));
                Verdict::Forward
            }
            None => Verdict::Drop,
        }
    }

    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.now = 0;
        router::filter(self, cx, batch);
    }
}

#[cfg(test)]
mod tests;
