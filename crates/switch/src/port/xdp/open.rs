//! Opening an interface by AF_XDP.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::QUEUES_MAX;
use super::super::offload::{ETHERNET, VLAN};
use super::super::opening::{self, Fault, Interface, LinkError, Opened};
use crate::sys::bpf::{AttachMode, SocketMap};
use crate::sys::{self, packet, xdp};

/// Why an interface cannot be attached by AF_XDP.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// Its frames are longer than AF_XDP's buffers.
    #[error(
        "an MTU of {mtu} is too large for AF_XDP on ‘{name}’, whose maximum is 3822: lower it, or attach it by AF_PACKET (mode packet)"
    )]
    TooLong {
        /// The interface.
        name: String,
        /// Its MTU, in bytes.
        mtu: u16,
    },
    /// It has more queues than sockets are opened for.
    #[error(
        "‘{name}’ has {queues} receive queues, and AF_XDP takes at most {QUEUES_MAX}: `ethtool -L {name} combined {QUEUES_MAX}`, or attach it by AF_PACKET (mode packet)"
    )]
    Queues {
        /// The interface.
        name: String,
        /// Its receive queues.
        queues: u32,
    },
    /// Another program has attached an XDP program.
    #[error(
        "‘{0}’ has another XDP program: detach it (`ip link set {0} xdp off`), or attach it by AF_PACKET (mode packet)"
    )]
    ForeignProgram(String),
    /// Another program has an AF_XDP socket on a queue.
    #[error(
        "a queue of ‘{0}’ already has an AF_XDP socket: end the program that owns it, or attach it by AF_PACKET (mode packet)"
    )]
    QueueTaken(String),
    /// The memory may not be locked.
    #[error(
        "the limit of locked memory is too low for AF_XDP on ‘{0}’: raise it (`ulimit -l`), or give the capability CAP_IPC_LOCK"
    )]
    LockedMemory(String),
    /// The kernel does not know AF_XDP.
    #[error(
        "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS), which ‘{0}’ needs: attach it by AF_PACKET (mode packet)"
    )]
    NoXdp(String),
}

impl From<XdpError> for LinkError {
    fn from(error: XdpError) -> LinkError {
        LinkError::of_kind(Fault::Refused, None, error)
    }
}

/// How an interface that is attached by AF_XDP moves frames, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// Its driver puts them where the switch reads them.
    ZeroCopy,
    /// Its driver hands them over, and the kernel copies them.
    Native,
    /// The kernel copies them out of its own buffers.
    Generic,
}

/// Attaches an interface with one socket for each of its queues.
pub fn open(interface: &Interface<'_>) -> Result<Opened<XdpMode>, LinkError> {
    let (name, index) = (interface.name, interface.index);
    let frame = usize::from(interface.mtu) + ETHERNET + VLAN;
    let chunk = xdp::chunk_for(frame).ok_or_else(|| XdpError::TooLong {
        name: name.into(),
        mtu: interface.mtu,
    })?;
    let queues = sys::receive_queues(name).unwrap_or(1);
    if queues > QUEUES_MAX {
        return Err(XdpError::Queues {
            name: name.into(),
            queues,
        }
        .into());
    }
    let failed = |action| move |source| refused(action, name, source);
    let bytes = queues as usize * xdp::umem_bytes(chunk);
    let umem = crate::memory::sealed_file("weir-umem", bytes)
        .map_err(|_| failed("get memory for")(Errno::NOMEM))?;
    let map = SocketMap::new(queues).map_err(failed("make an XDP map for"))?;
    let mut sockets = Vec::new();
    for queue in 0..queues {
        let socket = when_free(|| xdp::open(index, queue, &umem, queue as usize, chunk))
            .map_err(failed("open an AF_XDP socket on"))?;
        map.set(queue, socket.as_fd())
            .map_err(failed("steer the frames of"))?;
        sockets.push(socket);
    }
    let watch = packet::watch(index).map_err(failed("watch"))?;
    // Last, so that no frame is taken from the host for a link that then cannot be opened.
    let (program, mode) = attach_program(&map, interface)?;
    let mut queues = sockets.iter();
    let is_zero_copy = queues.all(|socket| xdp::is_zero_copy(socket.as_fd()));
    let mode = if is_zero_copy {
        XdpMode::ZeroCopy
    } else {
        mode
    };
    let mut files = vec![umem, watch, program];
    files.extend(sockets);
    Ok(Opened {
        record: mode,
        name: name.into(),
        mtu: interface.mtu,
        files,
        mac: interface.mac,
        gro: None,
    })
}

/// Tries again for a while if the queue is taken: the kernel releases it some time after the last
/// descriptor of a socket was closed.
fn when_free(open: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..TRIES {
        match open() {
            Err(Errno::BUSY) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    open()
}

/// Attaches the program: by the driver, or by the kernel where the driver cannot.
fn attach_program(
    map: &SocketMap,
    interface: &Interface<'_>,
) -> Result<(OwnedFd, XdpMode), LinkError> {
    let failed = |source| match source {
        Errno::BUSY | Errno::EXIST => XdpError::ForeignProgram(interface.name.into()).into(),
        source => refused("attach an XDP program to", interface.name, source),
    };
    match map.attach(interface.index, AttachMode::Native) {
        Ok(program) => Ok((program, XdpMode::Native)),
        Err(error @ (Errno::BUSY | Errno::EXIST | Errno::PERM | Errno::ACCESS)) => {
            Err(failed(error))
        }
        Err(_) => {
            let program = map.attach(interface.index, AttachMode::Generic);
            Ok((program.map_err(failed)?, XdpMode::Generic))
        }
    }
}

fn refused(action: &'static str, name: &str, source: Errno) -> LinkError {
    let reason = match source {
        Errno::AFNOSUPPORT => XdpError::NoXdp,
        Errno::BUSY => XdpError::QueueTaken,
        Errno::NOBUFS => XdpError::LockedMemory,
        source => return opening::refused(action, name, source),
    };
    reason(name.into()).into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::super::kinds::LinkRecord;
    use super::super::super::links::{Device, HostLink, Mode};
    use super::*;
    use crate::netlink::Netlink;

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "ip {arguments}"
        );
    }

    /// A veth pair that goes with this.
    struct Veth(String);

    impl Veth {
        fn new(what: &str, options: &str) -> Veth {
            let name = format!("sw{}{what}", std::process::id());
            ip(&format!(
                "link add {name} {options} type veth peer name {name}p {options}"
            ));
            ip(&format!("link set {name} addrgenmode none up"));
            Veth(name)
        }

        fn attach(&self) -> Result<HostLink, LinkError> {
            let name = &self.0;
            HostLink::attach(&Device {
                name,
                mode: Mode::Xdp,
            })
        }
    }

    impl Drop for Veth {
        fn drop(&mut self) {
            ip(&format!("link del {}", self.0));
        }
    }

    #[test]
    fn what_stands_in_the_way_of_af_xdp_is_told_in_a_sentence_with_a_remedy() {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "needs root: makes interfaces");
        let veth = Veth::new("f", "mtu 1500");
        let index = Netlink::new().unwrap().index(&veth.0).unwrap();
        let foreign = SocketMap::new(1).unwrap();
        let foreign = foreign.attach(index, AttachMode::Generic).unwrap();
        let error = veth.attach().unwrap_err();
        assert!(
            matches!(error.as_kind(), Some(XdpError::ForeignProgram(_))),
            "{error}"
        );
        assert!(error.to_string().contains("ip link set"), "{error}");
        drop(foreign);
        let link = veth.attach().unwrap();
        assert_eq!(link.record(), &LinkRecord::Xdp(XdpMode::Native));
        let error = veth.attach().unwrap_err();
        assert!(
            matches!(error.as_kind(), Some(XdpError::QueueTaken(_))),
            "{error}"
        );
        drop(link);
        drop(veth.attach().unwrap());

        let long = Veth::new("l", "mtu 9000");
        let error = long.attach().unwrap_err();
        assert!(
            matches!(error.as_kind(), Some(XdpError::TooLong { mtu: 9000, .. })),
            "{error}"
        );

        let many = Veth::new("m", "numrxqueues 20 numtxqueues 20");
        let error = many.attach().unwrap_err();
        assert!(
            matches!(error.as_kind(), Some(XdpError::Queues { queues: 20, .. })),
            "{error}"
        );
    }
}
