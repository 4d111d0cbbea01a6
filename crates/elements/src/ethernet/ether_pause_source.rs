use alloc::string::{String, ToString};

use packet::wire::{EtherAddress, EtherType, EthernetHeader};
use packet::{Batch, Packet};
use router::args::{Args, Argument, Failed, SecondsArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, TimerId};

/// Whom pause frames are for: the station at the other end of the link (IEEE Std 802.3, annex 31B).
const OTHER_END: EtherAddress = EtherAddress([0x01, 0x80, 0xc2, 0, 0, 0x01]);
/// The MAC control operation that asks for a pause.
const PAUSE: u16 = 1;
/// Length of a pause frame without its check sequence, as Click makes it.
const LENGTH: usize = 64;

/// Makes Ethernet pause frames, which ask the other end of a link to stop sending for a while.
///
/// By a pull output a frame leaves whenever one is asked for, by a push output one at every
/// interval.
///
/// # Arguments
/// - `SRC` (Ethernet address): the address of the device that sends the frames.
/// - `PAUSETIME` (0 to 65535): how long to pause, in units of the time that 512 bits take on the
///   link.
/// - `DST` (Ethernet address, 01-80-C2-00-00-01): whom the frames are for; if not given, whoever is
///   at the other end.
/// - `LIMIT` (integer, -1): frames after which it stops; no limit if negative.
/// - `ACTIVE` (boolean, true): whether it makes frames.
/// - `INTERVAL` (time, 1s): time between two frames of a push output.
///
/// # Ports
/// No input; one agnostic output.
///
/// # Handlers
/// - `count` (read): frames made.
/// - `src`, `dst`, `pausetime`, `limit`, `active` (read, write): the arguments.
/// - `reset_counts` (write): sets `count` to 0.
///
/// # Example
/// ```click
/// EtherPauseSource(1:1:1:1:1:1, 195, INTERVAL 100ms) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// EtherEncap, TimedSource
pub struct EtherPauseSource {
    source: EtherAddress,
    destination: EtherAddress,
    pause: u16,
    limit: i32,
    active: bool,
    /// In milliseconds.
    interval: u32,
    count: i32,
    timer: Option<TimerId>,
}

impl Default for EtherPauseSource {
    fn default() -> Self {
        EtherPauseSource {
            source: EtherAddress::ZERO,
            destination: OTHER_END,
            pause: 0,
            limit: -1,
            active: true,
            interval: 1000,
            count: 0,
            timer: None,
        }
    }
}

impl Class for EtherPauseSource {
    const NAME: &'static str = "EtherPauseSource";
    const PORTS: &'static str = "0/1";
}

impl EtherPauseSource {
    fn may_make(&self) -> bool {
        self.active && (self.limit < 0 || self.count < self.limit)
    }

    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.pool().packet(packet::HEADROOM, LENGTH)?;
        let header = EthernetHeader {
            destination: self.destination,
            source: self.source,
            ethertype: EtherType::MAC_CONTROL,
        };
        if let Some(frame) = packet.data_mut().first_chunk_mut::<LENGTH>() {
            frame.fill(0);
            frame[..14].copy_from_slice(&header.to_bytes());
            frame[14..16].copy_from_slice(&PAUSE.to_be_bytes());
            frame[16..18].copy_from_slice(&self.pause.to_be_bytes());
        }
        packet.set_mac_header(0);
        self.count = self.count.wrapping_add(1);
        Some(packet)
    }

    /// Goes on at once if it had stopped.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer
            && self.may_make()
            && cx.expires(timer).is_none()
        {
            cx.schedule_after(timer, 0);
        }
    }
}

impl Declared for EtherPauseSource {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("SRC", &mut self.source)
            .mandatory_positional("PAUSETIME", &mut self.pause)
            .keyword("DST", &mut self.destination)
            .keyword("LIMIT", &mut self.limit)
            .keyword("ACTIVE", &mut self.active)
            .keyword_with("INTERVAL", SecondsArg(3), &mut self.interval)
            .complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").read_write("limit").checkbox("active");
        list.read_write("src").read_write("dst");
        list.read_write("pausetime").button("reset_counts");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "limit" => Ok(self.limit.to_string()),
            "active" => Ok(self.active.to_string()),
            "src" => Ok(self.source.to_string()),
            "dst" => Ok(self.destination.to_string()),
            "pausetime" => Ok(self.pause.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "src" => self.source = parse(cx, value)?,
            "dst" => self.destination = parse(cx, value)?,
            "pausetime" => self.pause = parse(cx, value)?,
            "limit" => self.limit = parse(cx, value)?,
            "active" => self.active = parse(cx, value)?,
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::Unknown),
        }
        self.wake(cx);
        Ok(())
    }
}

impl Element for EtherPauseSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            let timer = cx.timer();
            self.timer = Some(timer);
            if self.may_make() {
                cx.schedule_after(timer, u64::from(self.interval) * 1_000_000);
            }
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.may_make()
            && let Some(packet) = self.make(cx)
        {
            cx.emit(0, packet);
        }
        if self.may_make() {
            // At least a millisecond: nothing else would run.
            let interval = u64::from(self.interval.max(1));
            cx.schedule_after(timer, interval * 1_000_000);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most.min(batch.room()) {
            if !self.may_make() {
                break;
            }
            let Some(packet) = self.make(cx) else {
                break;
            };
            let _ = batch.push(packet);
        }
    }
}

fn parse<T: Argument>(cx: &Cx<'_>, value: &str) -> Result<T, HandlerError> {
    let parsed = cx.names().parse(value.trim());
    parsed.map_err(|_| "type mismatch".into())
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::testing::{Rig, ether};

    fn frame(to: [u8; 6], pause: [u8; 2]) -> Vec<u8> {
        let mut frame = ether(to, [1; 6], 0x8808, &[0, 1, pause[0], pause[1]]);
        frame.resize(64, 0);
        frame
    }

    const OTHER_END: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 1];
    const MS: u64 = 1_000_000;

    #[test]
    fn frames_come_at_every_interval() {
        let config = "s :: EtherPauseSource(1:1:1:1:1:1, 258, INTERVAL 20ms, LIMIT 3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(19 * MS);
        assert!(rig.data("c").is_empty());
        rig.advance(22 * MS);
        assert_eq!(rig.data("c"), [&frame(OTHER_END, [1, 2])[..]; 2]);
        rig.advance(100 * MS);
        assert_eq!((rig.collected("c").len(), rig.read("s.count")), (1, "3".into()));
        rig.write("s.reset_counts", "");
        rig.advance(100 * MS);
        assert_eq!(rig.collected("c").len(), 3);
    }

    #[test]
    fn a_pull_output_gives_as_many_as_are_asked_for() {
        let config = "s :: EtherPauseSource(1:1:1:1:1:1, 1, DST 2:2:2:2:2:2, LIMIT 5) -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.write("s.pausetime", "0xffff");
        let packets = rig.pull("p", 3);
        assert_eq!(packets.len(), 3);
        assert_eq!(packets[0].data(), frame([2; 6], [255, 255]));
        rig.write("s.active", "false");
        assert!(rig.pull("p", 3).is_empty());
        rig.write("s.active", "true");
        assert_eq!(rig.pull("p", 3).len(), 2);
        rig.write("s.limit", "-1");
        rig.write("s.dst", "3:3:3:3:3:3");
        assert_eq!(rig.pull("p", 1)[0].data(), frame([3; 6], [255, 255]));
    }

    #[test]
    fn wrong_values_are_refused() {
        let mut rig = Rig::new("s :: EtherPauseSource(1:1:1:1:1:1, 1) -> Discard;");
        for handler in ["s.src", "s.pausetime", "s.limit", "s.active"] {
            assert_eq!(rig.try_write(handler, "65536x"), Err("type mismatch".into()));
        }
        let errors = Rig::errors("EtherPauseSource(1:1:1:1:1:1) -> Discard;");
        assert!(errors.contains("PAUSETIME: required argument missing"), "{errors}");
    }
}
