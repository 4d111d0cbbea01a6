//! Which flow frames belong to, and which flows are refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::properties::{DsField, Transport};
use crate::qos::headers::tests::{packet, udp};

fn attributes(text: &str) -> FlowAttributes {
    text.parse().unwrap()
}

fn key(frame: &[u8]) -> FrameKey {
    FrameKey::of_frame(frame, frame.len()).unwrap().unwrap()
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
            |(local_ip, remote_ip, transport, (local_port, remote_port), dsfield)| FlowAttributes {
                local_ip,
                remote_ip,
                transport,
                local_port,
                remote_port,
                dsfield: dsfield.and_then(|(value, mask)| DsField::new(value, mask)),
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

    fn is_of(&self, flow: &FlowAttributes, local: (IpAddr, u16), remote: (IpAddr, u16)) -> bool {
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
                // Nothing more specific has the frame the same way round; the other way round
                // the two may have nothing to do with each other.
                for other in mine {
                    prop_assert!(other == found || !is_special(other, found));
                }
            }
        }
    }

    #[test]
    fn any_bytes_have_a_key_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        prop_assert_ne!(FrameKey::of_frame(&bytes, bytes.len()), Err(HeaderError::Incomplete));
    }
}
