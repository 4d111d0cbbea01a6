//! Click's simple group: elements without notifiers, beside those of the standard group that have
//! them.

crate::elements! {
    simple_idle: SimpleIdle;
    simple_prio_sched: SimplePrioSched;
    simple_pull_switch: SimplePullSwitch;
    simple_round_robin_sched: SimpleRoundRobinSched;
}
