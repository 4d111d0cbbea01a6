//! Sending by a device: ToNetfront's and a guest's ToDevice's common part.

use crate::prelude::*;

/// Bytes of a frame beyond the MTU: Ethernet header and two VLAN tags.
const FRAMING: usize = 14 + 8;

/// A device, and on a pull input a task that feeds it.
#[derive(Component)]
#[component(handlers, task(when = list.pulls))]
pub struct Sender {
    /// Frames sent.
    #[handler(read)]
    count: u64,
    /// Bytes sent.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    /// Frames dropped.
    #[handler(read)]
    drops: u64,
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
    device: Option<DeviceId>,
    pull: Option<(TaskId, Signal)>,
    /// Frames that were pulled and then did not fit.
    held: Option<Box<Batch>>,
    /// Frames left of the burst under way.
    left: u32,
    /// Frames that were asked for.
    asked: usize,
}

#[handlers]
impl Sender {
    /// Sets the counts and `drops` to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        (self.count, self.bytes, self.drops) = (0, 0, 0);
    }
}

impl Sender {
    /// The device, once it is open.
    #[inline]
    pub fn device(&self) -> Option<DeviceId> {
        self.device
    }

    /// Frames sent.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes sent.
    pub fn byte_count(&self) -> u64 {
        self.bytes
    }

    /// Frames dropped.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Drops and counts frames.
    pub fn discard(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.drops += batch.tally().0;
        cx.pool().recycle(batch);
    }

    /// Whether the notifiers upstream say that there may be something to pull.
    fn may_pull(&self, cx: &Cx<'_>) -> bool {
        matches!(&self.pull, Some((_, signal)) if cx.is_active(signal))
    }

    /// Sends from the front of `batch` as far as there is room, and counts.
    #[inline]
    pub fn transmit(&mut self, cx: &mut Cx<'_>, device: DeviceId, batch: &mut Batch) {
        let longest = self.mtu + FRAMING;
        if batch.iter().any(|packet| packet.segment_len() > longest) {
            self.drop_long(cx, batch, longest);
        }
        let (packets, bytes) = batch.tally();
        cx.transmit(device, batch);
        let (left, left_bytes) = batch.tally();
        self.count += packets - left;
        self.bytes += bytes - left_bytes;
    }

    #[cold]
    fn drop_long(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, longest: usize) {
        batch.filter(
            &mut (&mut self.drops, cx),
            |_, packet| (packet.segment_len() > longest).then_some(()),
            |(drops, cx), packet, ()| {
                **drops += packet.stands_for() as u64;
                cx.kill(packet);
            },
        );
    }

    /// Takes over the frames that its predecessor had pulled and could not send yet.
    pub fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Sender) {
        if self.interface != old.interface {
            return;
        }
        let Some(mut held) = old.held.take() else {
            return;
        };
        cx.admit_batch(&mut held);
        if self.pull.is_some() {
            self.held = Some(held);
        } else {
            self.push(cx, 0, &mut held);
            cx.done(held);
        }
    }
}

impl Addressed for Sender {
    fn readdress(&mut self, cx: &mut Cx<'_>) {
        if let Some(device) = self.device() {
            self.mac = EtherAddress(cx.device_info(device).mac());
        }
    }
}

impl Element for Sender {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let opened = cx.device(&self.interface, Side::Transmit);
        let device = opened.map_err(|why| cx.error(format_args!("{}: {why}", self.interface)))?;
        let info = cx.device_info(device);
        (self.mac, self.mtu) = (EtherAddress(info.mac()), info.mtu());
        self.device = Some(device);
        if !cx.input_is_push(0) {
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
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let Some(device) = self.device else {
            return 0;
        };
        self.transmit(cx, device, batch);
        if !batch.is_empty() {
            self.discard(cx, batch);
        }
        0
    }

    #[inline]
    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let (Some(device), Some((task, _))) = (self.device, &self.pull) else {
            return Ran::Nothing;
        };
        let task = *task;
        if self.left == 0 {
            self.left = self.burst;
        }
        let (mut batch, most) = if let Some(batch) = cx.pulled() {
            (batch, self.asked)
        } else if let Some(batch) = self.held.take() {
            let most = batch.len();
            (batch, most)
        } else {
            let room = cx.device_info(device).room();
            if room == 0 {
                self.left = 0;
                cx.await_room(device, task);
                return Ran::Nothing;
            }
            self.asked = room.min(self.left as usize).min(cx.limit());
            return Ran::Pull(Pull {
                port: 0,
                most: self.asked as u16,
            });
        };
        let pulled = batch.len();
        self.transmit(cx, device, &mut batch);
        if !batch.is_empty() {
            let sent = pulled - batch.len();
            self.held = Some(batch);
            self.left = 0;
            cx.await_room(device, task);
            return Ran::worked(sent > 0);
        }
        cx.done(batch);
        self.left = self.left.saturating_sub(pulled as u32);
        if pulled == most && self.left > 0 {
            return Ran::More;
        }
        self.left = 0;
        if pulled == most || self.may_pull(cx) {
            cx.schedule(task);
        }
        Ran::worked(pulled > 0)
    }
}
