//! A client of the control store for a router's elements, over whatever carries its bytes. A connection that begins
//! again has all watches registered again, and what was under way asked again.

use alloc::collections::BTreeMap;

use abi::xenstore::{Header, Kind, PAYLOAD_MAX, first_string};

use crate::prelude::*;

/// Most bytes that wait to be sent.
const UNSENT_MAX: usize = 16 << 10;
/// Most bytes of a path with a domain's in front (xenstore.txt: absolute paths have at most 3072).
const PATH_MAX: usize = 2048;
/// Bytes read at a time.
const READ: usize = 1024;

/// The connection, or the protocol on it, is broken for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What carries bytes between the client and the store.
pub trait Carrier {
    /// Whether a connection has begun since the last call. What the last one carried is lost.
    fn is_new(&mut self) -> bool;

    /// Reads bytes that came; none is 0.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken>;

    /// Sends bytes, as far as there is room.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken>;

    /// What was written and read in a turn is to be told to the other side.
    fn flush(&mut self, written: bool, read: bool) {
        let _ = (written, read);
    }
}

/// An element that uses the store.
struct User {
    element: ElementId,
    watches: Vec<String>,
}

/// A request that is not answered.
struct Asked {
    number: u32,
    handle: u64,
    element: ElementId,
    request: StoreRequest,
}

/// A client.
pub struct StoreLink {
    store: StoreBox,
    users: BTreeMap<u64, User>,
    asked: VecDeque<Asked>,
    next: u32,
    unsent: Vec<u8>,
    received: Vec<u8>,
    /// Whether the other side broke the protocol.
    broken: bool,
}

impl StoreLink {
    /// A client for the elements that use a box.
    pub fn new(store: StoreBox) -> StoreLink {
        StoreLink {
            store,
            users: BTreeMap::new(),
            asked: VecDeque::new(),
            next: 0,
            unsent: Vec::new(),
            received: Vec::new(),
            broken: false,
        }
    }

    /// Whether there is something to be asked that there is room for.
    pub fn has_work(&self) -> bool {
        !self.broken && self.store.has_mail() && self.unsent.len() < UNSENT_MAX
    }

    /// Whether bytes wait to be sent.
    pub fn is_unsent(&self) -> bool {
        !self.broken && !self.unsent.is_empty()
    }

    /// Moves what there is either way, and tells the router's elements.
    pub fn turn(&mut self, carrier: &mut impl Carrier, router: &mut Router) {
        if self.broken {
            while self.store.take().is_some() {}
            return;
        }
        if self.serve(carrier, router).is_err() {
            self.broken = true;
            (self.unsent, self.received) = (Vec::new(), Vec::new());
            let line =
                "the connection to the control store is broken: elements read and write it no more";
            router.runtime().embedding.chatter(line);
        }
    }

    fn serve(&mut self, carrier: &mut impl Carrier, router: &mut Router) -> Result<(), Broken> {
        if carrier.is_new() {
            self.begin();
            let users = self.users.iter();
            let users: Vec<_> = users
                .map(|(handle, user)| (*handle, user.element))
                .collect();
            for (handle, element) in users {
                router.tell_store(element, handle, &StoreAnswer::Reconnected);
            }
        }
        self.take_mail();
        let mut written = self.send(carrier)?;
        let mut bytes = [0; READ];
        let mut read = false;
        loop {
            let count = carrier.read(&mut bytes)?;
            if count == 0 {
                break;
            }
            read = true;
            self.received
                .extend_from_slice(bytes.get(..count).ok_or(Broken)?);
            self.take_messages(router)?;
        }
        // What answers made elements ask.
        self.take_mail();
        written |= self.send(carrier)?;
        carrier.flush(written, read);
        Ok(())
    }

    /// Asks again what the last connection was asked, in its order.
    fn begin(&mut self) {
        (self.unsent, self.received) = (Vec::new(), Vec::new());
        let watches = self.users.iter().flat_map(|(handle, user)| {
            let paths = user.watches.iter();
            paths.map(|path| (*handle, user.element, StoreRequest::Watch(path.clone())))
        });
        let asked = self.asked.drain(..);
        let again = asked.filter(|it| !matches!(it.request, StoreRequest::Watch(_)));
        let again = again.map(|it| (it.handle, it.element, it.request));
        let all: Vec<_> = watches.chain(again).collect();
        for (handle, element, request) in all {
            self.ask(handle, element, request);
        }
    }

    fn take_mail(&mut self) {
        while self.has_work()
            && let Some(mail) = self.store.take()
        {
            match mail {
                StoreMail::Ask(handle, element, request) => {
                    let user = self.users.entry(handle).or_insert(User {
                        element,
                        watches: Vec::new(),
                    });
                    if let StoreRequest::Watch(path) = &request {
                        user.watches.push(path.clone());
                    }
                    self.ask(handle, element, request);
                }
                StoreMail::Gone(handle) => {
                    let user = self.users.remove(&handle);
                    let paths = user.into_iter().flat_map(|user| user.watches);
                    for path in paths {
                        let number = self.number();
                        self.append(Kind::Unwatch, number, &watch(&path, handle));
                    }
                }
            }
        }
    }

    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn ask(&mut self, handle: u64, element: ElementId, request: StoreRequest) {
        let number = self.number();
        let (kind, payload) = match &request {
            StoreRequest::Read(path) => (Kind::Read, [path.as_bytes(), &[0]].concat()),
            StoreRequest::Write(path, value) => {
                (Kind::Write, [path.as_bytes(), &[0], value].concat())
            }
            StoreRequest::Watch(path) => (Kind::Watch, watch(path, handle)),
        };
        self.append(kind, number, &payload);
        self.asked.push_back(Asked {
            number,
            handle,
            element,
            request,
        });
    }

    fn append(&mut self, kind: Kind, request: u32, payload: &[u8]) {
        let header = Header {
            kind: kind as u32,
            request,
            transaction: 0,
            len: payload.len() as u32,
        };
        self.unsent.extend_from_slice(&header.to_bytes());
        self.unsent.extend_from_slice(payload);
    }

    fn send(&mut self, carrier: &mut impl Carrier) -> Result<bool, Broken> {
        let mut sent = 0;
        while let Some(rest) = self.unsent.get(sent..).filter(|rest| !rest.is_empty()) {
            match carrier.write(rest)? {
                0 => break,
                count => sent += count,
            }
        }
        self.unsent.drain(..sent);
        Ok(sent > 0)
    }

    fn take_messages(&mut self, router: &mut Router) -> Result<(), Broken> {
        loop {
            let Some((header, rest)) = self.received.split_first_chunk::<{ Header::LEN }>() else {
                return Ok(());
            };
            let header = Header::parse(header);
            let length = header.len as usize;
            if length > PAYLOAD_MAX {
                return Err(Broken);
            }
            let Some(payload) = rest.get(..length) else {
                return Ok(());
            };
            let payload = payload.to_vec();
            self.received.drain(..Header::LEN + length);
            self.take_message(header, &payload, router)?;
        }
    }

    fn take_message(
        &mut self,
        header: Header,
        payload: &[u8],
        router: &mut Router,
    ) -> Result<(), Broken> {
        if header.kind == Kind::WatchEvent as u32 {
            let token = first_string(payload).and_then(|(_, rest)| first_string(rest));
            let handle =
                token.and_then(|(token, _)| core::str::from_utf8(token).ok()?.parse().ok());
            // One of a handle that is gone may still come.
            if let Some((handle, user)) = handle.and_then(|it| Some((it, self.users.get(&it)?))) {
                router.tell_store(user.element, handle, &StoreAnswer::Changed);
            }
            return Ok(());
        }
        // Answers come in the order of requests; of those about handles that are gone, none is kept.
        let Some(asked) = self
            .asked
            .pop_front_if(|asked| asked.number == header.request)
        else {
            return Ok(());
        };
        let answer = match (Kind::from_number(header.kind), &asked.request) {
            (Some(Kind::Error), _) => {
                let name = first_string(payload).map_or(payload, |(name, _)| name);
                StoreAnswer::Refused(String::from_utf8_lossy(name).into_owned())
            }
            (Some(Kind::Read), StoreRequest::Read(_)) => StoreAnswer::Value(payload.to_vec()),
            (Some(Kind::Write), StoreRequest::Write(..)) => StoreAnswer::Written,
            // An event tells of it.
            (Some(Kind::Watch), StoreRequest::Watch(_)) => return Ok(()),
            _ => return Err(Broken),
        };
        if self.users.contains_key(&asked.handle) {
            router.tell_store(asked.element, asked.handle, &answer);
        }
        Ok(())
    }
}

/// The payload that registers a watch: its token is the handle's number.
fn watch(path: &str, handle: u64) -> Vec<u8> {
    alloc::format!("{path}\0{handle}\0").into_bytes()
}

/// A way to the store, or why there is none.
pub(super) fn open(cx: &mut Cx<'_>) -> Result<StoreHandle, Failed> {
    cx.store().ok_or_else(|| {
        cx.error("there is no control store: name its socket in XENSTORED_PATH, or run this in a guest of a node")
    })
}

/// Whether a path can be one.
pub(super) fn check_path(path: &str) -> Result<(), &'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-/_@".contains(c);
    match path {
        "" => Err("PATH must not be empty"),
        path if path.len() > PATH_MAX => Err("PATH must have at most 2048 bytes"),
        path if !path.chars().all(is_allowed) => {
            Err("PATH must have only letters, digits, ‘-’, ‘/’, ‘_’ and ‘@’")
        }
        _ => Ok(()),
    }
}

/// Whether a value fits a message that sets it.
pub(super) fn check_value(path: &str, value: &str) -> Result<(), &'static str> {
    match path.len() + 1 + value.len() <= PAYLOAD_MAX {
        true => Ok(()),
        false => Err("the value is too long: with the path, the control store takes 4095 bytes"),
    }
}
