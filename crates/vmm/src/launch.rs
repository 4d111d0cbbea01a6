//! The message by which a pre-forked process starts its guest: the layout, the boot area and the memory files,
//! over a socket.
//!
//! Both ends are the same program, and the process has run no code of a guest when it receives the message, so the
//! message is trusted. A message that cannot be decoded is still refused with a sentence.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use abi::CPUS_MAX;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};
use crate::layout::Layout;
use crate::{GuestSpec, Part};

/// The files of control, data, snapshot; and the four of sockets.
const FILES: usize = 7;
const LAUNCHING: &str = "passing a guest to its process";

/// What a process needs to know of its guest.
#[derive(Serialize, Deserialize)]
pub(crate) struct Parameters {
    pub(crate) layout: Layout,
    pub(crate) name: String,
    pub(crate) owner: String,
    /// CPUs of the host that the guest's are bound to.
    pub(crate) pins: [Option<usize>; CPUS_MAX],
    pub(crate) end_with_parent: bool,
    /// Whether there are a data region, a snapshot, and sockets.
    with: [bool; 3],
}

/// The message, as received.
pub(crate) struct Launch {
    pub(crate) parameters: Parameters,
    pub(crate) boot_area: Vec<u8>,
    pub(crate) control: OwnedFd,
    pub(crate) data: Option<OwnedFd>,
    pub(crate) snapshot: Option<OwnedFd>,
    pub(crate) sockets: Option<Sockets>,
}

/// A guest's sockets, as received.
pub(crate) struct Sockets {
    pub(crate) queues: OwnedFd,
    pub(crate) payload: OwnedFd,
    pub(crate) doorbell: OwnedFd,
    pub(crate) connection: OwnedFd,
}

/// The sending and the receiving end.
pub(crate) fn channel() -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().context(LAUNCHING)
}

/// Sends the message for a guest: its length, the parameters, the boot area.
pub(crate) fn send(
    mut socket: &UnixStream,
    spec: &GuestSpec<'_>,
    layout: &Layout,
    boot_area: &[u8],
) -> Result<()> {
    let mut pins = spec.pins.iter().copied().cycle();
    let parameters = Parameters {
        layout: *layout,
        name: spec.name.to_owned(),
        owner: spec.owner.to_owned(),
        pins: [(); CPUS_MAX].map(|()| pins.next()),
        end_with_parent: spec.end_with_parent,
        with: [
            spec.data.is_some(),
            spec.snapshot.is_some(),
            spec.sockets.is_some(),
        ],
    };
    let parameters = postcard::to_allocvec(&parameters)
        .map_err(std::io::Error::other)
        .context(LAUNCHING)?;
    let length = (parameters.len() + boot_area.len()).to_ne_bytes();
    let message = [&length, parameters.as_slice(), boot_area].concat();
    let control = spec.control.reopen()?;
    let mut files = vec![control.as_fd()];
    files.extend(spec.data.map(|data| data.file));
    files.extend(spec.snapshot.map(|snapshot| snapshot.file(Part::Memory)));
    if let Some(it) = &spec.sockets {
        files.extend([it.queues, it.payload, it.doorbell, it.connection]);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let text = [IoSlice::new(&message)];
    let sent = sendmsg(socket, &text, &mut ancillary, SendFlags::NOSIGNAL).context(LAUNCHING)?;
    socket.write_all(&message[sent..]).context(LAUNCHING)
}

/// Waits for the message. `None` if the other end is closed: the process is not needed any more.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Option<Launch>> {
    let mut length = [0; size_of::<usize>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let into = &mut [IoSliceMut::new(&mut length)];
    let received = recvmsg(socket, into, &mut ancillary, flags).context(LAUNCHING)?;
    let mut files = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let Some(control) = files.next() else {
        return Ok(None);
    };
    if received.bytes < length.len() {
        return Ok(None);
    }
    let mut message = vec![0; usize::from_ne_bytes(length)];
    let socket = socket.try_clone_to_owned().context(LAUNCHING)?;
    UnixStream::from(socket)
        .read_exact(&mut message)
        .context(LAUNCHING)?;
    let (parameters, boot_area): (Parameters, _) = postcard::take_from_bytes(&message)
        .map_err(std::io::Error::other)
        .context(LAUNCHING)?;
    let [with_data, with_snapshot, with_sockets] = parameters.with;
    let mut next = |with: bool| with.then(|| files.next()).flatten();
    let (data, snapshot) = (next(with_data), next(with_snapshot));
    let sockets = [(); 4].map(|()| next(with_sockets));
    let sockets = match sockets {
        [
            Some(queues),
            Some(payload),
            Some(doorbell),
            Some(connection),
        ] => Some(Sockets {
            queues,
            payload,
            doorbell,
            connection,
        }),
        _ => None,
    };
    Ok(Some(Launch {
        parameters,
        boot_area: boot_area.to_vec(),
        control,
        data,
        snapshot,
        sockets,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::image::Image;
    use crate::{Control, DataFile, Wall};
    use rustix::fs::{MemfdFlags, fstat, memfd_create};

    #[test]
    fn a_launch_arrives_as_it_was_sent() {
        let (sender, receiver) = channel().unwrap();
        let control = Control::new().unwrap();
        let file = memfd_create("data", MemfdFlags::CLOEXEC).unwrap();
        let mut spec = GuestSpec::new("name", 3, &control);
        spec.pins = &[0, 5];
        spec.data = Some(DataFile {
            file: file.as_fd(),
            length: 4096,
            wake_offset: 0,
        });
        let image = Image::parse(crate::IMAGE).unwrap();
        let layout = Layout::new(&image, &spec, Wall::Vm).unwrap();
        // Longer than a socket holds.
        let area: Vec<u8> = (0..1_000_000).map(|i| i as u8).collect();
        let launch = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(receiver.as_fd()).unwrap().unwrap());
            send(&sender, &spec, &layout, &area).unwrap();
            receiving.join().unwrap()
        });
        let parameters = launch.parameters;
        assert_eq!(parameters.layout, layout);
        assert_eq!(parameters.name, "name");
        assert_eq!(launch.boot_area, area);
        assert_eq!(parameters.pins[..3], [Some(0), Some(5), Some(0)]);
        assert!(parameters.end_with_parent);
        let same = |a: BorrowedFd<'_>, b: BorrowedFd<'_>| {
            fstat(a).unwrap().st_ino == fstat(b).unwrap().st_ino
        };
        assert!(same(launch.control.as_fd(), control.file()));
        assert!(same(launch.data.unwrap().as_fd(), file.as_fd()));
    }

    #[test]
    fn a_launch_that_never_comes_is_none() {
        let (sender, receiver) = channel().unwrap();
        drop(sender);
        assert!(receive(receiver.as_fd()).unwrap().is_none());
    }
}
