//! Configurations that name DPDK ports, unchanged on the kernel's interfaces.

use std::io::Read;

use super::common::{Stream, path, pings, until};
use super::{Bench, hosts};

/// As FastClick's users write it: two ports by their PCI addresses, and a driver's arguments.
const FORWARDER: &str = "define($blocking true)
DPDKInfo(65536)
in :: FromDPDKDevice(0000:18:00.1, N_QUEUES -1, NDESC 512, MAXTHREADS 1, PROMISC true)
 -> there :: Counter -> ToDPDKDevice(0000:18:00.0, BLOCKING $blocking, BURST 32, TIMEOUT 0);
out :: FromDPDKDevice(0000:18:00.0, VERBOSE 99, RSS_AGGREGATE true)
 -> back :: Counter -> ToDPDKDevice(0000:18:00.1, IQUEUE 1024, NDESC 512);
";

/// Runs it between two hosts on links of a kind, and returns what was said on standard error.
fn forwards(kind: &str) -> String {
    let bench = Bench::new();
    let (one, two) = hosts(&bench);
    let mut running = bench.wire(FORWARDER, kind, &[]);
    pings(&one, "10.77.0.2");
    let count = |handler| bench.read(handler).parse::<u64>().unwrap();
    let before = count("in.hw_count");
    let stream = Stream::start(path(&one), path(&two), "10.77.0.2");
    until("the stream passes", || count("there.count") > before + 50);
    stream.loses_nothing();
    assert_eq!(
        (bench.read("in.device"), bench.read("out.device")),
        ("a".into(), "b".into())
    );
    running.interrupt();
    let mut said = String::new();
    running
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    said
}

#[test]
fn dpdk_ports_are_the_links_in_their_order() {
    let said = forwards("xdp");
    let ports = "DPDK ports are the guest's interfaces here: port 0000:18:00.1 is 'a', port 0000:18:00.0 is 'b'";
    assert!(said.contains(ports), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn dpdk_ports_stand_on_any_link() {
    forwards("dev");
}

#[test]
fn a_port_without_a_link_is_told() {
    let bench = Bench::new();
    let config = bench.config("port.click", "FromDPDKDevice(0) -> ToDPDKDevice(2);");
    let config = config.to_str().unwrap();
    let link = format!("a=tap:{}", bench.interface('a'));
    let said = bench.refusal(&["run", config, "--link", &link]);
    assert!(
        said.contains("port 2: it needs 3 --link, and there are 1"),
        "{said}"
    );
    for command in ["run", "click"] {
        let said = bench.refusal(&[command, config]);
        assert!(
            said.contains("run the configuration by `weir run FILE --link"),
            "{said}"
        );
    }
}
