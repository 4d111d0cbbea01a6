//! Click's standard group: sources and sinks, queues, schedulers, switches, counters.

crate::elements! {
    classifier: Classifier;
    counter: Counter;
    discard: Discard;
    idle: Idle;
    infinite_source: InfiniteSource;
    null: Null, PushNull, PullNull;
    queue: Queue, SimpleQueue;
    unqueue: Unqueue;
}
