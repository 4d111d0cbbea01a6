//! A Click configuration as the lookup function.
//!
//! The configuration is a router of the elements that guests have, and two of the switch's own:
//! [`FromPort`] gives out the frames that came from a port, [`ToPort`] says that a frame goes to
//! one. So `FromPort(vm1) -> ToPort(vm2)` is a wire, and a firewall in a switch is the filter
//! between the two.
//!
//! The router decides and changes nothing: its packets are copies of the frames' first [`HEAD`]
//! bytes, with zeros behind up to the frame's length. Changes to a packet do not reach the frame. A
//! frame goes where the first of its packets arrives; copies that arrive elsewhere are counted and
//! go nowhere. One whose packet arrives nowhere, or is still held by a queue when the batch has
//! been run through, is dropped and counted at its source. A frame that is longer than a packet is
//! shown as a packet can be, its IP length made to fit.
//!
//! Tasks and timers run when frames come. Handlers are read and written through the switch's
//! control socket. Each lane runs a router of its own: numbers are added up over lanes, and state of a
//! configuration that spans ports on several lanes is each lane's share.
//!
//! The program that starts the switch registers [`FUNCTION`] with [`switch::lookup::register`].
#![forbid(unsafe_code)]

mod elements;
mod sink;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use click::{Diagnostics, Options};
use packet::{DATA_MAX, HEADROOM, Packet, Pool};
use router::{
    Device, ElementId, Embedding, HandlerError, Library, Router, Runtime, Settings, Side, Steady,
};

use switch::counters::Reason;
use switch::lookup::{
    Answer, Command, Destination, Function, Known, Lookup, Mac, PortIndex, Seconds,
};
use switch::port::{Frame, HEAD};
use switch::properties::{DomainProperties, LookupKind};

use sink::{EVERY_PORT, Exit, Sink};

pub use elements::{CLASSES, FromPort, ToPort, pages};

/// Buffers of a router.
const BUFFERS: usize = 1024;
/// Tasks that run for a batch, at most.
const TASKS: usize = 64;
/// Lines that a router may print in all. They help the author of the configuration, and packets
/// must not be able to fill a disk.
const LINES_MAX: u32 = 1000;
/// Name of a configuration in messages.
const FILE: &str = "lookup";

/// The function, to be registered with the switch.
pub static FUNCTION: Function = Function {
    name: "click",
    build: |properties, _| match &properties.lookup {
        LookupKind::Click { config } => Ok(Box::new(ClickFunction::new(config)?)),
        other => Err(format!("‘{other}’ is not a Click configuration")),
    },
};

/// A Click configuration that says where frames go.
pub struct ClickFunction {
    router: Router,
    sink: Arc<Sink>,
    /// Names of the domain's ports, including ports that will be attached later.
    names: Vec<(PortIndex, String)>,
    /// The FromPort elements, by the port's name.
    inputs: Vec<(String, ElementId)>,
    /// The FromPort element of each port, by its index.
    sources: Vec<Option<ElementId>>,
}

impl ClickFunction {
    /// The router that a configuration describes. What is wrong with it is the error, a line each.
    pub fn new(config: &str) -> Result<ClickFunction, String> {
        let sink = Arc::new(Sink::default());
        let embedding = LookupEmbedding {
            sink: Arc::clone(&sink),
            started: Instant::now(),
            lines: 0,
        };
        let runtime = Runtime::new(Box::new(embedding), Pool::heap(BUFFERS));
        let library = library();
        let mut diagnostics = Diagnostics::new();
        let options = Options::new(&library);
        let flat = click::parse(config.as_bytes(), FILE, &options, &mut diagnostics);
        let router = flat.and_then(|flat| {
            let settings = Settings::default();
            Router::new(flat, config, &library, runtime, settings, &mut diagnostics).ok()
        });
        let mut router = router.ok_or_else(|| diagnostics.to_string())?;
        let inputs = inputs_of(&mut router);
        Ok(ClickFunction {
            router,
            sink,
            names: Vec::new(),
            inputs,
            sources: Vec::new(),
        })
    }

    /// Another configuration takes this one's place; elements of the same name and class keep their
    /// state. If there is something wrong with it, this one goes on.
    pub fn replace(&mut self, config: &str) -> Result<(), String> {
        let library = library();
        let mut diagnostics = Diagnostics::new();
        let options = Options::new(&library);
        let flat = click::parse(config.as_bytes(), FILE, &options, &mut diagnostics);
        let replaced = flat.is_some_and(|flat| {
            let (old, settings) = (&mut self.router, Settings::default());
            Router::replace(old, flat, config, &library, settings, &mut diagnostics).is_ok()
        });
        if !replaced {
            return Err(diagnostics.to_string());
        }
        self.inputs = inputs_of(&mut self.router);
        for i in 0..self.names.len() {
            let (port, name) = &self.names[i];
            let port = *port;
            self.sink.name(name, Some(port));
            self.find_source(port);
        }
        Ok(())
    }

    /// Finds out which element gives out a port's frames.
    fn find_source(&mut self, port: PortIndex) {
        let index = usize::from(port);
        if self.sources.len() <= index {
            self.sources.resize(index + 1, None);
        }
        let named = self.names.iter().find(|(known, _)| *known == port);
        let input = |name: &str| self.inputs.iter().find(|(input, _)| input == name);
        let found = named.and_then(|(_, name)| input(name));
        let found = found.or_else(|| input(EVERY_PORT));
        self.sources[index] = found.map(|(_, element)| *element);
    }

    /// Runs the frames through the router, and notes where their packets arrive.
    fn run(&mut self, element: ElementId, frames: &[Frame]) {
        let sink = &self.sink;
        let first = sink.begin();
        self.router.with(element, |_, cx| {
            let mut batch = cx.batch();
            let limit = cx.limit();
            for (origin, frame) in (first..).zip(frames) {
                let Some(packet) = picture(cx.pool(), frame, origin) else {
                    continue;
                };
                if batch.len() >= limit {
                    let full = std::mem::replace(&mut batch, cx.batch());
                    cx.push(0, full);
                }
                if let Err(packet) = batch.push(packet) {
                    cx.kill(packet);
                }
            }
            cx.push(0, batch);
        });
        // What waits in queues, and what expired meanwhile.
        self.router.run(TASKS);
    }

    /// The element and the handler that a command names.
    fn target<'h>(&self, handler: &'h str) -> Result<(Option<ElementId>, &'h str), String> {
        let Some((element, handler)) = handler.rsplit_once('.') else {
            return Ok((None, handler));
        };
        match self.router.find(element) {
            Some(found) => Ok((Some(found), handler)),
            None => Err(format!("the configuration has no element ‘{element}’")),
        }
    }
}

/// The classes that a configuration may use.
pub fn library() -> Library {
    let mut library = ::elements::guest_library();
    library.add(elements::CLASSES);
    library
}

/// The FromPort elements of a router, by the ports that they name.
fn inputs_of(router: &mut Router) -> Vec<(String, ElementId)> {
    let graph = router.graph().elements.iter().enumerate();
    let inputs = graph.filter(|(_, element)| element.class.name == "FromPort");
    let inputs: Vec<_> = inputs.map(|(i, _)| ElementId::new(i)).collect();
    let named = inputs.into_iter().filter_map(|id| {
        let name = router.read(Some(id), "port", "");
        Some((name.ok()?, id))
    });
    named.collect()
}

/// A packet that shows a frame.
#[inline]
fn picture(pool: &mut Pool, frame: &Frame, origin: u32) -> Option<Packet> {
    let len = frame.len().min(DATA_MAX);
    let mut packet = pool.packet(HEADROOM, len)?;
    let data = packet.data_mut();
    let known = len.min(HEAD);
    data[..known].copy_from_slice(&frame.head()[..known]);
    data[known..].fill(0);
    if frame.len() > len {
        fit(data);
    }
    packet.set_origin(origin);
    packet.set_mac_header(0);
    Some(packet)
}

/// Shortens an IP packet's length field to the bytes that are there, so that the packet is valid.
fn fit(data: &mut [u8]) {
    let kind = |data: &[u8], at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
    let mut at = 12;
    while at < 20 && matches!(kind(data, at), 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    let len = (data.len() - ip) as u16;
    match kind(data, at) {
        0x0800 => {
            data[ip + 2..ip + 4].copy_from_slice(&len.to_be_bytes());
            data[ip + 10..ip + 12].fill(0);
            let end = (ip + usize::from(data[ip] & 15) * 4).min(HEAD);
            let sum = packet::checksum::Sum::of(&data[ip..end]).checksum();
            data[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        }
        0x86dd => data[ip + 4..ip + 6].copy_from_slice(&(len - 40).to_be_bytes()),
        _ => {}
    }
}

impl Lookup for ClickFunction {
    fn steer(&mut self, from: PortIndex, frames: &[Frame], to: &mut [Destination], _now: Seconds) {
        match self.sources.get(usize::from(from)) {
            Some(&Some(element)) => self.run(element, frames),
            _ => drop(self.sink.begin()),
        }
        for (i, to) in to.iter_mut().enumerate() {
            *to = match self.sink.arrived(i) {
                Some(Destination::Port(port)) if port == from => {
                    Destination::Drop(Reason::SameSide)
                }
                Some(destination) => destination,
                None => Destination::Drop(Reason::Lookup),
            };
        }
    }

    fn introduce(&mut self, port: PortIndex, name: &str, _uplink: bool) {
        self.names.retain(|(known, _)| *known != port);
        self.names.push((port, name.into()));
    }

    fn attach(&mut self, port: PortIndex, _mac: Option<Mac>, _vlan: u16) {
        self.find_source(port);
        if let Some((_, name)) = self.names.iter().find(|(known, _)| *known == port) {
            self.sink.name(name, Some(port));
        }
    }

    fn detach(&mut self, port: PortIndex) {
        if let Some(source) = self.sources.get_mut(usize::from(port)) {
            *source = None;
        }
        if let Some(i) = self.names.iter().position(|(known, _)| *known == port) {
            let (_, name) = self.names.swap_remove(i);
            self.sink.name(&name, None);
        }
    }

    fn configure(&mut self, properties: &DomainProperties) {
        if let LookupKind::Click { config } = &properties.lookup
            && self.router.graph().source != *config
            && let Err(why) = self.replace(config)
        {
            // It was found good when it was given: elements of the old one may object.
            self.router.runtime().embedding.chatter(&why);
        }
    }

    fn flush(&mut self) {}

    fn entries(&self) -> usize {
        0
    }

    fn table(&self, _now: Seconds) -> Vec<Known> {
        Vec::new()
    }

    fn command(&mut self, command: &Command<PortIndex>) -> Result<Answer, String> {
        match command {
            Command::Read { handler } => {
                let (element, name) = self.target(handler)?;
                let text = self.router.read(element, name, "");
                let text = text.map_err(|error| refused(handler, error))?;
                Ok(Answer::Text { text })
            }
            Command::Write { handler, value } => {
                let (element, name) = self.target(handler)?;
                let written = self.router.write(element, name, value);
                written.map_err(|error| refused(handler, error))?;
                Ok(Answer::Done)
            }
            _ => Err("a Click configuration has no flows: a flow table has".into()),
        }
    }
}

/// Why a handler could not be used, as a sentence.
fn refused(handler: &str, error: HandlerError) -> String {
    match error {
        HandlerError::Unknown => format!("the configuration has no handler ‘{handler}’"),
        HandlerError::Failed(why) => format!("‘{handler}’: {why}"),
    }
}

/// What a router has around it in a switch.
struct LookupEmbedding {
    sink: Arc<Sink>,
    started: Instant,
    lines: u32,
}

impl Embedding for LookupEmbedding {
    fn steady(&self) -> Steady {
        Steady(self.started.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as i64)
    }

    fn chatter(&mut self, line: &str) {
        use std::io::Write;
        if self.lines < LINES_MAX {
            self.lines += 1;
            // A failure to write to standard error cannot be reported.
            let line = format!("switch: {FILE}: {line}\n");
            let _ = std::io::stderr().write_all(&click::text::encode(&line));
        }
    }

    fn print(&mut self, text: &[u8]) {
        let text = click::text::decode(text);
        self.chatter(text.trim_end());
    }

    fn seed(&mut self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    }

    fn driver(&self) -> &'static str {
        "switch"
    }

    fn device(&mut self, name: &str, _side: Side) -> Result<Box<dyn Device>, String> {
        Ok(Box::new(Exit::new(&self.sink, name)))
    }
}

#[cfg(test)]
mod tests;
