//! Click's standard group: sources and sinks, queues, schedulers, switches, counters.

mod bucket;
mod delay;
mod source;
mod store;

crate::elements! {
    average_counter: AverageCounter;
    bypass: Bypass;
    classifier: Classifier;
    clipboard: Clipboard;
    counter: Counter;
    delay_shaper: DelayShaper;
    delay_unqueue: DelayUnqueue;
    discard: Discard;
    drop_broadcasts: DropBroadcasts;
    hub: Hub;
    idle: Idle;
    infinite_source: InfiniteSource;
    info: AddressInfo, PortInfo, ScheduleInfo;
    input_switch: InputSwitch;
    link_unqueue: LinkUnqueue;
    message: Message;
    null: Null, PushNull, PullNull;
    paint: Paint, CheckPaint, PaintTee, PaintSwitch;
    print: Print;
    pull_switch: PullSwitch, StaticPullSwitch;
    queue: Queue, FullNoteQueue, NotifierQueue, SimpleQueue, QuickNoteQueue, FrontDropQueue, MixedQueue;
    random_source: RandomSource;
    rated_source: RatedSource;
    rated_splitter: RatedSplitter, BandwidthRatedSplitter;
    rated_unqueue: RatedUnqueue, BandwidthRatedUnqueue;
    resize: Resize;
    sched: RoundRobinSched, PrioSched;
    script: Script, DriverManager;
    set_timestamp: SetTimestamp;
    shaper: Shaper, BandwidthShaper;
    stride: StrideSched, StrideSwitch;
    strip: Strip, Unstrip, StripToNetworkHeader;
    switch: Switch, StaticSwitch, RoundRobinSwitch;
    tee: Tee, PullTee;
    timed_sink: TimedSink;
    timed_source: TimedSource;
    truncate: Truncate, Pad;
    unqueue: Unqueue;
}
