//! An element's body around a routing table.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use packet::{BATCH, Batch, Facts};
use router::args::{Args, Context, Failed};
use router::{Cx, HandlerError, HandlerFlags, HandlerList};

use super::Found;
use super::hops::Hop;
use super::route::Unread;
use super::{Order, Refused, Route, RouteTable};
use crate::dispatch::{DROP, send};

/// How often an element says that it has no route.
const COMPLAINTS: u32 = 5;

/// What the elements differ in.
pub struct Kind {
    /// In which order `table` shows routes.
    pub order: Order,
    /// Whose name stands in front of the complaint about a packet without a route; `None`: such
    /// packets go without a word.
    pub complains_as: Option<&'static str>,
    /// Whether routes can change while the router runs.
    pub dynamic: bool,
    /// Whether there is a handler that removes all routes.
    pub flush: bool,
}

/// A routing table with its handlers and its data path.
pub struct RouteLookup {
    kind: &'static Kind,
    table: RouteTable,
    complaints: u32,
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
    pub fn new(kind: &'static Kind) -> RouteLookup {
        RouteLookup {
            kind,
            table: RouteTable::new(kind.order),
            complaints: 0,
        }
    }

    /// Takes the routes in a configuration string.
    pub fn configure(&mut self, outputs: usize, args: &Args<'_>) -> Result<(), Failed> {
        self.table.clear();
        let mut replaced = 0;
        for (i, text) in args.raw().iter().enumerate() {
            let i = i + 1;
            let route = match Route::parse(text, false, &args.context()) {
                Ok(route) => route,
                Err(Unread::Syntax) => {
                    args.error(format_args!(
                        "argument {i} should be 'ADDR/MASK [GATEWAY] OUTPUT'"
                    ));
                    continue;
                }
                Err(Unread::BadPort) => {
                    args.error(format_args!("argument {i} bad OUTPUT"));
                    continue;
                }
            };
            if route.port.is_none_or(|port| port as usize >= outputs) {
                args.error(format_args!("argument {i} bad OUTPUT"));
                continue;
            }
            match self.table.add(route, false) {
                Ok(_) => {}
                Err(Refused::Exists(_)) => replaced += 1,
                Err(refused) => args.error(reason(refused, &route)),
            }
        }
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
    pub fn push(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> usize {
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

    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>, batch: &Batch, outputs: &[u32; BATCH]) {
        let Some(name) = self.kind.complains_as else {
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

    pub fn handlers(&self, list: &mut HandlerList) {
        if self.kind.dynamic {
            list.write("add").write("set").write("remove").write("ctrl");
            list.add("table", HandlerFlags::READ.with(HandlerFlags::EXPENSIVE));
        } else {
            list.read("table");
        }
        list.read_with("lookup");
        if self.kind.flush {
            list.button("flush");
        }
    }

    pub fn read(
        &self,
        context: &Context<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "table" => Ok(self
                .table
                .iter()
                .map(|route| route.line().to_string())
                .collect()),
            "lookup" => {
                let address: Ipv4Addr = context
                    .parse(parameter)
                    .map_err(|_| "expected IP address")?;
                let hop = self.table.find(address.to_bits());
                Ok(match hop {
                    Hop::NOWHERE => "-1".to_string(),
                    hop if hop.gateway.is_unspecified() => hop.port.to_string(),
                    hop => format!("{} {}", hop.port, hop.gateway),
                })
            }
            _ => Err(HandlerError::Unknown),
        }
    }

    pub fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name == "flush" && self.kind.flush {
            self.table.clear();
            return Ok(());
        }
        if !self.kind.dynamic {
            return Err(HandlerError::Unknown);
        }
        match name {
            "add" => self.run(cx, Command::Add, value).map(drop),
            "set" => self.run(cx, Command::Set, value).map(drop),
            "remove" => self.run(cx, Command::Remove, value).map(drop),
            "ctrl" => self.run_all(cx, value),
            _ => Err(HandlerError::Unknown),
        }
    }

    /// Runs one command.
    fn run(&mut self, cx: &Cx<'_>, command: Command, text: &str) -> Result<Undo, HandlerError> {
        let to_remove = command == Command::Remove;
        let route = Route::parse(text, to_remove, &cx.names()).map_err(|unread| match unread {
            Unread::Syntax if to_remove => "expected 'ADDR/MASK [GATEWAY OUTPUT]'",
            Unread::Syntax => "expected 'ADDR/MASK [GATEWAY] OUTPUT'",
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
        done.map_err(|refused| reason(refused, &route).into())
    }

    /// Runs the commands in `text`, one a line: all of them, or if one fails none.
    fn run_all(&mut self, cx: &Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let mut undo = Vec::new();
        let text = click::config::uncomment(text);
        for line in text.split('\n') {
            let (word, rest) = click::config::shift_space(line.trim());
            let done = match word {
                "" => continue,
                "add" => self.run(cx, Command::Add, rest),
                "set" => self.run(cx, Command::Set, rest),
                "remove" => self.run(cx, Command::Remove, rest),
                word => Err(format!("bad command '{word}'").into()),
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

/// Why a change was refused, in Click's words.
fn reason(refused: Refused, route: &Route) -> String {
    match refused {
        Refused::Exists(old) => format!("conflict with existing route '{old}'"),
        Refused::Missing => format!("route '{route}' not found"),
        Refused::NoMemory => format!("no memory to store route '{route}'"),
    }
}

/// Declares an element that is a [`RouteLookup`] of some [`Kind`], with its manual page.
macro_rules! route_lookup {
    ($(#[$doc:meta])* $name:ident, $kind:expr $(, $warning:literal)?) => {
        $(#[$doc])*
        pub struct $name(crate::ip::route_table::RouteLookup);

        impl Default for $name {
            fn default() -> Self {
                static KIND: crate::ip::route_table::Kind = $kind;
                $name(crate::ip::route_table::RouteLookup::new(&KIND))
            }
        }

        impl router::Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/-";
            const PROCESSING: &'static str = "h/h";
            const IS_A: &'static [&'static str] = &["IPRouteTable"];
            const SEGMENTS: bool = true;
        }

        impl router::Declared for $name {
            fn configure(
                &mut self,
                cx: &mut router::Cx<'_>,
                args: &mut router::args::Args<'_>,
            ) -> Result<(), router::args::Failed> {
                $(args.warning($warning);)?
                self.0.configure(cx.outputs(), args)
            }

            fn handlers(&self, list: &mut router::HandlerList) {
                self.0.handlers(list);
            }

            fn read(
                &mut self,
                cx: &mut router::Cx<'_>,
                name: &str,
                parameter: &str,
            ) -> Result<alloc::string::String, router::HandlerError> {
                self.0.read(&cx.names(), name, parameter)
            }

            fn write(
                &mut self,
                cx: &mut router::Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), router::HandlerError> {
                self.0.write(cx, name, value)
            }
        }

        impl router::Element for $name {
            #[inline]
            fn push(
                &mut self,
                cx: &mut router::Cx<'_>,
                _port: usize,
                batch: &mut packet::Batch,
            ) -> usize {
                self.0.push(cx, batch)
            }
        }
    };
}
pub(crate) use route_lookup;
