//! What fails: hosts, the leader, etcd, agents.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{counted, kill, pinging, pings, until};
use crate::net::{Net, running};

/// Hosts and guests of the test of lost hosts.
const HOSTS: usize = 5;
const GUESTS: usize = 15;

/// Looks again and again whether a guest runs on two hosts at once.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl Watch {
    fn start(net: &Net) -> Watch {
        let owners: Vec<_> = net
            .hosts
            .iter()
            .map(|host| host.run().display().to_string())
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut looks, mut twice) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                let mut seen = BTreeMap::new();
                for owner in &owners {
                    for guest in running(owner) {
                        if let Some(other) = seen.insert(guest.clone(), owner) {
                            twice.push(format!("{guest}: {other} and {owner}"));
                        }
                    }
                }
                looks += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            (looks, twice)
        });
        Watch { stop, thread }
    }

    #[track_caller]
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (looks, twice) = self.thread.join().unwrap();
        println!("looked {looks} times");
        assert!(looks > 10 && twice.is_empty(), "{twice:?}");
    }
}

/// The host with the most guests, but for these.
fn fullest(net: &Net, not: &[usize]) -> usize {
    let hosts = (0..net.hosts.len()).filter(|it| !not.contains(it));
    let fullest = hosts.max_by_key(|it| net.running(*it).len()).unwrap();
    assert!(!net.running(fullest).is_empty());
    fullest
}

#[test]
fn guests_of_a_lost_host_start_elsewhere_and_none_runs_twice() {
    let mut net = Net::new("lost", HOSTS, 3);
    net.cluster("--policy vm_evenly_distributed");
    let idle = net.hosts[0].config("idle.click", "Idle -> c :: Counter -> Discard;");
    net.hosts[0].ok(&format!(
        "create --cluster --count {GUESTS} --name g-{{}} {idle} --isolation process"
    ));
    net.settles(0, GUESTS);

    // Two hosts have traffic, a third is cut off: its guests stop, and then start elsewhere.
    let lost = fullest(&net, &[0, net.leader().unwrap()]);
    let name = net.name(lost);
    let other = net.name((1..HOSTS).find(|it| *it != lost).unwrap());
    net.hosts[0].ok("network create over");
    net.hosts[0].ok(&format!(
        "create --cluster server responder -p ip=10.7.0.1 -p net=10.7.0.0/24 -p pool=10.7.0.200-10.7.0.210 --link port=over --on {other} --isolation process"
    ));
    net.settles(0, GUESTS + 1);
    let user = net.hosts[0].namespace("over", "u0", "10.7.0.100/24", None);
    pings(&user, "10.7.0.1");
    let traffic = pinging(&user, "10.7.0.1", 12);
    let watch = Watch::start(&net);
    net.etcd[2] = None;
    let start = Instant::now();
    net.connect(lost, false);
    until("guests of the lost host do not stop", || {
        net.running(lost).is_empty()
    });
    let stopped = start.elapsed();
    until("guests do not start elsewhere", || {
        let guests = net.guests(0);
        guests
            .values()
            .all(|(host, state)| *host != name && state == "running")
    });
    let restarted = start.elapsed();
    println!("cut off: stopped after {stopped:?}, run elsewhere after {restarted:?}");
    assert!(restarted < Duration::from_secs(10), "{restarted:?}");
    net.start_etcd(2);
    let (sent, came) = counted(traffic);
    println!("{came} of {sent} pings between the others were answered");
    assert!(sent - came <= 1, "{came} of {sent} pings were answered");
    net.connect(lost, true);
    until("the host does not return", || net.up().len() == HOSTS);
    net.settles(0, GUESTS + 1);
    watch.end();

    // The leader's agent is killed, with its guard: another leads.
    let leader = net.leader().unwrap();
    let by = fullest(&net, &[leader]);
    let start = Instant::now();
    net.kill_agent(leader);
    until("no other host leads", || {
        net.leader_by(by).is_some_and(|it| it != leader)
    });
    let led = start.elapsed();
    println!("killed leader: another leads after {led:?}");
    assert!(led < Duration::from_secs(5), "{led:?}");
    net.start_agent(leader);
    until("the host does not return", || net.up().len() == HOSTS);
    net.settles(by, GUESTS + 1);

    // The agent alone is killed: its guard starts it again, and no guest is disturbed.
    let before: Vec<_> = pids(&net, by);
    let guard = net.agents[by].as_ref().unwrap().id();
    for _ in 0..3 {
        kill("-KILL", child_of(guard));
        until("no agent is started", || has_child(guard));
        std::thread::sleep(Duration::from_millis(300));
    }
    net.settles(by, GUESTS + 1);
    assert_eq!(pids(&net, by), before);

    // An agent that hangs and a guard that was killed.
    let watch = Watch::start(&net);
    let hung = fullest(&net, &[0]);
    let name = net.name(hung);
    let guard = net.agents[hung].as_ref().unwrap().id();
    let worker = child_of(guard);
    kill("-STOP", worker);
    until("guests of the host that hangs do not stop", || {
        net.running(hung).is_empty()
    });
    until("guests do not start elsewhere", || {
        let guests = net.guests(0);
        guests
            .values()
            .all(|(host, state)| *host != name && state == "running")
    });
    kill("-CONT", worker);
    until("the host does not return", || net.up().len() == HOSTS);
    net.settles(0, GUESTS + 1);
    watch.end();
    kill("-KILL", guard);
    until("no guard takes over", || has_child(worker));
    net.settles(0, GUESTS + 1);
    // It is no child of the test any more.
    let _ = net.agents[hung].take().unwrap().wait();
    kill("-TERM", worker);
}

fn pids(net: &Net, host: usize) -> Vec<String> {
    let said = net.hosts[host].ok("ls -p -o guest,pid");
    said.lines().map(String::from).collect()
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn has_child(pid: u32) -> bool {
    !children_of(pid).is_empty()
}

pub fn child_of(pid: u32) -> u32 {
    until("there is no child", || has_child(pid));
    children_of(pid)[0]
}

/// A guest that may run nowhere else waits, and is told to run again when its host returns.
#[test]
fn a_guest_that_waits_for_its_host_runs_when_this_returns() {
    let mut net = Net::new("returns", 2, 1);
    net.cluster("");
    let idle = net.hosts[0].config("idle.click", "Idle -> c :: Counter -> Discard;");
    net.hosts[0].ok(&format!(
        "create --cluster pinned {idle} --on b --isolation process"
    ));
    net.settles(0, 1);
    net.connect(1, false);
    until("the guest does not wait", || {
        net.etcd_value("/weir/waiting/pinned").contains("waiting")
    });
    net.connect(1, true);
    net.settles(0, 1);
}

/// A host that is cut off, or returns just when its guests run elsewhere, does not start them by the orders of before.
#[test]
fn a_host_that_was_lost_starts_no_guest_that_runs_elsewhere() {
    let mut net = Net::new("again", 2, 1);
    net.cluster("");
    let idle = net.hosts[0].config("idle.click", "Idle -> c :: Counter -> Discard;");
    let watch = Watch::start(&net);
    // Its agent tries again and again to start them; or etcd answers in the midst of it.
    for cut in [Duration::from_secs(10), Duration::ZERO] {
        net.hosts[0].ok("host maintain a --no-wait");
        net.hosts[0].ok(&format!(
            "create --cluster --count 6 --name g-{{}} {idle} --isolation process"
        ));
        net.hosts[0].ok("host activate a");
        net.settles(0, 6);
        assert_eq!(net.running(1).len(), 6);
        net.connect(1, false);
        until("the guests do not run elsewhere", || {
            let guests = net.guests(0);
            guests
                .values()
                .all(|(host, state)| host == "a" && state == "running")
        });
        std::thread::sleep(cut);
        net.connect(1, true);
        until("the host does not return", || net.up().len() == 2);
        net.settles(0, 6);
        net.hosts[0].ok("destroy --cluster *");
    }
    watch.end();
}

/// A host that leaves while etcd does not answer stays out.
#[test]
fn a_host_that_leaves_without_etcd_stays_out() {
    let mut net = Net::new("leaves", 2, 1);
    net.cluster("");
    let idle = net.hosts[0].config("idle.click", "Idle -> c :: Counter -> Discard;");
    net.hosts[0].ok(&format!(
        "create --cluster --count 2 --name g-{{}} {idle} --isolation process"
    ));
    net.settles(0, 2);
    net.connect(1, false);
    net.hosts[1].ok("cluster leave --force");
    assert!(net.running(1).is_empty());
    let mut agent = net.agents[1].take().unwrap();
    until("the agent goes on", || agent.try_wait().unwrap().is_some());
    net.connect(1, true);
    until("the host is not lost", || net.up().len() == 1);
    net.settles(0, 2);
    net.hosts[0].ok("host remove b");
    let joining = net.joining(1);
    net.hosts[1].ok(&format!("cluster join {joining}"));
    net.start_agent(1);
    until("the host does not join", || net.up().len() == 2);
}

#[test]
fn without_quorum_hosts_go_on() {
    let mut net = Net::new("quorum", 3, 3);
    // On a slow machine, etcd takes some seconds to start, and leases go on.
    let lease = 10;
    net.cluster(&format!("--lease {lease}"));
    let idle = net.hosts[0].config("idle.click", "Idle -> c :: Counter -> Discard;");
    let create = |guest: &str| format!("create --cluster {guest} {idle} --isolation process");
    net.hosts[0].ok(&create("--count 6 --name g-{}"));
    net.settles(0, 6);
    let before: Vec<_> = (0..3).map(|host| pids(&net, host)).collect();

    // One member hangs, the leader too: a command neither fails nor waits for it.
    for etcd in &net.etcd {
        let hung = etcd.as_ref().unwrap().pid();
        kill("-STOP", hung);
        let mut list = net.hosts[1].weir(&["ls", "--cluster"]);
        let mut list = list.stdout(Stdio::null()).spawn().unwrap();
        until("a command waits for a member of etcd that hangs", || {
            list.try_wait().unwrap().is_some()
        });
        kill("-CONT", hung);
        assert!(list.wait().unwrap().success());
    }

    // Leases that were not renewed meanwhile are renewed.
    std::thread::sleep(Duration::from_secs(lease / 2));

    // One member is lost: nothing is.
    net.etcd[0] = None;
    net.hosts[1].ok(&create("more"));
    net.hosts[1].ok("destroy --cluster more");
    // Two are: all goes on, and says so.
    net.etcd[1] = None;
    std::thread::sleep(Duration::from_secs(lease + 4));
    let after: Vec<_> = (0..3).map(|host| pids(&net, host)).collect();
    assert_eq!(after, before, "{}", net.logs());
    assert!(
        net.logs()
            .contains("etcd has no quorum: guests go on as they are")
    );
    let said = net.hosts[0].output("cluster status");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("no quorum") || said.contains("does not answer"),
        "{said}"
    );
    net.start_etcd(0);
    net.start_etcd(1);
    net.until_etcd();
    until("hosts do not return", || net.up().len() == 3);
    net.settles(0, 6);
    let after: Vec<_> = (0..3).map(|host| pids(&net, host)).collect();
    assert_eq!(after, before, "{}", net.logs());
    net.hosts[0].ok("destroy --cluster *");
    for number in 0..3 {
        until("guests are left", || net.running(number).is_empty());
    }
    assert!(net.guests(0).is_empty());
}
