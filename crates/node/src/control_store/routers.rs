//! Routers of guests, in ClickOS's layout: entries below `data/clickos` of a domain that its toolstack writes. The node
//! carries them out; the outcome is an entry again.
//!
//! | entry of a router | |
//! | --- | --- |
//! | `config_name`, `config/0`, `config/1`, … | what its configuration is called, and its text in chunks |
//! | `status` | `Running` starts it, `Halted` stops it; `Error`: it cannot be started |
//! | `control/read/ELEMENT/HANDLER` | a write reads the handler |
//! | `elements/ELEMENT/HANDLER` | a write writes the handler; holds the value of a handler that was read |
//! | `elements/ELEMENT/HANDLER/lock` | `0`, set when the handler was read or written, or could not be |
//! | `elements/ELEMENT/HANDLER/error`, `error` | why something could not be done |
//!
//! One watch for each domain finds its changes. If a guest removes its own `data`, the entries are written again.
//! Entries that the guest writes are not acted on.

use std::collections::{BTreeSet, HashMap, VecDeque};

use ::store::server::Shared;
use ::store::wire::Kind;
use ::store::{ConnectionId, DomainId, Event};

use super::layout::{
    ERROR, Handler, Key, ROUTERS, base_of, key, lock_of, number, path_of, split, value_max,
};
use super::message::{Action, CONFIG_MAX, FromStore, Introduction, Request, parts};
use super::writer::Writer;

/// Most requests of a guest that wait.
const WAITING_MAX: usize = 64;
/// Most requests of all guests that wait.
const ALL_WAITING_MAX: usize = 4096;
/// Bytes of a chunk of a configuration that the node writes, as in ClickOS's tools.
const CHUNK: usize = 512;

const RUNNING: &str = "Running";
const HALTED: &str = "Halted";
const FAILED: &str = "Error";

/// The routers of all domains.
pub struct Routers {
    store: Shared,
    /// The connection by which entries are made.
    connection: ConnectionId,
    /// The connection whose watches report changes.
    watcher: ConnectionId,
    domains: HashMap<u16, Domain>,
    /// Domains that have requests, of which none is under way.
    ready: VecDeque<u16>,
    /// Requests that wait, of all domains.
    waiting: usize,
    /// The number of the last request.
    number: u64,
    /// The parts of the next configuration, as the node sends them.
    text: String,
}

struct Domain {
    pid: u32,
    /// The name of its own configuration.
    config_name: String,
    /// Routers beside its own that run.
    running: BTreeSet<u8>,
    /// Actions that wait, in their order.
    waiting: VecDeque<QueuedRequest>,
    /// The number of the first one, if it is under way.
    asked: Option<u64>,
}

/// An action that waits.
struct QueuedRequest {
    router: u8,
    what: What,
}

enum What {
    Start,
    Stop,
    Describe,
    /// The handler's node and name.
    Read(String, String),
    /// And its value.
    Write(String, String, String),
}

impl Routers {
    /// None. `connection` is one of the control domain.
    pub fn new(store: Shared, connection: ConnectionId) -> Routers {
        Routers {
            watcher: store.with(|store| store.connect(DomainId::CONTROL)),
            store,
            connection,
            domains: HashMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            number: 0,
            text: String::new(),
        }
    }

    /// A guest runs, whose entries there are but for its routers'.
    pub fn introduce(&mut self, guest: &Introduction) {
        let domain = Domain {
            pid: guest.pid,
            config_name: guest.config_name.clone(),
            running: BTreeSet::new(),
            waiting: VecDeque::new(),
            asked: None,
        };
        self.domains.insert(guest.domain, domain);
        let watcher = self.watcher;
        self.change(|writer| {
            make_base(writer, guest.domain, &guest.config_name);
            let connection = std::mem::replace(&mut writer.connection, watcher);
            writer.ask(Kind::Watch, &base_of(guest.domain), b"\0");
            writer.connection = connection;
        });
    }

    /// A guest has ended. Its entries are removed elsewhere.
    pub fn release(&mut self, domain: u16) {
        if let Some(gone) = self.domains.remove(&domain) {
            self.waiting -= gone.waiting.len();
            let watcher = self.watcher;
            self.change(|writer| {
                writer.connection = watcher;
                writer.ask(Kind::Unwatch, &base_of(domain), b"\0");
            });
        }
    }

    /// A node has connected: it gets the requests that the last one did not answer.
    pub fn begin(&mut self) {
        self.text.clear();
        self.ready.clear();
        for (id, domain) in &mut self.domains {
            domain.asked = None;
            if !domain.waiting.is_empty() {
                self.ready.push_back(*id);
            }
        }
    }

    /// Changes entries, which is not acted on.
    fn change(&self, work: impl FnOnce(&mut Writer<'_>)) {
        let (connection, watcher) = (self.connection, self.watcher);
        self.store.with(|store| {
            work(&mut Writer { store, connection });
            while store.next_event(watcher).is_some() {}
        });
    }

    /// Reads entries.
    fn read<R>(&self, work: impl FnOnce(&mut Writer<'_>) -> R) -> R {
        let connection = self.connection;
        self.store
            .peek(|store| work(&mut Writer { store, connection }))
    }

    /// Writes an error sentence at a router, or below. Quotation marks and ellipses become ASCII, since Xen's tools
    /// escape other characters.
    fn tell(&self, place: &str, sentence: &str) {
        let path = format!("{place}/{ERROR}");
        let sentence = sentence.replace(['‘', '’'], "'").replace('…', "...");
        let length = sentence.floor_char_boundary(value_max(&path));
        self.change(|writer| writer.write(&path, &sentence[..length]));
    }
}

/// What programs change.
impl Routers {
    /// Looks at changed entries, except its own changes.
    pub fn look(&mut self) {
        let watcher = self.watcher;
        let next = || self.store.peek(|store| store.next_event(watcher));
        let events: Vec<Event> = std::iter::from_fn(next).collect();
        for event in events {
            if let Some((domain, rest)) = split(&event.path)
                && self.domains.contains_key(&domain)
            {
                self.see(domain, rest);
            }
        }
    }

    /// The entry `rest`, seen from the routers' path of a domain, was changed.
    fn see(&mut self, domain: u16, rest: &str) {
        let base = base_of(domain);
        if !self.read(|reader| reader.is_of_control(&base)) {
            let name = self.domains.get(&domain).map(|it| it.config_name.clone());
            self.change(|writer| {
                writer.remove(&base);
                make_base(writer, domain, &name.unwrap_or_default());
            });
            return self.want(domain, 0, What::Describe);
        }
        let Some(rest) = rest.strip_prefix('/') else {
            return self.see_all(domain);
        };
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let key = key(rest);
        let path = format!("{base}/{name}");
        let router = match (number(name), &key) {
            (Some(router), _) => router,
            (None, Key::Other | Key::Router) => return,
            (None, _) => {
                let sentence = format!("a router has a number from 0 to {}", ROUTERS - 1);
                return self.tell(&path, &sentence);
            }
        };
        match key {
            Key::Other => {}
            Key::Wrong(why) => self.tell(&path, &format!("{rest}: {why}")),
            Key::Router => self.see_router(domain, router, &path),
            Key::Status => self.see_status(domain, router, &path),
            Key::Read(handler) if self.is_there(&format!("{path}/{rest}")) => {
                let what = What::Read(handler.node(), handler.name(router));
                self.want_of_handler(domain, router, handler, what);
            }
            Key::Element(handler) => match self.text(&format!("{path}/{rest}")) {
                None => {}
                Some(Ok(value)) if value.is_empty() => {}
                Some(Ok(value)) => {
                    let what = What::Write(handler.node(), handler.name(router), value);
                    self.want_of_handler(domain, router, handler, what);
                }
                Some(Err(())) => {
                    let node = format!("{path}/{}", handler.node());
                    self.answer_handler(&node, Err("the value is not UTF-8".into()));
                }
            },
            Key::Read(_) => {}
        }
    }

    fn is_there(&self, path: &str) -> bool {
        self.read(|reader| reader.exists(path))
    }

    /// The text of a node; bytes that are not UTF-8 are an error.
    fn text(&self, path: &str) -> Option<Result<String, ()>> {
        let value = self.read(|reader| reader.read(path))?;
        Some(String::from_utf8(value).map_err(drop))
    }

    /// More was changed than is known: all routers of the domain are looked at.
    fn see_all(&mut self, domain: u16) {
        for router in 0..ROUTERS {
            let path = path_of(domain, router);
            let runs = self.runs_now(domain, router);
            match self.text(&format!("{path}/status")) {
                Some(Ok(status)) if status == RUNNING && runs => {}
                Some(_) => self.see_status(domain, router, &path),
                None => self.see_router(domain, router, &path),
            }
        }
    }

    fn runs_now(&self, domain: u16, router: u8) -> bool {
        let domain = self.domains.get(&domain);
        router == 0 || domain.is_some_and(|it| it.running.contains(&router))
    }

    /// Whether there may be something to be stopped.
    fn may_run(&self, domain: u16, router: u8) -> bool {
        let starts = |it: &Domain| {
            let mut waiting = it.waiting.iter();
            waiting.any(|wanted| wanted.router == router && matches!(wanted.what, What::Start))
        };
        self.runs_now(domain, router) || self.domains.get(&domain).is_some_and(starts)
    }

    /// A router's node was made, or removed.
    fn see_router(&mut self, domain: u16, router: u8, path: &str) {
        if self.is_there(path) {
            return;
        }
        match router {
            0 => {
                let name = self.domains.get(&domain).map(|it| it.config_name.clone());
                self.change(|writer| make_own(writer, domain, &name.unwrap_or_default()));
                self.tell(
                    path,
                    "router 0 is the guest's own configuration, which stays",
                );
            }
            _ if self.may_run(domain, router) => self.want(domain, router, What::Stop),
            _ => {}
        }
    }

    fn see_status(&mut self, domain: u16, router: u8, path: &str) {
        let status = match self.text(&format!("{path}/status")) {
            None => return,
            Some(status) => status.unwrap_or_else(|()| "?".into()),
        };
        match (status.as_str(), router) {
            (RUNNING, 0) if !self.is_there(&format!("{path}/config/0")) => {}
            (RUNNING, _) => self.want(domain, router, What::Start),
            (HALTED, 0) => {
                self.change(|writer| writer.write(&format!("{path}/status"), RUNNING));
                let why = "router 0 is the guest's own configuration, which runs as long as the guest: `weir stop` ends both";
                self.tell(path, why);
            }
            (HALTED, _) if self.may_run(domain, router) => self.want(domain, router, What::Stop),
            (HALTED | FAILED | "", _) => {}
            (other, _) => {
                let sentence = format!("status ‘{other}’: {RUNNING} or {HALTED} is expected");
                self.tell(path, &sentence);
            }
        }
    }

    fn want_of_handler(&mut self, domain: u16, router: u8, handler: Handler<'_>, what: What) {
        if !self.runs_now(domain, router) && !self.may_run(domain, router) {
            let node = format!("{}/{}", path_of(domain, router), handler.node());
            let why = format!("router {router} does not run");
            return self.answer_handler(&node, Err(why));
        }
        self.want(domain, router, what);
    }

    /// Queues an action behind the waiting ones.
    fn want(&mut self, id: u16, router: u8, what: What) {
        let all = self.waiting;
        let Some(domain) = self.domains.get_mut(&id) else {
            return;
        };
        if domain.waiting.len() >= WAITING_MAX || all >= ALL_WAITING_MAX {
            let sentence = format!(
                "{} requests of this guest wait for the node, and this one is dropped: write the entry again later",
                domain.waiting.len()
            );
            let path = path_of(id, router);
            return match what {
                What::Read(node, _) | What::Write(node, ..) => {
                    self.answer_handler(&format!("{path}/{node}"), Err(sentence))
                }
                _ => self.tell(&path, &sentence),
            };
        }
        if domain.waiting.is_empty() {
            self.ready.push_back(id);
        }
        domain.waiting.push_back(QueuedRequest { router, what });
        self.waiting += 1;
    }
}

/// The node's messages and answers.
impl Routers {
    /// The messages of the next request to the node.
    pub fn next_request(&mut self) -> Option<Vec<FromStore>> {
        loop {
            let id = self.ready.pop_front()?;
            let Some(domain) = self.domains.get(&id) else {
                continue;
            };
            let Some(QueuedRequest { router, what }) = domain.waiting.front() else {
                continue;
            };
            let router = *router;
            let mut text = String::new();
            let action = match what {
                What::Start => match self.config(id, router) {
                    Ok((name, config)) => {
                        text = config;
                        Ok(Action::Start { name })
                    }
                    Err(why) => Err(why),
                },
                What::Stop => Ok(Action::Stop),
                What::Describe => Ok(Action::Describe),
                What::Read(_, handler) => Ok(Action::Read {
                    handler: handler.clone(),
                }),
                What::Write(_, handler, value) => Ok(Action::Write {
                    handler: handler.clone(),
                    value: value.clone(),
                }),
            };
            self.number += 1;
            let (number, pid) = (self.number, domain.pid);
            if let Some(domain) = self.domains.get_mut(&id) {
                domain.asked = Some(number);
            }
            let action = match action {
                Ok(action) => action,
                Err(why) => {
                    self.answer(id, number, Err(why));
                    continue;
                }
            };
            let parts = parts(&text).into_iter().map(FromStore::Part);
            let request = Request {
                number,
                domain: id,
                pid,
                router,
                action,
            };
            return Some(parts.chain([FromStore::Request(request)]).collect());
        }
    }

    /// A router's configuration: its name and its text.
    fn config(&self, domain: u16, router: u8) -> Result<(String, String), String> {
        let path = path_of(domain, router);
        let name = match self.text(&format!("{path}/config_name")) {
            Some(Ok(name)) if !name.is_empty() => name,
            _ => "config".into(),
        };
        let text = self.read(|reader| chunks(reader, &path))?;
        let text = String::from_utf8(text).map_err(|_| "the configuration is not UTF-8")?;
        match text.is_empty() {
            true => {
                Err("the configuration is missing: it is expected in config/0, config/1, …".into())
            }
            false => Ok((name, text)),
        }
    }

    /// Adds a part of the next configuration, as the node sends it.
    pub fn add_part(&mut self, part: &str) {
        if self.text.len() < CONFIG_MAX {
            self.text.push_str(part);
        }
    }

    /// A guest runs a router, whose configuration was told before.
    pub fn runs(&mut self, domain: u16, router: u8, name: &str) {
        let text = std::mem::take(&mut self.text);
        let Some(known) = self.domains.get_mut(&domain) else {
            return;
        };
        if router != 0 {
            known.running.insert(router);
        } else {
            known.config_name = name.into();
        }
        let path = path_of(domain, router);
        let is = |reader: &mut Writer<'_>| {
            let same = |reader: &mut Writer<'_>, key: &str, value: &str| {
                reader.read(&format!("{path}/{key}")).as_deref() == Some(value.as_bytes())
            };
            same(reader, "status", RUNNING)
                && same(reader, "config_name", name)
                && (router == 0 || chunks(reader, &path).is_ok_and(|is| is == text.as_bytes()))
        };
        if self.read(is) {
            return;
        }
        self.change(|writer| {
            if router == 0 {
                // Its own text is not kept here: it may hold keys.
                return make_own(writer, domain, name);
            }
            writer.remove(&format!("{path}/config"));
            make(writer, &path, name);
            let mut rest = text.as_str();
            for n in 0.. {
                if rest.is_empty() {
                    break;
                }
                let (chunk, behind) = rest.split_at(rest.floor_char_boundary(CHUNK));
                writer.write(&format!("{path}/config/{n}"), chunk);
                rest = behind;
            }
        });
    }

    /// A guest runs a router no more.
    pub fn halted(&mut self, domain: u16, router: u8) {
        let known = self.domains.get_mut(&domain);
        if known.is_some_and(|it| it.running.remove(&router)) {
            let status = format!("{}/status", path_of(domain, router));
            if self
                .text(&status)
                .is_some_and(|is| is.as_deref() != Ok(HALTED))
            {
                self.change(|writer| writer.write(&status, HALTED));
            }
        }
    }

    /// Takes the outcome of a request.
    pub fn answer(&mut self, id: u16, number: u64, outcome: Result<String, String>) {
        let Some(domain) = self.domains.get_mut(&id) else {
            return;
        };
        if domain.asked != Some(number) {
            return;
        }
        domain.asked = None;
        let Some(QueuedRequest { router, what }) = domain.waiting.pop_front() else {
            return;
        };
        self.waiting -= 1;
        if !domain.waiting.is_empty() {
            self.ready.push_back(id);
        }
        let path = path_of(id, router);
        if !self.is_there(&path) {
            return;
        }
        match (what, outcome) {
            (What::Read(node, _), outcome) => {
                self.answer_handler(&format!("{path}/{node}"), outcome.map(Some));
            }
            (What::Write(node, ..), outcome) => {
                self.answer_handler(&format!("{path}/{node}"), outcome.map(|_| None));
            }
            (_, Ok(_)) => self.change(|writer| writer.remove(&format!("{path}/{ERROR}"))),
            (_, Err(why)) => {
                let runs = self.runs_now(id, router);
                self.change(|writer| {
                    writer.write(
                        &format!("{path}/status"),
                        if runs { RUNNING } else { FAILED },
                    );
                });
                self.tell(&path, &why);
            }
        }
    }

    /// A handler was read, with its value, or written; or why not.
    fn answer_handler(&self, node: &str, outcome: Result<Option<String>, String>) {
        let outcome = outcome.and_then(|value| match value {
            Some(value) if value.len() > value_max(node) => Err(format!(
                "the value has {} bytes, and an entry holds {}",
                value.len(),
                value_max(node)
            )),
            value => Ok(value),
        });
        match outcome {
            Ok(value) => self.change(|writer| {
                writer.remove(&format!("{node}/{ERROR}"));
                if let Some(value) = value {
                    writer.write(node, &value);
                }
            }),
            Err(why) => self.tell(node, &why),
        }
        self.change(|writer| writer.write(&lock_of(node), "0"));
    }
}

/// Makes the entries by which tools find a domain with routers, and the entries of the guest's own router.
fn make_base(writer: &mut Writer<'_>, domain: u16, config_name: &str) {
    writer.make_readable(&base_of(domain), domain);
    make_own(writer, domain, config_name);
}

fn make_own(writer: &mut Writer<'_>, domain: u16, config_name: &str) {
    make(writer, &path_of(domain, 0), config_name);
}

/// Makes the entries of a router that runs.
fn make(writer: &mut Writer<'_>, path: &str, config_name: &str) {
    writer.write(&format!("{path}/config_name"), config_name);
    writer.write(&format!("{path}/status"), RUNNING);
    for key in ["control", "elements"] {
        writer.ask(Kind::Mkdir, &format!("{path}/{key}"), b"");
    }
}

/// The chunks of a router's configuration, one behind the other.
fn chunks(reader: &mut Writer<'_>, path: &str) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    for n in 0.. {
        let Some(chunk) = reader.read(&format!("{path}/config/{n}")) else {
            break;
        };
        text.extend(chunk);
        if text.len() > CONFIG_MAX {
            return Err(format!(
                "the configuration has more than {CONFIG_MAX} bytes"
            ));
        }
    }
    Ok(text)
}
