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
    if not_root() {
        return;
    }
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
        let config = bench.config("wire.click", WIRE);
        let [a, b] = ['a', 'b'].map(|letter| {
            let interface = bench.interface(letter);
            format!("{letter}={kind}:{interface}")
        });
        let file = config.to_str().unwrap();
        // All packets fit a ring, should the guest get a processor late.
        let lanes = ["--lanes", "2", "--ring-slots", "1024"];
        let mut running = bench.run(&[&[file, "--link", &a, "--link", &b][..], &lanes].concat());
        if kind == "tap" {
            // The devices go into the namespaces and keep their queues.
            for (host, letter, address) in [(&one, 'a', "10.77.0.1"), (&two, 'b', "10.77.0.2")] {
                let name = bench.interface(letter);
                let limit = Duration::from_secs(10);
                let run = |command| runner.run(command, limit).unwrap();
                run(ip(&format!("link set {name} netns {}", host.pid())));
                run(host.command("ip", &format!("addr add {address}/24 dev {name}")));
                run(host.command("ip", &format!("link set {name} up")));
            }
        }
        pings(&one, "10.77.0.2");
        let start = Instant::now();
        // Some are dropped where the machine is busy.
        loop {
            let mut send = one.command("python3", "-c");
            send.arg(FLOWS);
            runner.run(send, Duration::from_secs(10)).unwrap();
            let read = bench.output(&["read", "wire", "there.count"]);
            let count = String::from_utf8_lossy(&read.stdout).trim().to_string();
            if count.parse::<u64>().is_ok_and(|count| count >= 400) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{kind}: {count}");
            std::thread::sleep(Duration::from_millis(10));
        }
        running.signal(running.child.id(), "-INT");
        assert!(running.ends().success());
        let ended = event(&mut running.lines);
        let lanes = ended["lanes"].as_array().unwrap();
        assert_eq!(lanes.len(), 2, "{ended}");
        for lane in lanes {
            let moved = lane["frames"].as_u64().unwrap() + lane["crossings"].as_u64().unwrap();
            assert!(moved > 50, "{kind}: {ended}");
        }
    }
}
