//! Click's threads group: which thread runs what.

#[cfg(test)]
mod tests;

crate::elements! {
    balanced_thread_sched: BalancedThreadSched;
    path_spinlock: PathSpinlock;
    static_thread_sched: StaticThreadSched;
}
