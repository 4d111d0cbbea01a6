//! The shaper between iperf3's client and server: bytes of each class, counted.

use std::process::{Child, Stdio};

use weir::lab::Namespace;

use crate::common::until;
use crate::gateway::{Gateway, command, connect, give6, reaches};

/// iperf3 to a port of a server, until it is killed.
fn iperf(client: &Namespace, to: &str, port: u16) -> Child {
    let words = format!("-c {to} -p {port} -t 60 -P 8");
    let mut iperf = client.command("iperf3", &words);
    iperf.stdout(Stdio::null()).spawn().unwrap()
}

/// How many times the bytes of `rest` the class `first` sent to an address, while both had as much as they could send.
fn ratio(to: &str, arguments: &[&str]) -> f64 {
    let mut gateway = Gateway::new();
    let client = gateway.host("inside", "10.0.0.1/24", None);
    let server = gateway.host("outside", "10.0.0.2/24", None);
    give6(&client, "2001:db8::1/64");
    give6(&server, "2001:db8::2/64");
    let first = ["-p", "first=tcp port 5201", "-p", "rate=24Mbps"];
    let _running = gateway.function("shaper", &[&first[..], arguments].concat());
    assert!(reaches(&client, "10.0.0.2") && reaches(&client, "2001:db8::2"));
    let serve = |port| server.service("iperf3", &format!("-s -p {port}")).unwrap();
    let _servers = [5201, 5202].map(serve);
    until("iperf3 does not listen", || {
        let sockets = command(&server, "ss", "-ltnH");
        [":5201 ", ":5202 "]
            .iter()
            .all(|port| sockets.contains(port))
    });
    let bytes = |class: &str| {
        let said = gateway.weir(&["read", "shaper", &format!("{class}.byte_count")]);
        said.trim().parse::<f64>().unwrap()
    };
    let clients = [5201, 5202].map(|port| iperf(&client, to, port));
    // Bytes are counted from when both are at work until one has sent so many.
    let both = || [bytes("first"), bytes("rest")];
    until("both are at work", || {
        both().iter().all(|bytes| *bytes > 1e6)
    });
    let before = both();
    until("first has sent", || bytes("first") > before[0] + 8e6);
    let after = both();
    for mut client in clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    assert!(bytes("urgent") > 0.0 && bytes("second") == 0.0);
    // What comes back is not held up.
    assert!(connect(&server, "10.0.0.1:80", &client, "0.0.0.0:80").is_some());
    (after[0] - before[0]) / (after[1] - before[1])
}

#[test]
fn classes_share_the_link() {
    let by_shares = ratio("10.0.0.2", &["-p", "first_share=3", "-p", "rest_share=1"]);
    // TCP that loses more sends less, all the more on a busy machine.
    assert!((1.8..30.0).contains(&by_shares), "{by_shares}");
    // Over IPv6, neighbor discovery alone is urgent.
    let by_ceiling = ratio(
        "2001:db8::2",
        &["-p", "first_share=1", "-p", "rest_ceiling=1Mbps"],
    );
    assert!(by_ceiling > 5.0, "{by_ceiling}");
}
