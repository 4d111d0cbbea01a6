use crate::prelude::*;

/// The destination of pause frames: the station at the other end of the link (IEEE Std 802.3,
/// annex 31B).
const OTHER_END: EtherAddress = EtherAddress([0x01, 0x80, 0xc2, 0, 0, 0x01]);
/// The MAC control operation that asks for a pause.
const PAUSE: u16 = 1;
/// Length of a pause frame without its check sequence, as Click makes it.
const LENGTH: usize = 64;

/// Makes Ethernet pause frames, which request that the other end of a link stops sending for a
/// time.
///
/// By a pull output a frame leaves at every pull, by a push output one at every interval.
///
/// # Example
/// ```click
/// EtherPauseSource(1:1:1:1:1:1, 195, INTERVAL 100ms) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// EtherEncap, TimedSource
#[derive(Element)]
#[element(ports = "0/1", handlers)]
pub struct EtherPauseSource {
    /// The address of the device that sends the frames.
    #[arg(mandatory, name = "SRC", read, write, error = "type mismatch", then = wake)]
    source: EtherAddress,
    /// How long to pause, in units of the time that 512 bits take on the link.
    #[arg(mandatory, name = "PAUSETIME", read, write, error = "type mismatch", then = wake)]
    pause: u16,
    /// The frames' destination. The default is the other end of the link, whatever its address.
    #[arg(name = "DST", default = OTHER_END, default_text = "01-80-C2-00-00-01",
        read, write, error = "type mismatch", then = wake)]
    destination: EtherAddress,
    /// Frames after which it stops; no limit if negative.
    #[arg(default = -1, read, write, error = "type mismatch", then = wake)]
    limit: i32,
    /// Whether it makes frames.
    #[arg(default = true, read, write, checkbox, error = "type mismatch", then = wake)]
    active: bool,
    /// Time between two frames of a push output.
    #[arg(default = Milliseconds(1000), default_text = "1s")]
    interval: Milliseconds,
    /// Frames made.
    #[handler(read)]
    count: i32,
    timer: Option<TimerId>,
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

#[handlers]
impl EtherPauseSource {
    /// Sets `count` to 0.
    #[write]
    fn reset_counts(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.wake(cx);
    }
}

impl Element for EtherPauseSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            let timer = cx.timer();
            self.timer = Some(timer);
            if self.may_make() {
                cx.schedule_after(timer, u64::from(self.interval.0) * 1_000_000);
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
            let interval = u64::from(self.interval.0.max(1));
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

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn frame(to: [u8; 6], pause: [u8; 2]) -> Vec<u8> {
        let mut frame = ether(to, [1; 6], 0x8808, &[0, 1, pause[0], pause[1]]);
        frame.resize(64, 0);
        frame
    }

    const OTHER_END: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 1];

    #[test]
    fn frames_come_at_every_interval() {
        let config =
            "s :: EtherPauseSource(1:1:1:1:1:1, 258, INTERVAL 20ms, LIMIT 3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(19 * MS);
        assert!(rig.data("c").is_empty());
        rig.advance(22 * MS);
        assert_eq!(rig.data("c"), [&frame(OTHER_END, [1, 2])[..]; 2]);
        rig.advance(100 * MS);
        assert_eq!(
            (rig.collected("c").len(), rig.read("s.count")),
            (1, "3".into())
        );
        rig.write("s.reset_counts", "");
        rig.advance(100 * MS);
        assert_eq!(rig.collected("c").len(), 3);
    }

    #[test]
    fn a_pull_output_gives_as_many_as_are_asked_for() {
        let config =
            "s :: EtherPauseSource(1:1:1:1:1:1, 1, DST 2:2:2:2:2:2, LIMIT 5) -> p :: Puller;";
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
            assert_eq!(
                rig.try_write(handler, "65536x"),
                Err("type mismatch".into())
            );
        }
        Rig::refuses(
            "EtherPauseSource(1:1:1:1:1:1) -> Discard;",
            "PAUSETIME: required argument missing",
        );
    }
}
