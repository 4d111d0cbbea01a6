//! Reading packets of a capture file into batches.

use super::super::capture::Frame;
use super::super::sample::Sample;
use super::{FromDump, Pending};
use crate::prelude::*;

/// Packets passed over in one scheduling.
const SKIPS: u32 = 16;

/// What reading gave.
enum Next {
    Packet,
    PassedOver,
    End,
}

/// How far filling a batch came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// There may be more at once.
    More,
    /// The next packet's time is yet to come.
    Early,
    /// The file, or the part that is to be read, is at its end.
    Ended,
}

/// A packet of what a file holds. `None` if there is no memory.
#[inline]
fn make_packet(cx: &mut Cx<'_>, frame: &Frame<'_>) -> Option<Packet> {
    let mut packet = cx.pool().copy(frame.data)?;
    packet.set_timestamp(frame.time);
    packet.set_mac_header(0);
    if frame.missing > 0 {
        packet.set_anno(EXTRA_LENGTH, frame.missing);
    }
    Some(packet)
}

impl FromDump {
    /// Reads the next packet into `self.pending`.
    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Next {
        let Some(capture) = &mut self.capture else {
            return Next::End;
        };
        self.packet_filepos = capture.position();
        let frame = match capture.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                capture.end();
                return Next::End;
            }
            Err(error) => {
                capture.give_up();
                let name = self.print_filename();
                cx.chatter(format_args!("{name}: {error}"));
                return Next::End;
            }
        };
        if !self.times.known {
            self.times.start(frame.time, cx.steady());
        }
        if let Some(first) = self.times.first {
            if frame.time < first {
                return Next::PassedOver;
            }
            self.times.first = None;
        }
        match make_packet(cx, &frame) {
            Some(packet) => {
                self.pending = Some(Pending {
                    link: frame.link,
                    packet,
                    wanted: false,
                });
                Next::Packet
            }
            None => Next::PassedOver,
        }
    }

    /// Whether the packet that was read is behind the part that is to be read.
    fn is_at_end(&self) -> bool {
        match (&self.pending, self.times.last) {
            (Some(pending), Some(last)) => !pending.wanted && pending.packet.timestamp() >= last,
            _ => false,
        }
    }

    /// Ends, unless the call at the end makes it go on; returns whether it does.
    #[cold]
    fn reached_end(&mut self, cx: &mut Cx<'_>) -> bool {
        self.times.last = None;
        self.call_end(cx);
        if !self.active {
            self.drop_pending(cx);
        }
        self.active
    }

    pub(super) fn drop_pending(&mut self, cx: &mut Cx<'_>) {
        if let Some(pending) = self.pending.take() {
            cx.kill(pending.packet);
        }
    }

    /// Whether the packet's time has come; if not, the timer is set to it.
    fn is_time(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(pending) = &self.pending else {
            return true;
        };
        let time = pending.packet.timestamp();
        let due = time.saturating_add(self.times.offset).max(0) as u64;
        if cx.steady().0 >= due {
            return true;
        }
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, Steady(due));
        }
        self.sleep(cx);
        false
    }

    /// Takes the packet that was read, if it may go by output 0; others leave by output 1.
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let Pending {
            mut packet, link, ..
        } = self.pending.take()?;
        if self.force_ip && !link.force_ip(&mut packet) {
            cx.emit(1, packet);
            return None;
        }
        self.count += 1;
        Some(packet)
    }

    /// Whether every packet is taken as it is, at once.
    fn takes_all(&self) -> bool {
        let times = &self.times;
        let any_time = times.known && times.first.is_none() && times.last.is_none();
        any_time && !self.timing && !self.force_ip && self.sample == Sample::ALL
    }

    /// Adds packets at hand to `batch`, at most `most` in all.
    #[inline]
    fn fill_at_hand(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        while batch.len() < most {
            let position = capture.position();
            let Some(frame) = capture.at_hand() else {
                return;
            };
            self.packet_filepos = position;
            let Some(packet) = make_packet(cx, &frame) else {
                continue;
            };
            self.count += 1;
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
            }
        }
    }

    /// Adds at most `most` packets to `batch`. What is to happen at the end waits until what was
    /// read before is on its way.
    pub(super) fn fill(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> Filled {
        let mut skips = 0;
        while batch.len() < most && skips < SKIPS {
            if self.pending.is_none() && !self.has_ended && self.takes_all() {
                self.fill_at_hand(cx, batch, most);
                if batch.len() == most {
                    break;
                }
            }
            if core::mem::take(&mut self.has_ended) {
                self.call_end(cx);
                return Filled::Ended;
            }
            if self.pending.is_none() {
                match self.read_packet(cx) {
                    Next::Packet => {}
                    Next::PassedOver => {
                        skips += 1;
                        continue;
                    }
                    Next::End if batch.is_empty() => {
                        self.call_end(cx);
                        return Filled::Ended;
                    }
                    Next::End => {
                        self.has_ended = true;
                        return Filled::More;
                    }
                }
            }
            if self.is_at_end() {
                if !batch.is_empty() {
                    return Filled::More;
                }
                if !self.reached_end(cx) {
                    return Filled::Ended;
                }
                continue;
            }
            let Some(pending) = &mut self.pending else {
                continue;
            };
            if !core::mem::replace(&mut pending.wanted, true) && !self.sample.draw(cx) {
                self.drop_pending(cx);
                skips += 1;
                continue;
            }
            if self.timing && !self.is_time(cx) {
                return Filled::Early;
            }
            match self.take(cx) {
                Some(packet) => {
                    if let Err(packet) = batch.push(packet) {
                        cx.kill(packet);
                    }
                }
                None => skips += 1,
            }
        }
        Filled::More
    }
}
