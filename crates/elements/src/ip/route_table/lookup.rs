//! The part around a routing table that elements have in common: arguments, handlers, data path.

use router::memory::MORE_MEMORY;

use super::Found;
use super::hops::Hop;
use super::route::Unread;
use super::{Order, Refused, Route, RouteTable};
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;

/// How often an element says that it has no route.
const COMPLAINTS: u32 = 5;

/// A routing table with its argument and its data path.
#[derive(Component)]
#[component(default)]
pub struct RouteLookup {
    /// The routes. An address without a mask is a host route; `-` is no gateway.
    #[arg(
        rest,
        name = "ADDR/MASK [GATEWAY] OUTPUT",
        kind = "any number of routes"
    )]
    routes: Vec<String>,
    table: RouteTable,
    /// The name in front of the complaint about a packet without a route; `None`: such packets are
    /// dropped silently.
    complains_as: Option<&'static str>,
    complaints: u32,
}

/// A [`RouteLookup`] whose routes stay, with the handlers that show them and look up addresses.
#[derive(Component)]
#[component(handlers, default)]
pub struct FixedRoutes {
    #[delegate]
    lookup: RouteLookup,
}

/// A [`RouteLookup`] with the handlers that change and show its routes and look up addresses.
#[derive(Component)]
#[component(handlers, default)]
pub struct Routes {
    #[delegate]
    lookup: RouteLookup,
}

/// [`Routes`] with the handler that removes all.
#[derive(Component)]
#[component(handlers, default)]
pub struct FlushableRoutes {
    #[delegate]
    routes: Routes,
}

impl FixedRoutes {
    pub fn new(order: Order, complains_as: Option<&'static str>) -> Self {
        let lookup = RouteLookup::new(order, complains_as);
        Self { lookup }
    }
}

#[handlers]
impl FixedRoutes {
    /// The routes, one a line.
    #[read]
    fn table(&self) -> Result<String, HandlerError> {
        self.lookup.text()
    }

    /// Output and gateway for the address; -1 if there is no route.
    #[read(error = "expected IP address")]
    fn lookup(&mut self, address: Ipv4Addr) -> String {
        self.lookup.find(address)
    }
}

impl Routes {
    pub fn new(order: Order, complains_as: Option<&'static str>) -> Self {
        let lookup = RouteLookup::new(order, complains_as);
        Self { lookup }
    }
}

#[handlers]
impl Routes {
    /// Adds a route; fails if there is one for its prefix.
    #[write]
    fn add(&mut self, cx: &mut Cx<'_>, route: &str) -> Result<(), HandlerError> {
        self.lookup.run(cx, Command::Add, route).map(drop)
    }

    /// Adds a route, or replaces the one of its prefix.
    #[write(name = "set")]
    fn replace(&mut self, cx: &mut Cx<'_>, route: &str) -> Result<(), HandlerError> {
        self.lookup.run(cx, Command::Set, route).map(drop)
    }

    /// Removes a route, `ADDR/MASK [[GATEWAY] OUTPUT]`.
    #[write]
    fn remove(&mut self, cx: &mut Cx<'_>, route: &str) -> Result<(), HandlerError> {
        self.lookup.run(cx, Command::Remove, route).map(drop)
    }

    /// `add`, `set` and `remove` commands, one a line; all are done, or none.
    #[write]
    fn ctrl(&mut self, cx: &mut Cx<'_>, commands: &str) -> Result<(), HandlerError> {
        self.lookup.run_all(cx, commands)
    }

    /// The routes, one a line.
    #[read(expensive)]
    fn table(&self) -> Result<String, HandlerError> {
        self.lookup.text()
    }

    /// Output and gateway for the address; -1 if there is no route.
    #[read(error = "expected IP address")]
    fn lookup(&mut self, address: Ipv4Addr) -> String {
        self.lookup.find(address)
    }
}

impl FlushableRoutes {
    pub fn new(order: Order, complains_as: Option<&'static str>) -> Self {
        let routes = Routes::new(order, complains_as);
        Self { routes }
    }
}

#[handlers]
impl FlushableRoutes {
    /// Removes all routes.
    #[write(button)]
    fn flush(&mut self) {
        self.routes.lookup.table.clear();
    }
}

/// A change of the table, as handlers ask for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Add,
    Set,
    Remove,
}

/// How to take a change back.
enum Undo {
    Add(Route),
    Set(Route),
    Remove(Route),
}

impl RouteLookup {
    /// An empty table that `table` shows in this order.
    pub fn new(order: Order, complains_as: Option<&'static str>) -> RouteLookup {
        RouteLookup {
            routes: Vec::new(),
            table: RouteTable::new(order),
            complains_as,
            complaints: 0,
        }
    }

    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>, batch: &Batch, outputs: &[u32; BATCH]) {
        let Some(name) = self.complains_as else {
            self.complaints = COMPLAINTS;
            return;
        };
        let lost = batch
            .iter()
            .zip(outputs)
            .filter(|(_, output)| **output == DROP);
        for (packet, _) in lost.take((COMPLAINTS - self.complaints) as usize) {
            cx.chatter(format_args!("{name}: no route for {}", packet.dst_ip()));
            self.complaints += 1;
        }
    }

    /// Where packets for an address go, as text.
    fn find(&self, address: Ipv4Addr) -> String {
        match self.table.find(address.to_bits()) {
            Hop::NOWHERE => "-1".to_string(),
            hop if hop.gateway.is_unspecified() => hop.port.to_string(),
            hop => format!("{} {}", hop.port, hop.gateway),
        }
    }

    fn text(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let mut routes = self.table.iter();
            routes.try_for_each(|route| write!(out, "{}", route.line()))
        })
    }

    /// Runs one command.
    fn run(&mut self, cx: &Cx<'_>, command: Command, text: &str) -> Result<Undo, HandlerError> {
        let to_remove = command == Command::Remove;
        let route = Route::parse(text, to_remove, &cx.names()).map_err(|unread| match unread {
            Unread::Syntax if to_remove => "expected ‘ADDR/MASK [GATEWAY OUTPUT]’",
            Unread::Syntax => "expected ‘ADDR/MASK [GATEWAY] OUTPUT’",
            Unread::BadPort => "bad OUTPUT",
        })?;
        let outputs = cx.outputs();
        if route.port.is_some_and(|port| port as usize >= outputs) {
            return Err("bad OUTPUT".into());
        }
        let done = match command {
            Command::Add => self.table.add(route, false).map(|_| Undo::Remove(route)),
            Command::Set => self.table.add(route, true).map(|old| match old {
                Some(old) => Undo::Set(old),
                None => Undo::Remove(route),
            }),
            Command::Remove => self.table.remove(&route).map(Undo::Add),
        };
        done.map_err(|refused| {
            let kind = match refused {
                Refused::Exists(_) => FailureKind::Exists,
                Refused::Missing => FailureKind::Missing,
                Refused::NoMemory => FailureKind::NoMemory,
            };
            HandlerError::failed(kind, reason(refused, &route))
        })
    }

    /// Runs the commands in `text`, one a line: all of them, or if one fails none.
    fn run_all(&mut self, cx: &Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let mut undo = Vec::new();
        let text = click::config::uncomment(text);
        for line in text.split('\n') {
            if undo.try_reserve(1).is_err() {
                self.roll_back(undo);
                let text = format!("no memory for so many commands; {MORE_MEMORY}");
                return Err(HandlerError::failed(FailureKind::NoMemory, text));
            }
            let (word, rest) = click::config::shift_space(line.trim());
            let done = match word {
                "" => continue,
                "add" => self.run(cx, Command::Add, rest),
                "set" => self.run(cx, Command::Set, rest),
                "remove" => self.run(cx, Command::Remove, rest),
                word => Err(format!("bad command ‘{word}’").into()),
            };
            match done {
                Ok(step) => undo.push(step),
                Err(error) => {
                    self.roll_back(undo);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn roll_back(&mut self, undo: Vec<Undo>) {
        // What is undone was possible before, and is again.
        for step in undo.into_iter().rev() {
            match step {
                Undo::Add(route) => drop(self.table.add(route, false)),
                Undo::Set(route) => drop(self.table.add(route, true)),
                Undo::Remove(route) => drop(self.table.remove(&route)),
            }
        }
    }
}

impl Element for RouteLookup {
    /// Takes the routes given as arguments.
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.table.clear();
        let mut routes = Vec::with_capacity(self.routes.len());
        for (i, text) in self.routes.iter().enumerate() {
            let i = i + 1;
            let route = match Route::parse(text, false, &args.context()) {
                Ok(route) => route,
                Err(Unread::Syntax) => {
                    args.error(format_args!(
                        "argument {i} should be ‘ADDR/MASK [GATEWAY] OUTPUT’"
                    ));
                    continue;
                }
                Err(Unread::BadPort) => {
                    args.error(format_args!("argument {i} bad OUTPUT"));
                    continue;
                }
            };
            if route.port.is_none_or(|port| port as usize >= cx.outputs()) {
                args.error(format_args!("argument {i} bad OUTPUT"));
                continue;
            }
            routes.push(route);
        }
        let mut replaced = 0;
        self.table.fill(routes, |refused, route| match refused {
            Refused::Exists(_) => replaced += 1,
            _ => args.error(reason(refused, route)),
        });
        if replaced > 0 {
            let routes = if replaced > 1 { "routes" } else { "route" };
            args.warning(format_args!(
                "{replaced} {routes} replaced by later versions"
            ));
        }
        args.finish()
    }

    /// Sends a batch's packets where their destination annotations say.
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if batch.len() == 1
            && let [packet] = batch.as_mut_slice()
        {
            let hop = self.table.find(packet.dst_ip().to_bits());
            if !hop.gateway.is_unspecified() {
                packet.set_dst_ip(hop.gateway);
            }
            if hop.port == DROP && self.complaints < COMPLAINTS {
                self.complain(cx, batch, &[DROP; BATCH]);
            }
            return hop.port as usize;
        }
        let mut found = Found::NOTHING;
        let mut addresses = [0; BATCH];
        for (address, packet) in addresses.iter_mut().zip(batch.iter()) {
            *address = packet.dst_ip().to_bits();
        }
        self.table.find_all(&addresses, batch.len(), &mut found);
        if found.any_gateway {
            let kept = Facts::ALL.without(Facts::DESTINATION);
            let packets = batch.iter_mut_keeping(kept);
            for (packet, gateway) in packets.zip(found.gateways) {
                if gateway != 0 {
                    packet.set_dst_ip(gateway.to_ne_bytes().into());
                }
            }
        }
        if self.complaints < COMPLAINTS {
            let ports = found.ports.iter().take(batch.len());
            if ports.fold(false, |lost, port| lost | (*port == DROP)) {
                self.complain(cx, batch, &found.ports);
            }
        }
        send(cx, batch, &found.ports)
    }
}

/// Why a change was refused, in Click's words.
fn reason(refused: Refused, route: &Route) -> String {
    match refused {
        Refused::Exists(old) => format!("conflict with existing route ‘{old}’"),
        Refused::Missing => format!("route ‘{route}’ not found"),
        Refused::NoMemory => format!("no memory to store route ‘{route}’; {MORE_MEMORY}"),
    }
}
