//! Guests over hosts while nothing fails, and what is refused.

use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::{Host, assert_contains, until};
use crate::net::{Net, running};

/// A guest that counts, so that one that moves is told from one that was made again.
const COUNTS: &str = "RatedSource(RATE 1000) -> c :: Counter -> Discard;";

#[test]
fn guests_with_long_configurations_come_in_pages() {
    let mut net = Net::new("long", 2, 1);
    net.cluster("--policy vm_evenly_distributed");
    let long = format!("// {}\n{COUNTS}", "long ".repeat(180_000));
    let long = net.hosts[0].config("long.click", &long);
    let create = |name: &str, config: &str| {
        format!("create --cluster --name {name} {config} --isolation process")
    };
    // More than a message of gRPC has by default.
    net.hosts[0].ok(&(create("long-{}", &long) + " --count 6"));
    net.settles(1, 6);
    let short = net.hosts[0].config("short.click", COUNTS);
    net.hosts[1].ok(&(create("short-{}", &short) + " --count 20"));
    net.settles(0, 26);
    net.hosts[1].ok("host maintain b");
    net.hosts[1].ok("destroy --cluster long-*");
    net.hosts[1].ok("destroy --cluster short-*");
    let longer = format!("// {}\n{COUNTS}", "long ".repeat(220_000));
    let longer = net.hosts[0].config("longer.click", &longer);
    let refused = format!("create --cluster longer {longer} --isolation process");
    net.hosts[0].refuses(&refused, "guests/longer has more than 1 MiB");
    assert!(!net.etcd_keys("guests/").contains("longer"));
}

#[test]
fn guests_are_placed_asked_moved_and_removed() {
    let mut net = Net::new("life", 3, 1);
    refusals_of_joining(&net);
    net.cluster("--policy vm_evenly_distributed");
    let [a, b, c] = [0, 1, 2];
    let counts = net.hosts[b].config("counts.click", COUNTS);
    let create = format!("create --cluster {counts} --isolation process");

    // By any host; each gets the same number.
    let start = Instant::now();
    net.hosts[b].ok(&format!("{create} --count 12 --name fw-{{}}"));
    println!("12 guests run after {:?}", start.elapsed());
    let guests = net.settles(a, 12);
    for host in ["a", "b", "c"] {
        let count = guests.values().filter(|(at, _)| at == host).count();
        assert_eq!(count, 4, "{guests:?}");
    }

    // Handlers are asked wherever the guest is.
    for (guest, (host, _)) in &guests {
        let value = net.hosts[a].ok(&format!("read --cluster {guest} c.count"));
        assert!(value.trim().parse::<u64>().is_ok(), "{guest} on {host}");
    }
    let far = guests.iter().find(|(_, (host, _))| host == "c").unwrap().0;
    net.hosts[a].ok(&format!("write --cluster {far} c.reset_counts 1"));
    assert_contains(&net.hosts[a].ok(&format!("show --cluster {far}")), COUNTS);

    // Labels, hosts and groups.
    net.hosts[a].ok("host label c --add ssd");
    net.hosts[a].ok(&format!("{create} --label ssd --count 2 --name ssd-{{}}"));
    net.hosts[a].ok(&format!("{create} --apart web --count 3 --name web-{{}}"));
    let guests = net.settles(a, 17);
    assert!(
        ["ssd-1", "ssd-2"]
            .iter()
            .all(|guest| guests[*guest].0 == "c")
    );
    let apart: BTreeSet<_> = (1..=3).map(|it| &guests[&format!("web-{it}")].0).collect();
    assert_eq!(apart.len(), 3);
    // A fourth waits, and says why.
    net.hosts[a].refuses(
        &format!("{create} --apart web --count 1 --name web-{{}} --first 4"),
        "guest ‘web-4’ waits for a host, and starts when one may run it: no host may run guest web-4: anti-affinity",
    );
    net.hosts[a].ok("destroy --cluster web-2");
    net.settles(a, 17);
    refusals_of_guests(&net, &create);

    // Guests leave a host alive, and return.
    let count = |guest: &str| -> u64 {
        let value = net.hosts[a].ok(&format!("read --cluster {guest} c.count"));
        value.trim().parse().unwrap()
    };
    let on_b = guests.iter().filter(|(_, (host, _))| host == "b");
    let on_b = on_b.filter(|(guest, _)| guest.starts_with("fw"));
    let on_b: Vec<String> = on_b.map(|(guest, _)| guest.clone()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let before: Vec<_> = on_b.iter().map(|guest| count(guest)).collect();
    let start = Instant::now();
    // The one that stays apart from those on all other hosts cannot leave.
    net.hosts[a].ok("destroy --cluster web-*");
    net.hosts[a].ok("host maintain b");
    println!("host b is empty after {:?}", start.elapsed());
    let guests = net.settles(a, 14);
    assert!(guests.values().all(|(host, _)| host != "b"), "{guests:?}");
    for (guest, before) in on_b.iter().zip(before) {
        assert!(count(guest) >= before, "{guest} lost its state");
    }
    assert_eq!(net.up().len(), 3);
    net.hosts[a].ok("host activate b");
    let leader = net.leader().unwrap();
    let other = (leader + 1) % 3;
    let metric = |number: usize, name: &str| net.metric(number, name);
    assert_eq!(metric(leader, "weir_cluster_leader"), Some(1));
    assert_eq!(metric(other, "weir_cluster_leader"), Some(0));
    assert_eq!(metric(other, "weir_cluster_hosts{state=\"up\"}"), None);
    assert!(metric(leader, "weir_cluster_placements_total") >= Some(17));
    assert!(metric(leader, "weir_cluster_evacuations_total") >= Some(on_b.len() as u64));
    until("the hosts are not counted", || {
        metric(leader, "weir_cluster_hosts{state=\"up\"}") == Some(3)
            && metric(leader, "weir_cluster_guests{state=\"waiting\"}") == Some(0)
    });
    until("guests do not return", || {
        let guests = net.guests(a);
        on_b.iter().all(|guest| guests[guest].0 == "b")
    });
    net.settles(a, 14);

    // A host with guests is not removed; one without is, and its agent ends.
    net.hosts[a].refuses("host remove c", "host c has ");
    net.hosts[a].ok("host maintain c --no-wait");
    net.hosts[c].refuses(
        "host remove nowhere",
        "there is no host nowhere: there are a, b, c",
    );
    net.hosts[a].ok("destroy --cluster ssd-*");
    net.hosts[a].ok("host maintain c");
    net.hosts[c].ok("cluster leave");
    let mut agent = net.agents[c].take().unwrap();
    until("the agent goes on", || agent.try_wait().unwrap().is_some());
    assert_eq!(net.up().len(), 2);
    net.hosts[a].ok("destroy --cluster *");
    for number in [a, b, c] {
        until("guests are left", || net.running(number).is_empty());
        assert_eq!(net.hosts[number].view().guests, 0);
    }
}

/// What `init` and `join` refuse; nothing is left of it.
fn refusals_of_joining(net: &Net) {
    let [a, b] = [&net.hosts[0], &net.hosts[1]];
    let joining = net.joining(1);
    b.refuses("host ls", "this host is in no cluster");
    b.refuses("cluster agent", "this host is in no cluster");
    b.refuses("ls --cluster", "this host is in no cluster");
    net.until_etcd();
    b.refuses(
        &format!("cluster join {joining}"),
        "there is no cluster in this etcd: `weir cluster init` makes one",
    );
    let init = |change: &str, to: &str| {
        let joining = net.joining(0).replace(change, to);
        a.refusal(&format!("cluster init {joining}"))
    };
    let endpoint = Net::endpoint(0);
    assert_contains(
        &init(&endpoint, "https://10.98.0.1:1"),
        "it does not answer",
    );
    assert_contains(
        &init(&endpoint, "nonsense"),
        "‘nonsense’ is no address of etcd",
    );
    assert_contains(
        &init(":6640", ""),
        "‘10.98.0.11’ is no address of a node: write HOST:PORT",
    );
    for wrong in ["https://10.98.0.11:6640", "a:b:6640", "[::x]:1", ":6640"] {
        assert_contains(
            &init("10.98.0.11:6640", wrong),
            &format!("‘{wrong}’ is no address of a node"),
        );
    }
    assert_contains(
        &init(
            "--name a ",
            &format!("--name a --site {} ", "x".repeat(300)),
        ),
        "a site of 300 bytes cannot be",
    );
    assert_contains(
        &init("--name a ", "--name a --policy p "),
        "there is no policy p",
    );
    assert_contains(
        &init("--name a ", "--name a --lease 1 "),
        "a lease of 1 s cannot be",
    );
    let expired = net.authority.sign_until("old", &[], 2020);
    let own = &net.files[0];
    let with_old = |text: String| {
        text.replace(
            &own.cert.display().to_string(),
            &expired.cert.display().to_string(),
        )
        .replace(
            &own.key.display().to_string(),
            &expired.key.display().to_string(),
        )
    };
    a.refuses(
        &with_old(format!("cluster init {}", net.joining(0))),
        "it refused the certificate of this host",
    );
    let stranger = crate::common::Authority::new(&net.folder.join("other")).sign("x", &[]);
    let wrong = net.joining(0).replace(
        &own.ca.display().to_string(),
        &stranger.ca.display().to_string(),
    );
    a.refuses(
        &format!("cluster init {wrong}"),
        "its certificate is not signed by",
    );
    assert!(!a.folder.join("state/cluster").exists());

    a.ok(&format!(
        "cluster init {} --name first",
        net.joining(0).replace("--name a ", "")
    ));
    a.refuses(
        &format!("cluster init {}", net.joining(0)),
        "this host is in a cluster already",
    );
    b.refuses(
        &format!("cluster init {joining}"),
        "there is a cluster in this etcd already: `weir cluster join` joins it",
    );
    b.refuses(
        &format!(
            "cluster join {}",
            joining.replace("--name b ", "--name first ")
        ),
        "there is a host first in the cluster already: give this one another name by --name",
    );
    b.refuses(
        &format!(
            "cluster join {}",
            joining.replace("10.98.0.12", "10.98.0.11")
        ),
        "10.98.0.11:6640 is the address of host first",
    );
    assert!(!b.folder.join("state/cluster").exists());
    a.ok("cluster leave");
    // The cluster itself stays in etcd; this one begins anew, beside it.
    assert!(net.etcdctl("del /weir/ --prefix"));
}

/// What is refused of guests, policies and hosts.
fn refusals_of_guests(net: &Net, create: &str) {
    let a = &net.hosts[0];
    for (command, why) in [
        (
            create.replace("create --cluster", "create --cluster fw-1"),
            "there is a guest ‘fw-1’ in the cluster already",
        ),
        (
            "read --cluster none c.count".into(),
            "there is no guest ‘none’ in the cluster",
        ),
        (
            "destroy --cluster none-*".into(),
            "no guest of the cluster matches ‘none-*’",
        ),
        (
            "policy set nothing".into(),
            "there is no policy nothing: there are none, evenly_distributed",
        ),
        (
            "host maintain z".into(),
            "there is no host z: there are a, b, c",
        ),
        (
            "host label a --remove ssd".into(),
            "host a has no label ssd",
        ),
        (
            "policy show nothing --cluster".into(),
            "there is no policy nothing",
        ),
    ] {
        let said = a.refusal(command.trim());
        assert!(said.contains(why), "weir {command}: {said}");
    }
    let wrong = a.config("wrong.click", "Foo -> Discard;");
    a.refuses(
        &format!("create --cluster bad {wrong}"),
        "undeclared element 'Foo'",
    );
    a.refuses("ls --cluster bad", "there is no guest ‘bad’");
    let wrong = a.config("wrong.toml", "filters = ['memory', 'colour']\n");
    a.refuses(
        &format!("policy create mine {wrong}"),
        "there is no filter colour",
    );
    let wrong = a.config(
        "wrong.toml",
        "filters = ['memory']\nweights = { even-guests = 0 }\n",
    );
    a.refuses(
        &format!("policy create mine {wrong}"),
        "a factor is a whole number from 1 to 1000",
    );
    let right = a.config("right.toml", "filters = ['memory', 'pinned-host', 'maintenance', 'anti-affinity', 'labels']\nweights = { even-guests = 1 }\nbalancer = 'even-guests'\n");
    a.ok(&format!("policy create mine {right}"));
    assert_contains(&a.ok("policy ls --cluster"), "mine");
    a.ok("policy set mine");
    a.shows("balance --dry-run -p", "");
    assert_eq!(net.status(0)["policy"], "mine");
    // A guest of the host's own is not touched by one of the cluster of the same name.
    let idle = a.config("idle.click", "Idle -> Discard;");
    a.ok(&format!("create own {idle} --isolation process"));
    a.refuses(
        &format!("create --cluster own {idle} --isolation process --on a"),
        "the host has a guest of this name that is not the cluster's",
    );
    a.ok("destroy --cluster own");
    a.shows("ls own -p -o guest,state", "own:running\n");
    a.ok("destroy own");
}

/// What a host fails to run, another runs. What is the host's own stays as it is.
#[test]
fn a_guest_that_its_host_fails_to_run_runs_on_another() {
    let mut net = Net::new("rescue", 2, 1);
    net.cluster("");
    let a = &net.hosts[0];
    let idle = a.config(
        "idle.click",
        "FromNetfront(port) -> Discard; Idle -> ToNetfront(port);",
    );
    let create = |what: &str| format!("{what} {idle} --link port=lan --isolation process");
    a.ok(&create("create same"));
    a.ok("vnic create -l lan other.port");
    // Both begin where they fail.
    a.ok("host maintain b");
    for name in ["same", "other"] {
        a.refuses(
            &create(&format!("create --cluster {name}")),
            "does not start on a: the host has a ",
        );
    }
    a.ok("host activate b");
    until("the guests do not run on the other host", || {
        let guests = net.guests(0);
        guests
            .values()
            .all(|(host, state)| host == "b" && state == "running")
    });
    a.shows("ls -p -o guest,state", "same:running\n");
    a.ok("vnic show other.port");
    assert_eq!(net.running(1).len(), 2);
    a.ok("destroy --cluster *");
    a.shows("ls -p -o guest,state", "same:running\n");
}

/// A host whose etcd and agent end with the test.
struct Alone(Host, Option<Child>);

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.0.output("cluster leave --force");
        if let Some(agent) = &mut self.1 {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

/// One machine, whose etcd Weir starts by itself.
#[test]
fn one_machine_is_a_cluster_with_an_etcd_of_its_own() {
    let mut alone = Alone(Host::new(), None);
    let host = &alone.0;
    host.ok("cluster init --name alone");
    let early = host.config("early.click", "Idle -> Discard;");
    let create = [
        "create",
        "--cluster",
        "early",
        &early,
        "--isolation",
        "process",
    ];
    let mut creating = host.weir(&create).spawn().unwrap();
    until("there is no guest", || {
        host.ok("ls --cluster -p -o guest") == "early\n"
    });
    host.refuses(
        "read --cluster early x.count",
        "guest ‘early’ waits for a leader: `weir cluster agent` runs a host's agent",
    );
    let agent = host.weir(&["cluster", "agent"]).spawn().unwrap();
    let agent = alone.1.insert(agent);
    until("the host is not up", || {
        host.ok("host ls -p -o host,state") == "alone:up\n"
    });
    creating.wait().unwrap();
    host.ok("destroy --cluster early");
    let idle = host.config("idle.click", "Idle -> Discard;");
    host.ok(&format!(
        "create --cluster --count 3 --name g-{{}} {idle} --isolation process"
    ));
    let owner = host.run().display().to_string();
    assert_eq!(running(&owner).len(), 3);
    // Nobody but this host's root may ask its etcd.
    let context = std::fs::read_to_string(host.folder.join("state/cluster/host.toml")).unwrap();
    let endpoint = context
        .lines()
        .find(|line| line.starts_with("etcd"))
        .unwrap();
    let endpoint = endpoint.split('"').nth(1).unwrap();
    let stranger = std::process::Command::new("etcdctl")
        .args([
            "--endpoints",
            endpoint,
            "--insecure-skip-tls-verify",
            "get",
            "x",
        ])
        .env("ETCDCTL_API", "3")
        .output();
    assert!(!stranger.unwrap().status.success());
    // With guests, it leaves only by force; nothing is left then.
    host.refuses("cluster leave", "host alone has 3 guests");
    host.ok("cluster leave --force");
    until("the agent goes on", || agent.try_wait().unwrap().is_some());
    until("guests are left", || running(&owner).is_empty());
    assert!(!host.folder.join("state/cluster").exists());
}
