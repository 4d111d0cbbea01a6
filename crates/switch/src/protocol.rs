//! What is said on the control socket of a switch: one request and one reply a message, JSON,
//! at most [`MESSAGE_MAX`] bytes, on a `SOCK_SEQPACKET` Unix socket. Descriptors travel beside.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::counters::LaneStats;
use crate::ids::LaneIndex;
use crate::lookup::{Answer, Command};
use crate::mac::Mac;
use crate::port::LinkRecord;
pub use crate::port::PortKind;
use crate::properties::{DomainProperties, FlowAttributes, FlowProperties, PortProperties};
use crate::qos::flow::FlowStats;

/// The version of this protocol. Each side refuses any other.
pub const VERSION: u32 = 3;
/// Longest message, in bytes: what 32 interfaces with all their properties need.
pub const MESSAGE_MAX: usize = 192 * 1024;
/// Most descriptors with a message.
pub const DESCRIPTORS_MAX: usize = crate::port::FILES_MAX;
/// Longest name of a port, in bytes: a guest's name (64), a dot, and its interface's (31).
pub const NAME_MAX: usize = 96;
/// Most ports told of in one reply.
pub const PORTS_PER_REPLY: usize = 32;
/// Most flows told of in one reply.
pub const FLOWS_PER_REPLY: usize = 128;
/// Most addresses told of in one reply.
pub const ADDRESSES_PER_REPLY: usize = 512;

/// Names a port of a switch for as long as it is attached; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortId {
    /// Its place, by which its counters are found.
    pub(crate) place: u16,
    /// Tells ports apart that had the same place one after the other.
    pub(crate) turn: u32,
}

impl PortId {
    /// Its place among the ports of its switch, by which its counters are found.
    pub fn place(self) -> u16 {
        self.place
    }
}

/// One interface of a guest, in the order of its data region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestInterface {
    /// The port's name, as users see it.
    pub name: String,
    /// The number of the domain (the L2 segment) that it joins.
    pub domain: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The guest's address there, if it keeps to one.
    pub mac: Option<Mac>,
    /// What else is asked of the port.
    #[serde(default)]
    pub properties: PortProperties,
}

/// One end of a patch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PatchEnd {
    /// The port's name, as users see it.
    pub name: String,
    /// The number of the domain that it joins.
    pub domain: u32,
    /// What else is asked of the port.
    #[serde(default)]
    pub properties: PortProperties,
}

/// Whether a port passes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortState {
    /// It does.
    Open,
    /// It does no more: its interface is gone, or its guest broke the ring's rules too often.
    Closed,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Versioned<T> {
    pub version: u32,
    #[serde(flatten)]
    pub body: T,
}

/// What a switch is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Say hello. The reply comes with the file of the counters.
    Hello,
    /// Attach all interfaces of a guest. With the data region's file and the doorbell.
    AttachGuest {
        slots: u32,
        interfaces: Vec<GuestInterface>,
    },
    /// Attach a host link. With its descriptors.
    AttachLink {
        record: LinkRecord,
        name: String,
        domain: u32,
        mtu: u16,
        /// The address of the machine behind it, if there is one alone.
        #[serde(default)]
        mac: Option<Mac>,
        #[serde(default)]
        properties: PortProperties,
    },
    /// Join two domains.
    AttachPatch { ends: [PatchEnd; 2] },
    /// Give a port these properties instead of those it has.
    SetProperties {
        port: PortId,
        properties: PortProperties,
    },
    /// Give a domain these properties instead of those it has. It need have no port yet.
    SetDomain {
        domain: u32,
        properties: DomainProperties,
    },
    /// Add a flow.
    AddFlow {
        name: String,
        on: FlowOn,
        attributes: FlowAttributes,
        #[serde(default)]
        properties: FlowProperties,
    },
    /// Remove a flow by its name.
    RemoveFlow { name: String },
    /// Tell of the flows behind the one with this name, in the order of their names,
    /// [`FLOWS_PER_REPLY`] at most.
    Flows { after: Option<String> },
    /// Detach ports.
    Detach { ports: Vec<PortId> },
    /// Forget what was learned in a domain.
    Flush { domain: u32 },
    /// Tell of the ports from place `from` on, [`PORTS_PER_REPLY`] at most.
    Ports { from: u16 },
    /// Tell of the addresses that a domain knows, from the `from`-th on, [`ADDRESSES_PER_REPLY`]
    /// at most. Those from 0 on are as of now, the others as of when 0 was last asked for.
    Table { domain: u32, from: u32 },
    /// Ask something of a domain's lookup function.
    Lookup {
        domain: u32,
        command: Command<PortId>,
    },
    /// Bring the counters up to date that the kernel keeps for a port.
    CatchUp { port: PortId },
    /// Give copies of the descriptors of a host link's queues, if another switch can go on with them.
    Files { port: PortId },
    /// Tell what each lane does.
    Lanes,
    /// End.
    Stop,
}

/// What a switch answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// Hello, with the file of the counters.
    Welcome {
        /// Number of lanes.
        lanes: u16,
    },
    /// These ports were attached, in the order asked for.
    Attached {
        ports: Vec<PortId>,
        /// What the user should know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    /// What each lane does.
    Lanes { lanes: Vec<LaneStats> },
    /// Done.
    Done,
    /// The ports asked about, and where the next ones start.
    Ports {
        ports: Vec<PortDescription>,
        next: Option<u16>,
    },
    /// The addresses asked about, and where the next ones start.
    Table {
        addresses: Vec<AddressEntry>,
        next: Option<u32>,
    },
    /// The flows asked about, and whether there are more behind them.
    Flows {
        flows: Vec<FlowDescription>,
        more: bool,
    },
    /// What a lookup function answers.
    Lookup { answer: Answer<PortId> },
    /// The descriptors asked for come with this.
    Files,
    /// Not done.
    Refused { why: String },
}

/// An address that a domain knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressEntry {
    /// The address.
    pub mac: Mac,
    /// The VLAN that it is in; 0 if the domain does not tell VLANs apart or the frame had no tag.
    pub vlan: u16,
    /// The port that it is behind.
    pub port: PortId,
    /// Seconds since it was last seen; none if it was given with the port and does not age.
    pub age: Option<u32>,
}

/// What a flow is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowOn {
    /// All frames of the domain with this number.
    Domain(u32),
    /// The frames from and to a port.
    Port(PortId),
}

/// What a switch tells of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowDescription {
    /// Its name.
    pub name: String,
    /// What it is on.
    pub on: FlowOn,
    /// Which frames are its own.
    pub attributes: FlowAttributes,
    /// What it may do.
    pub properties: FlowProperties,
    /// What it has counted.
    pub stats: FlowStats,
}

/// What a switch tells of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortDescription {
    /// Which port.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// The number of its domain.
    pub domain: u32,
    /// What it leads to.
    pub kind: PortKind,
    /// Whether it passes frames.
    pub state: PortState,
    /// What was asked of it.
    pub properties: PortProperties,
    /// The lanes that poll its queues, in their order.
    pub lanes: Vec<LaneIndex>,
}

/// Why a message could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The other side has ended.
    #[error("the switch has ended")]
    Ended,
    /// The other side has not answered for as long as the socket waits, and is not asked again: it
    /// may yet answer, and that would be taken for the answer to the next request.
    #[error("the switch does not answer")]
    Silent,
    /// The socket failed.
    #[error("cannot exchange messages with the switch: {0}")]
    Socket(Errno),
    /// The message is none of this protocol.
    #[error("a message on the switch's control socket is not understood: {0}")]
    Malformed(String),
    /// The other side speaks another version.
    #[error(
        "the switch's control socket speaks version {0} where this is version {VERSION}: start both from one build"
    )]
    Version(u32),
}

impl From<Errno> for ExchangeError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE | Errno::CONNRESET => ExchangeError::Ended,
            Errno::AGAIN => ExchangeError::Silent,
            error => ExchangeError::Socket(error),
        }
    }
}

/// Sends one message with its descriptors.
pub(crate) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    body: T,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), ExchangeError> {
    let message = Versioned {
        version: VERSION,
        body,
    };
    let bytes =
        serde_json::to_vec(&message).map_err(|e| ExchangeError::Malformed(e.to_string()))?;
    if bytes.len() > MESSAGE_MAX {
        return Err(ExchangeError::Malformed(format!(
            "{} bytes where {MESSAGE_MAX} are the most",
            bytes.len()
        )));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ExchangeError::Malformed("too many descriptors".into()));
    }
    let parts = [IoSlice::new(&bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message with its descriptors; waits for it unless the socket is non-blocking.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> Result<(T, Vec<OwnedFd>), ExchangeError> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let descriptors = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Err(ExchangeError::Ended);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        let why = format!("it is longer than {MESSAGE_MAX} bytes");
        return Err(ExchangeError::Malformed(why));
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        let why = format!("it comes with more than {DESCRIPTORS_MAX} descriptors");
        return Err(ExchangeError::Malformed(why));
    }
    let whole = bytes.get(..received.bytes).unwrap_or_default();
    Ok((parse(whole)?, descriptors))
}

/// Longest reason for which a message is refused, in characters.
const WHY_MAX: usize = 200;

/// Takes a message apart. The version is looked at first, so that a message of another version is
/// told as that.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ExchangeError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    // The reason may quote the message.
    let malformed = |e: serde_json::Error| {
        ExchangeError::Malformed(e.to_string().chars().take(WHY_MAX).collect())
    };
    let Version { version } = serde_json::from_slice(bytes).map_err(malformed)?;
    if version != VERSION {
        return Err(ExchangeError::Version(version));
    }
    let message: Versioned<T> = serde_json::from_slice(bytes).map_err(malformed)?;
    Ok(message.body)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use proptest::prelude::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::port::vxlan::Tunnel;
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
        };
        let request = Request::AttachGuest {
            slots: 64,
            interfaces: vec![interface; 32],
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
        };
        let request = Request::AttachGuest {
            slots: u32::MAX,
            interfaces: vec![interface; abi::region::INTERFACES_MAX],
        };
        send(a.as_fd(), &request, &[]).unwrap();
        let (got, _) = receive::<Request>(b.as_fd()).unwrap();
        assert_eq!(format!("{got:?}"), format!("{request:?}"));

        let port = PortDescription {
            id: PortId {
                place: u16::MAX,
                turn: u32::MAX,
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
                place: u16::MAX,
                turn: u32::MAX,
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
        rustix::io::write(&a, br#"{"version":9,"do":"dance"}"#).unwrap();
        assert!(matches!(
            receive::<Request>(b.as_fd()),
            Err(ExchangeError::Version(9))
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
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * DESCRIPTORS_MAX))];
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
            record: LinkRecord::Vxlan(Tunnel { vni: 7, remotes }),
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
}
