//! A TAP device's port: one system call for each frame, since the device has no other way.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::{BATCH, Batch, Outcome, refusal};
use crate::counters::{PortCounters, Reason};

/// An open TAP device with virtio-net headers (see [`crate::links::Tap`]).
pub struct TapLink {
    file: OwnedFd,
    mtu: u16,
}

impl TapLink {
    /// A port on an open, non-blocking TAP device with this MTU.
    pub fn new(file: OwnedFd, mtu: u16) -> TapLink {
        TapLink { file, mtu }
    }

    /// What tells of frames to receive.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn another_way(&self) -> Option<TapLink> {
        let file = self.file.try_clone().ok()?;
        Some(TapLink::new(file, self.mtu))
    }

    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    pub(super) fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    pub(super) fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
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

    pub(super) fn send(
        &mut self,
        batch: &mut Batch,
        which: &[u16],
        counters: &PortCounters,
    ) -> Outcome {
        batch.fill_outbox(which);
        let (mut frames, mut bytes) = (0, 0);
        let mut outcome = Outcome::NOTHING;
        for place in 0..which.len() {
            if !batch.fits(&batch.frames[usize::from(which[place])], self.mtu) {
                counters.dropped(Reason::TooLong, 1);
                continue;
            }
            let (frame, vnet) = batch.outgoing(which, place);
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
}
