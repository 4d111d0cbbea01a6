use core::cmp::Reverse;

use crate::prelude::*;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;
/// Until the first time.
const FIRST: u64 = 10 * MILLISECOND;

/// Moves tasks between threads to balance their load.
///
/// At each interval it reads the recent cost of the scheduled tasks, and moves some from the thread
/// with the highest load to the one with the lowest. Elements move with their tasks (see
/// StaticThreadSched). A router on one thread does not change.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> Queue -> Unqueue -> Discard;
/// BalancedThreadSched(500);
/// ```
///
/// # See also
/// StaticThreadSched
#[derive(Element)]
#[element(ports = "0/0", alias("SortedTaskSched"))]
pub struct BalancedThreadSched {
    /// Milliseconds between two rounds.
    #[arg(positional, default = 1000)]
    interval: i32,
    /// Whether the cheapest tasks are moved first, rather than the most expensive ones.
    #[arg(positional, default = true)]
    increasing: bool,
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
            if self.increasing {
                tasks.sort_by_key(|(.., cost)| *cost);
            } else {
                tasks.sort_by_key(|(.., cost)| Reverse(*cost));
            }
            for (task, thread) in balance(&tasks, cx.threads()) {
                cx.move_task(task, i32::from(thread));
            }
        });
        // A negative one is as good as never, as in Click.
        let interval = self.interval as u32;
        cx.schedule_after(timer, u64::from(interval.max(1)) * MILLISECOND);
    }
}

/// The moves that balance `tasks` over `threads` threads: each task with its new thread. Each of
/// `tasks` has its thread and cost; they are considered in order.
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
        // Loads that are nearly equal stay as they are.
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
    use crate::testing::*;

    #[test]
    fn arguments_are_read() {
        Rig::new("BalancedThreadSched(10, false); SortedTaskSched;");
        Rig::refuses("BalancedThreadSched(often);", "INTERVAL: invalid number");
    }
}
