//! Which flow a frame belongs to.
//!
//! A flow is a key and a mask over what a frame's headers say. Flows of the same mask share a hash
//! table, and a frame is looked up once for each mask there is, the most special first (tuple
//! space search; Srinivasan, Suri and Varghese 1999). So the cost grows with the kinds of flows and
//! not with their number.
//!
//! Of two flows that could both have a frame, one must be the more special in every respect: it
//! decides. Where neither is, or both are the same, the second is refused ([`Overlap`]), so what
//! decides never depends on the order in which flows were made. Flows on two ports are different
//! things: a frame from one port to the other belongs to both.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::headers::{Bytes, Ip, Lack, ethertype};
use crate::lookup::PortIndex;
use crate::properties::{FlowAttributes, IpPrefix};

/// Most kinds of flows of a domain: each is another look at a table for every frame.
pub const KINDS_MAX: usize = 32;

const WORDS: usize = 6;
/// Where the words of a key are: local address, remote address, the rest, the port.
const LOCAL: usize = 0;
const REMOTE: usize = 2;
const REST: usize = 4;
const PORT: usize = 5;

/// What is known of a frame, or which of it counts, in words to be compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Words([u64; WORDS]);

/// The parts of the word [`REST`].
#[derive(Clone, Copy, Default)]
struct Rest {
    /// 4 or 6.
    family: u8,
    transport: u8,
    dsfield: u8,
    /// 1 if there are ports.
    has_ports: u8,
    local_port: u16,
    remote_port: u16,
}

impl Rest {
    fn word(self) -> u64 {
        u64::from(self.family) << 56
            | u64::from(self.transport) << 48
            | u64::from(self.dsfield) << 40
            | u64::from(self.has_ports) << 32
            | u64::from(self.local_port) << 16
            | u64::from(self.remote_port)
    }
}

fn address(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(a) => [u64::from(a.to_bits()) << 32, 0],
        IpAddr::V6(a) => [(a.to_bits() >> 64) as u64, a.to_bits() as u64],
    }
}

fn prefix_mask(prefix: IpPrefix) -> [u64; 2] {
    let bits = u128::MAX
        .checked_shl(128 - u32::from(prefix.len()))
        .unwrap_or(0);
    [(bits >> 64) as u64, bits as u64]
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }
}

impl Words {
    #[inline]
    fn masked(&self, mask: &Words) -> Words {
        Words(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }

    /// Whether every bit here is there, too.
    fn is_within(&self, other: &Words) -> bool {
        self.masked(other) == *self
    }

    fn ones(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// What the flow's key and mask are.
    fn of_flow(attributes: &FlowAttributes, port: Option<PortIndex>) -> (Words, Words) {
        let (mut key, mut mask) = (Words([0; WORDS]), Words([0; WORDS]));
        let (mut rest, mut counts) = (Rest::default(), Rest::default());
        for (at, prefix) in [(LOCAL, attributes.local_ip), (REMOTE, attributes.remote_ip)] {
            if let Some(prefix) = prefix {
                key.0[at..at + 2].copy_from_slice(&address(prefix.address()));
                mask.0[at..at + 2].copy_from_slice(&prefix_mask(prefix));
                (rest.family, counts.family) = (family(prefix.address()), 0xff);
            }
        }
        if let Some(transport) = attributes.transport {
            (rest.transport, counts.transport) = (transport.0, 0xff);
        }
        if let Some(dsfield) = attributes.dsfield {
            (rest.dsfield, counts.dsfield) = (dsfield.value(), dsfield.mask());
        }
        if let Some(local) = attributes.local_port {
            (rest.local_port, counts.local_port) = (local, 0xffff);
        }
        if let Some(remote) = attributes.remote_port {
            (rest.remote_port, counts.remote_port) = (remote, 0xffff);
        }
        if attributes.local_port.is_some() || attributes.remote_port.is_some() {
            (rest.has_ports, counts.has_ports) = (1, 1);
        }
        // Whatever else it has, a frame of a flow is an IP packet.
        if counts.family == 0 {
            (rest.family, counts.family) = (4, 4);
        }
        (key.0[REST], mask.0[REST]) = (rest.word(), counts.word());
        if let Some(port) = port {
            (key.0[PORT], mask.0[PORT]) = (u64::from(port) + 1, u64::MAX);
        }
        (key, mask)
    }
}

/// What is known of a frame, as its sender and as its receiver see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    sent: Words,
    received: Words,
}

impl Key {
    /// Of the frame of `len` bytes that begins with `known`; `None` if it is no IP packet.
    #[inline]
    pub fn of_frame(known: &[u8], len: usize) -> Result<Option<Key>, Lack> {
        let bytes = Bytes::new(known, len);
        let (kind, l3) = ethertype(bytes)?;
        let Some(ip) = Ip::parse(bytes, kind, l3)? else {
            return Ok(None);
        };
        let ports = match ip.ports(bytes) {
            Err(Lack::Malformed) => None,
            ports => ports?,
        };
        let (source_port, destination_port) = ports.unwrap_or_default();
        let rest = Rest {
            family: family(ip.source),
            transport: ip.transport,
            dsfield: ip.dsfield,
            has_ports: ports.is_some().into(),
            local_port: source_port,
            remote_port: destination_port,
        };
        let back = Rest {
            local_port: destination_port,
            remote_port: source_port,
            ..rest
        };
        let (source, destination) = (address(ip.source), address(ip.destination));
        let words = |local: [u64; 2], remote: [u64; 2], rest: Rest| {
            Words([local[0], local[1], remote[0], remote[1], rest.word(), 0])
        };
        Ok(Some(Key {
            sent: words(source, destination, rest),
            received: words(destination, source, back),
        }))
    }

    /// Of the same frame on its way from one port to another, if that is known.
    #[inline]
    pub fn between(mut self, from: PortIndex, to: Option<PortIndex>) -> Key {
        self.sent.0[PORT] = u64::from(from) + 1;
        self.received.0[PORT] = to.map_or(0, |to| u64::from(to) + 1);
        self
    }
}

/// Which flow's frames a new one's would be in part, and neither is the more special of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The other has the very same attributes.
    Same(u32),
    /// Each has an attribute that the other has not.
    Partial(u32),
    /// There are too many kinds.
    Kinds,
}

/// The flows of one mask.
struct Kind {
    mask: Words,
    flows: HashMap<Words, u32>,
}

impl Kind {
    fn is_on_port(&self) -> bool {
        self.mask.0[PORT] != 0
    }

    #[inline]
    fn find(&self, words: &Words) -> Option<u32> {
        self.flows.get(&words.masked(&self.mask)).copied()
    }
}

/// Which flow a frame belongs to.
#[derive(Default)]
pub struct Classifier {
    /// The most special first.
    kinds: Vec<Kind>,
}

impl Classifier {
    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Adds a flow by its number; on one port only, if there is one.
    pub fn add(
        &mut self,
        attributes: &FlowAttributes,
        port: Option<PortIndex>,
        flow: u32,
    ) -> Result<(), Overlap> {
        let (key, mask) = Words::of_flow(attributes, port);
        for kind in &self.kinds {
            if mask == kind.mask {
                match kind.flows.get(&key) {
                    Some(&same) => return Err(Overlap::Same(same)),
                    None => continue,
                }
            }
            if mask.is_within(&kind.mask) || kind.mask.is_within(&mask) {
                continue;
            }
            let both = mask.masked(&kind.mask);
            let same = |(other, _): &(&Words, &u32)| other.masked(&both) == key.masked(&both);
            if let Some((_, &other)) = kind.flows.iter().find(same) {
                return Err(Overlap::Partial(other));
            }
        }
        let place = self.kinds.iter().position(|kind| kind.mask == mask);
        let place = match place {
            Some(place) => place,
            None if self.kinds.len() == KINDS_MAX => return Err(Overlap::Kinds),
            None => {
                let special = mask.ones();
                let place = self
                    .kinds
                    .partition_point(|kind| kind.mask.ones() > special);
                let flows = HashMap::new();
                self.kinds.insert(place, Kind { mask, flows });
                place
            }
        };
        self.kinds[place].flows.insert(key, flow);
        Ok(())
    }

    /// Takes a flow out.
    pub fn remove(&mut self, flow: u32) {
        for kind in &mut self.kinds {
            kind.flows.retain(|_, &mut other| other != flow);
        }
        self.kinds.retain(|kind| !kind.flows.is_empty());
    }

    /// Whether there are flows on one port only.
    pub fn has_ports(&self) -> bool {
        self.kinds.iter().any(Kind::is_on_port)
    }

    /// The flows that a frame belongs to: the one that decides, and if that is its sender's own, the
    /// receiver's, or the other way about. Each holds what its port sends and receives, whatever
    /// the other port's does. The sender's comes first.
    #[inline]
    pub fn find(&self, key: &Key) -> [Option<u32>; 2] {
        let other = |kinds: &[Kind], words: &Words| {
            let own = kinds[0].is_on_port();
            let mut ports = kinds.iter().filter(|kind| own && kind.is_on_port());
            ports.find_map(|kind| kind.find(words))
        };
        for (i, kind) in self.kinds.iter().enumerate() {
            if let Some(flow) = kind.find(&key.sent) {
                return [Some(flow), other(&self.kinds[i..], &key.received)];
            }
            if let Some(flow) = kind.find(&key.received) {
                return [other(&self.kinds[i..], &key.sent), Some(flow)];
            }
        }
        [None, None]
    }

    /// The flow on a frame's receiver that it belongs to.
    pub fn find_receiver(&self, key: &Key) -> Option<u32> {
        let mut ports = self.kinds.iter().filter(|kind| kind.is_on_port());
        ports.find_map(|kind| kind.find(&key.received))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::properties::{DsField, Transport};
    use crate::qos::headers::tests::{packet, udp};

    fn attributes(text: &str) -> FlowAttributes {
        text.parse().unwrap()
    }

    fn key(frame: &[u8]) -> Key {
        Key::of_frame(frame, frame.len()).unwrap().unwrap()
    }

    #[test]
    fn the_more_special_flow_decides_and_both_ways_count() {
        let mut flows = Classifier::default();
        for (i, text) in (0..).zip([
            "transport=udp",
            "transport=udp,local_port=53",
            "local_ip=10.0.0.0/8,transport=udp,local_port=53",
            "local_ip=10.0.0.0/16,transport=udp,local_port=53",
        ]) {
            flows.add(&attributes(text), None, i).unwrap();
        }
        let find = |from: &str, to: &str, ports| one(flows.find(&key(&udp(from, to, ports, &[]))));
        assert_eq!(find("10.0.0.1", "10.9.0.1", (53, 9)), Some(3));
        assert_eq!(find("10.9.0.1", "10.0.0.1", (9, 53)), Some(3));
        assert_eq!(find("10.9.0.1", "1.1.1.1", (53, 9)), Some(2));
        assert_eq!(find("fd00::1", "fd00::2", (53, 9)), Some(1));
        assert_eq!(find("fd00::1", "fd00::2", (8, 9)), Some(0));
        let tcp = key(&packet("10.0.0.1", "10.0.0.2", 6, &[0; 20]));
        assert_eq!(flows.find(&tcp), [None; 2]);
    }

    #[test]
    fn flows_that_would_share_frames_are_refused() {
        let mut flows = Classifier::default();
        flows
            .add(&attributes("local_ip=10.0.0.0/8"), None, 0)
            .unwrap();
        let mut add = |text: &str| flows.add(&attributes(text), None, 9);
        assert_eq!(add("local_ip=10.0.0.0/8"), Err(Overlap::Same(0)));
        assert_eq!(add("transport=tcp"), Err(Overlap::Partial(0)));
        assert_eq!(add("remote_ip=11.0.0.0/8"), Err(Overlap::Partial(0)));
        assert_eq!(add("local_ip=11.0.0.0/8,transport=tcp"), Ok(()));
        assert_eq!(add("remote_ip=fd00::/8"), Ok(()));
    }

    #[test]
    fn a_flow_on_a_port_has_frames_from_it_and_to_it() {
        let mut flows = Classifier::default();
        flows
            .add(&attributes("transport=udp,local_port=53"), Some(3), 7)
            .unwrap();
        let frame = key(&udp("10.0.0.1", "10.0.0.2", (53, 9), &[]));
        assert_eq!(flows.find(&frame.between(3, Some(4))), [Some(7), None]);
        assert_eq!(flows.find(&frame.between(4, Some(3))), [None; 2]);
        let back = key(&udp("10.0.0.2", "10.0.0.1", (9, 53), &[]));
        assert_eq!(flows.find(&back.between(4, Some(3))), [None, Some(7)]);
        assert_eq!(flows.find(&back.between(4, None)), [None; 2]);
        flows.remove(7);
        assert!(flows.is_empty());
    }

    #[test]
    fn a_frame_from_one_ports_flow_to_anothers_belongs_to_both() {
        let mut flows = Classifier::default();
        let mut add = |text: &str, port, flow| flows.add(&attributes(text), port, flow).unwrap();
        add("transport=udp", None, 0);
        add("transport=udp", Some(1), 1);
        add("transport=udp", Some(2), 2);
        add("transport=udp,local_port=53", Some(2), 3);
        let frame = |ports| key(&udp("10.0.0.1", "10.0.0.2", ports, &[]));
        let find = |ports, from, to| flows.find(&frame(ports).between(from, to));
        assert_eq!(find((9, 9), 1, Some(2)), [Some(1), Some(2)]);
        assert_eq!(find((9, 9), 2, Some(1)), [Some(2), Some(1)]);
        assert_eq!(find((9, 53), 1, Some(2)), [Some(1), Some(3)]);
        assert_eq!(find((53, 9), 2, Some(1)), [Some(3), Some(1)]);
        // A port's flow is a part of the link's.
        assert_eq!(find((9, 9), 1, Some(4)), [Some(1), None]);
        assert_eq!(find((9, 9), 4, Some(2)), [None, Some(2)]);
        assert_eq!(one(find((9, 9), 4, Some(5))), Some(0));
        assert_eq!(find((9, 9), 1, None), [Some(1), None]);
        let receiver = |ports, to| flows.find_receiver(&frame(ports).between(1, Some(to)));
        assert_eq!(
            [receiver((9, 53), 2), receiver((9, 9), 2)],
            [Some(3), Some(2)]
        );
        assert_eq!(receiver((9, 9), 4), None);
    }

    /// The flow that was found where there can be but one.
    fn one(found: [Option<u32>; 2]) -> Option<u32> {
        match found {
            [Some(_), Some(_)] => panic!("{found:?}"),
            [sent, received] => sent.or(received),
        }
    }

    fn some_address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            (0u32..4).prop_map(|low| Ipv4Addr::from_bits(0x0a00_0000 | low << 15 | low).into()),
            (0u128..4).prop_map(|low| Ipv6Addr::from_bits(0xfd00 << 112 | low << 63 | low).into()),
        ]
    }

    fn some_prefix() -> impl Strategy<Value = IpPrefix> {
        (
            some_address(),
            prop_oneof![Just(32u8), Just(16), Just(8), Just(0)],
        )
            .prop_map(|(a, len)| {
                let len = if a.is_ipv4() { len } else { len * 4 };
                match IpPrefix::new(a, len) {
                    Some(prefix) => prefix,
                    None => a.into(),
                }
            })
    }

    fn some_attributes() -> impl Strategy<Value = FlowAttributes> {
        let maybe_port = || proptest::option::weighted(0.3, 1u16..4);
        (
            proptest::option::weighted(0.6, some_prefix()),
            proptest::option::weighted(0.4, some_prefix()),
            proptest::option::of(prop_oneof![
                Just(Transport::TCP),
                Just(Transport::UDP),
                Just(Transport::ICMP)
            ]),
            (maybe_port(), maybe_port()),
            proptest::option::weighted(
                0.2,
                prop_oneof![Just((4u8, 0xfcu8)), Just((4, 4)), Just((0, 0xff))],
            ),
        )
            .prop_map(
                |(local_ip, remote_ip, transport, (local_port, remote_port), dsfield)| {
                    FlowAttributes {
                        local_ip,
                        remote_ip,
                        transport,
                        local_port,
                        remote_port,
                        dsfield: dsfield.and_then(|(value, mask)| DsField::new(value, mask)),
                    }
                },
            )
            .prop_filter("goes together", |attributes| attributes.check().is_ok())
    }

    /// A frame in words of attributes.
    #[derive(Clone, Debug)]
    struct Seen {
        source: IpAddr,
        destination: IpAddr,
        transport: u8,
        ports: (u16, u16),
        dsfield: u8,
    }

    impl Seen {
        fn frame(&self) -> Vec<u8> {
            let mut payload = Vec::new();
            payload.extend(self.ports.0.to_be_bytes());
            payload.extend(self.ports.1.to_be_bytes());
            payload.extend([0; 16]);
            let (from, to) = (self.source.to_string(), self.destination.to_string());
            let mut frame = packet(&from, &to, self.transport, &payload);
            match self.source {
                IpAddr::V4(_) => frame[15] = self.dsfield,
                IpAddr::V6(_) => {
                    frame[14] |= self.dsfield >> 4;
                    frame[15] |= self.dsfield << 4;
                }
            }
            frame
        }

        fn is_of(
            &self,
            flow: &FlowAttributes,
            local: (IpAddr, u16),
            remote: (IpAddr, u16),
        ) -> bool {
            let has_ports = Transport(self.transport).has_ports();
            flow.local_ip.is_none_or(|prefix| prefix.contains(local.0))
                && flow
                    .remote_ip
                    .is_none_or(|prefix| prefix.contains(remote.0))
                && flow
                    .transport
                    .is_none_or(|transport| transport.0 == self.transport)
                && flow
                    .local_port
                    .is_none_or(|port| has_ports && port == local.1)
                && flow
                    .remote_port
                    .is_none_or(|port| has_ports && port == remote.1)
                && flow
                    .dsfield
                    .is_none_or(|field| self.dsfield & field.mask() == field.value())
        }

        fn belongs_to(&self, flow: &FlowAttributes) -> bool {
            let (a, b) = (
                (self.source, self.ports.0),
                (self.destination, self.ports.1),
            );
            self.is_of(flow, a, b) || self.is_of(flow, b, a)
        }
    }

    fn some_frame() -> impl Strategy<Value = Seen> {
        let ends = (some_address(), some_address())
            .prop_filter("one family", |(a, b)| a.is_ipv4() == b.is_ipv4());
        let transport = prop_oneof![Just(6u8), Just(17), Just(1)];
        let dsfield = prop_oneof![Just(0u8), Just(4), Just(6)];
        (ends, transport, (1u16..4, 1u16..4), dsfield).prop_map(
            |((source, destination), transport, ports, dsfield)| Seen {
                source,
                destination,
                transport,
                ports,
                dsfield,
            },
        )
    }

    /// Whether every frame of `a` is one of `b`.
    fn is_special(a: &FlowAttributes, b: &FlowAttributes) -> bool {
        let ((key_a, mask_a), (key_b, mask_b)) = (Words::of_flow(a, None), Words::of_flow(b, None));
        mask_b.is_within(&mask_a) && key_a.masked(&mask_b) == key_b
    }

    proptest! {
        #[test]
        fn it_agrees_with_looking_at_every_flow(
            flows in proptest::collection::vec(some_attributes(), 1..40),
            frames in proptest::collection::vec(some_frame(), 1..40),
        ) {
            let mut classifier = Classifier::default();
            let mut added: Vec<FlowAttributes> = Vec::new();
            for flow in flows {
                if classifier.add(&flow, None, added.len() as u32).is_ok() {
                    added.push(flow);
                }
            }
            for seen in frames {
                let mine: Vec<_> = added.iter().filter(|flow| seen.belongs_to(flow)).collect();
                let found = one(classifier.find(&key(&seen.frame())));
                let found = found.map(|flow| &added[flow as usize]);
                prop_assert_eq!(found.is_some(), !mine.is_empty(), "{:?}", seen);
                if let Some(found) = found {
                    prop_assert!(seen.belongs_to(found));
                    // Nothing more special has the frame the same way round; the other way round
                    // the two may have nothing to do with each other.
                    for other in mine {
                        prop_assert!(other == found || !is_special(other, found));
                    }
                }
            }
        }

        #[test]
        fn any_bytes_have_a_key_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert_ne!(Key::of_frame(&bytes, bytes.len()), Err(Lack::More));
        }
    }
}
