//! Sending packets that are read from a file: all at once or in their time, whole or divided.

use crate::prelude::*;
use crate::userlevel::sample::Sample;

/// Lines passed over in one scheduling.
const SKIPS: u32 = 16;

/// What sends packets, in the element that reads them.
#[derive(Component)]
#[component(handlers, task(when = self.push))]
pub struct Replay {
    /// Stop the driver at the end.
    #[arg]
    stop: bool,
    /// Whether it reads.
    #[arg(default = true, read, write, checkbox, error = "type mismatch", then = activated)]
    pub active: bool,
    /// Accepted, without effect: fields that the file does not give are always zero.
    #[arg(default = true)]
    zero: bool,
    /// Whether packets leave at the intervals of their timestamps.
    #[arg]
    timing: bool,
    /// Whether a line for several packets makes that number of packets.
    #[arg]
    multipacket: bool,
    /// The probability that a packet is taken.
    pub sample: Sample,
    /// Most packets that are sent at a time; 0: a batch.
    pub burst: usize,
    /// Read, and not yet sent.
    pending: Option<Packet>,
    /// How `pending` is divided, once its first part was sent.
    division: Option<Division>,
    /// What to add to a packet's time for its moment on the steady clock.
    offset: Option<i64>,
    #[init(true)]
    push: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    nonempty: Option<SignalId>,
}

#[handlers]
impl Replay {
    /// The link type of the packets, for ToDump's USE_ENCAP_FROM: `IP`.
    #[read]
    fn encap(&self) -> &'static str {
        "IP"
    }
}

/// How a packet that stands for several becomes them.
#[derive(Clone, Copy)]
struct Division {
    /// Bytes of all but the last.
    length: u32,
    /// Nanoseconds from one to the next.
    step: i64,
    /// The last one's time.
    end: i64,
}

/// What reading gave.
pub enum Read {
    /// A packet.
    Packet(Packet),
    /// A line without a packet.
    Nothing,
    /// The packet's time is yet to come.
    Early,
    /// The end of the file.
    End,
}

/// How far filling a batch came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    More,
    Early,
    Ended,
}

/// What the element passes on to it.
impl Replay {
    /// To be called when the element is configured.
    pub fn configured(&mut self, cx: &mut Cx<'_>) {
        self.push = cx.output_is_push(0);
        self.nonempty = Some(cx.signal(Notice::Empty, true));
    }

    /// To be called when the element is initialized.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) {
        self.timer = Some(cx.timer());
        if self.push {
            let task = cx.task();
            self.task = Some(task);
            if self.active {
                cx.schedule(task);
            }
        }
    }

    /// To be called when the router ends.
    pub fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.pending.take() {
            cx.kill(packet);
        }
    }

    /// The element's timer expired.
    pub fn run_timer(&mut self, cx: &mut Cx<'_>) {
        if self.active {
            self.wake(cx);
        }
    }

    /// The element's task runs; `read` reads a packet.
    pub fn run_task(
        &mut self,
        cx: &mut Cx<'_>,
        task: TaskId,
        mut read: impl FnMut(&mut Cx<'_>) -> Read,
    ) -> Ran {
        if !self.active {
            return Ran::Nothing;
        }
        let mut batch = cx.batch();
        let most = match self.burst {
            0 => cx.limit(),
            burst => cx.limit().min(burst),
        };
        let filled = self.fill(cx, &mut batch, most, &mut read);
        let worked = !batch.is_empty();
        cx.push(0, batch);
        if filled == Filled::More {
            cx.schedule(task);
        }
        Ran::worked(worked || filled == Filled::More)
    }

    /// The element is pulled from; `read` reads a packet.
    pub fn pull(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        most: usize,
        mut read: impl FnMut(&mut Cx<'_>) -> Read,
    ) {
        if !self.active {
            return;
        }
        match self.fill(cx, batch, most, &mut read) {
            Filled::More => self.set_signal(cx, true),
            Filled::Early => {}
            Filled::Ended => self.set_signal(cx, false),
        }
    }
}

/// The workings.
impl Replay {
    fn activated(&mut self, cx: &mut Cx<'_>) {
        if self.active {
            self.wake(cx);
        } else {
            self.set_signal(cx, false);
        }
    }

    /// The next packet to send.
    fn next(&mut self, cx: &mut Cx<'_>, read: &mut impl FnMut(&mut Cx<'_>) -> Read) -> Read {
        let packet = match self.pending.take() {
            Some(packet) => packet,
            None => match read(cx) {
                Read::Packet(packet) => packet,
                other => return other,
            },
        };
        if self.timing && !self.is_time(cx, &packet) {
            self.pending = Some(packet);
            return Read::Early;
        }
        if !self.multipacket {
            return Read::Packet(packet);
        }
        match self.divide(cx, packet) {
            Some(packet) => Read::Packet(packet),
            None => Read::Nothing,
        }
    }

    /// Whether a packet's time has come; if not, the timer is set to it.
    fn is_time(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> bool {
        let now = cx.steady();
        let first = || (now.0 as i64).saturating_sub(packet.timestamp());
        let offset = *self.offset.get_or_insert_with(first);
        let due = packet.timestamp().saturating_add(offset).max(0) as u64;
        if now.0 >= due {
            return true;
        }
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, Steady(due));
        }
        self.set_signal(cx, false);
        false
    }

    /// Takes one packet of a packet that stands for several; the rest is pending.
    fn divide(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let extra = packet.anno(EXTRA_PACKETS);
        if extra == 0 {
            self.division = None;
            return Some(packet);
        }
        let own = packet.len() as u32;
        let division = match self.division {
            Some(division) => division,
            None => {
                let division = divide_lengths(&mut packet, extra);
                set_lengths(&mut packet, division.length);
                self.division = Some(division);
                division
            }
        };
        let beyond = division.length - own.min(division.length);
        let first = cx.pool().clone(&packet);
        let left = packet.anno(EXTRA_LENGTH).saturating_sub(division.length);
        packet.set_anno(EXTRA_PACKETS, extra - 1);
        packet.set_anno(EXTRA_LENGTH, left);
        if extra == 1 {
            packet.set_timestamp(division.end);
            set_lengths(&mut packet, own.saturating_add(left));
        } else {
            packet.set_timestamp(packet.timestamp().saturating_add(division.step));
        }
        self.pending = Some(packet);
        first.map(|mut first| {
            first.set_anno(EXTRA_PACKETS, 0);
            first.set_anno(EXTRA_LENGTH, beyond);
            first
        })
    }

    fn set_signal(&mut self, cx: &mut Cx<'_>, active: bool) {
        if let (false, Some(signal)) = (self.push, self.nonempty) {
            cx.set_signal(signal, active);
        }
    }

    /// Makes packets flow, by the task or the notifier.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        match self.task.filter(|_| self.push) {
            Some(task) => cx.schedule(task),
            None => self.set_signal(cx, true),
        }
    }

    /// Adds at most `most` packets to `batch`. What is to happen at the end waits until what was
    /// read before is on its way.
    fn fill(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        most: usize,
        read: &mut impl FnMut(&mut Cx<'_>) -> Read,
    ) -> Filled {
        let mut skips = 0;
        while batch.len() < most && skips < SKIPS {
            match self.next(cx, read) {
                Read::Packet(packet) if self.sample.draw(cx) => {
                    if let Err(packet) = batch.push(packet) {
                        cx.kill(packet);
                    }
                }
                Read::Packet(packet) => {
                    cx.kill(packet);
                    skips += 1;
                }
                Read::Nothing => break,
                Read::Early => return Filled::Early,
                Read::End if !batch.is_empty() => break,
                Read::End => {
                    if self.stop {
                        cx.stop();
                    }
                    return Filled::Ended;
                }
            }
        }
        Filled::More
    }
}

/// Divides lengths and times of a packet that stands for `extra` more, and gives it the first
/// one's time.
fn divide_lengths(packet: &mut Packet, extra: u32) -> Division {
    let own = packet.len() as u32;
    let beyond = packet.anno(EXTRA_LENGTH);
    let mut length = own.saturating_add(beyond) / extra.saturating_add(1);
    if length < own {
        length = own;
        packet.set_anno(EXTRA_LENGTH, length.saturating_mul(extra));
    }
    let end = packet.timestamp();
    let first = packet.anno_u64(FIRST_TIMESTAMP) as i64;
    let mut step = 0;
    if first != 0 {
        step = super::distance(first, end, extra);
        packet.set_timestamp(first);
    }
    Division { length, step, end }
}

/// Sets the lengths in the headers of IP and UDP.
fn set_lengths(packet: &mut Packet, length: u32) {
    let length = length as u16;
    let Some(bytes) = packet.network_header_mut() else {
        return;
    };
    let Ok(ip) = Ipv4Packet::new_quoted(&*bytes) else {
        return;
    };
    let (header, is_udp) = (ip.header_len(), ip.protocol() == IpProtocol::UDP);
    if ip.total_len() == length {
        return;
    }
    if let Some(place) = bytes.get_mut(2..4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    if let (true, Some(place)) = (is_udp, bytes.get_mut(header + 4..header + 6)) {
        let length = length.wrapping_sub(header as u16);
        place.copy_from_slice(&length.to_be_bytes());
    }
}
