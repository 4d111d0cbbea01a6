//! A guest whose host is lost goes on elsewhere with the state of its last checkpoint.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::until;
use crate::net::Net;

/// A source that can be stopped, so that the count is that of the checkpoint or of a new start.
const COUNTS: &str = "s :: RatedSource(RATE 1000) -> c :: Counter -> Discard;";

/// The same in a wire, with a VNIC.
const WIRE: &str = "
wire = 'state'

[stub.lan2]

[vnic.kept0]
link = 'lan2'

[guest.kept]
config = 'COUNTS FromNetfront(lan) -> Discard; Idle -> ToNetfront(lan);'
interfaces = { lan = 'kept0' }
isolation = 'process'
";

#[test]
fn the_state_of_a_guest_survives_its_host() {
    let mut net = Net::new("checkpoint", 3, 1);
    net.cluster("");
    let counts = net.hosts[0].config("counts.click", COUNTS);
    let create = |guest: &str| {
        format!("create --cluster {guest} {counts} --isolation process --on b,c --together pair")
    };
    net.hosts[0].refuses(
        &format!("{} --checkpoint 10ms", create("no")),
        "a checkpoint every 0 s cannot be: it has 1 to 86400 s",
    );
    let wire = WIRE.replace("COUNTS", COUNTS);
    let wire = net.hosts[0].config("state.toml", &wire);
    net.hosts[0].ok(&format!(
        "wire apply --cluster {wire} --on b,c --together pair --checkpoint 1s"
    ));
    net.hosts[0].ok(&create("lost"));
    let mac = |host: &str| {
        let number = usize::from(host == "c") + 1;
        net.hosts[number].ok("vnic show kept0 -p -o mac")
    };
    let read = |guest: &str, handler: &str| -> String {
        let value = net.hosts[0].ok(&format!("read --cluster {guest} {handler}"));
        value.trim().into()
    };
    let count = |guest: &str| read(guest, "c.count").parse::<u64>().unwrap();
    for guest in ["kept", "lost"] {
        until("the guest does not count", || count(guest) > 100);
        net.hosts[0].ok(&format!("write --cluster {guest} s.active false"));
    }
    let (counted, stopped) = (count("kept"), now_ms());
    until("there is no checkpoint", || {
        checkpoint(&net, "kept") > stopped
    });
    assert_eq!(checkpoint(&net, "lost"), 0);

    let (at, _) = net.guests(0)["kept"].clone();
    let address = mac(&at);
    net.connect(usize::from(at == "c") + 1, false);
    until("the guests do not run elsewhere", || {
        let guests = net.guests(0);
        guests
            .values()
            .all(|(host, state)| *host != at && state == "running")
    });
    assert_eq!(read("lost", "s.active"), "true");
    assert_eq!(read("kept", "s.active"), "false");
    assert_eq!(count("kept"), counted);
    let (now, _) = net.guests(0)["kept"].clone();
    assert_eq!(mac(&now), address);
    // The host that has it now saves it as well; with the guest, all of it goes.
    let moved = now_ms();
    until("there is no new checkpoint", || {
        checkpoint(&net, "kept") > moved
    });
    net.hosts[0].ok("wire delete --cluster state");
    assert_eq!(checkpoint(&net, "kept"), 0);
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() as u64
}

/// When a guest was saved last, in milliseconds; 0: never.
fn checkpoint(net: &Net, guest: &str) -> u64 {
    let times = (0..net.hosts.len()).filter_map(|host| {
        let key = format!("/weir/checkpoints/{}/{guest}", net.name(host));
        let value: serde_json::Value = serde_json::from_str(&net.etcd_value(&key)).ok()?;
        value["saved-ms"].as_u64()
    });
    times.max().unwrap_or(0)
}
