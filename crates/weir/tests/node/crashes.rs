//! The node is killed at random points of its work: the next one has every guest that ran, finishes or undoes what was
//! half done, and nothing is left over. `make soak` does this many times.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use node::model::{Guest, GuestState, Vnic, Wire};

use crate::common::{Dice, Host, alive, holds, named, until};

/// Rounds, unless `WEIR_ROUNDS` says otherwise.
const ROUNDS: u64 = 20;
/// Most guests and VNICs of each kind at a time.
const MOST: usize = 6;

/// What there is of a host, by its node.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// State and process.
    guests: BTreeMap<String, (GuestState, Option<u32>)>,
    /// Properties.
    vnics: BTreeMap<String, String>,
    wires: BTreeSet<String>,
}

impl Seen {
    fn of(host: &Host) -> Seen {
        let client = host.client();
        let guests = client.list::<Guest>().unwrap().into_iter();
        let vnics = client.list::<Vnic>().unwrap().into_iter();
        let wires = client.list::<Wire>().unwrap().into_iter();
        Seen {
            guests: guests
                .map(|it| (it.name, (it.status.state, it.status.pid)))
                .collect(),
            vnics: vnics
                .map(|it| (it.name, it.spec.properties.to_string()))
                .collect(),
            wires: wires.map(|it| it.name).collect(),
        }
    }

    /// All resources, with any process.
    fn names(&self) -> Vec<&String> {
        let all = self.guests.keys().chain(self.vnics.keys());
        all.chain(&self.wires).collect()
    }

    /// Whether nothing is under way.
    fn is_settled(host: &Host) -> bool {
        let wires = host.client().list::<Wire>().unwrap();
        let seen = Seen::of(host);
        let starting = |(state, _): &(GuestState, _)| *state == GuestState::Starting;
        !seen.guests.values().any(starting) && wires.iter().all(|it| !it.status.changing)
    }

    /// All but what a job was about.
    fn without(&self, about: &dyn Fn(&str) -> bool) -> Seen {
        let mut rest = self.clone();
        rest.guests.retain(|name, _| !about(name));
        rest.vnics.retain(|name, _| !about(name));
        rest.wires.retain(|name| !about(name));
        rest
    }
}

/// What is asked of the node when it is killed.
#[derive(Clone, Debug)]
enum Job {
    Create(String),
    Destroy(String),
    Stop(String),
    Start(String),
    Restart(String),
    Set(String, String),
    Make(String),
    Delete(String),
    Apply(&'static str),
    Unapply,
}

/// A small network, and the same with other parts.
const WIRES: [&str; 2] = ["one", "two"];
const WIRE: &str = "
wire = 'net'
[stub.@net]
[namespace.@-net]
[vnic.@net0]
link = '@net'
namespace = '@-net'
interface = 'eth0'
addresses = ['10.97.0.1/24']
[vnic.@net1]
link = '@net'
[guest.@net]
config = 'FromNetfront(x) -> Discard;'
interfaces = { x = '@net1' }
";

impl Job {
    /// Something that can be done.
    fn any(dice: &mut Dice, seen: &Seen, host: &Host) -> Job {
        let prefix = &host.prefix;
        let own: Vec<_> = seen
            .guests
            .iter()
            .filter(|(name, _)| name.starts_with('g'))
            .collect();
        let taps: Vec<_> = seen
            .vnics
            .keys()
            .filter(|name| name.starts_with(&format!("{prefix}t")))
            .collect();
        let free = |letter: &str, taken: &dyn Fn(&str) -> bool| {
            let mut names = (0..MOST).map(|n| format!("{letter}{n}"));
            names.find(|name| !taken(name))
        };
        let number = dice.below(100);
        if number < 15 {
            return match seen.wires.is_empty() || dice.below(3) > 0 {
                true => Job::Apply(WIRES[dice.below(2) as usize]),
                false => Job::Unapply,
            };
        }
        if number < 30 {
            let made = free(&format!("{prefix}t"), &|name| seen.vnics.contains_key(name));
            return match (made, dice.below(2)) {
                (Some(made), 0) => Job::Make(made),
                (_, _) if !taps.is_empty() => {
                    Job::Delete(taps[dice.below(taps.len() as u64) as usize].clone())
                }
                _ => Job::Make(format!("{prefix}t0")),
            };
        }
        if number < 40 {
            return Job::Set(
                "kept.eth0".into(),
                format!("maxbw={}M", 1 + dice.below(900)),
            );
        }
        let made = free("g", &|name| seen.guests.contains_key(name));
        if let Some(made) = made
            && (own.len() < 2 || number < 60)
        {
            return Job::Create(made);
        }
        let (name, (state, _)) = own[dice.below(own.len() as u64) as usize];
        let name = name.clone();
        match (number % 3, state) {
            (0, _) => Job::Destroy(name),
            (_, GuestState::Stopped) => Job::Start(name),
            (1, _) => Job::Stop(name),
            _ => Job::Restart(name),
        }
    }

    fn begin(&self, host: &Host, config: &str, wires: &[String; 2]) -> Child {
        let words = match self {
            Job::Create(name) => format!("create {name} {config} --link eth0=lan"),
            Job::Destroy(name) => format!("destroy {name}"),
            Job::Stop(name) => format!("stop {name}"),
            Job::Start(name) => format!("start {name}"),
            Job::Restart(name) => format!("restart {name}"),
            Job::Set(vnic, property) => format!("vnic set-prop -p {property} {vnic}"),
            Job::Make(name) => format!("vnic create -l lan --host {name}"),
            Job::Delete(name) => format!("vnic delete {name}"),
            Job::Apply(which) => {
                let file = &wires[usize::from(*which == WIRES[1])];
                format!("wire apply {file}")
            }
            Job::Unapply => "wire delete net".into(),
        };
        let words: Vec<_> = words.split_whitespace().collect();
        let mut command = host.weir(&words);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Whether something is what the job was about.
    fn is_about(&self, name: &str, host: &Host) -> bool {
        match self {
            Job::Create(guest)
            | Job::Destroy(guest)
            | Job::Stop(guest)
            | Job::Start(guest)
            | Job::Restart(guest) => name == guest || name.starts_with(&format!("{guest}.")),
            Job::Set(vnic, _) | Job::Make(vnic) | Job::Delete(vnic) => name == vnic,
            Job::Apply(_) | Job::Unapply => {
                name == "net" || name.starts_with(&format!("{}net", host.prefix))
            }
        }
    }

    /// Whether the job was done, or left no trace; anything else is told.
    fn was_done(
        &self,
        host: &Host,
        before: &Seen,
        after: &Seen,
        wires: &[String; 2],
    ) -> Result<bool, String> {
        let about = |name: &str| self.is_about(name, host);
        let rest = |seen: &Seen| seen.without(&|name| !about(name));
        let (was, is) = (rest(before), rest(after));
        let nothing = Seen {
            guests: BTreeMap::new(),
            vnics: BTreeMap::new(),
            wires: BTreeSet::new(),
        };
        let odd = || Err(format!("{self:?}: {was:?} became {is:?}"));
        let guest = is.guests.values().next();
        match self {
            Job::Create(_) | Job::Start(_) | Job::Restart(_) => match guest {
                Some((GuestState::Running, Some(pid))) if alive(*pid) && is.vnics.len() == 1 => {
                    Ok(was != is)
                }
                _ if is == was && !matches!(self, Job::Restart(_)) => Ok(false),
                _ => odd(),
            },
            Job::Destroy(_) | Job::Delete(_) if is == nothing => Ok(true),
            Job::Stop(_) if matches!(guest, Some((GuestState::Stopped, None))) => {
                Ok(is.vnics.len() == 1)
            }
            Job::Set(_, property) if is.vnics.values().eq([property]) => Ok(true),
            Job::Make(_) if is.vnics.len() == 1 => Ok(true),
            Job::Unapply if is == nothing => Ok(true),
            // A guest that a step ended is started again when that is taken back.
            Job::Unapply if is.names() == was.names() => Ok(false),
            Job::Apply(which) if is.wires.len() == 1 => {
                let same = |file: &String| host.ok(&format!("wire diff {file}")).is_empty();
                let now = usize::from(*which == WIRES[1]);
                match (same(&wires[now]), same(&wires[1 - now])) {
                    (true, _) => Ok(true),
                    (_, true) if was.wires.len() == 1 => Ok(false),
                    _ => odd(),
                }
            }
            _ if is == was => Ok(false),
            _ => odd(),
        }
    }
}

/// Processes of guests of this host's node.
fn guests(host: &Host) -> BTreeSet<u32> {
    let owner = host.run().display().to_string();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        vmm::guest_of(&command, &owner).is_some() && alive(*pid)
    })
    .collect()
}

/// Interfaces of this namespace that the host's VNICs made.
fn interfaces(host: &Host) -> BTreeSet<String> {
    let names = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let own = format!("{}t", host.prefix);
    names.filter(|name| name.starts_with(&own)).collect()
}

/// Waits until a round's traces are gone: what runs and what is there is what the node says.
fn nothing_is_over(host: &Host, seen: &Seen) {
    let pids: BTreeSet<u32> = seen.guests.values().filter_map(|it| it.1).collect();
    until("guests run that the node does not have", || {
        guests(host) == pids
    });
    let own = format!("{}t", host.prefix);
    let taps = seen.vnics.keys().filter(|name| name.starts_with(&own));
    let taps: BTreeSet<String> = taps.cloned().collect();
    until("interfaces are left", || interfaces(host) == taps);
    let spaces = usize::from(!seen.wires.is_empty());
    until("namespaces are left", || {
        named(&host.prefix).len() == spaces
    });
    let view = host.view();
    assert!(view.damaged.is_empty() && view.unknown_guests.is_empty());
}

#[test]
fn a_node_that_is_killed_at_any_point_of_its_work_leaves_all_of_it_or_none() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds = variable("WEIR_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("WEIR_SEED").unwrap_or(u64::from(std::process::id()) | 1);
    println!("WEIR_SEED={seed}");
    let mut dice = Dice(seed);
    let mut host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    host.ok(&format!("create kept {config} --link eth0=lan"));
    let other = WIRE.replace("10.97.0.1", "10.97.0.2") + "[stub.@netb]\n";
    let wires = [host.file("one.toml", WIRE), host.file("two.toml", &other)];
    let settled = |host: &Host| {
        std::thread::sleep(Duration::from_millis(300));
        holds(host.switch_pid()).0
    };
    let files = settled(&host);
    let switch = host.switch_pid();
    let mut before = Seen::of(&host);
    let mut done = [0; 2];
    // How long a job of each kind takes without other load.
    let mut takes: BTreeMap<_, Duration> = BTreeMap::new();
    for round in 0..rounds {
        let job = Job::any(&mut dice, &before, &host);
        let kind = std::mem::discriminant(&job);
        let kind = format!("{kind:?}");
        let start = Instant::now();
        let mut asked = job.begin(&host, &config, &wires);
        let told = match takes.get(&kind) {
            // The first of its kind is measured.
            None => {
                let told = asked.wait().unwrap().success();
                takes.insert(kind, start.elapsed());
                host.end("-KILL");
                told
            }
            Some(takes) => {
                let takes = takes.as_micros() as u64;
                std::thread::sleep(Duration::from_micros(dice.below(takes * 5 / 4)));
                host.end("-KILL");
                asked.wait().unwrap().success()
            }
        };
        host.start();
        until("it does not settle", || Seen::is_settled(&host));
        let after = Seen::of(&host);
        let about = |name: &str| job.is_about(name, &host);
        assert_eq!(
            before.without(&about),
            after.without(&about),
            "round {round}, {job:?}: something else is changed"
        );
        let was_done = job.was_done(&host, &before, &after, &wires);
        let was_done = was_done.unwrap_or_else(|why| panic!("round {round}: {why}"));
        assert!(
            was_done || !told,
            "round {round}: {job:?} was said to be done"
        );
        nothing_is_over(&host, &after);
        assert_eq!(host.switch_pid(), switch, "round {round}: the switch ended");
        done[usize::from(was_done)] += 1;
        before = after;
    }
    println!("{} left no trace, {} were done", done[0], done[1]);
    // All of it can be removed, and then the switch holds what it held.
    if !before.wires.is_empty() {
        host.ok("wire delete net");
    }
    for name in before.guests.keys().filter(|name| name.starts_with('g')) {
        host.ok(&format!("destroy {name}"));
    }
    for name in before
        .vnics
        .keys()
        .filter(|name| name.starts_with(&host.prefix) && !name.contains("net"))
    {
        host.ok(&format!("vnic delete {name}"));
    }
    until("the switch's descriptors are left", || {
        settled(&host) <= files
    });
    let seen = Seen::of(&host);
    assert_eq!((seen.guests.len(), seen.vnics.len()), (1, 1));
    nothing_is_over(&host, &seen);
}
