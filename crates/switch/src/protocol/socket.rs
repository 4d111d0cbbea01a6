//! Messages on the control socket: a version, a body, and descriptors beside them.

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

use super::{DESCRIPTORS_MAX, MESSAGE_MAX, VERSION};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Versioned<T> {
    pub version: u32,
    #[serde(flatten)]
    pub body: T,
}

/// Why a message could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The other side has ended.
    #[error("the switch has ended")]
    Ended,
    /// The other side has not answered within the socket's timeout. The client sends no further
    /// request, since a late answer would be taken for the answer to the next request.
    #[error("the switch does not answer")]
    Silent,
    /// The socket failed.
    #[error("cannot exchange messages with the switch: {0}")]
    Socket(Errno),
    /// The message is none of this protocol.
    #[error("a message on the switch's control socket cannot be parsed: {0}")]
    Malformed(String),
    /// The other side speaks another version.
    #[error(
        "the switch's control socket speaks version {0}, and this program version {VERSION}: start both from one build"
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
            "{} bytes, and the maximum is {MESSAGE_MAX}",
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
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ExchangeError> {
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
