//! Crash reports: what is kept of guests that crashed.

use node::model::CrashReport;

use crate::common::{Host, assert_contains, kill, until};

/// A guest that prints, and then spends its CPU on a burst without end, which the watchdog stops.
const ENDLESS: &str = "
say :: Script(TYPE PASSIVE, print \"said $1\");
s :: RandomSource(1800, BURST 2000000000, ACTIVE false)
  -> Discard;
";

/// Behind each wall, by a signal of its own.
#[test]
fn a_guest_that_is_killed_by_a_signal_is_told_with_that_signal() {
    let host = Host::new();
    let config = host.config("idle.click", "Idle -> c :: Counter -> Discard;");
    for wall in ["vm", "process"] {
        for signal in ["SEGV", "BUS", "FPE", "ABRT", "SYS", "TERM", "KILL"] {
            let guest = format!("{wall}-{signal}");
            host.ok(&format!(
                "create {guest} {config} --isolation {wall} --restart never"
            ));
            let pid = host.ok(&format!("ls -p -o pid {guest}"));
            kill(&format!("-{signal}"), pid.trim().parse().unwrap());
            until("it runs", || {
                host.ok(&format!("ls {guest} -p -o state")) == "crashed\n"
            });
            let killed = format!("the guest's process was killed by SIG{signal}");
            host.shows(&format!("ls {guest} -p -o reason"), &format!("{killed}\n"));
            assert_contains(&host.ok(&format!("events {guest}")), &killed);
            assert_contains(&host.ok(&format!("crash show {guest}")), &killed);
        }
    }
    host.refuses("crash rm x*", "no crash report ‘x*’");
    host.refuses("crash rm vm-[", "‘vm-[’ is not a pattern");
    host.ok("crash rm vm-*");
    assert!(
        reports(&host, "")
            .iter()
            .all(|it| it.guest.starts_with("process-"))
    );
    host.ok("crash rm *");
    host.shows("crash ls -p", "");
}

fn reports(host: &Host, arguments: &str) -> Vec<CrashReport> {
    serde_json::from_str(&host.ok(&format!("crash ls --json {arguments}"))).unwrap()
}

#[test]
fn a_crashed_guest_leaves_a_report_that_outlives_it_and_the_node() {
    let mut host = Host::new();
    let config = host.config("endless.click", ENDLESS);
    for wall in ["vm", "process"] {
        // The watchdog may come just between two batches.
        let named = (0..5).any(|_| {
            host.ok(&format!(
                "create fw {config} --isolation {wall} --restart never"
            ));
            host.ok("write fw say.run one");
            let _ = host.weir(&["write", "fw", "s.active", "true"]).output();
            until("it goes on", || host.ok("ls fw -p -o state") == "crashed\n");
            let report: CrashReport =
                serde_json::from_str(&host.ok("crash show --json fw")).unwrap();
            assert_contains(&report.reason, "half a second");
            assert_eq!(report.console, ["said one"]);
            assert_eq!(report.registers["rip"].len(), 16);
            assert!(report.uptime.is_some_and(|seconds| seconds > 0.1));
            host.ok("destroy fw");
            report.element.as_deref() == Some("‘s :: RandomSource’, line 3")
        });
        assert!(named, "{wall}");
    }
    let before = reports(&host, "fw");
    assert!(before.len() >= 2 && before.iter().all(|it| it.registers.is_empty()));
    assert_eq!(before[0].config_hash, before[1].config_hash);
    host.end("-KILL");
    host.start();
    assert_eq!(reports(&host, ""), before, "after the node's restart");
    let text = host.ok("crash show fw");
    for part in ["line 3", "registers:", "rip", "said one", "half a second"] {
        assert_contains(&text, part);
    }
    let oldest = before[0].number;
    host.ok(&format!("crash rm {oldest}"));
    let missing = format!("no crash report ‘{oldest}’: `weir crash ls` lists them");
    host.refuses(&format!("crash show {oldest}"), &missing);
    host.ok("crash rm fw");
    host.shows("crash ls -p", "");
    host.refuses("crash rm fw", "no crash report ‘fw’");
    host.refuses("crash ls fw-[", "‘fw-[’ is not a pattern");
}

#[test]
fn a_guest_that_crashes_again_and_again_leaves_its_last_reports() {
    let host = Host::new();
    let config = host.config("sink.click", "Idle -> Discard;");
    host.ok(&format!("create other {config} --restart never"));
    host.ok(&format!("create fw {config} --restart never"));
    let crash = |guest: &str| {
        let pid = host.ok(&format!("ls {guest} -p -o pid"));
        kill("-KILL", pid.trim().parse().unwrap());
        until("its end is not seen", || {
            host.ok(&format!("ls {guest} -p -o state")) == "crashed\n"
        });
    };
    crash("other");
    for _ in 0..10 {
        crash("fw");
        host.ok("start fw");
    }
    let all = reports(&host, "");
    assert_eq!(all.len(), 9, "8 of one guest, 1 of another");
    assert_eq!(all[0].guest, "other");
    let killed = "the guest's process was killed by SIGKILL";
    assert!(all.iter().all(|it| it.reason.starts_with(killed)));
    assert!(all.windows(2).all(|two| two[0].number < two[1].number));
    assert_eq!(reports(&host, "o*").len(), 1);
    // One that ends in good order leaves none.
    host.ok("crash rm fw other");
    host.ok("write fw stop");
    until("it does not end", || {
        host.ok("ls fw -p -o state") == "halted\n"
    });
    assert!(reports(&host, "").is_empty());
}
