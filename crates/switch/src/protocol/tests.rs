use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use proptest::prelude::*;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    socketpair,
};
use serde::de::DeserializeOwned;

use super::socket::{Versioned, parse};
use super::*;
use crate::port::vxlan::{Neighbor, Tunnel};
use crate::properties::LIST_MAX;

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

#[test]
fn a_request_and_its_descriptors_arrive_whole() {
    let (a, b) = pair();
    let interface = GuestInterface {
        name: "fw.inside".into(),
        domain: 1,
        mtu: 1500,
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        properties: PortProperties::default(),
        replaces: None,
        behind: None,
    };
    let request = Request::AttachGuest {
        slots: 64,
        interfaces: vec![interface; 32],
        shared: Some(7),
        waits: None,
    };
    send(a.as_fd(), &request, &[a.as_fd(), b.as_fd()]).unwrap();
    let (got, descriptors) = receive::<Request>(b.as_fd()).unwrap();
    assert_eq!(descriptors.len(), 2);
    assert_eq!(format!("{got:?}"), format!("{request:?}"));
}

#[test]
fn the_longest_messages_fit() {
    let (a, b) = pair();
    // Quotes take two bytes each in JSON; control characters, which take six, are refused.
    let name = "\"".repeat(NAME_MAX);
    let interface = GuestInterface {
        name: name.clone(),
        domain: u32::MAX,
        mtu: u16::MAX,
        mac: Some(Mac([255; 6])),
        properties: all_properties(),
        replaces: Some(PortId {
            slot: u16::MAX,
            generation: u32::MAX,
        }),
        behind: Some(PortId {
            slot: u16::MAX,
            generation: u32::MAX,
        }),
    };
    let request = Request::AttachGuest {
        slots: u32::MAX,
        interfaces: vec![interface; abi::region::INTERFACES_MAX],
        shared: Some(u64::MAX),
        waits: Some(u64::MAX),
    };
    send(a.as_fd(), &request, &[]).unwrap();
    let (got, _) = receive::<Request>(b.as_fd()).unwrap();
    assert_eq!(format!("{got:?}"), format!("{request:?}"));

    let port = PortDescription {
        id: PortId {
            slot: u16::MAX,
            generation: u32::MAX,
        },
        name,
        domain: u32::MAX,
        kind: PortKind::Packet,
        state: PortState::Closed,
        properties: all_properties(),
        lanes: vec![LaneIndex::MAX; DESCRIPTORS_MAX],
    };
    let reply = Reply::Ports {
        ports: vec![port; PORTS_PER_REPLY],
        next: Some(u16::MAX),
    };
    send(b.as_fd(), &reply, &[]).unwrap();
    let (got, _) = receive::<Reply>(a.as_fd()).unwrap();
    assert_eq!(format!("{got:?}"), format!("{reply:?}"));

    let address = AddressEntry {
        mac: Mac([255; 6]),
        vlan: 4094,
        port: PortId {
            slot: u16::MAX,
            generation: u32::MAX,
        },
        age: Some(u32::MAX),
    };
    let reply = Reply::Table {
        addresses: vec![address; ADDRESSES_PER_REPLY],
        next: Some(u32::MAX),
    };
    send(b.as_fd(), &reply, &[]).unwrap();
    let (got, _) = receive::<Reply>(a.as_fd()).unwrap();
    assert_eq!(format!("{got:?}"), format!("{reply:?}"));
}

/// Properties that are as long as any.
fn all_properties() -> PortProperties {
    let address = "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128";
    let addresses = vec![address; LIST_MAX].join(",");
    let mut properties = PortProperties::default();
    for (name, value) in [
        ("maxbw", "9999M"),
        ("priority", "medium"),
        ("share", "1000"),
        ("vlan", "4094"),
        ("mtu", "1500"),
        (
            "protection",
            "mac-nospoof,ip-nospoof,dhcp-nospoof,restricted",
        ),
        ("flood-limit", "4000000"),
        ("allowed-ips", &addresses),
        ("delay", "999999us"),
        ("jitter", "99999us"),
        ("loss", "12.3456789%"),
    ] {
        properties.set(name, value).unwrap();
    }
    properties.cpus = vec![u16::MAX; LIST_MAX];
    properties
}

#[test]
fn another_version_is_named_and_a_closed_socket_is_an_end() {
    let (a, b) = pair();
    rustix::io::write(&a, br#"{"version":0,"do":"dance"}"#).unwrap();
    assert!(matches!(
        receive::<Request>(b.as_fd()),
        Err(ExchangeError::Version(0))
    ));
    drop(a);
    assert!(matches!(
        receive::<Request>(b.as_fd()),
        Err(ExchangeError::Ended)
    ));
}

#[test]
fn a_message_that_is_too_long_or_brings_too_much_is_refused_in_a_sentence() {
    let (a, b) = pair();
    let refused = || match receive::<Request>(b.as_fd()) {
        Err(error @ ExchangeError::Malformed(_)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    rustix::io::write(&a, &vec![b' '; MESSAGE_MAX + 1]).unwrap();
    assert!(refused().ends_with("it is longer than 196608 bytes"));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let many = [a.as_fd(); 2 * DESCRIPTORS_MAX];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&many)));
    let hello = [IoSlice::new(br#"{"version":3,"do":"hello"}"#)];
    rustix::net::sendmsg(&a, &hello, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    assert!(refused().ends_with("it comes with more than 19 descriptors"));
}

/// A request with something of everything that a request can have.
fn request() -> Vec<u8> {
    let remotes = vec![([192, 0, 2, 1], 4789).into(); 3];
    let body = Request::AttachLink {
        record: LinkRecord::Vxlan(Tunnel {
            vni: 7,
            remotes,
            neighbors: vec![Neighbor {
                mac: Mac([2, 0, 0, 0, 0, 2]),
                remote: 1,
                ips: vec![[192, 0, 2, 9].into()],
            }],
        }),
        name: "overlay".into(),
        domain: 1,
        mtu: 1450,
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        properties: all_properties(),
    };
    let version = VERSION;
    serde_json::to_vec(&Versioned { version, body }).unwrap()
}

/// What is refused is refused in a sentence.
fn parsed_or_refused<T: DeserializeOwned>(bytes: &[u8]) {
    if let Err(error) = parse::<T>(bytes) {
        let sentence = error.to_string();
        assert!(!sentence.is_empty() && sentence.len() < 500, "{sentence}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        parsed_or_refused::<Request>(&bytes);
        parsed_or_refused::<Reply>(&bytes);
    }

    #[test]
    fn a_request_with_other_bytes_in_it_is_parsed_or_refused(
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8),
        end: u16,
    ) {
        let mut bytes = request();
        parse::<Request>(&bytes).expect("a request");
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        parsed_or_refused::<Request>(&bytes);
        bytes.truncate(usize::from(end) % bytes.len());
        parsed_or_refused::<Request>(&bytes);
    }
}
