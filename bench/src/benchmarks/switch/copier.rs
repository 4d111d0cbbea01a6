//! The limit of any program that forwards frames between two interfaces by AF_PACKET: a loop that does
//! nothing else.
//!
//! It has no guest, no rules and no switch, and sleeps when no frame comes. A forwarder's distance from
//! it is the cost of the forwarder's work. The distance of a bridge in the kernel is the cost of two
//! copies and their system calls.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, bind,
    recvmmsg, sendmmsg, setsockopt, socket, sockopt,
};
use rustix::event::{PollFd, PollFlags, poll};

use super::Failure;
use super::sender::link_address;

/// Frames per system call.
const BURST: usize = 64;
/// Largest frame: 64 KB of payload with its headers.
const ROOM: usize = 66 << 10;
/// Bytes that may wait in the kernel for each socket, each way.
const QUEUE: usize = 8 << 20;

/// Forwards between two interfaces until the process is ended.
pub fn run(ends: [&str; 2]) -> Result<(), Failure> {
    let sockets = [open(ends[0])?, open(ends[1])?];
    let mut rooms = vec![vec![0; ROOM]; BURST];
    let (mut came, mut goes) = (
        MultiHeaders::<LinkAddr>::preallocate(BURST, None),
        MultiHeaders::<LinkAddr>::preallocate(BURST, None),
    );
    println!("running");
    loop {
        let mut moved = 0;
        for (from, to) in [(&sockets[0], &sockets[1]), (&sockets[1], &sockets[0])] {
            let mut slices: Vec<_> = rooms.iter_mut().map(|r| [IoSliceMut::new(r)]).collect();
            let (fd, flags) = (from.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
            let lens: Vec<usize> = match recvmmsg(fd, &mut came, &mut slices, flags, None) {
                Ok(frames) => frames.map(|frame| frame.bytes).collect(),
                Err(Errno::EAGAIN) => continue,
                Err(error) => return Err(format!("cannot receive: {error}").into()),
            };
            moved += lens.len();
            let frames = rooms.iter().zip(&lens).map(|(room, len)| &room[..*len]);
            let frames: Vec<_> = frames.map(|frame| [IoSlice::new(frame)]).collect();
            let (nobody, nothing) = (vec![None; frames.len()], MsgFlags::empty());
            // Frames that the kernel does not take are lost.
            let _ = sendmmsg(to.as_raw_fd(), &mut goes, &frames, &nobody, [], nothing);
        }
        if moved == 0 {
            let mut ends = sockets
                .each_ref()
                .map(|socket| PollFd::new(socket, PollFlags::IN));
            poll(&mut ends, None)?;
        }
    }
}

/// A socket for all frames of an interface, with the offloaded work of each.
fn open(interface: &str) -> Result<OwnedFd, Failure> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        flags,
        SockProtocol::EthAll,
    )?;
    let on: libc::c_int = 1;
    // SAFETY: an int is given, with its length.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_VNET_HDR,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    Errno::result(set)?;
    setsockopt(&socket, sockopt::RcvBufForce, &QUEUE)?;
    setsockopt(&socket, sockopt::SndBufForce, &QUEUE)?;
    bind(socket.as_raw_fd(), &link_address(interface)?)?;
    Ok(socket)
}
