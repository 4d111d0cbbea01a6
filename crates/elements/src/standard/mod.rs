//! Click's standard group: sources and sinks, queues, schedulers, switches, counters.

crate::elements! {
    classifier: Classifier;
    counter: Counter;
    discard: Discard;
    drop_broadcasts: DropBroadcasts;
    idle: Idle;
    infinite_source: InfiniteSource;
    null: Null, PushNull, PullNull;
    paint: Paint, CheckPaint, PaintTee, PaintSwitch;
    pull_switch: PullSwitch, SimplePullSwitch, StaticPullSwitch;
    queue: Queue, SimpleQueue;
    sched: RoundRobinSched, PrioSched;
    strip: Strip, Unstrip;
    switch: Switch, StaticSwitch, RoundRobinSwitch;
    tee: Tee, PullTee;
    unqueue: Unqueue;
}
