//! Guests with several vCPUs.

use super::*;

/// Each way on a CPU of its own.
const SIDE_BY_SIDE: &str = "fa :: FromNetfront(a) -> there :: Counter -> ToNetfront(b);
fb :: FromNetfront(b) -> back :: Counter -> ToNetfront(a);
StaticThreadSched(fa 0, fb 1);
";

/// What one CPU receives the other sends, either way.
const PIPELINE: &str =
    "fa :: FromNetfront(a) -> there :: Counter -> Queue(500) -> tb :: ToNetfront(b);
fb :: FromNetfront(b) -> back :: Counter -> Queue(500) -> ta :: ToNetfront(a);
StaticThreadSched(fa 0, tb 1, fb 1, ta 0);
";

fn traffic_passes_two(isolation: &str) {
    let bench = Bench::new();
    let (one, two) = hosts(&bench);
    let options = ["--isolation", isolation, "--cpu", "2"];
    let mut running = bench.wire(SIDE_BY_SIDE, "dev", &options);
    pings(&one, "10.77.0.2");
    assert_eq!(bench.read("fa.home_thread"), "0");
    assert_eq!(bench.read("fb.home_thread"), "1");
    for counter in ["there", "back"] {
        let count = bench.read(&format!("{counter}.count"));
        assert!(count.parse::<u32>().unwrap() >= 3);
        bench.write(&format!("{counter}.reset"), "");
    }
    tcp(&one, &two);

    // Both ways on one CPU, then each on the other's.
    bench.write("fb.home_thread", "0");
    assert_eq!(bench.read("fb.home_thread"), "0");
    pings(&one, "10.77.0.2");
    bench.write("fb.home_thread", "1");
    pings(&one, "10.77.0.2");

    bench.write("hotconfig", PIPELINE);
    assert_eq!(bench.read("tb.home_thread"), "1");
    pings(&one, "10.77.0.2");
    tcp(&one, &two);
    let said = bench.refusal(&["write", "wire", "hotconfig", "a :: Nonsense;\n"]);
    assert!(said.contains("unknown element class 'Nonsense'"), "{said}");
    let balanced = format!("{SIDE_BY_SIDE}BalancedThreadSched(INTERVAL 20);");
    bench.write("hotconfig", &balanced);
    pings(&one, "10.77.0.2");
    tcp(&one, &two);

    let guest = running.pid("pid");
    running.interrupt();
    gone(guest);
}

#[test]
fn two_cpus_of_a_virtual_machine_share_a_router() {
    traffic_passes_two("vm");
}

#[test]
fn two_cpus_of_a_process_share_a_router() {
    traffic_passes_two("process");
}

/// A burst without end is not a round of the main loop. Nearly all of it is spent on making packets.
const ENDLESS: &str = "Idle -> Discard;
s :: RandomSource(1800, BURST 2000000000)
  -> Discard;
StaticThreadSched(s 1);
";

/// Runs it to its end, of which it returns what is said.
fn endless(isolation: &str) -> serde_json::Value {
    let bench = Bench::new();
    let config = bench.config("endless.click", ENDLESS);
    let mut running = bench.run(&[
        config.to_str().unwrap(),
        "--isolation",
        isolation,
        "--cpus",
        "2",
    ]);
    loop {
        let next = event(&mut running.lines);
        if next["event"] != "console" {
            return next;
        }
    }
}

#[test]
fn what_ends_a_guest_on_a_cpu_is_told_with_element_and_line() {
    for isolation in ["vm", "process"] {
        // The watchdog may come just between two batches.
        let named = (0..5).any(|_| {
            let ended = endless(isolation);
            assert_eq!(ended["event"], "ended", "{ended}");
            assert_eq!(ended["cpu"], 1, "{ended}");
            let exit = ended["exit"].as_str().unwrap();
            assert!(exit.contains("half a second"), "{exit}");
            assert!(exit.contains("on vCPU 1"), "{exit}");
            ended["element"] == "‘s :: RandomSource’, line 2"
        });
        assert!(named, "{isolation}");
    }
}
