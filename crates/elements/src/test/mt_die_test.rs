use crate::prelude::*;

/// Stops the router, once from each thread, for tests of stopping.
///
/// # Example
/// ```click
/// MTDieTest(NTHREADS 2);
/// DriverManager(wait, wait, print "stopping", stop);
/// ```
///
/// # See also
/// DriverManager, StaticThreadSched
#[derive(Element)]
#[element(ports = "0/0")]
pub struct MTDieTest {
    /// How often it asks, each time from a task of its own; once for each of the router's threads
    /// if not given.
    #[arg(name = "NTHREADS")]
    threads: Option<u32>,
}

/// Most tasks it makes.
const MOST: u32 = 1024;

impl Element for MTDieTest {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.threads.is_some_and(|threads| threads > MOST) {
            return Err(args.fail(format_args!("NTHREADS: at most {MOST}")));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        for _ in 0..self.threads.unwrap_or(cx.threads().into()) {
            let task = cx.task();
            cx.schedule(task);
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        cx.stop();
        Ran::Nothing
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn it_asks_as_often_as_told() {
        let config = "MTDieTest(NTHREADS 3); DriverManager(wait, wait, wait, print \"x\", stop);";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.printed().concat(), "x\n");
        Rig::refuses("MTDieTest(NTHREADS 100000);", "at most 1024");
    }
}
