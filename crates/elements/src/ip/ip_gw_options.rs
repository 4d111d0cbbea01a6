use crate::prelude::*;

const MILLISECONDS_A_DAY: i64 = 86_400_000;

/// Fills in the IP options for routers: record route and timestamp.
///
/// Place it in front of the interface that packets leave by: the options record its address (RFC
/// 1812, section 4.2.2.2). Packets must have their IP header marked. The checksum of a changed
/// header is recomputed. Packets with a malformed option are dropped; their ICMP parameter problem
/// annotation gives its offset in the header, in bytes.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> o :: IPGWOptions(18.26.4.24)
///     -> out :: Queue -> ToDevice(eth1);
/// o[1] -> ICMPError(18.26.4.24, parameterproblem) -> out;
/// ```
///
/// # See also
/// ICMPError
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs(
    "packets whose options are filled in",
    "packets with a malformed option"
)]
pub struct IPGWOptions {
    /// The address of the interface.
    #[arg(mandatory, name = "MYADDR")]
    address: Ipv4Addr,
    /// The router's other addresses, for timestamp options that name the routers.
    #[arg(positional, name = "OTHERADDRS")]
    others: Vec<Ipv4Addr>,
    /// Packets with a malformed option.
    #[handler(read)]
    drops: u64,
}

/// Whether an IP header is longer than one without options.
#[inline]
fn has_options(header: &[u8]) -> bool {
    header
        .first_chunk::<20>()
        .is_some_and(|header| header[0] & 0x0f > 5)
}

type Pointer<'a> = PointerOption<&'a mut [u8]>;

impl IPGWOptions {
    /// For an interface of `address`, of a router without others.
    pub(super) fn of(address: Ipv4Addr) -> IPGWOptions {
        IPGWOptions {
            address,
            ..IPGWOptions::default()
        }
    }

    /// Fills in the options of a packet; the error is where a malformed one is wrong, in bytes
    /// from the start of the header.
    #[cold]
    pub(super) fn fill(&self, cx: &Cx<'_>, header: &mut [u8]) -> Result<(), usize> {
        let mut ip = Ipv4Packet::new_unchecked(header);
        let mut walk = Ipv4OptionWalk::default();
        let mut touched = false;
        while let Some(option) = walk.step(ip.option_bytes()) {
            let (kind, at, length) = match option {
                Ok(option) => (option.kind, option.at, option.bytes.len()),
                Err(WireError::OptionLength { at }) => return Err(usize::from(at) + 1),
                Err(_) => break,
            };
            if kind != Ipv4OptionKind::RECORD_ROUTE && kind != Ipv4OptionKind::TIMESTAMP {
                continue;
            }
            let start = at - Ipv4Packet::<&[u8]>::HEADER_LEN;
            let bytes = &mut ip.option_bytes_mut()[start..start + length];
            let option = PointerOption::new_checked(bytes).map_err(|_| at + 1)?;
            let filled = if kind == Ipv4OptionKind::RECORD_ROUTE {
                self.record(option)
            } else {
                self.stamp(cx, option)
            };
            filled.map_err(|wrong| at + wrong)?;
            touched = true;
        }
        if touched {
            ip.fill_checksum();
        }
        Ok(())
    }

    /// Adds the address to the route. The error is which byte of the option is wrong.
    fn record(&self, mut option: Pointer<'_>) -> Result<(), usize> {
        let full = usize::from(option.pointer()) == option.len() + 1;
        if option.push(self.address) || full {
            return Ok(());
        }
        Err(2)
    }

    /// Adds the time, and what the flag asks for besides.
    fn stamp(&self, cx: &Cx<'_>, mut option: Pointer<'_>) -> Result<(), usize> {
        if option.offset().is_none() {
            return Err(2);
        }
        // Milliseconds since midnight UT (RFC 791, section 3.1).
        let now = (cx.wall() / 1_000_000).rem_euclid(MILLISECONDS_A_DAY) as u32;
        let room = option.room();
        let done = match option.flag() {
            TimestampFlag::TimeOnly => option.push(now),
            TimestampFlag::AddressAndTime => {
                room >= 8 && option.push(self.address) && option.push(now)
            }
            TimestampFlag::Prespecified if room >= 8 => {
                let asked = option.entry::<Ipv4Addr>();
                if asked.is_some_and(|asked| self.is_mine(asked)) {
                    option.skip(4);
                    return if option.push(now) { Ok(()) } else { Err(3) };
                }
                true
            }
            _ => return Err(3),
        };
        if done || option.count_overflow() {
            return Ok(());
        }
        Err(3)
    }

    fn is_mine(&self, address: Ipv4Addr) -> bool {
        address == self.address || self.others.contains(&address)
    }
}

impl Element for IPGWOptions {
    #[inline]
    fn affects(&self, packet: &Packet) -> bool {
        has_options(packet.network_header().unwrap_or_default())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            no_op: Facts::NO_OPTIONS,
            ..Effects::default()
        }
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet.network_header_mut().unwrap_or_default();
        if !has_options(header) {
            return Verdict::Forward;
        }
        match self.fill(cx, header) {
            Ok(()) => Verdict::Forward,
            Err(at) => {
                self.drops += packet.stands_for() as u64;
                packet.set_anno(ICMP_PARAMPROB, at as u32);
                Verdict::To(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> MarkIPHeader -> o :: IPGWOptions(1.2.3.4, 5.6.7.8)
            -> CheckIPHeader -> c :: Collect;
        o[1] -> bad :: Collect;";
    /// The test's start is 6 400 s after midnight.
    const NOW: [u8; 4] = 6_400_000u32.to_be_bytes();

    /// A packet with `options`, whose length is a multiple of 4.
    fn packet(options: &[u8]) -> Vec<u8> {
        let address = Ipv4Addr::new(9, 9, 9, 9);
        let mut packet = udp((address, 1), (address, 2), &[]);
        packet.splice(20..20, options.iter().copied());
        packet[0] += options.len() as u8 / 4;
        packet[3] += options.len() as u8;
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20 + options.len()]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// The options afterwards.
    fn filled(options: &[u8]) -> Vec<u8> {
        let mut rig = Rig::new(CONFIG);
        rig.push("i", &packet(options));
        let packets = rig.data("c");
        assert_eq!(packets.len(), 1, "{options:?}");
        packets[0][20..20 + options.len()].to_vec()
    }

    #[test]
    fn routes_are_recorded_while_there_is_room() {
        assert_eq!(filled(&[1, 7, 7, 4, 0, 0, 0, 0]), [1, 7, 7, 8, 1, 2, 3, 4]);
        assert_eq!(filled(&[7, 7, 8, 1, 1, 1, 1, 0]), [7, 7, 8, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn timestamps_are_filled_in_as_their_flag_says() {
        let [a, b, c, d] = NOW;
        assert_eq!(
            filled(&[68, 8, 5, 0, 0, 0, 0, 0]),
            [68, 8, 9, 0, a, b, c, d]
        );
        assert_eq!(
            filled(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            [68, 12, 13, 1, 1, 2, 3, 4, a, b, c, d]
        );
        assert_eq!(
            filled(&[68, 12, 5, 3, 5, 6, 7, 8, 0, 0, 0, 0]),
            [68, 12, 13, 3, 5, 6, 7, 8, a, b, c, d]
        );
        let others = [68, 12, 5, 3, 5, 6, 7, 9, 0, 0, 0, 0];
        assert_eq!(filled(&others), others);
        assert_eq!(filled(&[68, 8, 9, 0x20, 1, 1, 1, 1])[..4], [68, 8, 9, 0x30]);
    }

    #[test]
    fn other_options_are_left_alone() {
        let options = [148, 4, 0, 0, 0, 7, 99, 0];
        assert_eq!(filled(&options), options);
        assert_eq!(filled(&[]), []);
    }

    #[test]
    fn malformed_options_leave_by_output_1_with_their_place() {
        let mut rig = Rig::new(CONFIG);
        for (options, at) in [
            ([7, 1, 4, 0, 0, 0, 0, 0], 21),
            ([1, 7, 9, 4, 0, 0, 0, 0], 22),
            ([7, 2, 0, 0, 0, 0, 0, 0], 21),
            ([7, 7, 3, 0, 0, 0, 0, 0], 22),
            ([7, 7, 6, 0, 0, 0, 0, 0], 22),
            ([68, 8, 4, 0, 0, 0, 0, 0], 22),
            ([68, 8, 9, 0xf0, 0, 0, 0, 0], 23),
            ([68, 8, 5, 3, 1, 2, 3, 4], 23),
            ([68, 8, 5, 9, 0, 0, 0, 0], 23),
        ] {
            rig.push("i", &packet(&options));
            let bad = rig.collected("bad");
            assert_eq!(bad.len(), 1, "{options:?}");
            assert_eq!(bad[0].anno(ICMP_PARAMPROB), at, "{options:?}");
        }
        assert_eq!(rig.read("o.drops"), "9");
    }
}
