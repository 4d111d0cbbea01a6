//! Any process of a cluster is killed at random points of mixed work: what was wanted is there then, nothing is there
//! twice, and nothing is left. `make soak` does this many times.

use std::collections::BTreeSet;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Dice, LIMIT, assert_contains, until};
use crate::net::Net;

/// Rounds, unless `WEIR_ROUNDS` says otherwise.
const ROUNDS: u64 = 20;
/// Rounds after which all must be as it was wanted.
const LOOK: u64 = 10;
/// The names that guests have.
const GUESTS: u64 = 8;

const WIRE: &str = "
wire = 'edge'

[stub.edge]

[guest.inside]
config = 'Idle -> Discard;'
interfaces = { port = 'in0' }
isolation = 'process'

[vnic.in0]
link = 'edge'
";

/// What is wanted, and how it is come by.
struct Work {
    net: Net,
    dice: Dice,
    config: String,
    wire: String,
    guests: BTreeSet<String>,
    has_wire: bool,
}

/// A command under way, and what it says if there is nothing left to be done.
struct Job {
    words: String,
    over: &'static str,
    child: Child,
}

impl Work {
    fn new() -> Work {
        let mut net = Net::new("kills", 3, 3);
        net.cluster("--policy vm_evenly_distributed");
        let config = net.hosts[0].config("idle.click", "Idle -> c :: Counter -> Discard;");
        let wire = net.hosts[0].config("edge.toml", WIRE);
        Work {
            net,
            dice: Dice(18),
            config,
            wire,
            guests: BTreeSet::new(),
            has_wire: false,
        }
    }

    fn start(&self, words: &str) -> Child {
        let words: Vec<_> = words.split(' ').collect();
        let mut command = self.net.hosts[0].weir(&words);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Begins something that is to be done, about none of what the round's other job is about.
    fn begin(&mut self, job: u64) -> Job {
        let guest = format!("g{}", 2 * self.dice.below(GUESTS / 2) + job);
        let host = ["a", "b", "c"][self.dice.below(3) as usize];
        let (words, over) = match self.dice.below(8) {
            0..=2 if !self.guests.contains(&guest) => {
                let (config, name) = (&self.config, &guest);
                let create = format!(
                    "create --cluster {name} {config} --isolation process --restart always"
                );
                self.guests.insert(guest);
                (create, "there is a guest")
            }
            0..=1 if self.guests.remove(&guest) => {
                (format!("destroy --cluster {guest}"), "there is no guest")
            }
            3 if self.guests.contains(&guest) => {
                // It may be there, or on its way elsewhere: any reason counts.
                (format!("migrate --cluster {guest} {host}"), "")
            }
            4 => (format!("host maintain {host} --no-wait"), ""),
            5 if job == 1 => (format!("host activate {host}"), ""),
            5 if self.has_wire => {
                self.has_wire = false;
                ("wire delete --cluster edge".into(), "there is no wire")
            }
            5 => {
                self.has_wire = true;
                (format!("wire apply --cluster {}", self.wire), "")
            }
            _ => (format!("host activate {host}"), ""),
        };
        let child = self.start(&words);
        Job { words, over, child }
    }

    /// Waits until a job is done, however often it must be begun again.
    fn finish(&mut self, mut job: Job) {
        let start = Instant::now();
        loop {
            let output = job.child.wait_with_output().unwrap();
            if is_done(&job.words, job.over, &output) {
                return;
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let late = start.elapsed() > 2 * LIMIT;
            assert!(!late, "{}: {said}\n{}", job.words, self.net.logs());
            std::thread::sleep(Duration::from_millis(200));
            job.child = self.start(&job.words);
        }
    }

    /// Kills something, and starts it again if that is the service manager's affair.
    fn kill(&mut self, job: &mut Job) {
        let host = self.dice.below(3) as usize;
        match self.dice.below(8) {
            0 => _ = job.child.kill(),
            1 => {
                self.net.kill_agent(host);
                self.net.start_agent(host);
            }
            2 => {
                let node = &mut self.net.hosts[host];
                node.end("-KILL");
                node.start();
            }
            3 => kill_any(self.net.switch(host)),
            4 => {
                let member = self.dice.below(3) as usize;
                self.net.etcd[member] = None;
                self.net.start_etcd(member);
            }
            5 => kill_any(self.net.guest_process(host, self.dice.below(64))),
            // The agent or its guard.
            _ => {
                let processes = self.net.agent_processes(host);
                let which = self.dice.below(processes.len().max(1) as u64);
                kill_any(processes.get(which as usize).copied());
            }
        }
    }

    /// Whether each guest that is wanted runs, and no other.
    fn check(&mut self) {
        for host in ["a", "b", "c"] {
            let job = format!("host activate {host}");
            let child = self.start(&job);
            let (words, over) = (job, "");
            self.finish(Job { words, over, child });
        }
        let wanted = self.guests.len() + usize::from(self.has_wire);
        let guests = self.net.settles(0, wanted);
        let names: BTreeSet<_> = guests.into_keys().filter(|it| it != "inside").collect();
        assert_eq!(names, self.guests);
    }
}

fn is_done(words: &str, over: &str, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let may_fail = words.starts_with("migrate ") && output.status.code().is_some();
    output.status.success() || may_fail || (!over.is_empty() && said.contains(over))
}

/// Kills a process that may have ended already.
fn kill_any(pid: Option<u32>) {
    let Some(pid) = pid.and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) else {
        return;
    };
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn kills_of_any_process_leave_what_was_wanted_and_nothing_twice() {
    let rounds = std::env::var("WEIR_ROUNDS").map_or(ROUNDS, |it| it.parse().unwrap());
    let mut work = Work::new();
    for round in 1..=rounds {
        let mut jobs = [work.begin(0), work.begin(1)];
        let pause = work.dice.below(400);
        std::thread::sleep(Duration::from_millis(pause));
        let victim = work.dice.below(2) as usize;
        work.kill(&mut jobs[victim]);
        for job in jobs {
            work.finish(job);
        }
        if round % LOOK == 0 {
            work.check();
            println!("round {round}: {} guests", work.guests.len());
        }
    }
    work.check();

    if work.has_wire {
        work.net.hosts[0].ok("wire delete --cluster edge");
    }
    if !work.guests.is_empty() {
        work.net.hosts[0].ok("destroy --cluster *");
    }
    for number in 0..3 {
        until("guests are left", || work.net.running(number).is_empty());
        until("VNICs are left", || {
            work.net.hosts[number].ok("vnic show -p -o vnic").is_empty()
        });
    }
    assert!(work.net.guests(0).is_empty());
    let left = work.net.etcd_keys("");
    for folder in ["guests/", "placements/", "orders/", "status/", "wires/"] {
        assert!(!left.contains(folder), "{left}");
    }
    assert_contains(&left, "hosts/");
}
