//! Receiving from a device: FromNetfront's and a guest's FromDevice's common part.

use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// How long a receiver polls before the router may sleep.
struct Patience {
    /// Polls in a row that may find nothing.
    polls: u32,
    /// Polls in a row that found nothing.
    empty: u32,
    /// Since when the device may have let the router sleep.
    asleep: Option<Steady>,
}

impl Patience {
    /// About as much time as a sleep and the wake-up from it cost.
    const MOST: u32 = 256;
    const LEAST: u32 = 16;
    /// Nanoseconds that [`Self::MOST`] polls take at most. Polling would not have found what came after a longer sleep.
    const SHORT: u64 = 50_000;

    /// Whether the router may sleep after another poll that found nothing.
    fn is_over(&mut self, cx: &Cx<'_>) -> bool {
        self.empty += 1;
        if self.empty < self.polls {
            return false;
        }
        (self.empty, self.asleep) = (0, Some(cx.steady()));
        true
    }

    /// Something came.
    #[inline]
    fn found(&mut self, cx: &Cx<'_>) {
        self.empty = 0;
        if let Some(since) = self.asleep.take() {
            self.woken(cx.steady().since(since));
        }
    }

    /// Something came after so many nanoseconds of sleep.
    fn woken(&mut self, slept: u64) {
        self.polls = match slept {
            ..Self::SHORT => Self::MOST,
            _ => (self.polls / 2).max(Self::LEAST),
        };
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            polls: Self::MOST,
            empty: 0,
            asleep: None,
        }
    }
}

/// A task that receives from one device.
#[derive(Component)]
#[component(handlers, task)]
pub struct Receiver {
    /// Frames received.
    #[handler(read)]
    count: u64,
    /// Bytes received.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    /// The interface's Ethernet address.
    #[handler(read)]
    mac: EtherAddress,
    /// Its largest IP packet, in bytes.
    #[handler(read)]
    mtu: usize,
    /// The configuration's name of the device.
    pub interface: String,
    /// Most frames each time the task is scheduled.
    pub burst: u32,
    /// Whether frames carry the time at which they were received.
    pub timestamp: bool,
    /// Whether only IP packets leave by output 0, and by which link type they are told.
    pub force_ip: Option<LinkType>,
    /// Whether frames carry the hash of their flow as their aggregate.
    pub hashes: bool,
    /// Whether an element asks how frames arrived.
    is_asked: bool,
    opened: Option<(DeviceId, TaskId)>,
    /// Frames left of the burst under way.
    left: u32,
    /// Whether packets may come that stand for several, and whether the device knows.
    segments: bool,
    said: bool,
    patience: Patience,
}

/// An element that receives from one of the guest's interfaces.
pub trait Receives {
    /// Whether it is the interface of that name.
    fn receives_from(&self, interface: &str) -> bool;
}

impl Interface for dyn Receives {
    const NAME: &'static str = "Receives";
}

/// An element that tells the switch of settled flows: frames keep for it how they arrived.
pub trait Settles {}

impl Interface for dyn Settles {
    const NAME: &'static str = "Settles";
}

#[handlers]
impl Receiver {
    /// Sets the counts to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        (self.count, self.bytes) = (0, 0);
    }
}

impl Receiver {
    /// Whether packets that stand for several may go on from every element that receives from this
    /// interface. All are configured.
    fn segments_go_on(&self, cx: &mut Cx<'_>) -> bool {
        let mut elements = (0..cx.graph().elements.len()).map(ElementId::new);
        elements.all(|id| {
            let other = cx.link::<dyn Receives>(id).and_then(|link| cx.view(link));
            let receives = other.is_some_and(|other| other.receives_from(&self.interface));
            (id != cx.id() && !receives) || cx.segments_go_on(id)
        })
    }

    /// Whether some element of the configuration asks how frames arrived.
    fn is_asked(cx: &mut Cx<'_>) -> bool {
        let mut elements = (0..cx.graph().elements.len()).map(ElementId::new);
        elements.any(|id| cx.link::<dyn Settles>(id).is_some())
    }

    /// Frames received.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes received.
    pub fn byte_count(&self) -> u64 {
        self.bytes
    }

    /// Schedules the task.
    pub fn wake(&self, cx: &mut Cx<'_>) {
        if let Some((_, task)) = self.opened {
            cx.schedule(task);
        }
    }

    fn found_nothing(&mut self, cx: &mut Cx<'_>, device: DeviceId, task: TaskId) -> Ran {
        self.left = 0;
        if !self.patience.is_over(cx) {
            cx.schedule(task);
        } else {
            match cx.device_info(device).descriptor() {
                Some(descriptor) => cx.watch(descriptor, true, false),
                None => cx.await_receive(device, task),
            }
        }
        Ran::Nothing
    }

    /// Counts frames, and sets what is known of each: MAC header, packet type, time; and how it arrived, if that is by an
    /// interface with a `number`.
    #[inline]
    fn mark(&mut self, batch: &mut Batch, now: i64, number: Option<u8>) {
        let (packets, bytes) = batch.tally();
        self.count += packets;
        self.bytes += bytes;
        for packet in batch.iter_mut() {
            packet.set_mac_header(0);
            packet.set_packet_type(packet_type(packet, &self.mac.0));
            if now != 0 {
                packet.set_timestamp(now);
            }
            if let Some(number) = number {
                packet.keep_arrival(number);
            }
            if self.hashes {
                packet.set_anno(AGGREGATE, super::rss::hash(packet.data()));
            }
        }
    }
}

impl Descriptors for Receiver {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: i32, _readable: bool, _writable: bool) {
        cx.watch(fd, false, false);
        self.wake(cx);
    }
}

impl Addressed for Receiver {
    fn readdress(&mut self, cx: &mut Cx<'_>) {
        if let Some((device, _)) = self.opened {
            self.mac = EtherAddress(cx.device_info(device).mac());
        }
    }
}

impl Element for Receiver {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let opened = cx.device(&self.interface, Side::Receive);
        let device = opened.map_err(|why| cx.error(format_args!("{}: {why}", self.interface)))?;
        let info = cx.device_info(device);
        (self.mac, self.mtu) = (EtherAddress(info.mac()), info.mtu());
        self.segments = self.segments_go_on(cx);
        self.is_asked = Self::is_asked(cx);
        let task = cx.task();
        self.opened = Some((device, task));
        cx.schedule(task);
        Ok(())
    }

    #[inline]
    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some((device, task)) = self.opened else {
            return Ran::Nothing;
        };
        if self.left == 0 {
            self.left = self.burst;
        }
        let most = (self.left as usize).min(cx.limit());
        if !self.said {
            self.said = true;
            cx.device_info(device).take_segments(self.segments);
        }
        let mut batch = cx.batch();
        cx.receive(device, &mut batch, most);
        let received = batch.len();
        if received == 0 {
            cx.done(batch);
            return self.found_nothing(cx, device, task);
        }
        self.patience.found(cx);
        let now = if self.timestamp { cx.wall() } else { 0 };
        let number = if self.is_asked {
            cx.device_info(device).settles()
        } else {
            None
        };
        self.mark(&mut batch, now, number);
        if let Some(link) = self.force_ip {
            batch.filter(
                cx,
                |_, packet| (!link.force_ip(packet)).then_some(()),
                |cx, packet, ()| cx.emit(1, packet),
            );
        }
        cx.push(0, batch);
        self.left = self.left.saturating_sub(received as u32);
        if received == most && self.left > 0 {
            return Ran::More;
        }
        self.left = 0;
        cx.schedule(task);
        Ran::Worked
    }
}

impl Receives for Receiver {
    fn receives_from(&self, interface: &str) -> bool {
        self.interface == interface
    }
}

/// How a frame came off its link, by its destination address; `mac` is the device's own.
#[inline]
fn packet_type(packet: &Packet, mac: &[u8; 6]) -> PacketType {
    match packet.data().first_chunk::<6>() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketType::Broadcast,
        Some([first, ..]) if first & 1 != 0 => PacketType::Multicast,
        Some(to) if to != mac => PacketType::OtherHost,
        _ => PacketType::Host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_lasts_as_long_as_it_finds_something() {
        let mut patience = Patience::default();
        let long = Patience::SHORT;
        let seen = [long, long, 2 * long, long, 9 * long, long - 1, long].map(|slept| {
            patience.woken(slept);
            patience.polls
        });
        assert_eq!(seen, [128, 64, 32, 16, 16, 256, 128]);
    }
}
