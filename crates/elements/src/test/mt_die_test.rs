use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Ran, TaskId};

/// Asks the router to stop, once for each thread, for trials of how it stops.
///
/// # Arguments
/// - `NTHREADS` (integer, the router's threads): how often it asks, each time from a task of its own.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// MTDieTest(NTHREADS 2);
/// DriverManager(wait, wait, print "stopping", stop);
/// ```
///
/// # See also
/// DriverManager, StaticThreadSched
#[derive(Default)]
pub struct MTDieTest {
    threads: u32,
}

/// Most tasks it makes.
const MOST: u32 = 1024;

impl Class for MTDieTest {
    const NAME: &'static str = "MTDieTest";
    const PORTS: &'static str = "0/0";
}

impl Declared for MTDieTest {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.threads = cx.threads().into();
        args.keyword("NTHREADS", &mut self.threads).complete()?;
        match self.threads {
            0..=MOST => Ok(()),
            _ => Err(args.fail(format_args!("NTHREADS: at most {MOST}"))),
        }
    }
}

impl Element for MTDieTest {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        for _ in 0..self.threads {
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
    use crate::testing::Rig;

    #[test]
    fn it_asks_as_often_as_told() {
        let config = "MTDieTest(NTHREADS 3); DriverManager(wait, wait, wait, print \"x\", stop);";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.printed().concat(), "x\n");
        let errors = Rig::errors("MTDieTest(NTHREADS 100000);");
        assert!(errors.contains("at most 1024"), "{errors}");
    }
}
