//! A TAP device's port: one system call for each frame, since the device offers no batches.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::backend::{Attachment, Backend, HostBackend, Kind, Outcome};
use super::opening::{Fault, LinkError, Open, Opened, checked, errno, refused};
use super::{BATCH, Batch, refusal};
use crate::counters::{PortCounters, Reason};
use crate::mac::Mac;
use crate::netlink::Netlink;
use crate::sys;

/// An open TAP device with virtio-net headers (see [`Tap`]).
pub struct TapLink {
    file: OwnedFd,
    mtu: u16,
}

impl TapLink {
    /// A port on an open, non-blocking TAP device with this MTU.
    pub fn new(file: OwnedFd, mtu: u16) -> TapLink {
        TapLink { file, mtu }
    }
}

impl HostBackend for TapLink {
    type Record = ();

    const KEPT: Option<()> = Some(());

    fn attach((): (), link: Attachment<'_>) -> Result<Vec<TapLink>, String> {
        let files = link.files.into_iter();
        Ok(files.map(|file| TapLink::new(file, link.mtu)).collect())
    }
}

impl Kind for TapLink {
    const INTERFACE: bool = true;
}

impl Backend for TapLink {
    fn another_way(&self) -> Option<TapLink> {
        let file = self.file.try_clone().ok()?;
        Some(TapLink::new(file, self.mtu))
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        for i in 0..BATCH {
            match rustix::io::read(&self.file, batch.stage.room(i)) {
                Ok(len) => match batch.stage.take_in(i, len, None) {
                    Ok(frame) => batch.push(frame),
                    Err(reason) => counters.dropped(reason, 1),
                },
                // A frame that the virtio-net header cannot describe is gone with the error.
                Err(Errno::INVAL) => counters.dropped(Reason::Offload, 1),
                Err(Errno::BADFD | Errno::BADF | Errno::NXIO) => return Outcome::GONE,
                Err(_) => break,
            }
            outcome = Outcome::BUSY;
            if batch.is_enough() {
                break;
            }
        }
        outcome
    }

    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        batch.fill_outbox(which);
        let (mut frames, mut bytes) = (0, 0);
        let mut outcome = Outcome::NOTHING;
        for index in 0..which.len() {
            if !batch.fits(&batch.frames[usize::from(which[index])], self.mtu) {
                counters.dropped(Reason::TooLong, 1);
                continue;
            }
            let (frame, vnet) = batch.outgoing(which, index);
            let parts = [IoSlice::new(&vnet), IoSlice::new(frame)];
            match rustix::io::writev(&self.file, &parts) {
                Ok(_) => {
                    frames += 1;
                    bytes += frame.len() as u64;
                }
                Err(error) => {
                    let reason = refusal(error);
                    counters.dropped(reason.unwrap_or(Reason::Closed), 1);
                    outcome.gone |= reason.is_none();
                }
            }
        }
        counters.went_out(frames, bytes);
        outcome
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.file.as_fd()]
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.file.as_fd()]
    }
}

/// A TAP device to be made.
#[derive(Clone, Debug)]
pub struct Tap<'a> {
    /// The device's name.
    pub name: &'a str,
    /// The host's address on it; the kernel chooses one if there is none here.
    pub mac: Option<Mac>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The user id that may open the device besides root.
    pub owner: Option<u32>,
}

/// There are no TAP devices here.
#[derive(Debug, thiserror::Error)]
#[error(
    "no /dev/net/tun, which TAP ‘{0}’ needs: `modprobe tun`, or give the device to the container"
)]
pub struct NoTun(String);

fn no_tun(name: &str) -> LinkError {
    LinkError::of_kind(Fault::Refused, None, NoTun(name.into()))
}

impl Open for Tap<'_> {
    type Link = TapLink;

    /// Makes the device and sets it up.
    fn open(&self) -> Result<Opened<()>, LinkError> {
        let tap = self;
        let name = checked(tap.name)?;
        if let Some(mac) = tap.mac
            && (mac.is_multicast() || mac == Mac::ZERO)
        {
            return Err(LinkError::Address {
                name: name.into(),
                mac,
            });
        }
        let failed = |action| move |error: io::Error| refused(action, name, errno(&error));
        let mut netlink = Netlink::new().map_err(failed("look at"))?;
        if netlink.index(name).is_ok() {
            return Err(LinkError::Exists(name.into()));
        }
        let file = sys::open_tap(name).map_err(|error| match error {
            Errno::BUSY => LinkError::Exists(name.into()),
            Errno::NOENT | Errno::NODEV | Errno::NXIO => no_tun(name),
            error => refused("make TAP", name, error),
        })?;
        if let Some(owner) = tap.owner {
            sys::set_tap_owner(file.as_fd(), owner)
                .map_err(|error| refused("give away TAP", name, error))?;
        }
        let made = netlink.interface(name).map_err(failed("look at"))?;
        let index = made.index;
        if let Some(mac) = tap.mac {
            let set = netlink.set_mac(index, mac);
            set.map_err(failed("set the address of"))?;
        }
        let set = netlink.set_mtu(index, tap.mtu);
        set.map_err(failed("set the MTU of"))?;
        netlink.set_up(index).map_err(failed("set up"))?;
        Ok(Opened {
            record: (),
            name: name.into(),
            mtu: tap.mtu,
            files: vec![file],
            gro: None,
            mac: tap.mac.or(made.mac).unwrap_or(Mac::ZERO),
        })
    }
}

/// The network namespace that a TAP device was made in, by a descriptor of the device
/// ([`crate::client::SwitchClient::files`]): the descriptors keep it from ending.
pub fn tap_namespace(tap: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    Ok(sys::tap_namespace(tap)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_is_told() {
        let taken = Tap {
            name: "lo",
            mac: None,
            mtu: 1500,
            owner: None,
        };
        assert!(matches!(taken.open(), Err(LinkError::Exists(_))));
    }
}
