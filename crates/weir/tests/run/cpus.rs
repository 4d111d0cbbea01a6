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

fn run(bench: &Bench, config: &str, isolation: &str) -> Running {
    let config = bench.config("wire.click", config);
    let (a, b) = (
        format!("a=dev:{}", bench.interface('a')),
        format!("b=dev:{}", bench.interface('b')),
    );
    bench.run(&[
        config.to_str().unwrap(),
        "--link",
        &a,
        "--link",
        &b,
        "--isolation",
        isolation,
        "--cpu",
        "2",
    ])
}

#[track_caller]
fn read(bench: &Bench, handler: &str) -> String {
    let output = bench.output(&["read", "wire", handler]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{handler}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

#[track_caller]
fn write(bench: &Bench, handler: &str, value: &str) {
    let output = bench.output(&["write", "wire", handler, value]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{handler}: {said}");
}

fn traffic_passes_two(isolation: &str) {
    let bench = Bench::new();
    let (one, two) = hosts(&bench);
    let mut running = run(&bench, SIDE_BY_SIDE, isolation);
    pings(&one, "10.77.0.2");
    assert_eq!(read(&bench, "fa.home_thread"), "0");
    assert_eq!(read(&bench, "fb.home_thread"), "1");
    for counter in ["there", "back"] {
        assert!(
            read(&bench, &format!("{counter}.count"))
                .parse::<u32>()
                .unwrap()
                >= 3
        );
        write(&bench, &format!("{counter}.reset"), "");
    }
    tcp(&one, &two);

    // Both ways on one CPU, then each on the other's.
    write(&bench, "fb.home_thread", "0");
    assert_eq!(read(&bench, "fb.home_thread"), "0");
    pings(&one, "10.77.0.2");
    write(&bench, "fb.home_thread", "1");
    pings(&one, "10.77.0.2");

    write(&bench, "hotconfig", PIPELINE);
    assert_eq!(read(&bench, "tb.home_thread"), "1");
    pings(&one, "10.77.0.2");
    tcp(&one, &two);
    let said = bench.refusal(&["write", "wire", "hotconfig", "a :: Nonsense;\n"]);
    assert!(said.contains("unknown element class 'Nonsense'"), "{said}");
    write(
        &bench,
        "hotconfig",
        &format!("{SIDE_BY_SIDE}BalancedThreadSched(INTERVAL 20);"),
    );
    pings(&one, "10.77.0.2");
    tcp(&one, &two);

    let guest = running.pid("pid");
    running.signal(running.child.id(), "-INT");
    assert!(running.ends().success());
    gone(guest);
}

#[test]
fn two_cpus_of_a_virtual_machine_share_a_router() {
    if not_root() || no_kvm() {
        return;
    }
    traffic_passes_two("vm");
}

#[test]
fn two_cpus_of_a_process_share_a_router() {
    if not_root() {
        return;
    }
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
        if isolation == "vm" && no_kvm() {
            continue;
        }
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
