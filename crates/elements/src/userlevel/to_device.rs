use std::os::fd::RawFd;

use nix::errno::Errno;

use super::from_device::{DeviceReader, check_method};
use super::packet_socket::{Direction, PacketSocket};
use crate::prelude::*;

/// Longest wait before a frame is tried again, in microseconds.
const BACKOFF_MAX: u64 = 256;

/// Sends frames by a network interface of the host.
///
/// Frames must have their link-level header. While the interface's queue is full, a frame waits. A
/// frame that the kernel refuses is lost, with one message for a sequence of equal reasons.
///
/// In a guest, ToDevice sends by one of the guest's interfaces, as ToNetfront does.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> Queue -> ToDevice(eth1, BURST 32);
/// ```
///
/// # See also
/// FromDevice, ToNetfront, ToDump
#[derive(Element)]
#[element(
    ports = "1/0-2",
    processing = "l/h",
    phase = phase::DEFAULT + 1,
    task,
    handlers,
    provides(Descriptors, DeviceWriter)
)]
#[outputs("frames that were sent", "frames that the kernel refused")]
pub struct ToDevice {
    /// The interface; one ToDevice each.
    #[arg(mandatory, name = "DEVNAME")]
    interface: String,
    /// Whether to print when it waits.
    #[arg(read, write, checkbox, error = "type mismatch")]
    debug: bool,
    /// Accepted; there is only `LINUX`, a packet socket.
    #[arg(with = WordArg, kind = "word")]
    method: String,
    /// Most frames pulled each time it is scheduled.
    #[arg(default = 1)]
    burst: u32,
    socket: Option<PacketSocket>,
    /// Pulled, and not sent yet.
    held: VecDeque<Packet>,
    /// Microseconds of the next wait; 0: the socket is asked to tell when there is room.
    backoff: u64,
    /// Frames left of the burst under way.
    left: u32,
    /// How often it pulled.
    #[handler(read)]
    pulls: u64,
    /// Why frames are refused at the moment.
    refused: Option<Errno>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    signal: Signal,
}

/// An element that sends by one of the host's interfaces.
trait DeviceWriter {
    /// The interface, once it is open.
    fn interface(&self) -> Option<&str>;
}

impl Interface for dyn DeviceWriter {
    const NAME: &'static str = "DeviceWriter";
}

impl DeviceWriter for ToDevice {
    fn interface(&self) -> Option<&str> {
        self.socket.as_ref().map(|_| self.interface.as_str())
    }
}

impl ToDevice {
    /// Waits until there may be room.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        self.left = 0;
        let (Some(socket), Some(timer)) = (&self.socket, self.timer) else {
            return;
        };
        if self.backoff == 0 {
            self.backoff = 1;
            cx.watch(socket.fd(), false, true);
            return;
        }
        cx.schedule_after(timer, self.backoff * 1000);
        if self.backoff < BACKOFF_MAX {
            self.backoff *= 2;
        }
        if self.debug {
            let (name, backoff) = (cx.name().to_string(), self.backoff);
            cx.chatter(format_args!("{name} backing off for {backoff}"));
        }
    }

    /// Gives up the first frame.
    fn refuse(&mut self, cx: &mut Cx<'_>, errno: Errno) {
        if self.refused.replace(errno) != Some(errno) {
            let (name, reason) = (&self.interface, errno.desc());
            cx.chatter(format_args!("ToDevice({name}): {reason}"));
        }
        if let Some(packet) = self.held.pop_front() {
            cx.emit(1, packet);
        }
    }

    /// Holds the frames that were pulled. Returns how many are to be pulled, so that `most` are held;
    /// none if they were pulled just now.
    fn fill(&mut self, cx: &mut Cx<'_>, most: usize) -> usize {
        let wanted = most.saturating_sub(self.held.len());
        let Some(mut batch) = cx.pulled() else {
            return wanted;
        };
        // An attempt for each frame, and one that came back empty.
        self.pulls += (batch.len() + usize::from(batch.len() < wanted)) as u64;
        self.held.extend(batch.drain());
        cx.done(batch);
        0
    }
}

#[handlers]
impl ToDevice {
    /// Whether there may be something to pull.
    #[read]
    fn signal(&self, cx: &mut Cx<'_>) -> bool {
        cx.is_active(&self.signal)
    }

    /// Whether a frame waits.
    #[read]
    fn q(&self) -> bool {
        !self.held.is_empty()
    }
}

impl Descriptors for ToDevice {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: RawFd, _readable: bool, _writable: bool) {
        cx.watch(fd, false, false);
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }
}

impl Element for ToDevice {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.interface.is_empty() {
            return Err(args.fail("interface not set"));
        }
        if self.burst == 0 || self.burst > i32::MAX as u32 {
            return Err(args.fail("bad BURST"));
        }
        check_method(args, &self.method)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut socket = None;
        for other in (0..cx.graph().elements.len()).map(ElementId::new) {
            let writer = cx.link::<dyn DeviceWriter>(other);
            let writer = writer.and_then(|writer| cx.view(writer)?.interface());
            if writer == Some(self.interface.as_str()) {
                let name = &self.interface;
                return Err(cx.error(format_args!("duplicate writer for device '{name}'")));
            }
            if socket.is_none() {
                let reader = cx.link::<dyn DeviceReader>(other);
                let reader = reader.and_then(|reader| cx.view(reader)?.socket_on(&self.interface));
                socket = reader.map(PacketSocket::share);
            }
        }
        let socket = socket.unwrap_or_else(|| PacketSocket::open(&self.interface, Direction::Send));
        let socket = socket.map_err(|error| {
            let name = &self.interface;
            cx.error(format_args!("{name}: {error}"))
        })?;
        self.socket = Some(socket);
        self.timer = Some(cx.timer());
        let task = cx.task();
        cx.schedule(task);
        self.task = Some(task);
        self.signal = cx.upstream_signal(0, Some(task));
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(socket) = self.socket.take() {
            cx.watch(socket.fd(), false, false);
        }
        for packet in self.held.drain(..) {
            cx.kill(packet);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if self.left == 0 {
            self.left = self.burst;
        }
        let wanted = self.fill(cx, (self.left as usize).min(cx.limit()));
        if wanted > 0 {
            return Ran::Pull(Pull {
                port: 0,
                most: wanted as u16,
            });
        }
        let Some(socket) = self.socket.as_ref().filter(|_| !self.held.is_empty()) else {
            self.left = 0;
            if cx.is_active(&self.signal) {
                cx.schedule(task);
            }
            return Ran::Nothing;
        };
        match socket.send(self.held.iter()) {
            Ok(count) => {
                (self.backoff, self.refused) = (0, None);
                for packet in self.held.drain(..count) {
                    cx.emit(0, packet);
                }
                self.left = self.left.saturating_sub(count as u32);
                if self.left > 0 || !self.held.is_empty() {
                    return Ran::More;
                }
                cx.schedule(task);
                Ran::Worked
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => {
                self.wait(cx);
                Ran::Nothing
            }
            Err(errno) => {
                self.refuse(cx, errno);
                self.left = 0;
                cx.schedule(task);
                Ran::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests;
