//! How long a guest stands still while it goes on at another node, and what that takes.
//!
//! `WEIR` names the `weir` program, `ROUNDS` the number of moves (20), back and forth between two nodes of this host,
//! which speak TLS over the loopback. Each wall is measured with guests that differ in what they write meanwhile.
//! Figures are the node's own: from the order to stand still until the other node has said that the guest runs there.
//! Runs as root.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bench::api::Api;
use bench::program::rounds;
use bench::{machine, median, results, save};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde::Serialize;
use serde_json::{Value, json};

/// How long a node may take to start.
const START: Duration = Duration::from_secs(20);
/// How long a guest runs before it moves on.
const RUN: Duration = Duration::from_millis(300);

/// A guest to be moved.
struct Case {
    name: &'static str,
    config: &'static str,
    memory: &'static str,
    slots: u32,
    /// What is awaited before the first move: a handler, and its least value.
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

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    figures: Vec<Figure>,
}

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
    /// Bytes sent, and those of them sent while it stood still, medians.
    bytes: f64,
    last_bytes: f64,
    /// Rounds of copying, median.
    rounds: f64,
}

struct Node {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Node {
    fn start(folder: &Path, name: &str, port: u16) -> Result<Node, String> {
        let weir = std::env::var_os("WEIR").unwrap_or_else(|| "target/release/weir".into());
        let own = folder.join(name);
        std::fs::create_dir_all(&own).map_err(|error| error.to_string())?;
        let child = Command::new(weir)
            .arg("node")
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--tls-cert")
            .arg(folder.join("cert.pem"))
            .arg("--tls-key")
            .arg(folder.join("key.pem"))
            .arg("--tls-client-ca")
            .arg(folder.join("ca.pem"))
            .arg("--config")
            .arg(folder.join("node.toml"))
            .env("WEIR_RUN", &own)
            .env("WEIR_STATE", &own)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|error| format!("weir: {error}"))?;
        let node = Node {
            child,
            folder: own,
            port,
        };
        let start = Instant::now();
        while node.api().is_err() {
            if start.elapsed() > START {
                return Err("the node did not start".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        node.api()?
            .ask("POST", "/v1/stubs", Some(&json!({"name": "lan"})))?;
        Ok(node)
    }

    fn api(&self) -> Result<Api, String> {
        Api::connect(&self.folder.join("node.sock"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(mut api) = self.api() {
            let _ = api.ask("DELETE", "/v1/node", Some(&json!({"confirm": true})));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    nodes: &[Node; 2],
    case: &Case,
    wall: &'static str,
    moves: usize,
) -> Result<Figure, String> {
    let mut apis = [nodes[0].api()?, nodes[1].api()?];
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
            if start.elapsed() > START {
                return Err(format!("{}: {handler} does not reach {least}", case.name));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let mut went: Vec<Value> = Vec::new();
    for number in 0..moves {
        std::thread::sleep(RUN);
        let (from, to) = (number % 2, 1 - number % 2);
        let to = json!({"to": format!("127.0.0.1:{}", nodes[to].port)});
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

fn run() -> Result<(), String> {
    let moves = rounds(20);
    let folder = std::env::temp_dir().join(format!("bench-migrate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let folder = Folder(folder);
    certify(&folder.0)?;
    let nodes = [
        Node::start(&folder.0, "a", free_port()?)?,
        Node::start(&folder.0, "b", free_port()?)?,
    ];
    let mut figures = Vec::new();
    for case in &CASES {
        for wall in ["vm", "process"] {
            let figure = measure(&nodes, case, wall, moves)?;
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
    let report = Report {
        benchmark: "migrate",
        machine: machine(),
        rounds: moves,
        figures,
    };
    save("migrate", &report)?;
    println!("{}", results().join("migrate.json").display());
    Ok(())
}

fn main() -> ExitCode {
    bench::exit(run())
}
