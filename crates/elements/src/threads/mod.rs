//! Click's threads group: which thread runs what.

#[cfg(test)]
mod tests;

crate::elements! {
    balanced_thread_sched: BalancedThreadSched;
    static_thread_sched: StaticThreadSched;
}
