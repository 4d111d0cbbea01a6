//! What many rounds leave behind, and what an idle host costs.

use std::path::Path;
use std::time::Duration;

use node::model::{Object, Vnic};
use weir::lab::{Namespace, Runner};

use crate::common::{Host, alive, assert_contains, holds, path, until};

#[test]
fn a_thousand_vnics_made_and_deleted_leave_nothing() {
    let host = Host::new();
    host.ok("stub create lan");
    let namespace = Namespace::new(&Runner::default()).unwrap();
    let client = host.client();
    let round = |i: u32| {
        let mut vnic = Vnic {
            link: "lan".into(),
            properties: "maxbw=10M".parse().unwrap(),
            ..Vnic::default()
        };
        match i % 4 {
            0 => {}
            1 => vnic.vhost_user = Some(host.folder.join("v.sock")),
            _ => vnic.namespace = Some(path(&namespace)),
        }
        let made = client.create(&Object::new(format!("v{i}"), vnic)).unwrap();
        client.delete::<Vnic>(&made.name).unwrap();
    };
    // Tables and pools reach their sizes first.
    (0..100).for_each(round);
    let view = host.view();
    let (node, switch) = (view.pid, view.switch_pid.unwrap());
    // The last connections are closed a moment after they are done with.
    let held = || [node, switch].map(holds);
    std::thread::sleep(Duration::from_millis(200));
    let before = held();
    (100..1100).for_each(round);
    until("descriptors are left", || {
        std::iter::zip(held(), before).all(|(now, before)| now.0 <= before.0)
    });
    let after = held();
    // A leak of 1 KiB a round would be 1000.
    for (after, before) in std::iter::zip(after, before) {
        assert!(after.1 < before.1 + 900, "{before:?} {after:?}");
    }
    let links = namespace.command("ip", "-o link").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&links.stdout).lines().count(), 1);
    assert!(!host.folder.join("v.sock").exists());
    assert_eq!(host.view().vnics, 0);
}

#[test]
fn guests_made_and_destroyed_leave_nothing_and_a_purge_neither() {
    let mut host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    let name = format!("wp{}n{}", std::process::id(), host.number);
    host.ok(&format!("vnic create -l lan --host {name}"));
    let round = |host: &Host| {
        host.ok(&format!("create g {config} --link eth0=lan"));
        host.ok("destroy g");
    };
    (0..5).for_each(|_| round(&host));
    let view = host.view();
    let (node, switch) = (view.pid, view.switch_pid.unwrap());
    // The process that is made ready for the next guest is there or not.
    let held = || [node, switch].map(|pid| holds(pid).0);
    std::thread::sleep(Duration::from_millis(200));
    let before = held();
    (0..30).for_each(|_| round(&host));
    until("descriptors are left", || {
        std::iter::zip(held(), before).all(|(now, before)| now <= before)
    });
    host.ok(&format!("create g {config} --link eth0=lan"));
    let guest: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    let nothing_is_left = |host: &Host| {
        for folder in ["run", "state"] {
            let folder = std::fs::read_dir(host.folder.join(folder)).unwrap();
            let left: Vec<_> = folder.collect();
            assert!(left.is_empty(), "{left:?}");
        }
    };
    host.ok("node --purge");
    nothing_is_left(&host);
    let mut ended = host.node.take().unwrap();
    assert!(ended.wait().unwrap().success());
    assert!(!alive(guest) && !alive(switch));
    assert!(!Path::new("/sys/class/net").join(&name).exists());
    // Without a node that runs, too.
    host.start();
    host.ok("stub create lan");
    host.ok(&format!("create g {config} --link eth0=lan"));
    let guest: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    let switch = host.switch_pid();
    host.end("-KILL");
    assert!(alive(guest) && alive(switch));
    host.ok("node --purge");
    assert!(!alive(guest) && !alive(switch));
    nothing_is_left(&host);
    host.start();
    assert_eq!(host.view().guests, 0);
}

/// Processor time that a process used so far, in seconds.
fn used(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // utime and stime, the 14th and 15th of all fields.
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn nobody_uses_the_processor_while_there_is_nothing_to_do() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config(
        "sink.click",
        "FromNetfront(eth0) -> c :: Counter -> Discard;",
    );
    for i in 0..10 {
        host.ok(&format!("create g{i} {config} --link eth0=lan"));
    }
    assert_eq!(host.ok("read g3 c.count"), "0\n");
    let view = host.view();
    let pids = [view.pid, view.switch_pid.unwrap()];
    std::thread::sleep(Duration::from_millis(500));
    let before = pids.map(used);
    std::thread::sleep(Duration::from_secs(4));
    for ((pid, before), what) in pids.into_iter().zip(before).zip(["node", "switch"]) {
        let used = used(pid) - before;
        println!("the {what} used {used:.2} s of 4");
        assert!(used <= 0.06, "the {what} used {used:.2} s of 4");
    }
    // What an answer costs the node, which looks for it again and again while it is awaited.
    let client = host.client();
    let before = used(view.pid);
    for _ in 0..200 {
        let read = node::model::HandlerRead {
            handler: "c.count".into(),
        };
        client.read("g3", &read).unwrap();
    }
    println!("200 answers took the node {:.2} s", used(view.pid) - before);
}

#[test]
fn ps_shows_each_process_as_what_it_is() {
    let host = Host::new();
    let view = host.view();
    let shown = |pid: u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        String::from_utf8(command).unwrap()
    };
    assert_eq!(shown(view.switch_pid.unwrap()), "weir-switch\0");
    assert_eq!(shown(view.store_pid.unwrap()), "weir-store\0");
    assert_contains(&shown(view.pid), "weir\0node\0");
    host.ok(&format!(
        "create g {}",
        host.config("g.click", "Idle -> Discard;")
    ));
    let pid = host.ok("ls -p -o pid").trim().parse().unwrap();
    let guest = format!("weir-guest: g ({})\0", host.run().display());
    assert_eq!(shown(pid), guest);
}
