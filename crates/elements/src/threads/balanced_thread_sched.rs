use alloc::vec;
use alloc::vec::Vec;

use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, TaskId, TimerId};

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;
/// Until the first time.
const FIRST: u64 = 10 * MILLISECOND;

/// Moves tasks between threads so that these have equally much to do.
///
/// Every so often it looks at what the scheduled tasks took of late, and moves some from the
/// thread with the most to do to the one with the least. Elements move with their tasks (see
/// StaticThreadSched). A router on one thread stays as it is.
///
/// # Arguments
/// - `INTERVAL` (integer, 1000): milliseconds between two looks.
/// - `INCREASING` (boolean, true): whether the cheapest tasks are moved first, rather than the
///   dearest.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> Queue -> Unqueue -> Discard;
/// BalancedThreadSched(500);
/// ```
///
/// # See also
/// StaticThreadSched
#[derive(Default)]
pub struct BalancedThreadSched {
    interval: u32,
    increasing: bool,
}

impl Class for BalancedThreadSched {
    const NAME: &'static str = "BalancedThreadSched";
    const PORTS: &'static str = "0/0";
}

impl Declared for BalancedThreadSched {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.interval, self.increasing) = (1000, true);
        args.positional("INTERVAL", &mut self.interval)
            .positional("INCREASING", &mut self.increasing)
            .complete()
    }
}

impl Element for BalancedThreadSched {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.threads() > 1 {
            cx.measure_tasks();
            let timer = cx.timer();
            cx.schedule_after(timer, FIRST);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        cx.whole(|cx| {
            let mut tasks = cx.scheduled_tasks();
            tasks.sort_by(|(.., one), (.., other)| match self.increasing {
                true => one.cmp(other),
                false => other.cmp(one),
            });
            for (task, thread) in balance(&tasks, cx.threads()) {
                cx.move_task(task, i32::from(thread));
            }
        });
        cx.schedule_after(timer, u64::from(self.interval.max(1)) * MILLISECOND);
    }
}

/// Which of `tasks`, each with its thread and cost and in the order in which they are to be
/// considered, are better on which other of `threads` threads.
fn balance(tasks: &[(TaskId, u16, u32)], threads: u16) -> Vec<(TaskId, u16)> {
    let mut load = vec![0u64; usize::from(threads)];
    for (_, thread, cost) in tasks {
        load[usize::from(*thread)] += u64::from(*cost);
    }
    let average = load.iter().sum::<u64>() / u64::from(threads);
    let mut moves: Vec<(TaskId, u16)> = Vec::new();
    for _ in 0..threads {
        let by_load = |i: &usize| load[*i];
        let all = 0..usize::from(threads);
        let (Some(least), Some(most)) = (all.clone().min_by_key(by_load), all.max_by_key(by_load))
        else {
            break;
        };
        // What is nearly equal is left alone.
        let slack = average / 8;
        if average - load[least] <= slack && load[most] - average <= slack {
            break;
        }
        let enough = average + average / 4;
        for &(task, thread, cost) in tasks {
            let cost = u64::from(cost);
            let moved = moves.iter().any(|(other, _)| *other == task);
            let fits = load[least] + cost < enough && load[least] + 2 * cost <= load[most];
            if usize::from(thread) == most && fits && !moved {
                load[least] += cost;
                load[most] -= cost;
                moves.push((task, least as u16));
            }
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn arguments_are_read() {
        Rig::new("BalancedThreadSched(10, false); SortedTaskSched;");
        let errors = Rig::errors("BalancedThreadSched(often);");
        assert!(errors.contains("INTERVAL: invalid number"), "{errors}");
    }
}
