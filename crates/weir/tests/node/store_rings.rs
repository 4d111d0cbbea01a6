//! Guests in the control store of their node, by the rings of their control regions.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use abi::control::{STORE_OFFSET, STORE_WORDS_OFFSET};
use abi::store::RING_BYTES;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use store::client::Client;
use store::wire::{Header, Kind};

use crate::common::{Host, kill, until};

const WALLS: [&str; 2] = ["vm", "process"];

/// What follows a key, reads one, and writes one.
const USER: &str = "w :: StoreWatch(data/mode, HANDLER s.switch);
o :: StoreWrite(data/switch, HANDLER s.switch, INTERVAL 20ms);
Idle -> c :: Counter -> s :: Switch(1) -> Discard; s[1] -> Discard; s[2] -> Discard;";

fn client(host: &Host) -> Client {
    Client::connect(&host.run().join("store.sock")).unwrap()
}

fn domain(host: &Host, guest: &str) -> u16 {
    let guest = host.client().show::<node::model::Guest>(guest).unwrap();
    guest.status.domain_id
}

fn pid(host: &Host, guest: &str) -> u32 {
    let guest = host.client().show::<node::model::Guest>(guest).unwrap();
    guest.status.pid.unwrap()
}

fn has(client: &mut Client, path: &str, value: &str) {
    until(&format!("{path} is not {value}"), || {
        client.read(path).is_ok_and(|it| it == value.as_bytes())
    });
}

fn replaced(host: &Host) -> Client {
    // It runs long enough to be replaced at once.
    std::thread::sleep(Duration::from_millis(1100));
    let before = host.view().store_pid;
    kill("-KILL", before.unwrap());
    until("no other store runs", || {
        host.view().store_pid.is_some_and(|pid| Some(pid) != before)
    });
    client(host)
}

/// Offsets in the control region, as abi has them.
const WORDS: u64 = STORE_WORDS_OFFSET as u64;
const ACCEPTED: u64 = WORDS + 64;
const PRODUCED: u64 = WORDS + 128;
const CONSUMED: u64 = WORDS + 256 + 64;
const REPLIED: u64 = WORDS + 256;
const REQUESTS: u64 = STORE_OFFSET as u64;
const REPLIES: u64 = REQUESTS + RING;
const RING: u64 = RING_BYTES as u64;

/// The test in the place of a guest: all that it shares, and its doorbell.
struct Hostile {
    region: File,
    doorbell: OwnedFd,
    produced: u64,
    consumed: u64,
}

impl Hostile {
    fn of(pid: u32) -> Hostile {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let line = maps.lines().find(|it| it.contains("/memfd:weir-control "));
        let range = line.unwrap().split(' ').next().unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        let path = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        let region = File::options().read(true).write(true).open(path).unwrap();
        let pidfd = Pid::from_raw(pid as i32).unwrap();
        let pidfd = pidfd_open(pidfd, PidfdFlags::empty()).unwrap();
        let doorbell = pidfd_getfd(&pidfd, 1, PidfdGetfdFlags::empty()).unwrap();
        let mut guest = Hostile {
            region,
            doorbell,
            produced: 0,
            consumed: 0,
        };
        guest.accept();
        guest
    }

    /// Begins the connection that the store has begun.
    fn accept(&mut self) {
        until("the store has not begun a connection", || {
            self.word(WORDS) as u32 != 0
        });
        (self.produced, self.consumed) = (0, 0);
        self.set(PRODUCED, 0);
        self.set(CONSUMED, 0);
        let number = self.word(WORDS) as u32;
        self.region
            .write_all_at(&number.to_ne_bytes(), ACCEPTED)
            .unwrap();
    }

    fn word(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        self.region.read_exact_at(&mut word, offset).unwrap();
        u64::from_ne_bytes(word)
    }

    fn set(&self, offset: u64, value: u64) {
        self.region
            .write_all_at(&value.to_ne_bytes(), offset)
            .unwrap();
    }

    fn ring(&self) {
        rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
    }

    /// Writes bytes of requests, whether there is room or not.
    fn send(&mut self, bytes: &[u8]) {
        for (at, byte) in (self.produced..).zip(bytes) {
            self.region
                .write_all_at(&[*byte], REQUESTS + at % RING)
                .unwrap();
        }
        self.produced += bytes.len() as u64;
        self.set(PRODUCED, self.produced);
        self.ring();
    }

    fn ask(&mut self, kind: Kind, payload: &[u8]) {
        let header = Header {
            kind: kind as u32,
            len: payload.len() as u32,
            ..Header::default()
        };
        self.send(&[&header.to_bytes()[..], payload].concat());
    }

    /// The next reply, if it comes.
    fn reply(&mut self) -> Option<(u32, String)> {
        let header = self.receive(Header::LEN)?;
        let header = Header::parse(header.as_slice().try_into().unwrap());
        let payload = self.receive(header.len as usize)?;
        self.ring();
        Some((header.kind, String::from_utf8(payload).unwrap()))
    }

    fn receive(&mut self, length: usize) -> Option<Vec<u8>> {
        let end = self.consumed + length as u64;
        for _ in 0..400 {
            if self.word(REPLIED) >= end {
                let bytes = (self.consumed..end).map(|at| {
                    let mut byte = [0];
                    self.region
                        .read_exact_at(&mut byte, REPLIES + at % RING)
                        .unwrap();
                    byte[0]
                });
                let bytes = bytes.collect();
                self.consumed = end;
                self.set(CONSUMED, end);
                return Some(bytes);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn refused(&mut self, kind: Kind, payload: &[u8], why: &str) {
        self.ask(kind, payload);
        let (kind, reply) = self.reply().expect("there is a reply");
        assert_eq!((kind, reply.as_str()), (Kind::Error as u32, why));
    }
}

#[test]
fn a_hostile_guest_harms_itself_alone() {
    for wall in WALLS {
        let host = Host::new();
        let config = host.config("user.click", USER);
        let idle = host.config("idle.click", "Idle -> Discard;");
        host.ok(&format!("create good {config} --isolation {wall}"));
        host.ok(&format!(
            "create --count 5 --name h{{}} {idle} --isolation {wall}"
        ));
        let mut store = client(&host);
        let first = host.view().store_pid;
        let path = format!("/local/domain/{}/data", domain(&host, "good"));
        let mut good = |value: &str| {
            store
                .write(&format!("{path}/mode"), value.as_bytes())
                .unwrap();
            has(&mut store, &format!("{path}/switch"), value);
        };
        good("1");
        let guest = |n: u32| Hostile::of(pid(&host, &format!("h{n}")));

        // Others' entries are not for it.
        let mut one = guest(1);
        one.ask(Kind::Read, b"name\0");
        assert_eq!(one.reply(), Some((Kind::Read as u32, "h1".into())));
        let other = format!("{path}/mode\0");
        one.refused(Kind::Read, other.as_bytes(), "EACCES\0");
        one.refused(Kind::Write, format!("{other}9").as_bytes(), "EACCES\0");
        one.refused(Kind::Introduce, b"7\x001\x001\0", "EACCES\0");
        one.refused(Kind::Write, b"data/\xff\0x", "EINVAL\0");

        // It has a bounded number of nodes.
        let mut refused = None;
        for n in 0..20_000 {
            one.ask(Kind::Mkdir, format!("data/{n}\0").as_bytes());
            let (kind, reply) = one.reply().expect("there is a reply");
            if kind == Kind::Error as u32 {
                refused = Some(reply);
                break;
            }
        }
        assert_eq!(refused.as_deref(), Some("ENOSPC\0"));
        good("2");

        // Half a message, and a message that is too long.
        let mut two = guest(2);
        two.send(&[0; 7]);
        good("0");
        let mut three = guest(3);
        let long = Header {
            len: 4097,
            ..Header::default()
        };
        three.send(&long.to_bytes());
        // Cursors that cannot be.
        let four = guest(4);
        four.set(PRODUCED, u64::MAX / 2);
        four.ring();
        good("1");
        three.ask(Kind::Read, b"name\0");
        assert_eq!(three.reply(), None);

        // One that asks and never reads.
        let memory = || {
            let status = fs::read_to_string(format!("/proc/{}/status", first.unwrap())).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:"));
            let kib = line.unwrap().split_whitespace().nth(1).unwrap();
            kib.parse::<u64>().unwrap()
        };
        let before = memory();
        let mut five = guest(5);
        for _ in 0..200 {
            // A full ring of requests each time, for any number that the store took.
            for _ in 0..RING / 21 {
                five.ask(Kind::Read, b"name\0");
            }
        }
        good("2");
        let grown = memory().saturating_sub(before);
        assert!(grown < 1024, "{grown} KiB more");
        assert_eq!(host.view().store_pid, first);
        // It can be ended as any.
        host.ok("destroy h*");
        good("0");
    }
}

#[test]
fn a_store_that_is_killed_under_load_is_replaced_for_all_guests() {
    let host = Host::new();
    let config = "RatedSource(RATE 1000) -> c :: Counter -> Discard;
        StoreWrite(data/count, HANDLER c.count, INTERVAL 10ms);";
    let config = host.config("busy.click", config);
    host.ok(&format!("create --count 10 --name v{{}} {config}"));
    host.ok(&format!(
        "create --count 10 --name p{{}} {config} --isolation process"
    ));
    let names = (1..=10).flat_map(|n| [format!("v{n}"), format!("p{n}")]);
    let domains: Vec<u16> = names.map(|name| domain(&host, &name)).collect();
    for _ in 0..3 {
        let mut store = replaced(&host);
        for domain in &domains {
            let path = format!("/local/domain/{domain}/data/count");
            let mut count = || {
                let value = store.read(&path).ok()?;
                String::from_utf8(value).ok()?.parse::<u64>().ok()
            };
            until("a guest does not write", || count().is_some());
            let before = count().unwrap();
            until("a guest writes no more", || count() > Some(before));
        }
    }
}
