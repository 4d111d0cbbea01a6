//! What happens between frontends that are not of this program: DPDK's testpmd, iPXE and Linux in
//! QEMU.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use switch::counters::Reason;
use switch::process::Switch;
use switch::protocol::PortId;

use crate::common::{self, Host, join_device, unique, wait_for};
use crate::frontend::feature;
use crate::qemu::{self, Qemu};
use crate::testpmd::{Counted, Testpmd};
use crate::{Socket, linux};

const A: &str = "52:54:00:00:00:0a";
const B: &str = "52:54:00:00:00:0b";
/// Makes a testpmd use packed rings.
pub const PACKED: &str = ",packed_vq=1";

/// Two, with these options of their devices.
pub fn two_testpmds(source_options: &str, sink_options: &str) {
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
    let mut source = Testpmd::start(&a.path, "txonly", A, B, source_options, &[]);
    let mut sink = Testpmd::start(&b.path, "rxonly", B, A, sink_options, &[]);
    for (end, options) in [(&source, source_options), (&sink, sink_options)] {
        let packed = end.features & feature::PACKED != 0;
        assert_eq!(packed, options == PACKED, "{options}: {:x}", end.features);
    }
    sink.forward();
    source.forward();
    for end in [&mut source, &mut sink] {
        let counted = |end: &mut Testpmd| {
            let Counted { received, sent } = end.counted();
            received + sent
        };
        let until = Instant::now() + Duration::from_secs(30);
        while counted(end) < 10_000 {
            assert!(Instant::now() < until, "{:?}", end.counted());
        }
    }
    source.stop();
    let sent = source.counted().sent;
    // All that testpmd counts as sent is in the ring, and taken from there.
    wait_for("all is taken", || client.stats(a.port).frames_in == sent);
    // A frame is counted where it came from before it is where it goes.
    wait_for("all is delivered or counted as lost", || {
        let out = client.stats(b.port);
        out.frames_out + out.dropped(Reason::RingFull) == sent
    });
    wait_for("all is received", || {
        sink.counted().received == client.stats(b.port).frames_out
    });
    for port in [a.port, b.port] {
        assert_eq!(client.stats(port).dropped(Reason::Violation), 0);
    }
}

pub fn a_killed_testpmd_comes_back() {
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
    let mut source = Testpmd::start(&a.path, "txonly", A, B, "", &[]);
    source.forward();
    for _ in 0..2 {
        let mut sink = Testpmd::start(&b.path, "rxonly", B, A, "", &[]);
        sink.forward();
        wait_for("frames arrive", || sink.counted().received > 1000);
        sink.kill();
        let before = client.stats(b.port).dropped(Reason::LinkDown);
        wait_for("frames have nowhere to go", || {
            client.stats(b.port).dropped(Reason::LinkDown) > before
        });
    }
    assert_eq!(client.stats(b.port).dropped(Reason::Violation), 0);
}

pub fn a_guest_of_qemu_fetches_a_file_by_tcp() {
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (host, link) = Host::with_veth("vhq", 1, 1);
    join_device(client, &link, 1);
    let socket = Socket::new(client, "vhq", 1);
    // A script whose last line fetches another file: it was read to its end.
    let mut script = b"#!ipxe\n".to_vec();
    for i in 0..40_000 {
        script.extend(format!("# {i:08} is a line\n").bytes());
    }
    script.extend(b"imgfetch http://10.9.1.1:8080/all || goto end\n:end\n");
    for legacy in [false, true] {
        let files = vec![("/script", script.clone()), ("/all", b"all".to_vec())];
        let server = qemu::serve(&host.name, "10.9.1.1:8080", files, "/all");
        let commands = "set net0/ip 10.9.1.2\nset net0/netmask 255.255.255.0\nifopen net0\n\
            imgfetch http://10.9.1.1:8080/script\nimgexec script";
        let machine = Qemu::start(&socket.path, A, legacy, commands);
        let asked = server.join().expect("a server");
        let console = machine.console();
        assert_eq!(asked, ["/script", "/all"], "{legacy}: {console}");
    }
    let stats = client.stats(socket.port);
    assert_eq!(stats.dropped(Reason::Violation), 0);
    assert!(stats.frames_in > 100 && stats.frames_out > 500, "{stats:?}");
}

/// A switch with a host by a packet socket and a machine by vhost-user; gives their ports.
fn host_and_machine(switch: &Switch, link: &str) -> (PortId, Socket) {
    let client = switch.client();
    let uplink = join_device(client, link, 1);
    (uplink, Socket::new(client, "vhx", 1))
}

/// Sends a file to each client that connects.
const SERVER: &str = "import socket, sys
bytes = open(sys.argv[1], 'rb').read()
server = socket.create_server(('', 5001))
while True:
    link, _ = server.accept()
    try:
        link.sendall(bytes)
        link.close()
    except OSError:
        pass
";

pub fn linux_guest(options: &str) {
    let mut switch = Switch::spawn().expect("a switch");
    let (mut host, link) = Host::with_veth("vhx", 1, 1);
    let (mut uplink, mut socket) = host_and_machine(&switch, &link);
    let machine = linux::start(&socket.path, A, options);
    let wait_for = |what: &str, so: &mut dyn FnMut() -> bool| {
        let until = Instant::now() + Duration::from_secs(180);
        while !so() {
            let console = || machine.console();
            assert!(Instant::now() < until, "never: {what}; {}", console());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let said = |word: &str| {
        let console = machine.console();
        let said = console.lines().filter_map(|line| {
            let (before, rest) = line.split_once(word)?;
            before
                .is_empty()
                .then(|| rest.trim().trim_end_matches('-').trim().to_string())
        });
        said.collect::<Vec<_>>()
    };
    wait_for("the guest serves", &mut || !said("serves").is_empty());
    let features = said("features").remove(0);
    let has = |bit: usize| features.as_bytes().get(bit) == Some(&b'1');
    assert!(has(7) && has(11), "segments either way: {features}");
    assert_eq!(has(34), !options.is_empty(), "packed: {features}");

    let folder = std::env::temp_dir().join(unique("linux"));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("file"), common::noise(8_000_000)).expect("a file");
    let sum = |path: &std::path::Path| {
        let sum = common::run(&format!("md5sum {}", path.display()));
        sum.split(' ').next().expect("a sum").to_string()
    };
    let ours = sum(&folder.join("file"));
    let path = folder.join("file");
    host.start(&["python3", "-c", SERVER, path.to_str().expect("a path")]);
    for killed in [false, true] {
        if killed {
            // Under traffic: the guest fetches its file all the time, and is pinged.
            host.start(&["ping", "-q", "-i", "0.01", "-c", "300", "10.9.1.2"]);
            let before = switch.client().stats(socket.port).frames_out;
            wait_for("frames pass", &mut || {
                switch.client().stats(socket.port).frames_out > before + 100
            });
            rustix::process::kill_process(switch.pid(), Signal::KILL).expect("killed");
            drop((switch, socket));
            switch = Switch::spawn().expect("a switch");
            (uplink, socket) = host_and_machine(&switch, &link);
            wait_for("the guest answers again", &mut || {
                let ping = host.output("ping -q -c 1 -W 1 10.9.1.2");
                ping.status.success()
            });
        }
        let fetched = said("fetched").len();
        wait_for("the guest fetches", &mut || {
            said("fetched")[fetched..].contains(&ours)
        });
        let theirs = folder.join("theirs");
        let fetch = format!("curl -sS -o {} http://10.9.1.2:8080/file", theirs.display());
        host.run(&fetch);
        assert_eq!(sum(&theirs), said("serves")[0], "killed: {killed}");
        let [near, far] = [uplink, socket.port].map(|port| switch.client().stats(port));
        for stats in [&near, &far] {
            assert!(stats.segmented_in > 20, "{stats:?}");
            assert_eq!(stats.dropped(Reason::Violation), 0);
            assert_eq!(stats.cut, 0, "segments go whole: {stats:?}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}
