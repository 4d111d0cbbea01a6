use crate::prelude::*;

/// Most nodes of the tree of addresses: twice as many as addresses.
const NODES_MAX: usize = 1 << 21;

const ICMP: u8 = 1;
const IP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
/// What ICMP errors quote of a packet behind its IP header.
const QUOTED: usize = 8;

/// Replaces IP addresses by others, keeping which of them have a prefix in common.
///
/// Addresses with a common prefix become addresses with a common prefix of the same length, and are
/// otherwise random. 0.0.0.0 and 255.255.255.255 do not change. The checksum of the IP header is
/// updated. The addresses of packets in ICMP errors are replaced too, with the checksum of the
/// quoted header. (The method is that of tcpdpriv -A50. An observer of enough traffic may still
/// guess addresses.)
///
/// The element knows up to 1048576 addresses; further addresses become 0.0.0.0.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true, STOP true) -> AnonymizeIPAddr -> ToDump(out.pcap, ENCAP IP);
/// ```
///
/// # See also
/// EraseIPPayload
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", provides(Llrpcs))]
#[outputs(
    "packets with other addresses",
    "packets without an IPv4 header at the network header mark"
)]
pub struct AnonymizeIPAddr {
    /// How many classes of addresses are kept: 1, whether an address is of class A; 2, A or B; and
    /// so on up to 32. 99 means 32.
    #[arg(default = 0)]
    class: i32,
    /// Prefixes of 8 bits that are kept, such as 18.
    #[arg(with = args::Any, kind = "integers")]
    preserve_8: String,
    /// Accepted, without effect.
    #[arg]
    seed: bool,
    preserve: Vec<u8>,
    nodes: Vec<Node>,
    memo: Memo,
    warned: bool,
}

/// What addresses became, each at a place of its own or not at all: an address stays what it became. To go down the
/// tree takes a cache line and two a step.
#[derive(Default)]
struct Memo(Vec<[u32; 2]>);

impl Memo {
    /// A product with it has its upper bits from all bits of the address: they are the place.
    const FACTOR: u32 = 0x9e37_79b1;

    #[inline]
    fn place(&mut self, address: u32) -> Option<&mut [u32; 2]> {
        let shift = 32u32.checked_sub(self.0.len().trailing_zeros())?;
        let place = address.wrapping_mul(Memo::FACTOR).checked_shr(shift)?;
        self.0.get_mut(place as usize)
    }

    /// Replaces the places by empty ones, `least` at least, if there is memory.
    #[cold]
    fn grow(&mut self, least: usize) {
        let size = least.next_power_of_two();
        let mut places = Vec::new();
        if places.try_reserve_exact(size).is_ok() {
            places.resize(size, [0; 2]);
            self.0 = places;
        }
    }
}

/// An address, or a prefix that addresses share: then `input` and `output` are those of the child
/// with the higher bit.
#[derive(Clone, Copy, Default)]
struct Node {
    input: u32,
    output: u32,
    /// Places of the children among the nodes; both 0 if there are none.
    children: [u32; 2],
}

impl AnonymizeIPAddr {
    /// What an address becomes.
    fn map(&mut self, cx: &mut Cx<'_>, address: u32) -> u32 {
        if address == 0 || address == u32::MAX {
            return address;
        }
        if let Some([known, output]) = self.memo.place(address)
            && *known == address
        {
            return *output;
        }
        match self.find(cx, address) {
            Some(at) => {
                let output = self.nodes[at].output;
                if let Some(place) = self.memo.place(address) {
                    *place = [address, output];
                }
                output
            }
            None => {
                if !core::mem::replace(&mut self.warned, true) {
                    cx.chatter("AnonymizeIPAddr: out of memory!");
                }
                0
            }
        }
    }

    /// The node of an address, which is made if need be. `None` if there is no room.
    fn find(&mut self, cx: &mut Cx<'_>, address: u32) -> Option<usize> {
        let mut at = 0;
        loop {
            let node = *self.nodes.get(at)?;
            if node.input == address {
                return Some(at);
            }
            let differs = (address ^ node.input).leading_zeros();
            let [left, right] = node.children.map(|child| child as usize);
            if left == 0 {
                return self.split(cx, at, address);
            }
            let parts =
                (self.nodes.get(left)?.input ^ self.nodes.get(right)?.input).leading_zeros();
            if differs < parts {
                return self.split(cx, at, address);
            }
            at = match address & (1 << (31 - parts.min(31))) {
                0 => left,
                _ => right,
            };
        }
    }

    /// Lets a node become the parent of what it was and of an address that differs from it.
    fn split(&mut self, cx: &mut Cx<'_>, at: usize, address: u32) -> Option<usize> {
        if self.nodes.len() + 2 > NODES_MAX || self.nodes.try_reserve(2).is_err() {
            return None;
        }
        let old = self.nodes[at];
        let bit = (address ^ old.input).leading_zeros().min(31);
        let is_right = address & (1 << (31 - bit)) != 0;
        // The bits up to the one that differs are kept, that one is turned, the rest is chance.
        let chance = cx.random().next_u32();
        let kept = (old.output >> (31 - bit) ^ 1) << (31 - bit);
        let rest = chance.checked_shr(bit + 1).unwrap_or(0);
        let new = Node {
            input: address,
            output: kept | rest,
            children: [0; 2],
        };
        let first = self.nodes.len();
        let (left, right) = if is_right { (old, new) } else { (new, old) };
        self.nodes.extend([left, right]);
        self.nodes[at] = Node {
            children: [first as u32, first as u32 + 1],
            ..right
        };
        // As many places as nodes: two an address.
        if self.memo.0.len() < self.nodes.len() {
            self.memo.grow(2 * self.nodes.len());
        }
        Some(first + usize::from(is_right))
    }

    /// Replaces the addresses of an IP header, and updates its checksum.
    fn replace(&mut self, cx: &mut Cx<'_>, header: &mut [u8; IP_HEADER]) {
        let mut change = Delta::NONE;
        for at in [12, 16] {
            let Some(place) = header.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else {
                continue;
            };
            let old = u32::from_be_bytes(*place);
            let new = self.map(cx, old);
            *place = new.to_be_bytes();
            change = change + Delta::of_u32(old, new);
        }
        let sum = change.apply(u16::from_be_bytes([header[10], header[11]]));
        [header[10], header[11]] = sum.to_be_bytes();
    }

    /// Replaces the addresses in what an ICMP error quotes. As the quoted header's checksum follows
    /// them, the error's own stays right.
    fn replace_quoted(&mut self, cx: &mut Cx<'_>, icmp: &mut [u8]) {
        if !matches!(icmp.first(), Some(3 | 4 | 5 | 11 | 12)) {
            return;
        }
        let Some(quoted) = icmp.get_mut(ICMP_HEADER..) else {
            return;
        };
        let header = quoted.first().map_or(0, |byte| usize::from(byte & 15) * 4);
        if header < IP_HEADER || quoted.len() < header + QUOTED {
            return;
        }
        if let Some(quoted) = quoted.first_chunk_mut() {
            self.replace(cx, quoted);
        }
    }
}

impl Llrpcs for AnonymizeIPAddr {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        if call != Llrpc::MAP_IP_ADDRESS {
            return Err(HandlerError::Unknown);
        }
        let address = Ipv4Addr::from_octets(llrpc::word(data)?.to_ne_bytes());
        let mapped = Ipv4Addr::from_bits(self.map(cx, address.to_bits()));
        llrpc::set_word(data, u32::from_ne_bytes(mapped.octets()))
    }
}

impl Element for AnonymizeIPAddr {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.class > 32 && self.class != 99 {
            return Err(args.fail("CLASS must be between 0 and 32"));
        }
        let words = click::config::split_space(&self.preserve_8);
        let prefixes = words.iter().map(|word| args.context().parse(word));
        let prefixes: Result<_, _> = prefixes.collect();
        let expected = "PRESERVE_8 expects integer between 0 and 255";
        self.preserve = prefixes.map_err(|_| args.fail(expected))?;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        // Not 0: that address stands for itself.
        let mut root = Node {
            input: 1,
            output: cx.random().next_u32(),
            children: [0; 2],
        };
        let mut preserve = core::mem::take(&mut self.preserve).into_iter();
        if self.class > 0 {
            let mask = !u32::MAX.checked_shr(self.class as u32).unwrap_or(0);
            root.input = mask;
            root.output |= mask;
        } else if let Some(prefix) = preserve.next() {
            let address = u32::from(prefix) << 24;
            root.input = address;
            root.output = root.output & 0x00ff_ffff | address;
        }
        self.nodes.push(root);
        for prefix in preserve {
            let address = u32::from(prefix) << 24;
            if let Some(at) = self.find(cx, address) {
                let node = &mut self.nodes[at];
                node.output = node.output & 0x00ff_ffff | address;
            }
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet.network_header_mut();
        let Some(header) = header.and_then(|ip| ip.first_chunk_mut::<IP_HEADER>()) else {
            return Verdict::To(1);
        };
        if header[0] >> 4 != 4 {
            return Verdict::To(1);
        }
        self.replace(cx, header);
        if header[9] == ICMP
            && let Some(icmp) = packet.transport_header_mut()
        {
            self.replace_quoted(cx, icmp);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use alloc::vec::Vec;

    fn anonymizer(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> MarkIPHeader -> a :: AnonymizeIPAddr({args}) -> c :: Collect;
             a[1] -> d :: Collect;"
        ))
    }

    fn map(rig: &mut Rig, address: u32) -> u32 {
        let mut data = address.to_be_bytes();
        let id = rig.router.find("a").unwrap();
        let made = rig.router.llrpc(id, Llrpc::MAP_IP_ADDRESS, &mut data);
        made.unwrap();
        u32::from_be_bytes(data)
    }

    #[test]
    fn addresses_are_replaced_and_checksums_stay_right() {
        let mut rig = anonymizer("");
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let packet = udp((a, 1), (b, 2), b"x");
        rig.push("i", &packet);
        let mut error = alloc::vec![3, 1, 0, 0, 0, 0, 0, 0];
        error.extend(&packet);
        let sum = checksum(&error);
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut icmp = crate::testing::ping(b, a, &[]);
        icmp.truncate(20);
        let length = 20 + error.len() as u16;
        icmp[2..4].copy_from_slice(&length.to_be_bytes());
        icmp[10..12].fill(0);
        let sum = checksum(&icmp);
        icmp[10..12].copy_from_slice(&sum.to_be_bytes());
        icmp.extend(&error);
        rig.push("i", &icmp);
        let out = rig.data("c");
        let mapped: Vec<&[u8]> = [&out[0][12..16], &out[0][16..20]].into();
        assert_ne!(mapped[0], a.octets());
        // They part at the 31st bit, before and after.
        assert_eq!(mapped[0][..3], mapped[1][..3]);
        assert_eq!((mapped[0][3] ^ mapped[1][3]) & 0xfe, 2);
        assert_eq!([&out[1][12..16], &out[1][16..20]], [mapped[1], mapped[0]]);
        assert_eq!([&out[1][40..44], &out[1][44..48]], [mapped[0], mapped[1]]);
        for header in [&out[0][..20], &out[1][..20], &out[1][28..48], &out[1][20..]] {
            assert_eq!(checksum(header), 0);
        }
        rig.push("i", &[0x60; 40]);
        assert_eq!(rig.data("d").len(), 1);
    }

    #[test]
    fn prefixes_and_classes_are_kept_if_asked() {
        let mut rig = anonymizer("PRESERVE_8 18 20");
        for address in [0x1200_0001, 0x1212_1212, 0x1400_0001] {
            assert_eq!(map(&mut rig, address) >> 24, address >> 24);
        }
        let mut rig = anonymizer("CLASS 3");
        for address in [
            0x0a00_0001u32,
            0x8001_0203,
            0xc001_0203,
            0xe001_0203,
            0xf001_0203,
        ] {
            let ones = |address: u32| address.leading_ones().min(3);
            assert_eq!(ones(map(&mut rig, address)), ones(address));
        }
        for args in ["CLASS 33", "PRESERVE_8 256"] {
            Rig::errors(&format!("Idle -> AnonymizeIPAddr({args}) -> Discard;"));
        }
    }

    proptest! {
        #[test]
        fn as_many_bits_are_shared_as_before(
            addresses in proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..8, 0x0a000000u32..0x0a000010], 2..20),
            class in 0u32..=32,
        ) {
            let mut rig = anonymizer(&format!("CLASS {class}"));
            let mapped: Vec<u32> = addresses.iter().map(|address| map(&mut rig, *address)).collect();
            let special = |address: u32| address == 0 || address == u32::MAX;
            for (a, from) in addresses.iter().enumerate() {
                prop_assert_eq!(map(&mut rig, *from), mapped[a]);
                for (b, to) in addresses.iter().enumerate() {
                    if !special(*from) && !special(*to) {
                        prop_assert_eq!((from ^ to).leading_zeros(), (mapped[a] ^ mapped[b]).leading_zeros());
                    }
                }
            }
        }
    }
}
