//! Click's standard group: sources and sinks, queues, schedulers, switches, counters.

mod bucket;
mod source;
mod store;

crate::elements! {
    average_counter: AverageCounter;
    classifier: Classifier;
    counter: Counter;
    delay_shaper: DelayShaper;
    discard: Discard;
    drop_broadcasts: DropBroadcasts;
    idle: Idle;
    infinite_source: InfiniteSource;
    info: AddressInfo, PortInfo, ScheduleInfo;
    message: Message;
    null: Null, PushNull, PullNull;
    paint: Paint, CheckPaint, PaintTee, PaintSwitch;
    print: Print;
    pull_switch: PullSwitch, SimplePullSwitch, StaticPullSwitch;
    queue: Queue, FullNoteQueue, NotifierQueue, SimpleQueue, FrontDropQueue, MixedQueue;
    random_source: RandomSource;
    rated_source: RatedSource;
    rated_splitter: RatedSplitter, BandwidthRatedSplitter;
    rated_unqueue: RatedUnqueue, BandwidthRatedUnqueue;
    sched: RoundRobinSched, PrioSched;
    script: Script, DriverManager;
    shaper: Shaper, BandwidthShaper;
    stride: StrideSched, StrideSwitch;
    strip: Strip, Unstrip;
    switch: Switch, StaticSwitch, RoundRobinSwitch;
    tee: Tee, PullTee;
    timed_sink: TimedSink;
    timed_source: TimedSource;
    unqueue: Unqueue;
}
