//! The store's process. It has two sockets, an allow-list of system calls, and no privileges.

use std::collections::VecDeque;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use ::store::Store;
use ::store::server::{EventLoop, Shared};
use nix::libc;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, accept_with,
    recvmsg, send,
};
use rustix::process::Pid;
use switch::confine;
use switch::process::fork_with;

use super::domains::Domains;
use super::message::{BYTES_MAX, Change, MESSAGE_FILES};
use super::rings::Rings;

/// The system calls that the process may make, besides those for memory.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_fcntl,
    // The files of guests' control regions.
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_ctl,
    libc::SYS_futex,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    // Seeds of hash tables.
    libc::SYS_getrandom,
    // Ending, in order or not.
    libc::SYS_exit_group,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
];

/// The number of the socket on which the node connects.
const LISTENER: u64 = 0;
/// The number of the node's connection.
const NODE: u64 = 1;

/// Starts the process. It serves programs that connect to `programs`, a stream socket, and obeys the node that connects
/// to `node`, a socket of packets; both listen. It outlives this process, which has one thread.
pub fn spawn(programs: OwnedFd, node: OwnedFd) -> Result<Pid, Errno> {
    fork_with([programs, node], |[programs, node]| {
        match run(programs, node) {
            Ok(()) => 0,
            Err(error) => {
                // The process's last message; a failure to write it cannot be reported.
                let _ = writeln!(std::io::stderr(), "store: {error}");
                1
            }
        }
    })
}

fn run(programs: OwnedFd, node: OwnedFd) -> Result<(), Box<dyn std::error::Error>> {
    rustix::thread::set_name(c"weir-store")?;
    vmm::show_title(c"weir-store");
    // A Ctrl-C at the parent's terminal is the parent's to deal with.
    rustix::process::setsid()?;
    confine::drop_privileges()?;
    let store = Shared::new(Store::default())?;
    let mut serving = EventLoop::new(programs.into(), store.clone())?;
    serving.watch(node.as_fd(), LISTENER)?;
    confine::filter_system_calls(ALLOWED, &[])?;
    let mut domains = Domains::new(store);
    let mut rings = Rings::default();
    let mut connection: Option<OwnedFd> = None;
    let mut buffer = vec![0; BYTES_MAX];
    let mut unsent = VecDeque::new();
    let mut own = Vec::new();
    loop {
        own.clear();
        serving.wait(&mut own)?;
        let mut has_message = own.contains(&NODE);
        // The last node was killed if another one connects.
        if own.contains(&LISTENER)
            && let Ok(next) = accept_with(&node, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            drop(connection.take());
            serving.watch_edges(next.as_fd(), NODE)?;
            unsent.clear();
            domains.begin();
            connection = Some(next);
            has_message = true;
        }
        if has_message && let Some(socket) = &connection {
            match listen(
                socket,
                &mut buffer,
                &mut domains,
                (&mut serving, &mut rings),
            ) {
                After::Stay => {}
                After::Gone => connection = None,
                After::End => return Ok(()),
            }
        }
        own.iter().for_each(|it| rings.ring(&mut serving, *it));
        serving.serve();
        domains.look();
        if let Some(socket) = &connection {
            tell(socket, &mut unsent, &mut domains);
        }
    }
}

/// Sends the node its pending messages, as many as it takes now. An event follows when it takes more.
fn tell(node: &OwnedFd, unsent: &mut VecDeque<Vec<u8>>, domains: &mut Domains) {
    loop {
        if unsent.is_empty() {
            let Some(told) = domains.next_request() else {
                return;
            };
            // Strings and numbers: they have a form in JSON.
            unsent.extend(told.iter().flat_map(serde_json::to_vec));
        }
        while let Some(message) = unsent.front() {
            match send(node, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => drop(unsent.pop_front()),
                Err(Errno::INTR) => {}
                // It takes more later, or has ended, which is an event.
                Err(_) => return,
            }
        }
    }
}

/// Whether the node's connection goes on.
enum After {
    Stay,
    /// The node has ended.
    Gone,
    /// The store is to end.
    End,
}

/// Carries out the node's messages.
fn listen(
    node: &OwnedFd,
    buffer: &mut [u8],
    domains: &mut Domains,
    (serving, rings): (&mut EventLoop, &mut Rings),
) -> After {
    loop {
        match receive(node, buffer) {
            Ok((0, _)) => return After::Gone,
            Ok((length, files)) => {
                let Some(Ok(changes)) = buffer.get(..length).map(serde_json::from_slice) else {
                    return After::Gone;
                };
                let changes: Vec<Change> = changes;
                let connect = match changes.first() {
                    Some(Change::Connect { domain, waker }) => Some((*domain, *waker)),
                    _ => None,
                };
                if !domains.change(changes) {
                    return After::End;
                }
                let released = domains.take_released();
                released.for_each(|domain| rings.release(serving, domain));
                if let Some(((domain, waker), files)) = connect.zip(files.try_into().ok()) {
                    rings.connect(serving, domain, waker, files);
                }
            }
            Err(Errno::AGAIN) => return After::Stay,
            Err(Errno::INTR) => {}
            Err(_) => return After::Gone,
        }
    }
}

/// Receives a message, with its files.
fn receive(node: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(node, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let files = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    Ok((received.bytes, files.collect()))
}
