//! Groups of hosts, each with guests and a policy of its own; and what `weir place` shows of many hosts.

use crate::common::{Host, assert_contains};
use crate::net::Net;

#[test]
fn a_group_of_hosts_has_guests_and_a_policy_of_its_own() {
    let mut net = Net::new("groups", 3, 1);
    net.cluster("--policy vm_evenly_distributed");
    let a = &net.hosts[0];
    let idle = a.config("idle.click", "Idle -> c :: Counter -> Discard;");
    let create = |options: &str| format!("create --cluster {options} {idle} --isolation process");
    for (command, why) in [
        (
            "policy set none --group edge".into(),
            "there is no group edge",
        ),
        (create("x --group edge"), "there is no host of group edge"),
        (
            "host group z edge".into(),
            "there is no host z: there are a, b, c",
        ),
    ] {
        assert_contains(&a.refusal(&command), why);
    }
    a.ok("host group b edge");
    a.ok("host group c edge");
    a.refuses(
        "policy set none --group wide",
        "there is no group wide: there are edge",
    );
    // One that fills a host before it takes another.
    let full = a.config(
        "full.toml",
        "filters = ['memory', 'maintenance', 'pinned-host']\nweights = { power-saving-memory = 10 }\n",
    );
    a.ok(&format!("policy create full {full}"));
    a.ok("policy set full --group edge");
    assert_eq!(net.status(0)["policies"]["edge"], "full");
    assert_contains(&a.ok("cluster status"), "(group edge: full)");

    a.ok(&create("--count 2 --name own-{}"));
    a.ok(&create("--count 4 --name edge-{} --group edge"));
    let guests = net.settles(0, 6);
    let hosts_of = |prefix: &str| -> Vec<String> {
        let of = guests.iter().filter(|(guest, _)| guest.starts_with(prefix));
        of.map(|(_, (host, _))| host.clone()).collect()
    };
    assert_eq!(hosts_of("own"), ["a", "a"]);
    let edge = hosts_of("edge");
    assert!(
        edge[0] != "a" && edge.iter().all(|host| *host == edge[0]),
        "{edge:?}"
    );
    for (command, why) in [
        (
            format!("migrate --cluster own-1 {}", edge[0]),
            "runs on the hosts without a group, and host",
        ),
        (
            format!("host group {} wide", edge[0]),
            "and guests stay in their group",
        ),
        (
            create("x --on a --group edge"),
            "host a is not among the hosts of group edge",
        ),
    ] {
        assert_contains(&a.refusal(&command), why);
    }
    // They leave a host for one of their group.
    a.ok(&format!("host maintain {}", edge[0]));
    let guests = net.settles(0, 6);
    let edge = guests.iter().filter(|(guest, _)| guest.starts_with("edge"));
    assert!(edge.clone().all(|(_, (host, _))| host != "a"), "{guests:?}");
    assert_eq!(edge.count(), 4);
    a.ok("destroy --cluster *");
    a.ok("host group b");
    a.shows("host ls -p -o host,group", "a:\nb:\nc:edge\n");
}

#[test]
fn an_explanation_of_many_hosts_is_short() {
    let host = Host::new();
    let hosts: String = (0..60)
        .map(|it| format!("hosts.h{it} = {{ memory = '1G' }}\n"))
        .collect();
    let guests: String = (0..103)
        .map(|it| format!("guests.g{it} = {{ memory = '2G' }}\n"))
        .collect();
    let file = host.config(
        "many.toml",
        &format!("policies.mine = {{ filters = ['memory'] }}\npolicy = 'mine'\n{hosts}{guests}"),
    );
    let shown = host.ok(&format!("place --explain {file}"));
    assert_eq!(shown.matches("may run on no host").count(), 100);
    assert_eq!(shown.matches("and 10 more: --json shows all").count(), 100);
    assert!(shown.ends_with("and 3 guests more: --guest shows one, --json all\n"));
    let all = host.json(&format!("place --explain {file}"));
    assert_eq!(all.as_array().unwrap().len(), 103);
    assert_eq!(all[0]["excluded"].as_array().unwrap().len(), 60);
    host.refuses(
        &format!("place --explain {file} --guest none --json"),
        "has no guest none that is to be placed",
    );
}
