//! Messages of the Xenstore protocol (Xen's `xs_wire.h` and `docs/misc/xenstore.txt`): a header of four numbers
//! in the machine's byte order, then the payload. Guests and host programs speak it with the store.

use core::fmt;

/// Most bytes of a payload. A client that exceeds it is disconnected.
pub const PAYLOAD_MAX: usize = 4096;

/// The kind of a message: a request and its reply have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the protocol's")]
pub enum Kind {
    Control = 0,
    Directory = 1,
    Read = 2,
    GetPerms = 3,
    Watch = 4,
    Unwatch = 5,
    TransactionStart = 6,
    TransactionEnd = 7,
    Introduce = 8,
    Release = 9,
    GetDomainPath = 10,
    Write = 11,
    Mkdir = 12,
    Rm = 13,
    SetPerms = 14,
    WatchEvent = 15,
    Error = 16,
    IsDomainIntroduced = 17,
    Resume = 18,
    SetTarget = 19,
    ResetWatches = 21,
    DirectoryPart = 22,
    GetFeature = 23,
    SetFeature = 24,
    GetQuota = 25,
    SetQuota = 26,
}

impl Kind {
    const ALL: [Kind; 26] = [
        Kind::Control,
        Kind::Directory,
        Kind::Read,
        Kind::GetPerms,
        Kind::Watch,
        Kind::Unwatch,
        Kind::TransactionStart,
        Kind::TransactionEnd,
        Kind::Introduce,
        Kind::Release,
        Kind::GetDomainPath,
        Kind::Write,
        Kind::Mkdir,
        Kind::Rm,
        Kind::SetPerms,
        Kind::WatchEvent,
        Kind::Error,
        Kind::IsDomainIntroduced,
        Kind::Resume,
        Kind::SetTarget,
        Kind::ResetWatches,
        Kind::DirectoryPart,
        Kind::GetFeature,
        Kind::SetFeature,
        Kind::GetQuota,
        Kind::SetQuota,
    ];

    /// The kind of this number, if there is one.
    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// A message's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The [`Kind`]'s number.
    pub kind: u32,
    /// The client's number for the request; its reply has the same.
    pub request: u32,
    /// The transaction; 0 without one.
    pub transaction: u32,
    /// Bytes of the payload.
    pub len: u32,
}

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 16;

    /// The header in its bytes.
    pub fn parse(bytes: &[u8; Header::LEN]) -> Header {
        let word = |i: usize| {
            let (words, _) = bytes.as_chunks::<4>();
            u32::from_ne_bytes(words[i])
        };
        Header {
            kind: word(0),
            request: word(1),
            transaction: word(2),
            len: word(3),
        }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; Header::LEN] {
        let mut bytes = [0; Header::LEN];
        let words = [self.kind, self.request, self.transaction, self.len];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }
}

/// Why a request is refused, as its reply names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Errno {
    /// The request is not one of the protocol's, or an argument is malformed.
    EINVAL,
    /// The domain may not do this.
    EACCES,
    /// The watch exists.
    EEXIST,
    /// The node, watch, domain or transaction does not exist.
    ENOENT,
    /// A quota is exceeded.
    ENOSPC,
    /// The server does not have this request.
    ENOSYS,
    /// A transaction within a transaction.
    EBUSY,
    /// Another client changed a node that the transaction read or wrote: try the transaction again.
    EAGAIN,
    /// The reply is longer than a payload.
    E2BIG,
    /// Only the control domain changes a node's owner.
    EPERM,
    /// Another error, from another server.
    EIO,
}

impl Errno {
    const ALL: [Errno; 11] = [
        Errno::EINVAL,
        Errno::EACCES,
        Errno::EEXIST,
        Errno::ENOENT,
        Errno::ENOSPC,
        Errno::ENOSYS,
        Errno::EBUSY,
        Errno::EAGAIN,
        Errno::E2BIG,
        Errno::EPERM,
        Errno::EIO,
    ];

    /// Its name, as the protocol has it.
    pub fn name(self) -> &'static str {
        match self {
            Errno::EINVAL => "EINVAL",
            Errno::EACCES => "EACCES",
            Errno::EEXIST => "EEXIST",
            Errno::ENOENT => "ENOENT",
            Errno::ENOSPC => "ENOSPC",
            Errno::ENOSYS => "ENOSYS",
            Errno::EBUSY => "EBUSY",
            Errno::EAGAIN => "EAGAIN",
            Errno::E2BIG => "E2BIG",
            Errno::EPERM => "EPERM",
            Errno::EIO => "EIO",
        }
    }

    /// The error of this name; [`Errno::EIO`] for names that this server does not use.
    pub fn from_name(name: &[u8]) -> Errno {
        let found = Errno::ALL.into_iter();
        let mut found = found.filter(|errno| errno.name().as_bytes() == name);
        found.next().unwrap_or(Errno::EIO)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Errno::EINVAL => "invalid argument",
            Errno::EACCES => "permission denied",
            Errno::EEXIST => "exists already",
            Errno::ENOENT => "does not exist",
            Errno::ENOSPC => "a quota is exceeded",
            Errno::ENOSYS => "not supported",
            Errno::EBUSY => "a transaction is under way",
            Errno::EAGAIN => "changed meanwhile: try again",
            Errno::E2BIG => "too long for one message",
            Errno::EPERM => "operation not permitted",
            Errno::EIO => "input/output error",
        })
    }
}

impl core::error::Error for Errno {}

/// A payload's first string, and the rest.
pub fn first_string(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = payload.iter().position(|byte| *byte == 0)?;
    Some((&payload[..end], &payload[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        let header = Header {
            kind: 11,
            request: 7,
            transaction: 9,
            len: 4096,
        };
        assert_eq!(Header::parse(&header.to_bytes()), header);
    }

    #[test]
    fn a_first_string_ends_in_a_zero_byte() {
        assert_eq!(first_string(b"a\0b\0c"), Some((&b"a"[..], &b"b\0c"[..])));
        assert_eq!(first_string(b"a"), None);
    }

    #[test]
    fn kinds_and_errors_have_their_numbers_and_names() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u32), Some(kind));
        }
        assert_eq!((Kind::from_number(20), Kind::from_number(27)), (None, None));
        for errno in Errno::ALL {
            assert_eq!(Errno::from_name(errno.name().as_bytes()), errno);
        }
    }
}
