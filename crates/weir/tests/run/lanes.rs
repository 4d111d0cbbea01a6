//! A switch of several lanes beneath one guest.

use super::*;

/// UDP packets of 400 flows.
const FLOWS: &str = "import socket
for port in range(400):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(('', 10000 + port))
    link.sendto(b'flow', ('10.77.0.2', 9))
";

#[test]
fn a_guests_links_are_shared_out_among_lanes() {
    // By packet sockets the kernel spreads flows over a queue for each lane; a TAP has one queue,
    // whose lane hands the flows of the others over.
    for kind in ["dev", "tap"] {
        let bench = Bench::new();
        let runner = Runner::default();
        let (one, two) = match kind {
            "dev" => hosts(&bench),
            _ => (
                Namespace::new(&runner).unwrap(),
                Namespace::new(&runner).unwrap(),
            ),
        };
        // All packets fit a ring, should the guest get a processor late.
        let options = ["--lanes", "2", "--ring-slots", "1024"];
        let mut running = bench.wire(BOTH_WAYS, kind, &options);
        if kind == "tap" {
            // The devices go into the namespaces and keep their queues.
            for (host, letter, address) in [(&one, 'a', "10.77.0.1"), (&two, 'b', "10.77.0.2")] {
                let name = bench.interface(letter);
                let run = |command| runner.run(command, LIMIT).unwrap();
                run(ip(&format!("link set {name} netns {}", host.pid())));
                run(host.command("ip", &format!("addr add {address}/24 dev {name}")));
                run(host.command("ip", &format!("link set {name} up")));
            }
        }
        pings(&one, "10.77.0.2");
        // Some are dropped where the machine is busy.
        until(kind, || {
            let mut send = one.command("python3", "-c");
            send.arg(FLOWS);
            runner.run(send, LIMIT).unwrap();
            bench.read("there.count").parse::<u64>().unwrap() >= 400
        });
        running.interrupt();
        let ended = event(&mut running.lines);
        let lanes = ended["lanes"].as_array().unwrap();
        assert_eq!(lanes.len(), 2, "{ended}");
        for lane in lanes {
            let moved = lane["frames"].as_u64().unwrap() + lane["handoffs"].as_u64().unwrap();
            assert!(moved > 50, "{kind}: {ended}");
        }
    }
}
