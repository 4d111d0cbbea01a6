//! Receiving from a device: what FromNetfront and a guest's FromDevice share.

use alloc::string::String;
use alloc::vec::Vec;

use packet::{Batch, Packet, PacketType};
use router::args::{EtherAddress, Failed};
use router::{Component, Cx, DeviceId, ElementId, Interface, Ran, Side, TaskId, handlers};

use crate::link_type::LinkType;

/// Polls that may find nothing before the router may sleep: about as much time as a sleep and
/// the wake-up from it cost.
const EMPTY_POLLS: u32 = 256;

/// An element that receives from a device.
pub trait Receives {
    /// What the configuration calls the device.
    fn interface(&self) -> &str;
}

impl Interface for dyn Receives {
    const NAME: &'static str = "Receives";
}

/// The elements of the router that receive from a device.
fn receivers_of(cx: &Cx<'_>, interface: &str) -> Vec<ElementId> {
    let own = cx.id();
    let elements = (0..cx.graph().elements.len()).map(ElementId::new);
    let is_one = |id: &ElementId| {
        let receiver = cx.link::<dyn Receives>(*id);
        *id == own
            || receiver
                .and_then(|link| cx.view(link))
                .is_some_and(|r| r.interface() == interface)
    };
    elements.filter(is_one).collect()
}

/// A task that receives from one device.
#[derive(Component)]
#[component(handlers, task)]
pub struct Receiver {
    /// Whether frames carry the time at which they were received.
    #[arg]
    timestamp: bool,
    /// What the configuration calls the device.
    pub interface: String,
    /// Most frames each time the task is scheduled.
    pub burst: u32,
    /// Whether only IP packets leave by output 0, and by which link type they are told.
    pub force_ip: Option<LinkType>,
    opened: Option<(DeviceId, TaskId)>,
    /// The interface's Ethernet address.
    #[handler(read)]
    #[init(EtherAddress::ZERO)]
    mac: EtherAddress,
    /// Its largest IP packet, in bytes.
    #[handler(read)]
    mtu: usize,
    /// Frames left of the burst under way.
    left: u32,
    /// Whether packets may come that stand for several, and whether the device knows.
    segments: bool,
    said: bool,
    empty_polls: u32,
    /// Frames received.
    #[handler(read)]
    count: u64,
    /// Bytes received.
    #[handler(read, name = "byte_count")]
    bytes: u64,
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
    /// Opens the device.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let Some(device) = cx.device(&self.interface, Side::Receive) else {
            let interface = &self.interface;
            return Err(cx.error(format_args!(
                "{interface}: no such interface; name one that the guest was given"
            )));
        };
        let info = cx.device_info(device);
        (self.mac, self.mtu) = (EtherAddress(info.mac()), info.mtu());
        let others = receivers_of(cx, &self.interface);
        self.segments = others.into_iter().all(|id| cx.segments_go_on(id));
        let task = cx.task();
        self.opened = Some((device, task));
        cx.schedule(task);
        Ok(())
    }

    /// Receives, and sends on by output 0.
    #[inline]
    pub fn run_task(&mut self, cx: &mut Cx<'_>) -> Ran {
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
        self.empty_polls = 0;
        let now = if self.timestamp { cx.wall() } else { 0 };
        self.mark(&mut batch, now);
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

    fn found_nothing(&mut self, cx: &mut Cx<'_>, device: DeviceId, task: TaskId) -> Ran {
        self.left = 0;
        self.empty_polls += 1;
        if self.empty_polls < EMPTY_POLLS {
            cx.schedule(task);
        } else {
            self.empty_polls = 0;
            cx.await_receive(device, task);
        }
        Ran::Nothing
    }

    /// Counts frames, and sets what is known of each: MAC header, packet type, time.
    #[inline]
    fn mark(&mut self, batch: &mut Batch, now: i64) {
        let (packets, bytes) = batch.tally();
        self.count += packets;
        self.bytes += bytes;
        for packet in batch.iter_mut() {
            packet.set_mac_header(0);
            packet.set_packet_type(packet_type(packet, &self.mac.0));
            if now != 0 {
                packet.set_timestamp(now);
            }
        }
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
