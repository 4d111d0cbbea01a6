//! Plugins, in Python.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::plugins::{Channel, Folder, Limits, Plugin, Process};
use crate::{Decision, Failure};

/// A folder of plugins that goes away with the test.
struct Plugins {
    path: PathBuf,
    folder: Folder,
}

impl Plugins {
    fn new(limits: Limits, files: &[(&str, &str)]) -> Plugins {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scheduler-plugins-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        for (name, source) in files {
            fs::write(path.join(name), source).unwrap();
        }
        let folder = Folder::new(path.clone(), limits);
        Plugins { path, folder }
    }

    fn load(&mut self) -> (Vec<Plugin>, Vec<Failure>) {
        self.folder.plugins().unwrap()
    }
}

impl Drop for Plugins {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A policy of all built-in filters, with plugins as filters, weights and balancer.
fn policy(filters: &[&str], weights: &[&str], balancer: &str) -> Policy {
    let mut policy = Policy::default();
    policy
        .filters
        .extend(filters.iter().map(|name| name.to_string()));
    policy.weights = weights.iter().map(|name| (name.to_string(), 1)).collect();
    policy.balancer = balancer.into();
    policy
}

fn decide(scheduler: &Scheduler, inventory: &Inventory) -> Result<Decision> {
    scheduler.decide(inventory, "vm", &guest(|_| ()), Occasion::Start, true)
}

/// In the shape of oVirt's own samples, without its SDK.
const OVIRT: &str = r#"
from __future__ import print_function
import sys

class max_vms():
    """returns only hosts with less running vms then the maximum"""
    properties_validation = 'maximum_vm_count=[0-9]*;only=h[0-9]+'

    def do_filter(self, hosts, vm, args):
        """Hosts below a number of guests."""
        try:
            most = int(args.get('maximum_vm_count', 100))
            print([host for host in hosts if host.guests < most and host != args.get('only')])
        except Exception as ex:
            print(ex, file=sys.stderr)

    def do_score(self, hosts, vm, args):
        print([(host, 50 if host == 'h2' else 70) for host in hosts])

    def do_balance(self, hosts, args):
        full = max(hosts, key=lambda host: host.guests)
        if full.guests > int(args['maximum_vm_count']):
            print((full.vms[0], [host for host in hosts if host != full]))
"#;

#[test]
fn a_plugin_in_the_shape_of_ovirt_filters_scores_and_balances() {
    let mut folder = Plugins::new(
        Limits::default(),
        &[("max.py", OVIRT), ("_helper.py", "x"), ("notes.txt", "")],
    );
    let (plugins, failures) = folder.load();
    assert_eq!((plugins.len(), failures), (1, vec![]));
    assert_eq!(
        plugins[0].methods[&crate::plugins::Method::Filter],
        "Hosts below a number of guests."
    );
    let mut policy = policy(&["max_vms"], &["max_vms"], "max_vms");
    policy
        .properties
        .insert("maximum_vm_count".into(), "2".into());
    policy.properties.insert("only".into(), "h9".into());
    let scheduler = Scheduler::new("p", policy.clone(), &plugins).unwrap();
    let mut inventory = hosts(3);
    for number in 0..2 {
        inventory
            .book(&format!("full{number}"), guest(|_| ()), 0)
            .unwrap();
    }
    let decision = decide(&scheduler, &inventory).unwrap();
    assert_eq!(
        (decision.placement.host.as_str(), decision.failures),
        ("h2", vec![])
    );
    let explained = scheduler.explain(&inventory, "vm", &guest(|_| ()), Occasion::Start);
    assert_eq!(explained.excluded[0].host, "h0");
    assert_eq!(
        explained.excluded[0].reason,
        "is not among the hosts that plugin max_vms accepts"
    );
    assert_eq!(explained.weights[0].scores[0].score, 50.0);
    // It balances: what it prints is a pair.
    assert!(scheduler.next_move(&inventory).0.is_none());
    inventory.book("full2", guest(|_| ()), 0).unwrap();
    let (moved, failures) = scheduler.next_move(&inventory);
    assert_eq!(failures, vec![]);
    assert_eq!(moved.unwrap().host, "h2");
    // A value that the plugin refuses.
    policy
        .properties
        .insert("maximum_vm_count".into(), "many".into());
    let error = Scheduler::new("p", policy.clone(), &plugins)
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        error,
        "policy p: maximum_vm_count is ‘many’: it matches [0-9]*"
    );
    policy.properties = [("maximum".to_string(), "2".to_string())].into();
    let error = Scheduler::new("p", policy, &plugins)
        .err()
        .unwrap()
        .to_string();
    assert!(error.ends_with("maximum_vm_count, only"), "{error}");
}

#[test]
fn results_may_be_returned_and_facts_are_there() {
    let source = r#"
class facts:
    def do_filter(self, hosts, vm, args):
        assert isinstance(vm, str) and vm == 'vm'
        assert vm.memory == 1 << 30 and vm.processors == 0.5 and vm.anti_labels == []
        assert vm.custom == {'tier': 'gold'}
        one = hosts[0]
        assert one.memory == 16 << 30 and one.memory_booked == 1 << 30 and one.memory_free == 15 << 30
        assert one.links == {'wan': 10**10} and one.rates_booked == {'wan': 0}
        assert one.processors == 8 and one.processors_booked == 0.5 and one.processors_used == 0.5
        return {host for host in hosts if host.custom.get('tier') == vm.custom['tier']}
"#;
    let mut folder = Plugins::new(Limits::default(), &[("facts.py", source)]);
    let (plugins, failures) = folder.load();
    assert_eq!(failures, vec![]);
    let scheduler = Scheduler::new("p", policy(&["facts"], &[], "none"), &plugins).unwrap();
    let mut inventory = hosts(2);
    inventory.book("other", guest(|_| ()), 0).unwrap();
    let gold = Host {
        custom: [("tier".to_string(), "gold".to_string())].into(),
        ..host()
    };
    inventory.set_host("h1", gold).unwrap();
    let wants = guest(|guest| _ = guest.custom.insert("tier".into(), "gold".into()));
    let decision = scheduler
        .decide(&inventory, "vm", &wants, Occasion::Start, true)
        .unwrap();
    assert_eq!(
        (decision.placement.host.as_str(), decision.failures),
        ("h1", vec![])
    );
}

/// A plugin that does `body` in its filter. What it then says; the decision is made without it.
fn left_out(limits: Limits, body: &str) -> String {
    let source = format!(
        "import os, sys, time\nclass bad:\n  def do_filter(self, hosts, vm, args):\n    {body}\n"
    );
    let mut folder = Plugins::new(limits, &[("bad.py", &source)]);
    let (plugins, failures) = folder.load();
    assert_eq!(failures, vec![], "{body}");
    let scheduler = Scheduler::new("p", policy(&["bad"], &[], "none"), &plugins).unwrap();
    let decision = decide(&scheduler, &hosts(2)).unwrap();
    assert_eq!(decision.failures.len(), 1, "{body}");
    let failure = decision.failures[0].to_string();
    let rest = failure
        .strip_prefix("plugin bad: do_filter ")
        .expect(&failure);
    rest.strip_suffix("; it was left out of the decision")
        .expect(rest)
        .into()
}

#[test]
fn a_plugin_that_misbehaves_is_left_out() {
    let limits = || Limits {
        time: Duration::from_secs(5),
        ..Limits::default()
    };
    let said = |body| left_out(limits(), body);
    assert_eq!(said("raise Exception('no')"), "failed: Exception: no");
    assert_eq!(said("print('no', file=sys.stderr)"), "failed: no");
    assert!(said("print('what?')").contains("it printed what?, which is no Python value"));
    assert!(said("return 5").starts_with("answered ‘{\"result\": 5}"));
    assert!(said("return [object()]").contains("TypeError"));
    assert_eq!(said("os._exit(3)"), "ended its process (exit status: 3)");
    assert_eq!(said("sys.exit(3)"), "failed: SystemExit: 3");
    assert!(said("x = bytearray(1 << 40)").contains("MemoryError"));
    assert!(said("x = []\n    while True: x.append(bytearray(1 << 20))").contains("MemoryError"));
    // The runner's own descriptor for answers.
    assert!(said("os.write(3, b'rubbish\\n'); return hosts").starts_with("wrote ‘rubbish"));
    assert!(
        said("os.write(3, b'x' * (5 << 20)); return hosts").starts_with("answered more than 4 MiB")
    );
    let quick = Limits {
        time: Duration::from_millis(300),
        ..Limits::default()
    };
    let began = Instant::now();
    assert_eq!(
        left_out(quick, "time.sleep(60)"),
        "did not answer within 300ms"
    );
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_plugin_is_in_a_jail() {
    let root = rustix::process::geteuid().is_root();
    let limits = || Limits {
        time: Duration::from_secs(5),
        ..Limits::default()
    };
    let said = |body: &str| left_out(limits(), body);
    assert!(said("import socket; socket.socket()").contains("PermissionError"));
    assert!(
        said("os.unshare(0) if hasattr(os, 'unshare') else sys.exit(os.system('unshare -n true'))")
            .contains("failed")
    );
    let file = format!("/tmp/scheduler-plugin-file-{}", std::process::id());
    let wrote = said(&format!(
        "os.write(os.open('{file}', os.O_CREAT | os.O_WRONLY), b'x')"
    ));
    assert!(wrote.contains("PermissionError"), "{wrote}");
    // Not even an empty one is made, nor is one of others changed.
    assert!(fs::remove_file(&file).is_err());
    fs::write(&file, "kept").unwrap();
    let others = [
        format!("os.open('{file}', os.O_RDONLY | os.O_TRUNC)"),
        format!("os.open('{file}', os.O_RDWR)"),
        format!("os.rename('{file}', '{file}-2')"),
        format!("os.truncate('{file}', 0)"),
        "os.mkdir('/tmp/scheduler-plugin-folder')".into(),
        "os.symlink('/', '/tmp/scheduler-plugin-link')".into(),
    ];
    let allowed = fs::Permissions::from_mode(0o666);
    fs::set_permissions(&file, allowed).unwrap();
    for body in others {
        let refused = said(&body);
        assert!(refused.contains("PermissionError"), "{body}: {refused}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    fs::remove_file(&file).unwrap();
    assert!(
        said("raise Exception(open('/proc/self/status').read().split('NoNewPrivs:')[1][:3])")
            .contains('1')
    );
    if root {
        assert!(
            said("raise Exception(os.getpid(), os.getuid() >= 0x70800000, os.getgroups())")
                .contains("(1, True, [])")
        );
        let body = "[os.fork() or time.sleep(9) for _ in range(99)]";
        assert!(said(body).contains("BlockingIOError"), "{}", said(body));
        let body = format!("os.kill({}, 0)", std::process::id());
        assert!(said(&body).contains("ProcessLookupError"));
        assert!(said("open('/etc/shadow')").contains("PermissionError"));
    }
}

#[test]
fn a_process_stays_warm_and_ends_with_its_plugin() {
    let source = "import os\nclass warm:\n  count = 0\n  def do_score(self, hosts, vm, args):\n    warm.count += 1\n    return [(hosts[warm.count % 2], -1)]\n";
    let mut folder = Plugins::new(Limits::default(), &[("warm.py", source)]);
    let (plugins, failures) = folder.load();
    assert_eq!(failures, vec![]);
    let scheduler = Scheduler::new("p", policy(&[], &["warm"], "none"), &plugins).unwrap();
    let inventory = hosts(2);
    for expected in ["h1", "h0", "h1"] {
        assert_eq!(
            decide(&scheduler, &inventory).unwrap().placement.host,
            expected
        );
    }
    // A file that did not change keeps its process, which goes on counting.
    let (plugins, _) = folder.load();
    let again = Scheduler::new("p", policy(&[], &["warm"], "none"), &plugins).unwrap();
    assert_eq!(decide(&again, &inventory).unwrap().placement.host, "h0");
}

#[test]
fn the_processes_of_plugins_end_with_them() {
    let path = std::env::temp_dir().join(format!("scheduler-plugin-{}.py", std::process::id()));
    fs::write(
        &path,
        "class idle:\n  def do_filter(self, hosts, vm, args): return hosts\n",
    )
    .unwrap();
    let process = Process::new(path.clone(), Limits::default());
    assert!(process.exchange("{}").unwrap().contains("error"));
    let pid = process.pid().unwrap();
    let proc = PathBuf::from(format!("/proc/{pid}"));
    assert!(proc.exists());
    drop(process);
    assert!(!proc.exists());
    fs::remove_file(path).unwrap();
}

#[test]
fn a_plugin_is_loaded_again_when_its_file_changes() {
    let choosing = |host: &str| {
        format!(
            "class one:\n  def do_filter(self, hosts, vm, args):\n    return ['{host}', 'elsewhere']\n"
        )
    };
    let mut folder = Plugins::new(Limits::default(), &[("one.py", &choosing("h0"))]);
    let (plugins, failures) = folder.load();
    assert_eq!(failures, vec![]);
    let scheduler = Scheduler::new("p", policy(&["one"], &[], "none"), &plugins).unwrap();
    let inventory = hosts(2);
    assert_eq!(decide(&scheduler, &inventory).unwrap().placement.host, "h0");
    fs::write(folder.path.join("one.py"), choosing("h1") + "\n").unwrap();
    assert_eq!(decide(&scheduler, &inventory).unwrap().placement.host, "h1");
    // What does not load is left out, and named.
    fs::write(folder.path.join("one.py"), "class one(:\n").unwrap();
    let decision = decide(&scheduler, &inventory).unwrap();
    assert!(
        decision.failures[0].to_string().contains("SyntaxError"),
        "{:?}",
        decision.failures
    );
    let (plugins, failures) = folder.load();
    assert!(plugins.is_empty());
    assert!(
        failures[0]
            .to_string()
            .starts_with("plugin one.py: failed before; it is restarted in"),
        "{failures:?}"
    );
    // Mended, it is back at once.
    fs::write(folder.path.join("one.py"), choosing("h0")).unwrap();
    assert_eq!(decide(&scheduler, &inventory).unwrap().failures, vec![]);
    fs::remove_file(folder.path.join("one.py")).unwrap();
    assert!(
        decide(&scheduler, &inventory).unwrap().failures[0]
            .why
            .contains("cannot be read")
    );
}

#[test]
fn a_plugin_that_failed_is_restarted_later() {
    let source = "import os\nclass flaky:\n  def do_filter(self, hosts, vm, args):\n    if args.get('die') == vm: os._exit(1)\n    return hosts\n  properties_validation = 'die=.*'\n";
    let mut folder = Plugins::new(Limits::default(), &[("flaky.py", source)]);
    let (plugins, failures) = folder.load();
    assert_eq!(failures, vec![]);
    let mut policy = policy(&["flaky"], &[], "none");
    policy.properties.insert("die".into(), "fatal".into());
    let scheduler = Scheduler::new("p", policy, &plugins).unwrap();
    let inventory = hosts(2);
    let failures = |name| {
        let decision = scheduler.decide(&inventory, name, &guest(|_| ()), Occasion::Start, true);
        decision.unwrap().failures
    };
    assert_eq!(failures("fine"), vec![]);
    assert_eq!(failures("fatal").len(), 1);
    assert!(
        failures("fine")[0]
            .why
            .contains("failed before; it is restarted in 1 s")
    );
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(failures("fine"), vec![]);
}

/// That the documentation's plugin filters, scores and balances as it says.
pub(super) fn documented(source: &str) {
    let mut folder = Plugins::new(Limits::default(), &[("fewest_guests.py", source)]);
    let (plugins, failures) = folder.load();
    assert_eq!(failures, vec![]);
    let name = "fewest_guests";
    let mut policy = policy(&[name], &[name], name);
    policy
        .properties
        .insert("maximum_vm_count".into(), "2".into());
    let scheduler = Scheduler::new("p", policy, &plugins).unwrap();
    let mut inventory = hosts(3);
    for (number, slot) in [0, 0, 0, 1].into_iter().enumerate() {
        inventory
            .book(&format!("g{number}"), guest(|_| ()), slot)
            .unwrap();
    }
    let explained = scheduler.explain(&inventory, "vm", &guest(|_| ()), Occasion::Start);
    assert_eq!(explained.excluded.len(), 1);
    assert_eq!(explained.host.as_deref(), Some("h2"));
    let (moved, failures) = scheduler.next_move(&inventory);
    assert_eq!((moved.unwrap().host.as_str(), failures), ("h2", vec![]));
}

#[test]
fn a_policy_goes_on_without_plugins_that_are_missing() {
    let source = "class there:\n  properties_validation = 'least=[0-9]+'\n  def do_filter(self, hosts, vm, args): return hosts\n";
    let mut folder = Plugins::new(Limits::default(), &[("there.py", source)]);
    let (plugins, _) = folder.load();
    let mut whole = policy(&["there", "gone"], &["there", "even-guests"], "gone");
    for (name, value) in [("least", "1"), ("HighUtilization", "70"), ("most", "2")] {
        whole.properties.insert(name.into(), value.into());
    }
    assert!(Scheduler::new("p", whole.clone(), &plugins).is_err());
    // It is no weight.
    let (left, missing) = whole.with_only(&plugins);
    assert_eq!(Vec::from_iter(missing), ["gone", "there"]);
    assert!(left.filters.contains(&"there".into()) && !left.filters.contains(&"gone".into()));
    assert_eq!(Vec::from_iter(left.weights.keys()), ["even-guests"]);
    assert_eq!(left.balancer, "none");
    let properties = Vec::from_iter(left.properties.keys());
    assert_eq!(properties, ["HighUtilization", "least"]);
    assert!(Scheduler::new("p", left, &plugins).is_ok());
}
