//! A case: a configuration with its packets and files, and its text form.
//!
//! A kept case is a section of a file in `seeds`:
//!
//! ```text
//! ==== seed 4711
//! ---- config
//! FromDump(packets.pcap, STOP true) -> Print(0, -1) -> Discard;
//! ---- packets IP
//! 1.000000 4500001400000000ff0132e70a0000010a000002
//! ---- handlers
//! c.count
//! ---- error
//! 0:   20 | 45000014 00000000 ff0132e7 0a000001 0a000002
//! ---- status
//! 0
//! ```
//!
//! The sections up to `handlers` are the case, the others are what Click gave.

use std::fmt::Write;
use std::path::Path;

/// What the packets in `packets.pcap` start with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Link {
    Ethernet,
    #[default]
    Ip,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stamped {
    /// In microseconds.
    pub time: u64,
    pub data: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    pub seed: u64,
    /// One statement in a line, for the shrinker.
    pub config: Vec<String>,
    pub link: Link,
    pub packets: Vec<Stamped>,
    /// The lines of `input.txt`.
    pub input: Vec<String>,
    /// Read handlers printed at the end.
    pub handlers: Vec<String>,
    /// The router is initialized but not run.
    pub quit: bool,
}

/// What a program gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub output: String,
    pub error: String,
    /// The exit code, or how the process ended.
    pub status: String,
}

/// What ends a router that nothing else does, in simulated time.
const END: &str = "Script(wait 1000s, stop);\n";

impl Case {
    /// Writes the files that the configuration names.
    pub fn write_files(&self, folder: &Path) -> std::io::Result<()> {
        let end = if self.quit { "" } else { END };
        std::fs::write(
            folder.join("case.click"),
            self.config.join("\n") + "\n" + end,
        )?;
        let is_named = |file| self.config.iter().any(|line| line.contains(file));
        if is_named("packets.pcap") {
            std::fs::write(folder.join("packets.pcap"), self.pcap())?;
        }
        if is_named("input.txt") {
            std::fs::write(folder.join("input.txt"), self.input.join("\n") + "\n")?;
        }
        Ok(())
    }

    /// The packets as tcpdump writes them.
    fn pcap(&self) -> Vec<u8> {
        const RAW_IP: u32 = 101;
        const ETHERNET: u32 = 1;
        let link = match self.link {
            Link::Ethernet => ETHERNET,
            Link::Ip => RAW_IP,
        };
        let mut file = Vec::new();
        let mut put = |word: u32| file.extend(word.to_le_bytes());
        for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65535, link] {
            put(word);
        }
        for packet in &self.packets {
            let length = packet.data.len() as u32;
            let (seconds, rest) = (packet.time / 1_000_000, packet.time % 1_000_000);
            for word in [seconds as u32, rest as u32, length, length] {
                file.extend(word.to_le_bytes());
            }
            file.extend(&packet.data);
        }
        file
    }
}

/// The text of a kept case.
pub fn to_text(case: &Case, outcome: &Outcome) -> String {
    let mut text = format!("==== seed {}\n", case.seed);
    let mut section = |name: &str, lines: &mut dyn Iterator<Item = &str>| {
        let mut lines = lines.peekable();
        if lines.peek().is_some() {
            writeln!(text, "---- {name}").unwrap();
            lines.for_each(|line| writeln!(text, "{line}").unwrap());
        }
    };
    fn all(lines: &[String]) -> impl Iterator<Item = &str> {
        lines.iter().map(String::as_str)
    }
    let packets: Vec<String> = case.packets.iter().map(packet_to_text).collect();
    let link = format!("packets {:?}", case.link);
    let config = if case.quit { "config -q" } else { "config" };
    section(config, &mut all(&case.config));
    section(&link, &mut all(&packets));
    section("input", &mut all(&case.input));
    section("handlers", &mut all(&case.handlers));
    section("output", &mut outcome.output.split_terminator('\n'));
    section("error", &mut outcome.error.split_terminator('\n'));
    section("status", &mut [outcome.status.as_str()].into_iter());
    text
}

fn packet_to_text(packet: &Stamped) -> String {
    let (seconds, rest) = (packet.time / 1_000_000, packet.time % 1_000_000);
    let hex: String = packet.data.iter().map(|b| format!("{b:02x}")).collect();
    format!("{seconds}.{rest:06} {hex}")
}

fn packet_from_text(line: &str) -> Option<Stamped> {
    let (time, hex) = line.split_once(' ')?;
    let (seconds, rest) = time.split_once('.')?;
    let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    Some(Stamped {
        time: seconds.parse::<u64>().ok()? * 1_000_000 + rest.parse::<u64>().ok()?,
        data: (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?,
    })
}

/// The kept cases in `text`. Lines before the first are a comment.
pub fn from_text(text: &str) -> Result<Vec<(Case, Outcome)>, String> {
    let mut kept: Vec<(Case, Outcome)> = Vec::new();
    let mut section = String::new();
    for (number, line) in (1..).zip(text.split_terminator('\n')) {
        let invalid = || format!("line {number} is not part of a case: {line}");
        if let Some(seed) = line.strip_prefix("==== seed ") {
            let seed = seed.parse().map_err(|_| invalid())?;
            kept.push((
                Case {
                    seed,
                    ..Case::default()
                },
                Outcome::default(),
            ));
            continue;
        }
        let Some((case, outcome)) = kept.last_mut() else {
            continue;
        };
        if let Some(name) = line.strip_prefix("---- ") {
            section = name.to_string();
            match name {
                "config -q" => case.quit = true,
                "packets Ethernet" => case.link = Link::Ethernet,
                _ => (),
            }
            continue;
        }
        match section.split(' ').next().unwrap_or("") {
            "config" => case.config.push(line.to_string()),
            "packets" => case
                .packets
                .push(packet_from_text(line).ok_or_else(invalid)?),
            "input" => case.input.push(line.to_string()),
            "handlers" => case.handlers.push(line.to_string()),
            "output" => outcome.output += &format!("{line}\n"),
            "error" => outcome.error += &format!("{line}\n"),
            "status" => outcome.status = line.to_string(),
            _ => return Err(invalid()),
        }
    }
    Ok(kept)
}
