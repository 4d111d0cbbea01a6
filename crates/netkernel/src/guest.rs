//! A virtual machine as a tenant: its host joins CoreEngine for it, and maps queue set 0 and the payload into its
//! memory ([`abi::tenant`]). The guest makes the queue elements itself.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use abi::tenant::Role;
use rustix::io::Errno;

use crate::protocol::{self, Token};

/// What the host passes to a guest's process.
#[derive(Debug)]
pub struct Guest {
    /// The queue file. It cannot shrink.
    pub queues: OwnedFd,
    /// The payload file.
    pub payload: OwnedFd,
    /// Eventfd that wakes CoreEngine.
    pub doorbell: OwnedFd,
    /// When the last copy of this is closed, the guest has ended.
    pub connection: OwnedFd,
}

impl Guest {
    /// Joins CoreEngine at its socket, as the only process of a tenant.
    pub fn join(door: &Path, token: Token) -> io::Result<Guest> {
        let mut welcomed = protocol::join(door, Role::Guest, token)?;
        let (Some(doorbell), Some(payload), Some(queues)) = (
            welcomed.files.pop(),
            welcomed.files.pop(),
            welcomed.files.pop(),
        ) else {
            return Err(Errno::BADMSG.into());
        };
        // A guest has no other queue set in its memory.
        if welcomed.welcome.set != 0 {
            return Err(Errno::BUSY.into());
        }
        Ok(Guest {
            queues,
            payload,
            doorbell,
            connection: welcomed.control,
        })
    }
}
