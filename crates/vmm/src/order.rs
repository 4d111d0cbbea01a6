//! The order by which a process that was made ready starts its guest: the layout, what the guest is told, and
//! its memory files, over a socket.
//!
//! Both ends are the same program, and the process has run nothing of a guest when it takes its order: what
//! comes is trusted.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::CPUS_MAX;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};

use crate::GuestSpec;
use crate::error::{Context, Error, Result};
use crate::layout::{self, Layout};

/// Words in front of name and boot area: the layout, the CPU of the host plus one that each of the guest's is
/// tied to, whether the guest ends with its parent, the lengths of both texts.
const HEADER_WORDS: usize = layout::WORDS + CPUS_MAX + 3;
const HEADER_BYTES: usize = HEADER_WORDS * 8;
/// Memory files: control, data.
const FILES: usize = 2;
const ORDERING: &str = "handing a guest to its process";

/// What a process needs to know of its guest.
pub(crate) struct Order {
    pub(crate) layout: Layout,
    pub(crate) name: Vec<u8>,
    pub(crate) boot_area: Vec<u8>,
    /// CPUs of the host that the guest's are tied to.
    pub(crate) pins: [Option<usize>; CPUS_MAX],
    pub(crate) end_with_parent: bool,
    pub(crate) control: OwnedFd,
    pub(crate) data: Option<OwnedFd>,
}

/// The two ends: who gives the order, and who takes it.
pub(crate) fn channel() -> Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::STREAM;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).context(ORDERING)
}

/// Gives the order for a guest.
pub(crate) fn give(
    socket: BorrowedFd<'_>,
    spec: &GuestSpec<'_>,
    layout: &Layout,
    boot_area: &[u8],
) -> Result<()> {
    let mut words = [0; HEADER_WORDS];
    words[..layout::WORDS].copy_from_slice(&layout.words());
    let (pins, rest) = words[layout::WORDS..].split_at_mut(CPUS_MAX);
    for (word, pin) in pins.iter_mut().zip(spec.pins.iter().cycle()) {
        *word = *pin as u64 + 1;
    }
    rest.copy_from_slice(&[
        spec.end_with_parent.into(),
        spec.name.len() as u64,
        boot_area.len() as u64,
    ]);
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut files = vec![spec.control.file()];
    files.extend(spec.data.map(|data| data.file));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let text = [header.as_slice(), spec.name.as_bytes(), boot_area].concat();
    let mut sent = sendmsg(
        socket,
        &[IoSlice::new(&text)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )
    .context(ORDERING)?;
    while sent < text.len() {
        match send(socket, &text[sent..], SendFlags::NOSIGNAL) {
            Ok(more) => sent += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context(ORDERING),
        }
    }
    Ok(())
}

/// Waits for the order. `None` if it never comes: nobody wants the process any more.
pub(crate) fn take(socket: BorrowedFd<'_>) -> Result<Option<Order>> {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut header)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )
    .context(ORDERING)?;
    if received.bytes < HEADER_BYTES {
        return Ok(None);
    }
    let mut files = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let Some(control) = files.next() else {
        return Ok(None);
    };
    let data = files.next();
    let mut words = [0; HEADER_WORDS];
    for (word, bytes) in words.iter_mut().zip(header.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    let (layout, pins, [end_with_parent, name, boot_area]) = words
        .split_first_chunk()
        .and_then(|(layout, rest)| {
            let (pins, rest) = rest.split_first_chunk::<CPUS_MAX>()?;
            Some((layout, pins, *rest.first_chunk()?))
        })
        .expect("the header is as long as all three");
    Ok(Some(Order {
        layout: Layout::from_words(layout),
        name: text(socket.as_fd(), name)?,
        boot_area: text(socket.as_fd(), boot_area)?,
        pins: pins.map(|pin| (pin as usize).checked_sub(1)),
        end_with_parent: end_with_parent != 0,
        control,
        data,
    }))
}

fn text(socket: BorrowedFd<'_>, length: u64) -> Result<Vec<u8>> {
    let mut text = vec![0; length as usize];
    let mut there = 0;
    while there < text.len() {
        match recv(socket, &mut text[there..], RecvFlags::WAITALL) {
            Ok((_, 0)) => {
                let gone = std::io::ErrorKind::UnexpectedEof.into();
                return Err(Error::System {
                    what: ORDERING,
                    source: gone,
                });
            }
            Ok((_, more)) => there += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context(ORDERING),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, DataFile};
    use rustix::fs::{MemfdFlags, fstat, memfd_create};

    #[test]
    fn an_order_arrives_as_it_was_given() {
        let (giver, taker) = channel().unwrap();
        let control = Control::new().unwrap();
        let file = memfd_create("data", MemfdFlags::CLOEXEC).unwrap();
        let mut spec = GuestSpec::new("name", 3, &control);
        spec.pins = &[0, 5];
        spec.data = Some(DataFile {
            file: file.as_fd(),
            length: 4096,
            wake_offset: 0,
        });
        let mut words = [0; layout::WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = i as u64;
        }
        // Longer than a socket holds.
        let area: Vec<u8> = (0..1_000_000).map(|i| i as u8).collect();
        let order = std::thread::scope(|scope| {
            let taking = scope.spawn(|| take(taker.as_fd()).unwrap().unwrap());
            give(giver.as_fd(), &spec, &Layout::from_words(&words), &area).unwrap();
            taking.join().unwrap()
        });
        assert_eq!(order.layout.words(), words);
        assert_eq!(order.name, b"name");
        assert_eq!(order.boot_area, area);
        assert_eq!(order.pins[..3], [Some(0), Some(5), Some(0)]);
        assert!(order.end_with_parent);
        let same = |a: BorrowedFd<'_>, b: BorrowedFd<'_>| {
            fstat(a).unwrap().st_ino == fstat(b).unwrap().st_ino
        };
        assert!(same(order.control.as_fd(), control.file()));
        assert!(same(order.data.unwrap().as_fd(), file.as_fd()));
    }

    #[test]
    fn an_order_that_never_comes_is_none() {
        let (giver, taker) = channel().unwrap();
        drop(giver);
        assert!(take(taker.as_fd()).unwrap().is_none());
    }
}
