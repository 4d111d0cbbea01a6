use super::link::{Broken, Carrier, StoreLink};
use crate::testing::*;
use abi::xenstore::{Header, Kind};
use std::collections::HashMap;

/// A store that the test plays: its nodes, what came, and what is to go.
#[derive(Default)]
struct Played {
    nodes: HashMap<String, Vec<u8>>,
    watches: Vec<(String, String)>,
    came: Vec<u8>,
    goes: VecDeque<u8>,
    /// Bytes that fit either way in a turn.
    room: usize,
    /// Whether nothing more fits in this turn.
    full: bool,
    begun: bool,
    broken: bool,
}

impl Carrier for Played {
    fn is_new(&mut self) -> bool {
        core::mem::take(&mut self.begun)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        if self.broken {
            return Err(Broken);
        }
        let count = into.len().min(self.goes.len()).min(self.room);
        for (to, byte) in into.iter_mut().zip(self.goes.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        // There is room again in the next turn.
        self.full = !self.full;
        let count = if self.full {
            bytes.len().min(self.room)
        } else {
            0
        };
        self.came.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

impl Played {
    fn new(room: usize) -> Played {
        Played {
            room,
            begun: true,
            ..Played::default()
        }
    }

    /// Another store takes its place, which knows no client.
    fn begin(&mut self) {
        (self.came, self.goes) = (Vec::new(), VecDeque::new());
        self.watches.clear();
        self.begun = true;
    }

    fn reply(&mut self, kind: Kind, request: u32, payload: &[u8]) {
        let header = Header {
            kind: kind as u32,
            request,
            transaction: 0,
            len: payload.len() as u32,
        };
        self.goes.extend(header.to_bytes());
        self.goes.extend(payload);
    }

    fn set(&mut self, path: &str, value: &str) {
        self.nodes.insert(path.into(), value.into());
        let fired = self.watches.iter().filter(|(watched, _)| watched == path);
        let events: Vec<_> = fired
            .map(|(path, token)| format!("{path}\0{token}\0"))
            .collect();
        for event in events {
            self.reply(Kind::WatchEvent, 0, event.as_bytes());
        }
    }

    /// Answers what came.
    fn answer(&mut self) {
        while let Some((header, rest)) = self.came.split_first_chunk::<{ Header::LEN }>() {
            let header = Header::parse(header);
            let Some(payload) = rest.get(..header.len as usize) else {
                return;
            };
            let payload = payload.to_vec();
            self.came.drain(..Header::LEN + payload.len());
            let end = payload.iter().position(|byte| *byte == 0).unwrap();
            let path = String::from_utf8(payload[..end].to_vec()).unwrap();
            let rest = &payload[end + 1..];
            let number = header.request;
            match Kind::from_number(header.kind).unwrap() {
                Kind::Read => match self.nodes.get(&path).cloned() {
                    Some(value) => self.reply(Kind::Read, number, &value),
                    None => self.reply(Kind::Error, number, b"ENOENT\0"),
                },
                Kind::Write if path == "locked" => self.reply(Kind::Error, number, b"EACCES\0"),
                Kind::Write => {
                    let value = String::from_utf8(rest.to_vec()).unwrap();
                    self.reply(Kind::Write, number, b"OK\0");
                    self.set(&path, &value);
                }
                Kind::Watch => {
                    let token = String::from_utf8(rest[..rest.len() - 1].to_vec()).unwrap();
                    self.reply(Kind::Watch, number, b"OK\0");
                    let event = format!("{path}\0{token}\0");
                    self.watches.push((path, token));
                    self.reply(Kind::WatchEvent, 0, event.as_bytes());
                }
                Kind::Unwatch => {
                    let token = String::from_utf8(rest[..rest.len() - 1].to_vec()).unwrap();
                    self.watches
                        .retain(|watch| *watch != (path.clone(), token.clone()));
                    self.reply(Kind::Unwatch, number, b"OK\0");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Lets client and store talk until there is no more to say.
fn talk(link: &mut StoreLink, played: &mut Played, rig: &mut Rig) {
    for _ in 0..5000 {
        link.turn(played, &mut rig.router);
        played.answer();
        rig.run();
        let quiet = played.goes.is_empty() && played.came.is_empty();
        if quiet && !link.has_work() && !link.is_unsent() {
            return;
        }
    }
    panic!("they talk without end");
}

const CONFIG: &str = "
    s :: RatedSource(RATE 10) -> Discard;
    watch :: StoreWatch(data/rate, HANDLER s.rate);
    own :: StoreRead(name, DEFAULT nobody);
    told :: StoreWrite(data/seen, HANDLER watch.changes, INTERVAL 1s);
    locked :: StoreWrite(locked);
";

#[test]
fn a_configuration_follows_reads_and_writes_nodes() {
    // Whatever pieces the bytes come in.
    for room in [1, 7, 4096] {
        let mut rig = Rig::new(CONFIG);
        let mut played = Played::new(room);
        let mut link = StoreLink::new(rig.store.clone());
        talk(&mut link, &mut played, &mut rig);
        rig.assert_handlers(&[("own.value", "nobody"), ("own.exists", "false")]);
        rig.assert_handlers(&[("watch.exists", "false"), ("s.rate", "10")]);
        played.set("data/rate", "25");
        played.set("name", "fw");
        talk(&mut link, &mut played, &mut rig);
        rig.assert_handlers(&[
            ("s.rate", "25"),
            ("watch.value", "25"),
            ("own.value", "nobody"),
        ]);
        rig.write("own.refresh", "");
        rig.write("locked.write", "x");
        talk(&mut link, &mut played, &mut rig);
        rig.assert_handlers(&[("own.value", "fw"), ("locked.error", "EACCES")]);
        // A value that the handler refuses is told; the next one is followed.
        played.set("data/rate", "fast");
        talk(&mut link, &mut played, &mut rig);
        assert!(!rig.read("watch.error").is_empty());
        played.set("data/rate", "30");
        talk(&mut link, &mut played, &mut rig);
        rig.assert_handlers(&[
            ("s.rate", "30"),
            ("watch.error", ""),
            ("watch.changes", "3"),
        ]);
        rig.advance(SECOND);
        talk(&mut link, &mut played, &mut rig);
        assert_eq!(played.nodes["data/seen"], b"3");
    }
}

#[test]
fn another_store_is_watched_and_asked_as_the_last_one() {
    let mut rig = Rig::new(CONFIG);
    let mut played = Played::new(4096);
    let mut link = StoreLink::new(rig.store.clone());
    // Cut off at any point of the talk.
    for cut in 0..120 {
        played.set("data/rate", &(100 + cut).to_string());
        link.turn(&mut played, &mut rig.router);
        played.answer();
        played.goes.truncate(cut);
        played.came.truncate(cut);
        link.turn(&mut played, &mut rig.router);
        rig.write("own.refresh", "");
        played.begin();
        talk(&mut link, &mut played, &mut rig);
        rig.assert_handlers(&[("s.rate", (100 + cut).to_string().as_str())]);
        assert_eq!(played.watches.len(), 1);
    }
    // Another one that has none of the nodes is told what has not changed, and read.
    rig.advance(SECOND);
    talk(&mut link, &mut played, &mut rig);
    let seen = played.nodes.remove("data/seen");
    assert!(seen.is_some());
    rig.advance(SECOND);
    talk(&mut link, &mut played, &mut rig);
    assert!(
        !played.nodes.contains_key("data/seen"),
        "it is not written again and again"
    );
    played.nodes.insert("name".into(), "other".into());
    played.begin();
    talk(&mut link, &mut played, &mut rig);
    rig.advance(SECOND);
    talk(&mut link, &mut played, &mut rig);
    assert_eq!(played.nodes.get("data/seen"), seen.as_ref());
    rig.assert_handlers(&[("own.value", "other")]);
}

#[test]
fn a_configuration_that_is_replaced_watches_once() {
    let mut rig = Rig::new(CONFIG);
    let mut played = Played::new(4096);
    let mut link = StoreLink::new(rig.store.clone());
    talk(&mut link, &mut played, &mut rig);
    for rate in ["40", "50"] {
        rig.swap(CONFIG);
        played.set("data/rate", rate);
        talk(&mut link, &mut played, &mut rig);
        assert_eq!(played.watches.len(), 1);
        rig.assert_handlers(&[("s.rate", rate)]);
    }
    rig.swap("s :: RatedSource(RATE 10) -> Discard;");
    talk(&mut link, &mut played, &mut rig);
    assert!(played.watches.is_empty());
}

#[test]
fn wrong_paths_and_values_are_refused() {
    Rig::refuses("StoreRead(\"a b\");", "PATH must have only letters, digits");
    Rig::refuses("StoreWatch(\"\");", "PATH must not be empty");
    Rig::refuses(
        "StoreWatch(a, HANDLER none.rate);",
        "no element named 'none'",
    );
    Rig::refuses("StoreWrite(a, INTERVAL 0);", "INTERVAL must be positive");
    let mut rig = Rig::new("w :: StoreWrite(a);");
    let long = "x".repeat(4095);
    let refused = rig.router.write(rig.router.find("w"), "write", &long);
    assert!(refused.is_err());
    // Nobody carries requests out: there is a bound.
    let mut put = 0;
    while rig.router.write(rig.router.find("w"), "write", "x").is_ok() {
        put += 1;
        assert!(put < 1000);
    }
}

proptest! {
    #[test]
    fn whatever_a_store_sends_breaks_the_connection_at_most(
        parts in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..64),
                (0u32..28, 0u32..6, 0u32..5000, proptest::collection::vec(any::<u8>(), 0..64))
                    .prop_map(|(kind, request, len, payload)| {
                        let header = Header { kind, request, transaction: 0, len };
                        [&header.to_bytes()[..], &payload].concat()
                    }),
            ],
            0..20,
        ),
    ) {
        let mut rig = Rig::new(CONFIG);
        let mut played = Played::new(4096);
        let mut link = StoreLink::new(rig.store.clone());
        for part in parts {
            played.goes.extend(part);
            link.turn(&mut played, &mut rig.router);
            played.came.clear();
            rig.run();
        }
        // Another one is talked to if the protocol was kept.
        played.begin();
        link.turn(&mut played, &mut rig.router);
    }
}
