//! The packets of a row: captures of flows and dumps, and how many packets a run takes.

use std::io::{self, Write};
use std::path::PathBuf;

use bench::traffic::{Flow, capture, set_transport};

use super::rows::Row;

/// The temporary folder of configurations and captures.
pub fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-elements-{}", std::process::id()))
}

/// The frame of a flow's number, of so many flows.
type OfFlow = fn(usize, usize) -> Vec<u8>;

/// Captures of flows: their names in configurations, and the frames.
const FLOWS: [(&str, OfFlow); 4] = [
    ("UDPFLOWS", |i, flows| frame(i, flows, 17)),
    ("UDP6FLOWS", frame6),
    ("TCPFLOWS", |i, flows| frame(i, flows, 6)),
    ("PINGFLOWS", |i, flows| frame(i, flows, 1)),
];

/// Files with as many packets as a run takes: their names in configurations, what stands before
/// the packets, and one packet.
const DUMPS: [(&str, &str, &str); 2] = [
    (
        "SUMMARY",
        "!data ip_src ip_dst sport dport ip_proto ip_len\n",
        "10.0.0.2 192.168.1.2 4096 53 U 46\n",
    ),
    (
        "NETFLOW",
        "",
        "10.0.0.2|192.168.1.2|0|1|2|1|46|1000000000|1000000001|4096|53|0|0|17|0\n",
    ),
];

/// The packet of a number.
type Packet = fn(usize) -> Vec<u8>;

/// Captures with as many packets as a run takes: their names in configurations, and the packets.
const CAPTURES: [(&str, Packet); 2] = [
    ("FRAMES", |i| frame(i % 1000, 1000, 17)),
    ("SEGMENTS", segment),
];

/// Packets of such files, at most.
const LONGEST: u64 = 1 << 21;

/// What a row works on.
pub struct Traffic {
    /// The number of flows, and its name.
    pub flows: Option<(usize, &'static str)>,
}

/// The flow number `i` of many hosts inside to many servers outside.
fn inside(i: usize, protocol: u8) -> Flow {
    let i = i as u32;
    Flow {
        source: 0x0a00_0000 + 1 + i % 4096,
        destination: 0xc612_0000 + 1 + i / 4096 * 7 % 251,
        protocol,
        ports: (1024 + (i / 16 % 50_000) as u16, 53),
    }
}

/// A frame of the flow, by a station of its own to the next one.
fn frame(i: usize, flows: usize, protocol: u8) -> Vec<u8> {
    let mut frame = inside(i, protocol).frame(60);
    let station = |i: usize| (2 + (i % flows.next_multiple_of(2)) as u32).to_be_bytes();
    frame[2..6].copy_from_slice(&station(i + 1));
    frame[8..12].copy_from_slice(&station(i));
    set_transport(&mut frame, protocol);
    if protocol == 1 {
        // The identifier is the flow's.
        frame[38..40].copy_from_slice(&(i as u16).to_be_bytes());
    }
    frame
}

/// The frame of a UDP flow over IPv6, whose addresses end in those of the flow over IPv4.
fn frame6(i: usize, flows: usize) -> Vec<u8> {
    let frame = frame(i, flows, 17);
    let mut frame6 = frame[..12].to_vec();
    frame6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    for address in [&frame[26..30], &frame[30..34]] {
        frame6.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
        frame6.extend(address);
    }
    frame6.extend(&frame[34..38]);
    frame6.extend([0, 8, 0, 0]);
    frame6
}

/// The segment number `i` of a TCP connection, with 6 bytes.
fn segment(i: usize) -> Vec<u8> {
    let mut frame = frame(0, 1, 6);
    frame[38..42].copy_from_slice(&(1 + 6 * i as u32).to_be_bytes());
    frame
}

impl Traffic {
    /// A row's.
    pub fn of(row: &Row) -> Vec<Traffic> {
        if FLOWS
            .iter()
            .any(|(name, _)| row.mentions(&format!("${name}")))
        {
            let flows = [(1, "1 flow"), (1000, "1 K flows"), (100_000, "100 K flows")];
            flows.map(|flows| Traffic { flows: Some(flows) }).into()
        } else {
            vec![Traffic { flows: None }]
        }
    }

    /// Packets after which a program is warm.
    pub fn first(&self) -> u64 {
        self.flows.map_or(1 << 12, |_| 1 << 18)
    }

    /// Packets of a run, at most.
    pub fn most(&self, row: &Row) -> u64 {
        let file = |name: &str| row.mentions(&format!("${name}"));
        let captures = CAPTURES.iter().any(|(name, _)| file(name));
        if captures || DUMPS.iter().any(|(name, ..)| file(name)) {
            LONGEST
        } else {
            1 << 32
        }
    }

    /// The values of the names that begin with `$`; the row's captures are written.
    pub fn values(&self, row: &Row, packets: u64) -> io::Result<Vec<(&'static str, String)>> {
        let mut values = vec![("N", packets.to_string())];
        let needed = |name: &str| row.mentions(&format!("${name}"));
        if let Some((flows, _)) = self.flows {
            for (name, frame) in FLOWS.into_iter().filter(|(name, _)| needed(name)) {
                let path = folder().join(format!("{name}-{flows}.pcap"));
                if !path.exists() {
                    // Few packets, so that they stay in the caches, unless there are more flows.
                    let frames = (0..flows.max(1024)).map(|i| frame(i % flows, flows));
                    capture(&path, frames)?;
                }
                values.push((name, path.display().to_string()));
            }
        }
        for (name, packet) in CAPTURES.into_iter().filter(|(name, _)| needed(name)) {
            let path = folder().join(format!("{name}.pcap"));
            capture(&path, (0..packets as usize).map(packet))?;
            values.push((name, path.display().to_string()));
        }
        for (name, head, packet) in DUMPS.into_iter().filter(|(name, ..)| needed(name)) {
            let path = folder().join(format!("{name}.txt"));
            let mut file = io::BufWriter::new(std::fs::File::create(&path)?);
            file.write_all(head.as_bytes())?;
            for _ in 0..packets {
                file.write_all(packet.as_bytes())?;
            }
            file.flush()?;
            values.push((name, path.display().to_string()));
        }
        Ok(values)
    }
}
