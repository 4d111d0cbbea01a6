//! etcd with authentication, and the roles that docs/cluster.md gives to hosts.

use crate::common::until;
use crate::net::Net;

/// The commands of the page that make the roles.
fn commands() -> &'static str {
    let page = include_str!("../../../../docs/cluster.md");
    let mut blocks = page.split("```text\n").skip(1);
    let block = blocks.find(|it| it.contains("etcdctl auth enable"));
    block.unwrap().split("```").next().unwrap()
}

#[test]
fn hosts_with_roles_run_guests_and_do_not_pose_as_others() {
    let mut net = Net::new("roles", 3, 1);
    net.cluster("--policy vm_evenly_distributed");
    let root = net.authority.sign("root", &[]);
    let made = net.etcd_script(&root, commands());
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");

    let [a, b, c] = [0, 1, 2];
    let idle = net.hosts[a].config("idle.click", "Idle -> c :: Counter -> Discard;");
    let create = |name: &str, options: &str| {
        format!("create --cluster {name} {options} {idle} --isolation process")
    };
    // Whichever host leads, guests are placed on all.
    for _ in 0..2 {
        net.hosts[a].ok(&create("--count 3 --name g-{}", ""));
        net.settles(a, 3);
        // One is there already, and the others go.
        net.hosts[a].ok("migrate --cluster g-* b");
        let guests = net.settles(a, 3);
        assert!(guests.values().all(|(host, _)| host == "b"), "{guests:?}");
        net.hosts[a].ok("destroy --cluster g-*");
        let leader = net.leader().unwrap();
        net.kill_agent(leader);
        until("no other host leads", || {
            net.leader_by(c).is_some_and(|it| it != leader)
        });
        net.start_agent(leader);
        until("the host does not return", || net.up().len() == 3);
    }
    net.hosts[a].ok(&create("kept", ""));
    net.settles(a, 1);

    // A host writes of itself, and not of others, nor what operators say.
    let by_b = |command: &str| net.etcd_script(&net.files[b], command).status.success();
    assert!(by_b("etcdctl put /weir/loads/b '{}'"));
    for key in [
        "hosts/a",
        "alive/a",
        "facts/a",
        "loads/a",
        "settings",
        "policies/p",
        "networks/n",
        "wires/w",
    ] {
        assert!(!by_b(&format!("etcdctl put /weir/{key} x")), "{key}");
        assert!(!by_b(&format!("etcdctl del /weir/{key}")), "{key}");
    }
    net.hosts[b].refuses("policy set none", "this certificate's user may not do this");
    assert!(!net.logs().contains("may not do this"), "{}", net.logs());
    // It leaves, and joins again.
    net.hosts[b].ok("host maintain b");
    net.hosts[b].ok("cluster leave");
    let joining = net.joining(b);
    net.hosts[b].ok(&format!("cluster join {joining}"));
}
