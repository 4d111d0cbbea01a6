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
fn hosts_with_roles_run_guests_and_speak_of_themselves_only() {
    let mut net = Net::with_role("roles", 3, 1, "peer");
    let [a, b, c] = [0, 1, 2];
    let follows = |host| if host == c { "--follow" } else { "" };
    net.cluster_with("--policy vm_evenly_distributed", follows);
    let root = net.authority.sign("root", &[]);
    let made = net.etcd_script(&root, commands());
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");

    let idle = net.hosts[a].config("idle.click", "Idle -> c :: Counter -> Discard;");
    let create = |name: &str, options: &str| {
        format!("create --cluster {name} {options} {idle} --isolation process")
    };
    // Whichever host leads, guests are placed on all, move, also to and from the one that follows, and are removed.
    for _ in 0..2 {
        net.hosts[a].ok(&create("--count 3 --name g-{}", "--checkpoint 1s"));
        net.settles(a, 3);
        for to in ["b", "c"] {
            net.hosts[a].ok(&format!("migrate --cluster g-* {to}"));
            let guests = net.settles(a, 3);
            assert!(guests.values().all(|(host, _)| host == to), "{guests:?}");
        }
        for guest in ["g-1", "g-2", "g-3"] {
            until("the host that follows saves no guests", || {
                let key = format!("checkpoints/c/{guest}");
                net.etcd_keys("checkpoints/").contains(&key)
            });
        }
        net.hosts[a].ok("destroy --cluster g-*");
        let leader = net.leader().unwrap();
        net.kill_agent(leader);
        until("no other host leads", || {
            net.leader_by(a).is_some_and(|it| it != leader && it != c)
        });
        net.start_agent(leader);
        until("the host does not return", || net.up().len() == 3);
    }
    net.hosts[a].ok(&create("kept", "--on a"));
    net.settles(a, 1);

    // A host that follows writes of itself, and nothing of others, their guests, or what operators say.
    let by_c = |command: &str| net.etcd_script(&net.files[c], command).status.success();
    assert!(by_c("etcdctl put /weir/loads/c '{}'"));
    for key in [
        "alive/a",
        "booked/a",
        "checkpoints/a/kept",
        "facts/a",
        "groups/g",
        "guests/kept",
        "hosts/a",
        "leader",
        "loads/a",
        "members/a/n",
        "networks/n",
        "orders/a/kept",
        "placements/kept",
        "plugins/p",
        "policies/p",
        "reports/a/kept",
        "settings",
        "status/a/kept",
        "waiting/kept",
        "wires/w",
    ] {
        assert!(!by_c(&format!("etcdctl put /weir/{key} x")), "{key}");
        assert!(!by_c(&format!("etcdctl del /weir/{key}")), "{key}");
    }
    // What it reports of a guest that is not on it is not followed.
    let report =
        "etcdctl put /weir/reports/c/kept '{\"id\":\"1\",\"order\":1,\"end\":\"removed\"}'";
    assert!(by_c(report));
    until("the leader does not look at the report", || {
        net.etcd_keys("reports/").trim().is_empty()
    });
    net.settles(a, 1);
    // Nor does what it writes of others' guests stay, or keep anyone from reading, however much it is.
    let junk = |key: &str| {
        format!("head -c 1000000 /dev/zero | tr '\\0' x | etcdctl put /weir/{key} || exit 1;")
    };
    let many: String = (0..6)
        .map(|number| junk(&format!("status/c/j{number}")))
        .collect();
    let others = ["orders/c/kept", "checkpoints/c/kept", "members/c/none"].map(junk);
    assert!(by_c(&(many + &others.concat())));
    net.settles(a, 1);
    // Nor does the number of its keys keep the leader from its work.
    let puts = |folder: &str, from: usize| -> String {
        let puts =
            (from..from + 100).map(|number| format!("put /weir/{folder}/c/k{number} {{}}\n"));
        format!(
            "printf '\n{}\n\n' | etcdctl txn >&2 || exit 1;",
            puts.collect::<String>()
        )
    };
    let folders = ["orders", "status", "reports", "members", "checkpoints"];
    let flood = folders.map(|folder| (0..4).map(|it| puts(folder, 100 * it)).collect::<String>());
    let flooded = net.etcd_script(&net.files[c], &flood.concat());
    assert!(
        flooded.status.success(),
        "{}",
        String::from_utf8_lossy(&flooded.stderr)
    );
    net.hosts[a].ok(&create("more", "--on b"));
    net.hosts[a].ok("destroy --cluster more");
    until("the leader leaves what the host wrote", || {
        let keys = folders.map(|folder| net.etcd_keys(&format!("{folder}/c/")));
        keys.iter().all(|keys| keys.trim().is_empty())
    });
    assert!(!net.logs().contains("the lease may end"), "{}", net.logs());
    // A record of its own that cannot be read is removed as any other, and it joins again.
    assert!(by_c("etcdctl put /weir/hosts/c damaged"));
    net.hosts[a].shows("host ls -p -o host,state", "a:up\nb:up\nc:damaged\n");
    net.hosts[a].refuses("host maintain c", "the record of host c is damaged");
    net.hosts[c].ok("cluster leave");
    let joining = net.joining(c);
    net.hosts[c].ok(&format!("cluster join {joining} --follow"));
    net.start_agent(c);
    until("the host does not return", || net.up().len() == 3);
    // One that may lead neither poses as another, nor does what operators do.
    let by_b = |command: &str| net.etcd_script(&net.files[b], command).status.success();
    for key in ["alive/a", "facts/a", "settings", "policies/p", "wires/w"] {
        assert!(!by_b(&format!("etcdctl put /weir/{key} x")), "{key}");
    }
    net.hosts[b].refuses("policy set none", "this certificate's user may not do this");
    assert!(!net.logs().contains("may not do this"), "{}", net.logs());
    // It leaves, and joins again.
    net.hosts[b].ok("host maintain b");
    net.hosts[b].ok("cluster leave");
    let joining = net.joining(b);
    net.hosts[b].ok(&format!("cluster join {joining}"));
}
