//! Click's test group: elements for trials of a router.

crate::elements! {
    block_thread: BlockThread;
    mt_die_test: MTDieTest;
    notifier_debug: NotifierDebug;
    random_seed: RandomSeed;
}
