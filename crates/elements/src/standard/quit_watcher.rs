use alloc::vec::Vec;

use router::args::{Args, Failed};
use router::{Call, Class, Cx, Declared, Element, TimerId};

/// Stops the router when an element's task is no longer scheduled.
///
/// # Arguments
/// - `ELEMENT` (element; any number of times): an element with a task. It is looked at every 10
///   milliseconds.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// s :: InfiniteSource(LIMIT 1000) -> Queue -> u :: Unqueue -> Discard;
/// QuitWatcher(u);
/// ```
///
/// # See also
/// DriverManager, Script
#[derive(Default)]
pub struct QuitWatcher {
    /// The `scheduled` handlers of those it watches.
    watched: Vec<Call>,
    timer: Option<TimerId>,
}

const INTERVAL: u64 = 10_000_000;

impl Class for QuitWatcher {
    const NAME: &'static str = "QuitWatcher";
    const PORTS: &'static str = "0/0";
}

impl Declared for QuitWatcher {
    /// The arguments are elements' handlers, which are not known before they are all configured.
    fn configure(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        Ok(())
    }
}

impl Element for QuitWatcher {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut result = Ok(());
        for name in click::config::split_args(cx.config(cx.id())) {
            match Call::to_read(cx, &alloc::format!("{name}.scheduled")) {
                Ok(call) => self.watched.push(call),
                Err(error) => result = Err(cx.error(error)),
            }
        }
        let timer = cx.timer();
        cx.schedule_after(timer, INTERVAL);
        self.timer = Some(timer);
        result
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let scheduled = |call: &Call| call.read(cx).is_ok_and(|value| !value.starts_with('f'));
        if self.watched.iter().all(scheduled) {
            cx.schedule_after(timer, INTERVAL);
        } else {
            cx.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_router_stops_when_one_sleeps() {
        let config = "i :: Inject -> Queue -> u :: Unqueue -> Discard; s :: InfiniteSource -> Discard;
            QuitWatcher(s); q :: QuitWatcher(s, u);";
        let mut rig = Rig::new(config);
        rig.pause(5 * MS);
        for _ in 0..50 {
            rig.step();
        }
        assert_eq!(rig.read("u.scheduled"), "false");
        assert_eq!(rig.router.run_count(), 1);
        rig.pause(5 * MS);
        for _ in 0..50 {
            rig.step();
        }
        assert_eq!(rig.router.run_count(), 0);
    }

    #[test]
    fn it_runs_while_all_are_scheduled() {
        let mut rig = Rig::new("s :: InfiniteSource -> Discard; QuitWatcher(s);");
        for _ in 0..100 {
            rig.pause(MS);
            for _ in 0..10 {
                rig.step();
            }
        }
        assert_eq!(rig.router.run_count(), 1);
    }

    #[test]
    fn elements_without_a_task_are_refused() {
        let errors = Rig::errors("Idle -> n :: Null -> Discard; QuitWatcher(n, nobody);");
        assert!(errors.contains("no 'n.scheduled' read handler"), "{errors}");
        assert!(errors.contains("no element named 'nobody'"), "{errors}");
    }
}
