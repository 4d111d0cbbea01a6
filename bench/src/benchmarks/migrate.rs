//! The blackout of a guest that migrates to another node, and the cost of a migration.
//!
//! `WEIR` names the `weir` program, `ROUNDS` the number of moves (20), back and forth between two nodes of this host,
//! which speak TLS over the loopback. Each wall is measured with guests that differ in how much they write meanwhile.
//! Figures are the node's own: from the order to suspend until the other node reports that the guest runs there. Runs
//! as root.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::api::Api;
use bench::node::Node;
use bench::program::rounds;
use bench::{median, report};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde::Serialize;
use serde_json::{Value, json};

/// How long a guest may take until it is ready.
const READY: Duration = Duration::from_secs(20);
/// How long a guest runs before it moves on.
const RUN: Duration = Duration::from_millis(300);

/// A guest to be moved.
struct Case {
    name: &'static str,
    config: &'static str,
    memory: &'static str,
    slots: u32,
    /// The condition for the first move: a handler, and its least value.
    ready: Option<(&'static str, u64)>,
}

const CASES: [Case; 4] = [
    Case {
        name: "idle responder, 64 slots",
        config: "FromDevice(lan) -> ARPResponder(10.77.1.1 lan) -> Queue(64) -> ToDevice(lan);",
        memory: "4M",
        slots: 64,
        ready: None,
    },
    Case {
        name: "NAT, 16 384 flows at 20 000 packets/s, 256 slots",
        config: FLOWS,
        memory: "16M",
        slots: 256,
        ready: Some(("rw.size", 16_000)),
    },
    Case {
        name: "NAT, 16 384 flows at 20 000 packets/s, 2048 slots",
        config: FLOWS,
        memory: "64M",
        slots: 2048,
        ready: Some(("rw.size", 16_000)),
    },
    Case {
        name: "NAT, 65 536 flows at 50 000 packets/s, 256 slots",
        config: MORE_FLOWS,
        memory: "64M",
        slots: 256,
        ready: Some(("rw.size", 40_000)),
    },
];

/// Packets of so many a second to addresses of a prefix, through a NAT.
macro_rules! flows {
    ($rate:literal, $prefix:literal) => {
        concat!(
            "FromDevice(lan) -> Discard; Idle -> ToDevice(lan); RatedSource(LENGTH 64, RATE ",
            $rate,
            ") -> UDPIPEncap(192.168.1.2, 4000, 10.0.0.1, 53) -> SetRandIPAddress(",
            $prefix,
            ") -> StoreIPAddress(dst)
                -> rw :: IPRewriter(pattern 198.51.100.2 10000-65535 - - 0 1, drop);
            rw[0] -> Discard; rw[1] -> Discard; Idle -> [1] rw;"
        )
    };
}

const FLOWS: &str = flows!("20000", "10.0.0.0/18");
const MORE_FLOWS: &str = flows!("50000", "10.0.0.0/16");

/// Of one guest behind one wall.
#[derive(Serialize)]
struct Figure {
    guest: &'static str,
    wall: &'static str,
    /// Milliseconds without it: median and most.
    blackout: f64,
    blackout_most: f64,
    /// Milliseconds from the request to the end, median.
    total: f64,
    /// Bytes sent in all, and bytes sent while the guest stood still, medians.
    bytes: f64,
    last_bytes: f64,
    /// Rounds of copying, median.
    rounds: f64,
}

/// A node that takes guests from others, and where it listens.
struct Host {
    node: Node,
    address: String,
}

impl Host {
    fn start(folder: &Path, name: &str) -> Result<Host, String> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let path = |file: &str| folder.join(file).into_os_string();
        let arguments = [
            ("--listen", address.clone().into()),
            ("--tls-cert", path("cert.pem")),
            ("--tls-key", path("key.pem")),
            ("--tls-client-ca", path("ca.pem")),
            ("--config", path("node.toml")),
        ];
        let node = Node::start_in(folder.join(name), &arguments)?;
        let host = Host { node, address };
        host.api()?
            .ask("POST", "/v1/stubs", Some(&json!({"name": "lan"})))?;
        Ok(host)
    }

    fn api(&self) -> Result<Api, String> {
        Api::connect(&self.node.socket())
    }
}

/// A folder that is removed.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes an authority, and a certificate for both nodes, to a folder.
fn certify(folder: &Path) -> Result<(), String> {
    let wrong = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(wrong)?;
    let mut params = CertificateParams::new([]).map_err(wrong)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).map_err(wrong)?;
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().map_err(wrong)?;
    let mut params = CertificateParams::new(["127.0.0.1".into()]).map_err(wrong)?;
    params.distinguished_name.push(DnType::CommonName, "node");
    let certificate = params.signed_by(&key, &issuer).map_err(wrong)?;
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("cert.pem", certificate.pem()),
        ("key.pem", key.serialize_pem()),
        ("node.toml", "[roles]\nnode = 'operator'\n".into()),
    ] {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn measure(
    hosts: &[Host; 2],
    case: &Case,
    wall: &'static str,
    moves: usize,
) -> Result<Figure, String> {
    let mut apis = [hosts[0].api()?, hosts[1].api()?];
    let guest = json!({
        "name": "one", "config": case.config, "interfaces": {"lan": "lan"}, "isolation": wall,
        "ring-slots": case.slots, "memory": case.memory,
    });
    apis[0].ask("POST", "/v1/guests", Some(&guest))?;
    if let Some((handler, least)) = case.ready {
        let start = Instant::now();
        loop {
            let read = json!({"handler": handler});
            let value = apis[0].ask("POST", "/v1/guests/one/read", Some(&read))?;
            let value = value["value"].as_str().unwrap_or_default().trim().parse();
            if value.is_ok_and(|value: u64| value >= least) {
                break;
            }
            if start.elapsed() > READY {
                return Err(format!("{}: {handler} does not reach {least}", case.name));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let mut went: Vec<Value> = Vec::new();
    for number in 0..moves {
        std::thread::sleep(RUN);
        let (from, to) = (number % 2, 1 - number % 2);
        let to = json!({"to": hosts[to].address});
        went.push(apis[from].ask("POST", "/v1/guests/one/migrate", Some(&to))?);
    }
    let destroy = json!({"action": "destroy", "guests": ["one"]});
    apis[moves % 2].ask("POST", "/v1/guest-actions", Some(&destroy))?;
    let all = |field: &str| -> Vec<f64> {
        let values = went.iter().map(|one| one[field].as_f64());
        values.map(|value| value.unwrap_or(f64::NAN)).collect()
    };
    let blackouts = all("blackout-ms");
    Ok(Figure {
        guest: case.name,
        wall,
        blackout: median(&blackouts),
        blackout_most: blackouts.iter().copied().fold(0.0, f64::max),
        total: median(&all("total-ms")),
        bytes: median(&all("bytes")),
        last_bytes: median(&all("last-bytes")),
        rounds: median(&all("rounds")),
    })
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok(address.port())
}

pub(super) fn run() -> Result<(), String> {
    let moves = rounds(20);
    let folder = std::env::temp_dir().join(format!("bench-migrate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let folder = Folder(folder);
    certify(&folder.0)?;
    let hosts = [Host::start(&folder.0, "a")?, Host::start(&folder.0, "b")?];
    let mut figures = Vec::new();
    for case in &CASES {
        for wall in ["vm", "process"] {
            let figure = measure(&hosts, case, wall, moves)?;
            println!(
                "{}, {wall}: {:.2} ms without it (at most {:.2}), {:.1} ms in all, {:.0} KiB sent, {:.0} KiB of them last, {:.0} rounds",
                figure.guest,
                figure.blackout,
                figure.blackout_most,
                figure.total,
                figure.bytes / 1024.0,
                figure.last_bytes / 1024.0,
                figure.rounds
            );
            figures.push(figure);
        }
    }
    report("migrate", moves, &figures)
}
