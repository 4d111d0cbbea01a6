use crate::prelude::*;

/// Stops the router when an element's task is no longer scheduled.
///
/// Tasks are checked every 10 milliseconds.
///
/// # Example
/// ```click
/// s :: InfiniteSource(LIMIT 1000) -> Queue -> u :: Unqueue -> Discard;
/// QuitWatcher(u);
/// ```
///
/// # See also
/// DriverManager, Script
#[derive(Element)]
#[element(ports = "0/0")]
pub struct QuitWatcher {
    /// An element with a task.
    #[arg(rest, name = "ELEMENT", kind = "element, any number of times")]
    names: Vec<String>,
    /// The `scheduled` handlers of those it watches.
    watched: Vec<Call>,
}

const INTERVAL: u64 = 10_000_000;

impl Element for QuitWatcher {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut result = Ok(());
        for name in &self.names {
            match Call::to_read(cx, &alloc::format!("{name}.scheduled")) {
                Ok(call) => self.watched.push(call),
                Err(error) => result = Err(cx.error(error)),
            }
        }
        let timer = cx.timer();
        cx.schedule_after(timer, INTERVAL);
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
    use crate::testing::*;

    #[test]
    fn the_router_stops_when_one_sleeps() {
        let config =
            "i :: Inject -> Queue -> u :: Unqueue -> Discard; s :: InfiniteSource -> Discard;
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
    fn it_may_stand_before_the_elements() {
        for watched in [
            "w :: InfiniteSource -> Discard;",
            "w :: RatedSource -> Discard;",
            "Idle -> Queue -> w :: Discard;",
        ] {
            Rig::new(&format!("QuitWatcher(w); {watched}"));
        }
        let errors = Rig::errors("QuitWatcher(w); Idle -> w :: Discard;");
        assert!(errors.contains("no 'w.scheduled' read handler"), "{errors}");
    }

    #[test]
    fn elements_without_a_task_are_refused() {
        let errors = Rig::errors("Idle -> n :: Null -> Discard; QuitWatcher(n, nobody);");
        assert!(errors.contains("no 'n.scheduled' read handler"), "{errors}");
        assert!(errors.contains("no element named 'nobody'"), "{errors}");
    }
}
