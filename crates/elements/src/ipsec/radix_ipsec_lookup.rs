use super::associations::{AssociationOwner, Associations, Reference, SharedAssociations};
use super::tunnel_route::{RouteText, Tunnel, TunnelRoute, TunnelRoutes};
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;

/// The protocol number of ESP.
const ESP: u8 = 50;
/// Where packets for this host go that are no ESP packets.
const LOCAL: u32 = 2;
/// Messages of a kind before they stop.
const COMPLAINTS: u32 = 5;

/// Looks up IP routes by the longest prefix, some of which lead through IPsec tunnels.
///
/// As RadixIPLookup, with two special outputs. Packets for output 1 go into a tunnel, with the
/// security association of their route. ESP packets for output 0 came from a tunnel, and get the
/// association of their security parameters index; ESP packets with an unknown index, and fragments
/// of ESP packets, are dropped. Other packets for output 0 leave by output 2. Packets without a
/// route are dropped.
///
/// The packets' data starts with their IP header.
///
/// # Example
/// ```click
/// Idle -> rt :: RadixIPsecLookup(
///     192.0.2.1 0,              // for this host: packets out of a tunnel, and others
///     192.0.2.0/24 3,           // to the network outside
///     10.1.0.0/16 4,            // to the network inside
///     10.2.0.0/16 192.0.2.2 1   // through a tunnel
///         234 \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
/// rt[0] -> StripIPHeader -> IPsecAuthHMACSHA1(1) -> IPsecAES(0, IGNORE 0, BLOCK 16)
///     -> IPsecESPUnencap(BLOCK 16) -> CheckIPHeader -> GetIPAddress(16) -> [0] rt;
/// rt[1] -> IPsecESPEncap(BLOCK 16) -> IPsecAES(1, IGNORE 0, BLOCK 16) -> IPsecAuthHMACSHA1(0)
///     -> IPsecEncap(50, SRC 192.0.2.1) -> [0] rt;
/// rt[2] -> Discard;
/// rt[3] -> Discard;
/// rt[4] -> Discard;
/// ```
///
/// # See also
/// SATable, IPsecESPEncap, IPsecESPUnencap, RadixIPLookup
#[derive(Element)]
#[element(
    ports = "1/-",
    processing = "h/h",
    is_a("IPsecRouteTable"),
    handlers,
    take_over,
    provides(AssociationOwner)
)]
#[outputs(
    "packets for this host that came through a tunnel",
    "packets that go through a tunnel",
    "other packets for this host",
    "from here on, one for each further OUTPUT of the routes"
)]
pub struct RadixIPsecLookup {
    /// The table of the associations, if they are not given with the routes.
    #[arg(name = "SATABLE")]
    elsewhere: Option<Link<dyn SharedAssociations>>,
    /// The routes. Those for output 1 name the tunnel's other end as `GATEWAY`, and an association
    /// as SATable has it; routes may share one. With SATABLE they name it by its `SPI` alone.
    #[arg(
        rest,
        name = "ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE]",
        kind = "any number of routes"
    )]
    texts: Vec<String>,
    routes: TunnelRoutes,
    lost: u32,
    unknown: u32,
    unset: u32,
}

/// How to take a change back.
enum Undo {
    Add(TunnelRoute),
    Set(TunnelRoute),
    Remove(TunnelRoute),
}

impl RadixIPsecLookup {
    /// The association with an index, for packets that came through a tunnel.
    fn inbound(&self, cx: &mut Cx<'_>, spi: u32) -> Option<Reference> {
        let (table, handle) = match self.elsewhere {
            None => (cx.id(), self.routes.associations.find(spi)?),
            Some(link) => {
                let found = cx.reach(link, |owner, _| owner.associations().find(spi));
                (link.id(), found??)
            }
        };
        Some(Reference { table, handle })
    }

    /// The association of a route.
    fn outbound(&self, cx: &mut Cx<'_>, tunnel: Tunnel) -> Option<Reference> {
        match tunnel {
            Tunnel::None => None,
            Tunnel::Own(slot) => Some(Reference {
                table: cx.id(),
                handle: self.routes.associations.handle(slot)?,
            }),
            Tunnel::Elsewhere(spi) => self.inbound(cx, spi),
        }
    }

    /// The output for a packet, which gets its association.
    fn route(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
        let destination = packet.dst_ip();
        let Some(hop) = self.routes.find(destination) else {
            if self.lost < COMPLAINTS {
                self.lost += 1;
                cx.chatter(format_args!("IPsecRouteTable: no route for {destination}"));
            }
            return DROP;
        };
        let mut port = hop.port;
        match port {
            0 => match spi(packet.data()) {
                Payload::Esp(spi) => match self.inbound(cx, spi) {
                    Some(reference) => reference.set(packet),
                    None => {
                        if self.unknown < COMPLAINTS {
                            self.unknown += 1;
                            cx.chatter(format_args!("Invalid SPI {spi}, Dropping packet"));
                        }
                        return DROP;
                    }
                },
                Payload::Broken => return DROP,
                Payload::Other => port = LOCAL,
            },
            1 => match self.outbound(cx, hop.tunnel) {
                Some(reference) => {
                    packet.set_anno(anno::IPSEC_SPI, hop.spi);
                    reference.set(packet);
                }
                None => {
                    if self.unset < COMPLAINTS {
                        self.unset += 1;
                        cx.chatter(format_args!(
                            "No Ipsec tunnel for {destination}. Wrong tunnel setup"
                        ));
                    }
                    return DROP;
                }
            },
            _ => {}
        }
        if !hop.gateway.is_unspecified() {
            packet.set_dst_ip(hop.gateway);
        }
        port
    }

    /// Does a command, `add`, `set` or `remove`, and says how to take it back.
    fn run(&mut self, cx: &mut Cx<'_>, command: &str, text: &str) -> Result<Undo, HandlerError> {
        let to_remove = command == "remove";
        let expected = if to_remove {
            "expected ‘ADDR/MASK [GATEWAY OUTPUT]’"
        } else {
            "expected ‘ADDR/MASK [GATEWAY] OUTPUT’"
        };
        let outputs = cx.outputs();
        let route = RouteText::read(text, to_remove, &cx.names()).ok_or(expected)?;
        if route.port().is_some_and(|port| port as usize >= outputs) {
            return Err(expected.into());
        }
        if to_remove {
            return self
                .routes
                .remove(&route)
                .map(Undo::Add)
                .map_err(Into::into);
        }
        let mut words = Args::from_words(&route.rest, cx.name_database(), &NoElements, "");
        let spec = route.tunnel(&mut words, self.elsewhere.is_some());
        let spec = spec.map_err(|Failed| {
            let errors = words.take_errors();
            let lines: Vec<String> = errors.into_iter().map(|error| error.text).collect();
            lines.join("\n")
        })?;
        let set = command == "set";
        let (new, old) = self.routes.add(&route, spec, set)?;
        Ok(match old {
            Some(old) => Undo::Set(old),
            None => Undo::Remove(new),
        })
    }

    fn run_one(&mut self, cx: &mut Cx<'_>, command: &str, text: &str) -> Result<(), HandlerError> {
        let undo = self.run(cx, command, text)?;
        self.commit(undo);
        Ok(())
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut RadixIPsecLookup) {
        self.routes.associations.take(&old.routes.associations);
    }

    /// Ends a command: what it replaced is not needed any more.
    fn commit(&mut self, undo: Undo) {
        if let Undo::Add(old) | Undo::Set(old) = undo {
            self.routes.forget(&old);
        }
    }

    fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Add(route) | Undo::Set(route) => self.routes.restore(route),
            Undo::Remove(route) => self.routes.withdraw(&route),
        }
    }

    /// Does the commands in `text`, one a line: all of them, or if one fails none.
    fn run_all(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let mut undo = Vec::new();
        let text = click::config::uncomment(text);
        for line in text.split('\n') {
            let (word, rest) = click::config::shift_space(line.trim());
            let done = match word {
                "" => continue,
                "add" | "set" | "remove" => self.run(cx, word, rest),
                word => Err(format!("bad command ‘{word}’").into()),
            };
            match done {
                Ok(step) => undo.push(step),
                Err(error) => {
                    undo.into_iter().rev().for_each(|step| self.take_back(step));
                    return Err(error);
                }
            }
        }
        undo.into_iter().for_each(|step| self.commit(step));
        Ok(())
    }
}

/// What a packet for this host carries.
enum Payload {
    /// An ESP packet with this index.
    Esp(u32),
    /// Part of an ESP packet.
    Broken,
    Other,
}

/// Looks at a packet that starts with an IP header.
fn spi(data: &[u8]) -> Payload {
    let Some(header) = data.first_chunk::<20>() else {
        return Payload::Other;
    };
    if header[9] != ESP {
        return Payload::Other;
    }
    // More fragments, or not the first one.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let start = usize::from(header[0] & 15) * 4;
    match data.get(start..).and_then(<[u8]>::first_chunk) {
        Some(spi) if !fragment => Payload::Esp(u32::from_be_bytes(*spi)),
        _ => Payload::Broken,
    }
}

impl AssociationOwner for RadixIPsecLookup {
    fn associations(&mut self) -> &mut Associations {
        &mut self.routes.associations
    }
}

#[handlers]
impl RadixIPsecLookup {
    /// The routes, one a line. Keys are not shown.
    #[read(expensive)]
    fn table(&self) -> String {
        self.routes.lines()
    }

    /// The routes' associations: see SATable's `table`.
    #[read(name = "associations")]
    fn show_associations(&self) -> String {
        self.routes.associations.lines()
    }

    /// Output and gateway for the address; -1 if there is no route.
    #[read]
    fn lookup(&self, cx: &mut Cx<'_>, address: &str) -> Result<String, HandlerError> {
        let parsed: Result<Ipv4Addr, _> = cx.names().parse(address);
        let address = parsed.map_err(|_| format!("expected IP address, not ‘{address}’"))?;
        Ok(match self.routes.find(address) {
            None => "-1".to_string(),
            Some(hop) if hop.gateway.is_unspecified() => hop.port.to_string(),
            Some(hop) => format!("{} {}", hop.port, hop.gateway),
        })
    }

    /// Adds a route; fails if there is one for its prefix.
    #[write]
    fn add(&mut self, cx: &mut Cx<'_>, route: &str) -> Result<(), HandlerError> {
        self.run_one(cx, "add", route)
    }

    /// Adds a route, or replaces the one of its prefix.
    #[write(name = "set")]
    fn replace(&mut self, cx: &mut Cx<'_>, route: &str) -> Result<(), HandlerError> {
        self.run_one(cx, "set", route)
    }

    /// Removes a route, `ADDR/MASK [[GATEWAY] OUTPUT]`.
    #[write]
    fn remove(&mut self, cx: &mut Cx<'_>, route: &str) -> Result<(), HandlerError> {
        self.run_one(cx, "remove", route)
    }

    /// `add`, `set` and `remove` commands, one a line; all are done, or none.
    #[write]
    fn ctrl(&mut self, cx: &mut Cx<'_>, commands: &str) -> Result<(), HandlerError> {
        self.run_all(cx, commands)
    }
}

impl Element for RadixIPsecLookup {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let element = args.element().to_string();
        for (i, text) in core::mem::take(&mut self.texts).iter().enumerate() {
            let i = i + 1;
            let route = RouteText::read(text, false, &args.context());
            let fits = |route: &RouteText| {
                route
                    .port()
                    .is_some_and(|port| (port as usize) < cx.outputs())
            };
            let Some(route) = route.filter(fits) else {
                args.error(format_args!(
                    "argument {i} should be ‘ADDR/MASK [GATEWAY] OUTPUT’"
                ));
                continue;
            };
            let mut words = Args::from_words(&route.rest, args.names(), &NoElements, &element);
            let spec = route.tunnel(&mut words, self.elsewhere.is_some());
            let errors = words.take_errors();
            for error in errors {
                args.error(format_args!("argument {i}: {}", error.text));
            }
            if let Ok(spec) = spec
                && let Err(error) = self.routes.add(&route, spec, false)
            {
                args.error(format_args!("argument {i}: {error}"));
            }
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let mut outputs = [DROP; BATCH];
        for (packet, output) in batch.iter_mut().zip(&mut outputs) {
            *output = self.route(cx, packet);
        }
        send(cx, batch, &outputs)
    }
}
