//! Random requests: against a plain model of the store, and of transactions against the same
//! requests one after the other.

use std::collections::BTreeMap;

use proptest::prelude::*;
use store::wire::{Header, Kind};
use store::{ConnectionId, DomainId, Store};

/// A request on nodes: its kind and payload.
type Request = (Kind, String);

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn request() -> impl Strategy<Value = Request> {
    let value = prop::sample::select(vec!["", "x", "yy"]);
    prop_oneof![
        3 => path().prop_map(|path| (Kind::Read, format!("{path}\0"))),
        2 => path().prop_map(|path| (Kind::Directory, format!("{path}\0"))),
        3 => (path(), value).prop_map(|(path, value)| (Kind::Write, format!("{path}\0{value}"))),
        2 => path().prop_map(|path| (Kind::Mkdir, format!("{path}\0"))),
        2 => path().prop_map(|path| (Kind::Rm, format!("{path}\0"))),
    ]
}

fn ask(store: &mut Store, client: ConnectionId, transaction: u32, request: &Request) -> String {
    let header = Header {
        kind: request.0 as u32,
        transaction,
        ..Header::default()
    };
    let (_, reply) = store.request(client, header, request.1.as_bytes());
    String::from_utf8(reply).unwrap()
}

/// A transaction: its number, and what was asked in it, with the replies.
type Open = (u32, Vec<(Request, String)>);

/// The nodes as a flat map.
#[derive(Default)]
struct Model(BTreeMap<String, String>);

impl Model {
    fn has(&self, path: &str) -> bool {
        path.is_empty() || self.0.contains_key(path)
    }

    fn make(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            self.0.entry(path[..end].to_string()).or_default();
        }
    }

    fn ask(&mut self, (kind, payload): &Request) -> String {
        let (path, value) = payload.split_once('\0').unwrap();
        let parent = path.rsplit_once('/').unwrap().0;
        let below = format!("{path}/");
        match kind {
            Kind::Read | Kind::Directory | Kind::Rm if !self.has(path) => {
                let lenient = *kind == Kind::Rm && self.has(parent);
                return if lenient { "OK\0" } else { "ENOENT\0" }.to_string();
            }
            Kind::Read => return self.0[path].clone(),
            Kind::Directory => {
                let names = self.0.keys().filter_map(|other| other.strip_prefix(&below));
                let children = names.filter(|name| !name.contains('/'));
                return children.map(|name| format!("{name}\0")).collect();
            }
            Kind::Rm => self
                .0
                .retain(|other, _| other != path && !other.starts_with(&below)),
            Kind::Mkdir => self.make(path),
            _ => {
                self.make(path);
                self.0.insert(path.to_string(), value.to_string());
            }
        }
        "OK\0".to_string()
    }
}

/// What several clients do: one begins or ends its transaction, or asks something, inside its
/// transaction if it has one.
#[derive(Clone, Debug)]
enum Act {
    Ask(usize, Request),
    Begin(usize),
    End(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..3usize, request()).prop_map(|(client, request)| Act::Ask(client, request)),
        1 => (0..3usize).prop_map(Act::Begin),
        1 => (0..3usize).prop_map(Act::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nodes_are_as_a_plain_map_has_them(requests in prop::collection::vec(request(), 1..60)) {
        let (mut store, mut model) = (Store::default(), Model::default());
        let host = store.connect(DomainId::CONTROL);
        for request in &requests {
            prop_assert_eq!(ask(&mut store, host, 0, request), model.ask(request), "{:?}", request);
        }
    }

    #[test]
    fn transactions_are_as_if_one_came_after_the_other(
        acts in prop::collection::vec(act(), 1..80),
    ) {
        // In `serial`, a transaction's requests are made when it is committed, all at once.
        let (mut store, mut serial) = (Store::default(), Store::default());
        let clients: Vec<ConnectionId> =
            (0..3).map(|_| store.connect(DomainId::CONTROL)).collect();
        let other = serial.connect(DomainId::CONTROL);
        let mut open: Vec<Option<Open>> = vec![None; 3];
        for act in acts {
            match act {
                Act::Ask(client, request) => match &mut open[client] {
                    Some((number, asked)) => {
                        let reply = ask(&mut store, clients[client], *number, &request);
                        asked.push((request, reply));
                    }
                    None => {
                        let reply = ask(&mut store, clients[client], 0, &request);
                        prop_assert_eq!(reply, ask(&mut serial, other, 0, &request));
                    }
                },
                Act::Begin(client) if open[client].is_none() => {
                    let begin = (Kind::TransactionStart, "\0".to_string());
                    let number = ask(&mut store, clients[client], 0, &begin);
                    let number = number.trim_end_matches('\0').parse().unwrap();
                    open[client] = Some((number, Vec::new()));
                }
                Act::End(client) => {
                    let Some((number, asked)) = open[client].take() else {
                        continue;
                    };
                    let end = (Kind::TransactionEnd, "T\0".to_string());
                    let ended = ask(&mut store, clients[client], number, &end);
                    if ended == "EAGAIN\0" {
                        continue;
                    }
                    prop_assert_eq!(ended, "OK\0");
                    for (request, reply) in asked {
                        prop_assert_eq!(reply, ask(&mut serial, other, 0, &request));
                    }
                }
                Act::Begin(_) => {}
            }
        }
        // Both are the same in the end.
        for path in ["/", "/a", "/b", "/c", "/a/a", "/a/b", "/b/a"] {
            for kind in [Kind::Read, Kind::Directory] {
                let request = (kind, format!("{path}\0"));
                let (one, two) = (
                    ask(&mut store, clients[0], 0, &request),
                    ask(&mut serial, other, 0, &request),
                );
                prop_assert_eq!(one, two);
            }
        }
    }

    #[test]
    fn no_request_breaks_the_store(
        requests in prop::collection::vec(
            (0..30u32, 0..4u32, prop::collection::vec(prop::sample::select(b"/a@3\0nrTF-".to_vec()), 0..30)),
            1..100,
        ),
    ) {
        let mut store = Store::default();
        let clients = [store.connect(DomainId::CONTROL), store.connect(DomainId(3))];
        store.introduce(DomainId(3));
        for (n, (kind, transaction, payload)) in requests.iter().enumerate() {
            let header = Header { kind: *kind, transaction: *transaction, ..Header::default() };
            let (_, reply) = store.request(clients[n % 2], header, payload);
            prop_assert!(reply.len() <= 4096);
            while store.next_event(clients[n % 2]).is_some() {}
        }
        let check = (Kind::Control, "check\0".to_string());
        let checked = ask(&mut store, clients[0], 0, &check);
        prop_assert!(checked.contains(" 0 nodes without a note"), "{}", checked);
        prop_assert!(checked.contains(" 0 notes without a node"), "{}", checked);
    }
}
