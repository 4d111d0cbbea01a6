//! Guests that earlier nodes of this folder started and that have no record: the record was lost.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Host;
use crate::model::UnknownGuest;

impl Host {
    /// The owner of this node's guests: its folder of sockets.
    pub(super) fn owner(&self) -> String {
        let folder = self.socket.parent();
        folder.map_or(String::new(), |folder| folder.display().to_string())
    }

    /// Running guests of this node's folder that are neither this node's guests nor `known`
    /// processes.
    pub fn unknown_guests(&self, known: &BTreeSet<u32>) -> Vec<UnknownGuest> {
        let own: BTreeSet<u32> = self.guests.values().map(|it| it.guest.pid()).collect();
        let Ok(processes) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let unknown = pids.filter(|pid| !own.contains(pid) && !known.contains(pid));
        let guest = |pid| {
            let started = vmm::started(pid)?;
            let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let name = vmm::guest_of(&command, &self.owner())?;
            Some(UnknownGuest { name, pid, started })
        };
        unknown.filter_map(guest).collect()
    }

    /// Ends a guest that no record names, if it still runs.
    pub fn end_unknown(&self, guest: &UnknownGuest) {
        let pid = i32::try_from(guest.pid).ok().and_then(Pid::from_raw);
        let Some(Ok(pidfd)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return;
        };
        // The descriptor is that of the process that was seen.
        if vmm::started(guest.pid) == Some(guest.started) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}
