use super::sender::Sender;
use crate::prelude::*;

/// Sends frames by one of the guest's interfaces, or in `weir click` by one of the host's.
///
/// On a pull input it pulls as many frames as the interface's ring has room for, and waits while
/// the ring is full or upstream is empty. A frame that is pushed is sent at once, and dropped if
/// the ring is full. Frames too long for the interface are dropped.
///
/// # Example
/// ```click
/// FromNetfront(inside) -> Queue -> ToNetfront(outside);
/// ```
///
/// # See also
/// FromNetfront, ToDevice
#[derive(Element)]
#[element(
    ports = "1/0",
    processing = "a",
    segments,
    take_over,
    provides(Addressed)
)]
pub struct ToNetfront {
    /// The interface's name, as the guest was given it; of the host, its own or the one that `--link` gives it.
    #[arg(mandatory)]
    interface: String,
    /// Most frames pulled each time it is scheduled.
    #[arg(positional, default = 64)]
    burst: u32,
    #[delegate(configured = complete)]
    sender: Sender,
}

impl ToNetfront {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.burst == 0 {
            return Err(args.fail("BURST must be at least 1"));
        }
        self.sender.interface.clone_from(&self.interface);
        self.sender.burst = self.burst;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn what_is_pushed_is_sent_at_once_and_dropped_when_full() {
        let cable = Cable::new(MAC);
        cable.make_room(2);
        let config = "i :: Inject -> t :: ToNetfront(a);";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        rig.push_all("i", &[vec![1; 60], vec![2; 60], vec![3; 60]]);
        assert_eq!(cable.sent(), [[1; 60], [2; 60]]);
        rig.assert_handlers(&[("t.count", "2"), ("t.drops", "1")]);
        assert_eq!(rig.read("t.byte_count"), "120");
        assert_eq!(rig.outstanding(), 0);
        rig.write("t.reset_counts", "");
        rig.assert_handlers(&[("t.count", "0"), ("t.drops", "0")]);
    }

    #[test]
    fn it_pulls_only_what_there_is_room_for() {
        let cable = Cable::new(MAC);
        cable.make_room(3);
        let config = "i :: Inject -> q :: Queue -> t :: ToNetfront(a);";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        let frames: Vec<Vec<u8>> = (0..5).map(|n| vec![n; 60]).collect();
        rig.push_all("i", &frames);
        rig.run();
        assert_eq!(cable.sent().len(), 3);
        assert_eq!(rig.read("q.length"), "2");
        assert!(rig.router.arm(), "a full ring lets the router sleep");
        cable.make_room(9);
        assert!(!rig.router.arm(), "room wakes it");
        rig.run();
        assert_eq!(cable.sent(), [[3; 60], [4; 60]]);
        assert_eq!(rig.read("t.drops"), "0");
    }

    #[test]
    fn it_sleeps_while_upstream_is_empty() {
        let cable = Cable::new(MAC);
        cable.make_room(100);
        let config = "i :: Inject -> Queue -> t :: ToNetfront(a, 1);";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        rig.run();
        assert_eq!(rig.read("t.scheduled"), "false");
        rig.push_all("i", &[vec![1; 60], vec![2; 60]]);
        rig.step();
        assert_eq!(cable.sent().len(), 1);
        rig.run();
        assert_eq!(cable.sent().len(), 1);
        assert_eq!(rig.read("t.scheduled"), "false");
    }

    #[test]
    fn frames_that_did_not_fit_outlive_a_hotswap() {
        for new in [
            "i :: Inject -> q :: Queue -> t :: ToNetfront(a);",
            "t :: ToNetfront(a); i :: Inject -> t;",
        ] {
            let cable = Cable::new(MAC);
            cable.make_room(1);
            cable.promise_room(3);
            let config = "i :: Inject -> q :: Queue -> t :: ToNetfront(a);";
            let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
            rig.push_all("i", &[vec![0; 60], vec![1; 60], vec![2; 60]]);
            rig.run();
            assert_eq!((cable.sent().len(), rig.outstanding()), (1, 2));
            cable.make_room(9);
            rig.swap(new);
            rig.run();
            assert_eq!(cable.sent(), [[1; 60], [2; 60]]);
            assert_eq!((rig.read("t.drops").as_str(), rig.outstanding()), ("0", 0));
        }
    }

    #[test]
    fn frames_too_long_for_the_interface_are_dropped() {
        let cable = Cable::new(MAC);
        cable.make_room(9);
        let config = "i :: Inject -> t :: ToNetfront(a);";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        rig.push_all("i", &[vec![0; 1522], vec![0; 1523]]);
        assert_eq!(cable.sent().len(), 1);
        assert_eq!(rig.read("t.drops"), "1");
    }
}
