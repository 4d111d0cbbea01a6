//! Click's test group: elements for trials of a router.

crate::elements! {
    block_thread: BlockThread;
    mt_die_test: MTDieTest;
    notifier_debug: NotifierDebug;
    queue_yank_test: QueueYankTest;
    random_seed: RandomSeed;
    sched_order_test: SchedOrderTest;
    token_bucket_test: TokenBucketTest;
}
