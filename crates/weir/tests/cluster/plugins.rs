//! Plugins that do harm: the leader goes on without them, and says so.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::common::{assert_contains, kill, until};
use crate::failure::child_of;
use crate::net::Net;

/// A filter that hangs.
const HANGS: &str = "
class NAME:
    def do_filter(self, hosts, vm, args):
        while True: pass
";
/// A file that hangs when it is loaded.
const LOADS: &str = "
class loads:
    def do_filter(self, hosts, vm, args):
        return hosts
while True: pass
";
/// A filter that works.
const ONLY_C: &str = "
class only_c:
    def do_filter(self, hosts, vm, args):
        return [host for host in hosts if host == 'c']
";

fn write(net: &Net, name: &str, source: &str) {
    for host in &net.hosts {
        let folder = host.folder.join("plugins");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), source).unwrap();
    }
}

#[test]
fn plugins_that_hang_harm_neither_hosts_nor_decisions() {
    let mut net = Net::new("plugins", 3, 1);
    net.cluster("");
    let a = 0;
    let idle = net.hosts[a].config("idle.click", "Idle -> c :: Counter -> Discard;");
    let create = |name: &str| format!("create --cluster {name} {idle} --isolation process");
    net.hosts[a].ok(&create("--count 6 --name g-{}"));
    net.settles(a, 6);
    let signs = |net: &Net| -> BTreeSet<String> {
        let hosts = ["a", "b", "c"].iter();
        hosts
            .map(|it| net.etcd_value(&format!("/weir/alive/{it}")))
            .collect()
    };
    let before = signs(&net);
    let log = net.folder.join("events");
    let mut events = net.hosts[a].weir(&["cluster", "events", "--follow"]);
    let out = std::fs::File::create(&log).unwrap();
    let mut events = events.stdout(out).stderr(Stdio::null()).spawn().unwrap();

    // They come while a host leads.
    write(&net, "only_c.py", ONLY_C);
    for name in ["one", "two", "three"] {
        write(&net, &format!("{name}.py"), &HANGS.replace("NAME", name));
    }
    let policy = |filters: &str| {
        let text = format!("filters = ['memory', 'pinned-host', 'maintenance', {filters}]\n");
        net.hosts[a].config("policy.toml", &text)
    };
    let mine = policy("'only_c', 'one', 'two', 'three'");
    net.hosts[a].ok(&format!("policy create mine {mine}"));
    net.hosts[a].ok("policy set mine");
    let told = || std::fs::read_to_string(&log).unwrap();
    // The policy is followed as soon as its plugins are loaded.
    let placed = || {
        net.hosts[a].ok(&create("x"));
        let host = net.guests(a)["x"].0.clone();
        net.hosts[a].ok("destroy --cluster x");
        host
    };
    until("the policy is not followed", || placed() == "c");
    until("the plugins that hang are not told of", || {
        // Without the policy, the guest may have come to the same host.
        placed();
        let names = ["one", "two", "three"].iter();
        names
            .clone()
            .all(|it| told().contains(&format!("plugin {it} is left out of decisions by host")))
    });
    assert_contains(&told(), "do_filter did not answer within 2s");

    // A file that cannot be loaded, and a leader that begins with it.
    write(&net, "loads.py", LOADS);
    let leader = net.leader().unwrap();
    let other = (leader + 1) % 3;
    for host in &net.hosts {
        std::fs::remove_file(host.folder.join("plugins/three.py")).unwrap();
    }
    let guard = net.agents[leader].as_ref().unwrap().id();
    kill("-KILL", child_of(guard));
    until("the missing plugins are not told of", || {
        told().contains("is in no file of the folder of plugins")
            && told().contains("plugin loads.py is left out of decisions")
    });
    net.hosts[other].ok(&create("y"));
    assert_eq!(net.guests(other)["y"].0, "c");
    net.settles(other, 7);
    // No host was lost meanwhile but for the one whose agent was killed.
    let after = signs(&net);
    assert!(
        before.intersection(&after).count() >= 2,
        "{before:?} {after:?}"
    );
    let _ = events.kill();
    let _ = events.wait();
}
