//! The node's part: loading the programs and attaching them, for which a switch has no privilege.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use aya::programs::{SchedClassifier, SocketFilter};
use aya::{Ebpf, maps::Map};

use crate::sys::bpf;

/// The object that `build.rs` makes of `programs.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/settled.o"));

/// Why the kernel does not pass settled flows on.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kernel passes no settled flows on ({0}): Linux 6.6 and the capability CAP_BPF are needed"
)]
pub struct SettleError(String);

fn failed(error: impl std::fmt::Display) -> SettleError {
    SettleError(error.to_string())
}

/// The loaded programs and their maps.
pub struct Programs {
    ebpf: Ebpf,
}

impl Programs {
    /// Loads them.
    pub fn load() -> Result<Programs, SettleError> {
        let mut ebpf = Ebpf::load(OBJECT).map_err(failed)?;
        let missing = || SettleError("a program is missing".into());
        let filter = ebpf.program_mut("settled_filter").ok_or_else(missing)?;
        let filter: &mut SocketFilter = filter.try_into().map_err(failed)?;
        filter.load().map_err(failed)?;
        let ingress = ebpf.program_mut("settled_ingress").ok_or_else(missing)?;
        let ingress: &mut SchedClassifier = ingress.try_into().map_err(failed)?;
        ingress.load().map_err(failed)?;
        Ok(Programs { ebpf })
    }

    /// What the switch needs of them: the maps of flows, rules and epochs, and the filter of its packet sockets.
    pub fn files(&self) -> Result<Vec<OwnedFd>, SettleError> {
        let mut files = Vec::new();
        for name in ["flows", "rules", "epochs"] {
            let map = self.ebpf.map(name);
            let Some(Map::HashMap(data) | Map::Array(data)) = map else {
                return Err(SettleError(format!("the map ‘{name}’ is missing")));
            };
            let file = data.fd().as_fd().try_clone_to_owned();
            files.push(file.map_err(failed)?);
        }
        let filter = self.ebpf.program("settled_filter");
        let filter: &SocketFilter = filter
            .ok_or_else(|| SettleError("a program is missing".into()))?
            .try_into()
            .map_err(failed)?;
        let filter = filter.fd().map_err(failed)?;
        let file = filter.as_fd().try_clone_to_owned();
        files.push(file.map_err(failed)?);
        Ok(files)
    }

    /// Attaches the other program where frames come in by an interface of this thread's namespace. It stays for as long
    /// as a copy of the returned descriptor is open.
    pub fn attach(&self, interface: u32) -> Result<OwnedFd, SettleError> {
        let program = self.ebpf.program("settled_ingress");
        let program: &SchedClassifier = program
            .ok_or_else(|| SettleError("a program is missing".into()))?
            .try_into()
            .map_err(failed)?;
        let program = program.fd().map_err(failed)?;
        let program = program.as_fd().as_raw_fd();
        bpf::attach_at_ingress(program, interface).map_err(failed)
    }
}
