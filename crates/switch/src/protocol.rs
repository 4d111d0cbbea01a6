//! What is said on the control socket of a switch: one request and one reply a message, JSON,
//! at most [`MESSAGE_MAX`] bytes, on a `SOCK_SEQPACKET` Unix socket. Descriptors travel beside.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lookup::Mac;

/// The version of this protocol. Each side refuses any other.
pub const VERSION: u32 = 1;
/// Longest message, in bytes.
pub const MESSAGE_MAX: usize = 16 * 1024;
/// Most descriptors with a message.
pub const DESCRIPTORS_MAX: usize = 2;
/// Longest name of a port, in bytes: a guest's name (64), a dot, and its interface's (31).
pub const NAME_MAX: usize = 96;
/// Most ports told of in one reply.
pub const PORTS_PER_REPLY: usize = 32;

/// Names a port of a switch for as long as it is attached; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortId {
    /// Its place, by which its counters are found.
    pub(crate) place: u16,
    /// Tells ports apart that had the same place one after the other.
    pub(crate) turn: u32,
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
}

/// How a host link is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// A TAP device with virtio-net headers.
    Tap,
    /// An AF_PACKET socket with virtio-net headers.
    Packet,
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
    /// Attach a host link. With its descriptor.
    AttachLink {
        kind: LinkKind,
        name: String,
        domain: u32,
        mtu: u16,
    },
    /// Detach ports.
    Detach { ports: Vec<PortId> },
    /// Forget what was learned in a domain.
    Flush { domain: u32 },
    /// Tell of the ports from place `from` on, [`PORTS_PER_REPLY`] at most.
    Ports { from: u16 },
    /// Bring the counters up to date that the kernel keeps for a port.
    CatchUp { port: PortId },
    /// End.
    Stop,
}

/// What a switch answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// Hello, with the file of the counters.
    Welcome,
    /// These ports were attached, in the order asked for.
    Attached { ports: Vec<PortId> },
    /// Done.
    Done,
    /// The ports asked about, and where the next ones start.
    Ports {
        ports: Vec<PortDescription>,
        next: Option<u16>,
    },
    /// Not done.
    Refused { why: String },
}

/// What a switch tells of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDescription {
    /// Which port.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// The number of its domain.
    pub domain: u32,
    /// Whether it was closed: its interface is gone, or its guest broke the ring's rules too often.
    pub closed: bool,
}

/// Why a message could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The other side has ended.
    #[error("the switch has ended")]
    Ended,
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
    let whole = bytes.get(..received.bytes).unwrap_or_default();
    Ok((parse(whole)?, descriptors))
}

/// Takes a message apart. The version is looked at first, so that a message of another version is
/// told as that.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ExchangeError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let malformed = |e: serde_json::Error| ExchangeError::Malformed(e.to_string());
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
            closed: false,
        };
        let reply = Reply::Ports {
            ports: vec![port; PORTS_PER_REPLY],
            next: Some(u16::MAX),
        };
        send(b.as_fd(), &reply, &[]).unwrap();
        let (got, _) = receive::<Reply>(a.as_fd()).unwrap();
        assert_eq!(format!("{got:?}"), format!("{reply:?}"));
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

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<Request>(&bytes);
        }
    }
}
