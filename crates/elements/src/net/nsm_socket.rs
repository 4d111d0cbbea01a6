//! A socket that a network stack module serves: SocketClient's and SocketServer's common part.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::prelude::*;

/// Arguments, a task that receives, and on a pull input one that sends.
#[derive(Component)]
#[component(handlers, task)]
pub struct NsmSocket {
    /// `TCP` or `UDP`.
    #[arg(mandatory, name = "TYPE", with = is_stream, kind = "socket type")]
    stream: bool,
    /// The IPv4 or IPv6 address of the server. A SocketServer is at an address of the NSM, or at all of them by 0.0.0.0
    /// or ::.
    #[arg(mandatory, name = "ADDR", with = any_address, kind = "IP address")]
    #[init(IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    address: IpAddr,
    /// The server's port.
    #[arg(mandatory, name = "PORT", with = port_number, kind = "port")]
    port: u16,
    /// Whether it is the server's own.
    serves: bool,
    /// Packets received.
    #[handler(read)]
    count: u64,
    /// Bytes received.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    /// Packets sent.
    #[handler(read)]
    sent: u64,
    /// Bytes sent.
    #[handler(read)]
    sent_bytes: u64,
    /// Pushed packets that found no room.
    overruns: u64,
    opened: Option<(DeviceId, TaskId)>,
    /// Whether there is room downstream.
    room: Signal,
    pull: Option<(TaskId, Signal)>,
    /// Packets that were pulled and then did not fit.
    held: Option<Box<Batch>>,
}

#[handlers]
impl NsmSocket {
    /// Connections that are open.
    #[read]
    fn open(&mut self, cx: &mut Cx<'_>) -> u64 {
        self.status(cx).open
    }

    /// Connections that were made or accepted.
    #[read]
    fn connections(&mut self, cx: &mut Cx<'_>) -> u64 {
        self.status(cx).connections
    }

    /// Connections, and calls of the socket's own, that failed.
    #[read]
    fn failures(&mut self, cx: &mut Cx<'_>) -> u64 {
        self.status(cx).failed
    }

    /// Packets dropped: no connection was there for them, or they were pushed and found no room.
    #[read]
    fn drops(&mut self, cx: &mut Cx<'_>) -> u64 {
        self.status(cx).drops + self.overruns
    }
}

impl NsmSocket {
    /// A client's, or a server's.
    pub fn new(serves: bool) -> NsmSocket {
        NsmSocket {
            serves,
            ..NsmSocket::default()
        }
    }

    fn status(&self, cx: &mut Cx<'_>) -> SocketStatus {
        let device = self.opened.map(|(device, _)| device);
        device.map_or_else(SocketStatus::default, |device| {
            cx.device_info(device).socket_status()
        })
    }

    /// Sends from the front of `batch` as far as there is room.
    fn transmit(&mut self, cx: &mut Cx<'_>, device: DeviceId, batch: &mut Batch) {
        let (packets, bytes) = batch.tally();
        let drops = self.status(cx).drops;
        cx.transmit(device, batch);
        let (left, left_bytes) = batch.tally();
        self.sent += packets - left - (self.status(cx).drops - drops).min(packets - left);
        self.sent_bytes += bytes - left_bytes;
    }

    fn receive(&mut self, cx: &mut Cx<'_>, device: DeviceId, task: TaskId) -> Ran {
        if !cx.is_active(&self.room) {
            // The peers wait, by the window. The signal schedules the task.
            return Ran::Nothing;
        }
        // A Queue downstream tells after each packet whether it has room for another.
        let most = if self.room.is_busy() { cx.limit() } else { 1 };
        let mut batch = cx.batch();
        cx.receive(device, &mut batch, most);
        if batch.is_empty() {
            cx.done(batch);
            cx.await_receive(device, task);
            return Ran::Nothing;
        }
        let (packets, bytes) = batch.tally();
        self.count += packets;
        self.bytes += bytes;
        let now = cx.wall();
        batch
            .iter_mut()
            .for_each(|packet| packet.set_timestamp(now));
        if cx.outputs() > 0 {
            cx.push(0, batch);
        } else {
            cx.pool().recycle(&mut batch);
            cx.done(batch);
        }
        cx.schedule(task);
        Ran::Worked
    }

    fn send(&mut self, cx: &mut Cx<'_>, device: DeviceId, task: TaskId) -> Ran {
        let mut batch = match (cx.pulled(), self.held.take()) {
            (Some(batch), _) | (None, Some(batch)) => batch,
            (None, None) => {
                if cx.device_info(device).room() == 0 {
                    cx.await_room(device, task);
                    return Ran::Nothing;
                }
                return Ran::Pull(Pull {
                    port: 0,
                    most: cx.limit() as u16,
                });
            }
        };
        let pulled = batch.len();
        self.transmit(cx, device, &mut batch);
        if !batch.is_empty() {
            let sent = pulled > batch.len();
            self.held = Some(batch);
            cx.await_room(device, task);
            return Ran::worked(sent);
        }
        cx.done(batch);
        let active = matches!(&self.pull, Some((_, signal)) if cx.is_active(signal));
        if pulled > 0 || active {
            cx.schedule(task);
        }
        Ran::worked(pulled > 0)
    }
}

impl Element for NsmSocket {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.port == 0 {
            return Err(args.fail("PORT must be from 1 to 65535"));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let device = cx.socket(&Endpoint {
            serves: self.serves,
            stream: self.stream,
            address: SocketAddr::new(self.address, self.port),
        });
        let device = device.map_err(|why| cx.error(why))?;
        let task = cx.task();
        self.opened = Some((device, task));
        self.room = match cx.outputs() {
            0 => Signal::busy(),
            _ => cx.downstream_signal(0, Some(task)),
        };
        cx.schedule(task);
        if cx.inputs() > 0 && !cx.input_is_push(0) {
            let task = cx.task();
            cx.schedule(task);
            self.pull = Some((task, cx.upstream_signal(0, Some(task))));
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(batch) = self.held.take() {
            cx.done(batch);
        }
        if let Some((device, _)) = self.opened.take() {
            cx.device_info(device).close();
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if let Some((device, _)) = self.opened {
            self.transmit(cx, device, batch);
            self.overruns += batch.len() as u64;
        }
        cx.pool().recycle(batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        match (self.opened, &self.pull) {
            (Some((device, _)), Some((sends, _))) if *sends == task => self.send(cx, device, task),
            (Some((device, _)), _) => self.receive(cx, device, task),
            (None, _) => Ran::Nothing,
        }
    }
}

/// Whether a socket is one of bytes, by its TYPE.
fn is_stream(text: &str, _context: &Context<'_>) -> Result<bool, Invalid> {
    match text {
        "TCP" => Ok(true),
        "UDP" => Ok(false),
        _ => Err(Invalid::because("the types are TCP and UDP")),
    }
}

/// An IPv4 or IPv6 address.
fn any_address(text: &str, context: &Context<'_>) -> Result<IpAddr, Invalid> {
    if let Ok(address) = Ipv4Addr::parse(text, context) {
        return Ok(IpAddr::V4(address));
    }
    Ipv6Addr::parse(text, context).map(IpAddr::V6)
}

/// A port's number.
fn port_number(text: &str, context: &Context<'_>) -> Result<u16, Invalid> {
    Port::TCP.parse(text, context)
}
