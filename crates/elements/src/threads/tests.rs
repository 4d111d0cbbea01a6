//! Routers on several threads.

use std::sync::{Condvar, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use crate::testing::*;
use click::{Diagnostics, Options};

/// Sends packets that hold their number, from 0 on, up to a limit.
#[derive(Element)]
#[element(ports = "0/1", processing = "h", task)]
struct Numbers {
    #[arg(positional)]
    limit: u64,
    #[state]
    next: u64,
    task: Option<TaskId>,
    signal: Signal,
}

impl Element for Numbers {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), router::args::Failed> {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.downstream_signal(0, Some(task));
        self.task = Some(task);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if self.next == self.limit || !cx.is_active(&self.signal) {
            return Ran::Nothing;
        }
        if let Some(packet) = cx.pool().copy(&self.next.to_be_bytes()) {
            self.next += 1;
            cx.emit(0, packet);
        }
        cx.schedule(task);
        Ran::Worked
    }
}

/// Counts packets, and those whose number is not the one after the one before, and stops the
/// router after so many. Knows its thread.
#[derive(Element)]
#[element(ports = "1/0-1")]
struct Check {
    #[arg(positional)]
    stop: u64,
    #[handler(read)]
    #[state]
    count: u64,
    #[handler(read)]
    #[state]
    wrong: u64,
    #[state]
    next: u64,
    #[handler(read = |thread: &Option<ThreadId>| format!("{thread:?}"))]
    thread: Option<ThreadId>,
    #[handler(read)]
    strangers: u64,
}

impl Check {
    fn see(&mut self, packet: &Packet) {
        let number = packet.data().first_chunk().map(|n| u64::from_be_bytes(*n));
        self.wrong += u64::from(number != Some(self.next));
        self.next = number.unwrap_or(0) + 1;
        self.count += 1;
    }
}

impl Element for Check {
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let me = thread::current().id();
        self.strangers += u64::from(*self.thread.get_or_insert(me) != me);
        let before = self.count;
        batch.iter().for_each(|packet| self.see(packet));
        if before < self.stop && self.count >= self.stop {
            cx.stop();
        }
        0
    }
}

static CLASSES: &[ClassEntry] = &[ClassEntry::of::<Numbers>(), ClassEntry::of::<Check>()];

/// A machine with a real clock that keeps what is printed.
struct Machine {
    start: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Embedding for Machine {
    fn steady(&self) -> Steady {
        Steady(self.start.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> i64 {
        0
    }

    fn chatter(&mut self, line: &str) {
        self.lines.lock().unwrap().push(line.to_string());
    }

    fn seed(&mut self) -> u64 {
        1
    }

    fn driver(&self) -> &'static str {
        "test"
    }
}

/// Where a thread sleeps.
#[derive(Clone, Default)]
struct Bed(Arc<(Mutex<bool>, Condvar)>);

impl Bed {
    fn sleep(&self, most: Duration) {
        let (woken, condition) = &*self.0;
        let woken = woken.lock().unwrap();
        *condition
            .wait_timeout_while(woken, most, |woken| !*woken)
            .unwrap()
            .0 = false;
    }
}

impl Waker for Bed {
    fn wake(&self) {
        let (woken, condition) = &*self.0;
        *woken.lock().unwrap() = true;
        condition.notify_one();
    }

    fn pause(&self) {
        thread::yield_now();
    }
}

/// A test that takes this long has a thread that nobody woke: on a busy machine threads that wait
/// for each other take a minute for what else takes two seconds.
const LONGEST: Duration = Duration::from_secs(240);
/// Longest sleep of a thread that looks for something besides.
const SHORT: Duration = Duration::from_millis(1);

/// Runs a part until the router stops or `enough` says so, and sleeps for at most `longest` at a
/// time.
fn run(
    part: &mut Router,
    bed: &Bed,
    longest: Duration,
    mut enough: impl FnMut(&mut Router) -> bool,
) {
    let began = Instant::now();
    loop {
        assert!(
            began.elapsed() < LONGEST,
            "{}",
            part.read(None, "element_counts", "").unwrap()
        );
        let status = part.run(128);
        let next = match status {
            Status::Stopped => return,
            _ if enough(part) => return,
            Status::Busy => continue,
            Status::Idle(next) if part.arm() => next,
            Status::Idle(_) => continue,
        };
        let now = part.runtime().embedding.steady();
        let most = next.map_or(longest, |at| Duration::from_nanos(at.since(now)));
        bed.sleep(most.min(longest));
    }
}

/// A router on several threads; the test's is the first.
struct RouterThreads {
    router: Router,
    bed: Bed,
    threads: Vec<JoinHandle<()>>,
    start: Instant,
    lines: Arc<Mutex<Vec<String>>>,
    count: u16,
}

impl RouterThreads {
    fn runtime(start: Instant, lines: &Arc<Mutex<Vec<String>>>) -> Runtime {
        let lines = Arc::clone(lines);
        Runtime::new(Box::new(Machine { start, lines }), Pool::heap(1 << 14))
    }

    #[track_caller]
    fn make(config: &str, runtime: Runtime, threads: u16) -> Router {
        let mut diagnostics = Diagnostics::new();
        let mut library = crate::library();
        library.add(CLASSES);
        let options = Options::new(&library);
        let flat = click::parse(config.as_bytes(), "config", &options, &mut diagnostics);
        let settings = Settings {
            threads,
            ..Settings::default()
        };
        let flat = flat.expect("the configuration can be read");
        let router = Router::new(flat, config, &library, runtime, settings, &mut diagnostics);
        assert!(router.is_ok(), "{diagnostics}");
        router.ok().unwrap()
    }

    #[track_caller]
    fn new(config: &str, count: u16) -> RouterThreads {
        let (start, lines) = (Instant::now(), Arc::default());
        let mut router = RouterThreads::make(config, RouterThreads::runtime(start, &lines), count);
        let bed = Bed::default();
        let beds: Vec<Bed> = (1..count).map(|_| Bed::default()).collect();
        let members = beds.iter().map(|bed| Member {
            runtime: RouterThreads::runtime(start, &lines),
            waker: Box::new(bed.clone()),
        });
        let parts = router.divide(Box::new(bed.clone()), members.collect());
        assert_eq!(parts.len(), usize::from(count) - 1);
        let threads = parts.into_iter().zip(beds).map(|(mut part, bed)| {
            thread::spawn(move || {
                run(&mut part, &bed, LONGEST, |_| false);
            })
        });
        RouterThreads {
            router,
            bed,
            threads: threads.collect(),
            start,
            lines,
            count,
        }
    }

    #[track_caller]
    fn read(&mut self, handler: &str) -> String {
        let (element, name) = handler.split_once('.').unwrap_or(("", handler));
        let id = (!element.is_empty()).then(|| self.router.find(element).unwrap());
        self.router.read(id, name, "").unwrap()
    }

    #[track_caller]
    fn write(&mut self, handler: &str, value: &str) {
        let (element, name) = handler.split_once('.').unwrap();
        let id = self.router.find(element);
        self.router.write(id, name, value).unwrap();
    }

    /// Runs this thread's part until `enough`.
    fn run(&mut self, enough: impl FnMut(&mut Router) -> bool) {
        run(&mut self.router, &self.bed.clone(), SHORT, enough);
    }

    /// Runs this thread's part until the router stops. Nothing wakes threads but packets.
    #[track_caller]
    fn run_to_the_end(&mut self) {
        run(&mut self.router, &self.bed.clone(), LONGEST, |_| false);
        assert!(self.start.elapsed() < LONGEST, "a thread was not woken");
    }

    fn swap(&mut self, config: &str) {
        let runtime = RouterThreads::runtime(self.start, &self.lines);
        let next = RouterThreads::make(config, runtime, self.count);
        Router::succeed(&mut self.router, next);
    }

    /// Installs configurations beside the main one.
    fn install(&mut self, main: &str, others: &[(&str, &str)]) {
        let mut diagnostics = Diagnostics::new();
        let mut library = crate::library();
        library.add(CLASSES);
        let options = Options::new(&library);
        let mut parse = |config: &str| {
            let flat = click::parse(config.as_bytes(), "config", &options, &mut diagnostics);
            flat.expect("the configuration can be read")
        };
        let mut flat = parse(main);
        for (name, config) in others {
            flat.install(name, parse(config)).unwrap();
        }
        let settings = Settings {
            threads: self.count,
            ..Settings::default()
        };
        let old = &mut self.router;
        let done = Router::update(old, flat, main, &library, settings, &mut diagnostics);
        assert!(done.is_ok(), "{diagnostics}");
    }

    /// Stops all threads.
    fn end(&mut self) {
        self.router.unite();
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Whether a handler reads as `value`.
fn says(router: &mut Router, element: &str, handler: &str, value: &str) -> bool {
    let id = router.find(element);
    router.read(id, handler, "").as_deref() == Ok(value)
}

#[test]
fn two_sources_run_on_two_threads() {
    let mut threads = RouterThreads::new(
        "a :: Numbers(50000) -> x :: Check -> Discard; b :: Numbers(50000) -> y :: Check -> Discard;
         StaticThreadSched(a 0, b 1);",
        2,
    );
    threads.run(|r| says(r, "x", "count", "50000") && says(r, "y", "count", "50000"));
    assert_ne!(threads.read("x.thread"), threads.read("y.thread"));
    for check in ["x", "y"] {
        assert_eq!(threads.read(&format!("{check}.wrong")), "0");
        assert_eq!(threads.read(&format!("{check}.strangers")), "0");
    }
    assert_eq!(threads.read("threads"), "2");
    threads.end();
    assert_eq!(threads.read("y.count"), "50000");
}

#[test]
fn a_queue_between_threads_loses_nothing_and_keeps_the_order() {
    for (source, sink, capacity) in [(0, 1, 10), (1, 0, 1000), (0, 1, 1)] {
        let config = format!(
            "s :: Numbers(20000) -> q :: Queue({capacity}) -> u :: Unqueue(BURST 7) -> c :: Check(20000)
                -> Discard;
             StaticThreadSched(s {source}, u {sink});"
        );
        let mut threads = RouterThreads::new(&config, 2);
        threads.run_to_the_end();
        threads.end();
        assert_eq!(threads.read("c.count"), "20000");
        assert_eq!(threads.read("c.wrong"), "0");
        assert_eq!(threads.read("q.drops"), "0");
        assert_eq!(threads.read("thread_drops"), "0");
    }
}

#[test]
fn handlers_see_and_change_the_whole_while_it_runs() {
    let mut threads = RouterThreads::new(
        "a :: Numbers(4000000000) -> q :: Queue -> u :: Unqueue(BURST 32) -> x :: Check
            -> k :: Counter -> Discard;
         StaticThreadSched(a 1, u 2);",
        3,
    );
    let (mut counts, mut rounds) = (Vec::new(), 0);
    threads.run(|router| {
        let id = router.find("k");
        counts.push(
            router
                .read(id, "count", "")
                .unwrap()
                .parse::<u64>()
                .unwrap(),
        );
        let id = router.find("u");
        router
            .write(id, "burst", &(rounds % 40 + 1).to_string())
            .unwrap();
        rounds += 1;
        // The other threads may take a while to begin.
        rounds >= 100 && counts.last() > counts.first()
    });
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!(threads.read("u.burst"), ((rounds - 1) % 40 + 1).to_string());
    assert_eq!(threads.read("x.wrong"), "0");
    assert!(
        threads.read("list").starts_with("7\n"),
        "{}",
        threads.read("list")
    );
    threads.end();
}

#[test]
fn tasks_move_between_threads_and_take_their_elements_along() {
    let mut threads = RouterThreads::new(
        "a :: Numbers(4000000000) -> q :: Queue(50) -> u :: Unqueue -> x :: Check -> Discard;
         StaticThreadSched(a 0, u 1);",
        2,
    );
    for thread in [0, 1, 0, 1, 1, 0] {
        threads.write("u.home_thread", &thread.to_string());
        threads.write("a.home_thread", &(1 - thread).to_string());
        assert_eq!(threads.read("u.home_thread"), thread.to_string());
        let before: u64 = threads.read("x.count").parse().unwrap();
        threads.run(|router| {
            let id = router.find("x");
            router
                .read(id, "count", "")
                .unwrap()
                .parse::<u64>()
                .unwrap()
                > before + 2000
        });
    }
    assert_eq!(threads.read("x.wrong"), "0");
    assert_eq!(threads.read("q.drops"), "0");
    assert_ne!(threads.read("x.strangers"), "0");
    threads.end();
}

#[test]
fn a_router_is_replaced_while_its_threads_run() {
    let config = |sink| {
        format!(
            "s :: Numbers(4000000000) -> q :: Queue(100) -> u :: Unqueue -> c :: Check -> Discard;
             StaticThreadSched(s 0, u {sink});"
        )
    };
    let mut threads = RouterThreads::new(&config(1), 3);
    for round in 0..20 {
        let before: u64 = threads.read("c.count").parse().unwrap();
        threads.run(|router| {
            let id = router.find("c");
            router
                .read(id, "count", "")
                .unwrap()
                .parse::<u64>()
                .unwrap()
                > before + 500
        });
        threads.swap(&config(round % 3));
    }
    for counter in ["c.wrong", "q.drops", "thread_drops"] {
        assert_eq!(threads.read(counter), "0", "{counter}");
    }
    threads.end();
}

#[test]
fn whichever_thread_stops_the_router_it_stops() {
    for thread in 0..3 {
        let mut threads = RouterThreads::new(
            &format!(
                "s :: InfiniteSource(LIMIT 1000, STOP true) -> k :: Counter -> Discard;
                 t :: InfiniteSource -> Discard; w :: Idle -> Discard;
                 StaticThreadSched(s {thread}, t 1);"
            ),
            3,
        );
        threads.run_to_the_end();
        threads.end();
        assert_eq!(threads.read("k.count"), "1000");
    }
}

#[test]
fn scripts_on_all_threads_read_each_other() {
    let script = |me: u16, other: u16| {
        format!(
            "s{me} :: Script(export n 0, label again, set n $(add $n 1),
                 set x $(n{other}/k.count), write n{other}/k.reset_counts, wait 1ms,
                 goto again $(lt $n 100));
             n{me} :: {{ i :: InfiniteSource(BURST 8) -> k :: Counter -> Discard; }};"
        )
    };
    let config = [
        script(0, 1),
        script(1, 0),
        "StaticThreadSched(s0 0, n0 0, s1 1, n1 1);".into(),
    ]
    .concat();
    let mut threads = RouterThreads::new(&config, 2);
    let done = |router: &mut Router, script| says(router, script, "n", "100");
    threads.run(|router| done(router, "s0") && done(router, "s1"));
    threads.end();
    assert_eq!(threads.lines.lock().unwrap().join("\n"), "");
}

#[test]
fn threads_that_stop_the_world_for_every_packet_run_by_turns_and_end() {
    let source = |n: u16| {
        format!(
            "a{n} :: InfiniteSource(BURST 1) -> Script(TYPE PACKET, end) -> c{n} :: Counter -> Discard;
             StaticThreadSched(a{n} {n});"
        )
    };
    for _ in 0..20 {
        let mut threads = RouterThreads::new(&[source(0), source(1)].concat(), 2);
        threads.run(|router| {
            let count = |router: &mut Router, counter| {
                let counter = router.find(counter);
                router.read(counter, "count", "").unwrap()
            };
            let counts = ["c0", "c1"].map(|counter| count(router, counter));
            counts.iter().all(|n| n.parse::<u32>().unwrap() >= 300)
        });
        threads.end();
    }
    // One that does not is not kept from its work either.
    let mut threads = RouterThreads::new(
        &[
            source(1),
            "TimedSource(0.001) -> t :: Counter -> Discard;".into(),
        ]
        .concat(),
        2,
    );
    let start = Instant::now();
    threads.run(|_| start.elapsed() > Duration::from_millis(50));
    assert_ne!(threads.read("t.count"), "0");
    threads.end();
}

#[test]
fn configurations_go_on_while_others_come_and_go() {
    let main = "a :: Numbers(200000) -> x :: Check -> q :: ThreadSafeQueue(1000)
            -> u :: Unqueue -> y :: Check -> Discard;
        b :: Numbers(200000) -> z :: Check -> Discard;
        StaticThreadSched(a 0, u 1, b 1);";
    let other = "c :: Numbers(5000) -> w :: Check -> Discard; StaticThreadSched(c 1);";
    let mut threads = RouterThreads::new(main, 2);
    let installed = [("m", other), ("n", other)];
    for round in 0..20 {
        let start = Instant::now();
        threads.run(|_| start.elapsed() > Duration::from_millis(2));
        threads.install(main, &installed[..round % 3]);
    }
    threads.install(main, &installed);
    threads.run(|r| {
        let counts = [
            ("y", "200000"),
            ("z", "200000"),
            ("m/w", "5000"),
            ("n/w", "5000"),
        ];
        counts
            .iter()
            .all(|(check, count)| says(r, check, "count", count))
    });
    for check in ["x", "y", "z", "m/w", "n/w"] {
        assert_eq!(threads.read(&format!("{check}.wrong")), "0", "{check}");
    }
    assert_eq!(threads.read("q.drops"), "0");
    assert_ne!(threads.read("x.thread"), threads.read("y.thread"));
    threads.end();
}

#[test]
fn what_finds_no_room_between_threads_is_counted() {
    // Nothing tells these sources to wait, and the thread in the middle is not run by anyone.
    let (start, lines) = (Instant::now(), Arc::default());
    let config = "a :: InfiniteSource(LIMIT 2000) -> [0] m :: Counter -> Discard;
        b :: InfiniteSource(LIMIT 1) -> m; StaticThreadSched(a 1, b 0);";
    let mut router = RouterThreads::make(config, RouterThreads::runtime(start, &lines), 2);
    let member = Member {
        runtime: RouterThreads::runtime(start, &lines),
        waker: Box::new(Bed::default()),
    };
    let mut parts = router.divide(Box::new(Bed::default()), Vec::from([member]));
    let mut part = parts.pop().unwrap();
    while part.run(128) == Status::Busy {}
    drop(part);
    // A request for the whole router sees what is under way arrive.
    let drops: u64 = router
        .read(None, "thread_drops", "")
        .unwrap()
        .parse()
        .unwrap();
    let count: u64 = router
        .read(router.find("m"), "count", "")
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(count + drops, 2000);
    assert!(drops > 1000 && count >= 512, "{drops} {count}");
    let said = lines.lock().unwrap().join("\n");
    assert_eq!(
        said,
        "a :: InfiniteSource: overflow: the thread that gets its packets is behind"
    );
    router.unite();
}

#[test]
fn each_thread_goes_its_own_way_through_a_cpu_switch() {
    let mut threads = RouterThreads::new(
        "a :: Numbers(5000) -> s :: CPUSwitch; b :: Numbers(7000) -> s;
         s[0] -> x :: Check -> Discard; s[1] -> y :: Check -> Discard;
         c :: Numbers(300) -> q :: CPUQueue(1000) -> u :: Unqueue -> z :: Check -> Discard;
         StaticThreadSched(a 0, b 1, c 1);",
        2,
    );
    threads.run(|r| says(r, "x", "count", "5000") && says(r, "y", "count", "7000"));
    threads.run(|r| says(r, "z", "count", "300"));
    for check in ["x", "y", "z"] {
        assert_eq!(threads.read(&format!("{check}.wrong")), "0", "{check}");
    }
    assert_ne!(threads.read("x.thread"), threads.read("y.thread"));
    assert_eq!(threads.read("thread_drops"), "0");
    threads.end();
}

#[test]
fn an_exact_cpu_switch_has_an_output_for_each_thread_that_comes() {
    let mut threads = RouterThreads::new(
        "a :: Numbers(500) -> s :: ExactCPUSwitch; b :: Numbers(700) -> s;
         s[0] -> x :: Check -> Discard; s[1] -> y :: Check -> Discard;
         StaticThreadSched(a 0, b 2);",
        3,
    );
    threads.run(|r| says(r, "x", "count", "500") && says(r, "y", "count", "700"));
    for (element, passing) in [("s", "0,2"), ("x", "0"), ("y", "2")] {
        assert_eq!(threads.read(&format!("{element}.passing_threads")), passing);
    }
    assert_ne!(threads.read("x.thread"), threads.read("y.thread"));
    assert_eq!(threads.read("thread_drops"), "0");
    threads.end();
}

#[test]
fn threads_that_share_an_output_of_a_cpu_switch_wait_for_each_other() {
    let config = "a :: InfiniteSource(LIMIT 40000, BURST 5000) -> s :: CPUSwitch;
         b :: InfiniteSource(LIMIT 40000, BURST 5000) -> s;
         s[0] -> c :: Counter -> Discard; StaticThreadSched(a 0, b 1);";
    let mut threads = RouterThreads::new(config, 2);
    threads.run(|r| says(r, "c", "count", "80000"));
    threads.end();
    assert_eq!(threads.read("thread_drops"), "0");
}

#[test]
fn a_pipeliner_and_what_is_behind_it_are_on_its_thread() {
    let config = |home: &str| {
        format!(
            "a :: Numbers(500) -> p :: Pipeliner -> s :: CPUSwitch; b :: Numbers(700) -> p;
             s[0] -> x :: Counter -> Discard; s[1] -> y :: Counter -> Discard;
             StaticThreadSched(a 1, b 2{home});"
        )
    };
    for (home, counts) in [("", ["1200", "0"]), (", p 1", ["0", "1200"])] {
        let mut threads = RouterThreads::new(&config(home), 3);
        threads.run(|r| says(r, "p", "count", "1200"));
        threads.end();
        assert_eq!([threads.read("x.count"), threads.read("y.count")], counts);
        assert_eq!(threads.read("thread_drops"), "0");
    }
}

#[test]
fn threads_wait_for_a_blocking_pipeliner() {
    // A burst of `b` is more than a ring holds.
    let config = "a :: RatedSource(RATE 1000000, LIMIT 40000) -> p :: Pipeliner(BLOCKING true)
             -> q :: Pipeliner(BLOCKING true) -> c :: Counter -> Discard;
         b :: InfiniteSource(LIMIT 40000, BURST 20000) -> p;
         StaticThreadSched(a 1, b 2, p 3, q 0);";
    let mut threads = RouterThreads::new(config, 4);
    // Handlers of all threads stop the world while threads wait.
    threads.run(|r| says(r, "a", "count", "40000") && says(r, "b", "count", "40000"));
    threads.run(|r| says(r, "c", "count", "80000"));
    threads.end();
    assert_eq!(threads.read("thread_drops"), "0");
}

#[test]
fn threads_in_a_circle_do_not_wait_for_each_other() {
    let config = "a :: RatedSource(RATE 1000000, LIMIT 20000) -> p :: Pipeliner(BLOCKING true) -> q :: Pipeliner(BLOCKING true)
             -> c :: Counter -> Discard;
         StaticThreadSched(a 0, p 1, q 0);";
    let mut threads = RouterThreads::new(config, 2);
    threads.run(|r| says(r, "a", "count", "20000"));
    threads.end();
}

#[test]
fn balancing_spreads_tasks() {
    let source = |n| format!("s{n} :: InfiniteSource(BURST 64) -> Discard;");
    let config: String = (0..4).map(source).collect();
    let mut threads = RouterThreads::new(&(config + "BalancedThreadSched(20);"), 2);
    let homes = |threads: &mut RouterThreads| -> Vec<String> {
        (0..4)
            .map(|n| threads.read(&format!("s{n}.home_thread")))
            .collect()
    };
    assert_eq!(homes(&mut threads), ["0"; 4]);
    threads.run(|router| {
        let mut sources = (0..4).map(|n| format!("s{n}"));
        sources.any(|source| says(router, &source, "home_thread", "1"))
    });
    threads.end();
}

#[test]
fn tasks_that_pull_from_one_queue_stay_together() {
    let mut threads = RouterThreads::new(
        "Numbers(100) -> q :: Queue; q -> u :: Unqueue -> Discard; q -> v :: Unqueue -> Discard;
         StaticThreadSched(u 0, v 1);",
        2,
    );
    assert_eq!(threads.read("u.home_thread"), "0");
    assert_eq!(threads.read("v.home_thread"), "0");
    threads.end();
    let said = threads.lines.lock().unwrap().join("\n");
    assert_contains(&said, "‘v :: Unqueue’ runs on thread 0, not 1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Chains of queues over threads in any order pass everything on, in order, while handlers are
    /// called and tasks moved.
    #[test]
    fn chains_over_threads_lose_nothing(
        stages in prop::collection::vec((0u16..3, 1usize..40), 1..5),
        (source, first) in (0u16..3, 1usize..80),
        moves in prop::collection::vec((0usize..5, 0u16..3), 0..6),
    ) {
        let mut config = String::from("s :: Numbers(2000)");
        let mut homes = format!("StaticThreadSched(s {source}");
        for (i, (thread, burst)) in stages.iter().enumerate() {
            // Sources wait when a queue is full, but Unqueue does not.
            let capacity = if i == 0 { first } else { 2000 };
            config += &format!(" -> q{i} :: Queue({capacity}) -> u{i} :: Unqueue(BURST {burst})");
            homes += &format!(", u{i} {thread}");
        }
        config += " -> c :: Check -> Discard; ";
        let mut threads = RouterThreads::new(&(config + &homes + ");"), 3);
        let mut moves = moves.into_iter();
        let mut last = Instant::now();
        threads.run(|router| {
            if last.elapsed() < Duration::from_millis(1) {
                return false;
            }
            last = Instant::now();
            if let Some((stage, thread)) = moves.next() {
                let id = router.find(&format!("u{}", stage % stages.len()));
                router.write(id, "home_thread", &thread.to_string()).unwrap();
            }
            says(router, "c", "count", "2000")
        });
        prop_assert_eq!(threads.read("c.wrong"), "0");
        threads.end();
    }
}

#[cfg(feature = "host")]
#[test]
fn packets_know_the_thread_that_they_come_from() {
    let file = crate::userlevel::testing::TempFile::new("threads");
    let path = file.path().display();
    let dump = |port: u16| {
        std::format!(
            "FromIPSummaryDump(DATA \"!data src sport dst dport proto\n1.1.1.1 {port} 2.2.2.2 2 U\")"
        )
    };
    let (first, second) = (dump(5), dump(6));
    let mut threads = RouterThreads::new(
        &std::format!(
            "m :: ThreadIPMapper(1.0.0.1 1024-30000# - - 0 0, 1.0.0.1 30001-65535# - - 0 0);
             a :: {first} -> rw :: UDPRewriter(m);
             b :: {second} -> rw;
             rw -> d :: ToIPSummaryDump({path}, FIELDS thread sport, HEADER false)
                -> k :: Counter -> Discard;
             StaticThreadSched(a 0, b 1);"
        ),
        2,
    );
    threads.run(|r| says(r, "k", "count", "2"));
    threads.end();
    threads.write("d.flush", "");
    let text = String::from_utf8(file.read()).unwrap();
    let mut lines: std::vec::Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 1024", "1 30001"]);
}
