//! Routes that may lead through tunnels, in a routing table.

use core::fmt::Write;

use super::association::Spec;
use super::associations::{Associations, FULL};
use crate::ip::route_table::{Order, Refused, Route, RouteTable};
use crate::prelude::*;

/// Which association a route's packets get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tunnel {
    #[default]
    None,
    /// That in a slot of the routes' own table.
    Own(u16),
    /// That with an index, in another element's table.
    Elsewhere(u32),
}

/// What a route's text says of its tunnel.
pub(super) enum TunnelText {
    None,
    Own(Spec),
    Elsewhere(u32),
}

/// A route's text, read.
pub(super) struct RouteText {
    route: Route,
    /// The words behind the output, which describe the tunnel.
    pub rest: String,
}

impl RouteText {
    /// Reads `ADDR/MASK [GATEWAY] OUTPUT [TUNNEL...]`; to remove a route, the output may be left
    /// out.
    pub fn read(text: &str, to_remove: bool, context: &Context<'_>) -> Option<RouteText> {
        let words = click::config::split_space(text);
        let second = words.get(1).map_or("", String::as_str);
        let has_gateway = second == "-" || context.parse::<Ipv4Addr>(second).is_ok();
        let length = if has_gateway { 3 } else { 2 };
        let (route, rest) = words.split_at(length.min(words.len()));
        let route = Route::parse(&route.join(" "), to_remove, context).ok()?;
        let rest = rest.join(" ");
        Some(RouteText { route, rest })
    }

    /// The output; `None` if it was left out.
    pub fn port(&self) -> Option<u32> {
        self.route.port
    }

    /// Reads the tunnel from the `words` that [`rest`](Self::rest) has.
    pub fn tunnel(&self, words: &mut Args<'_>, elsewhere: bool) -> Result<TunnelText, Failed> {
        if words.raw().is_empty() {
            return Ok(TunnelText::None);
        }
        if !elsewhere {
            return Spec::read(words).map(TunnelText::Own);
        }
        let mut spi = 0u32;
        words
            .read()
            .mandatory_positional("SPI", &mut spi)
            .complete()?;
        Ok(TunnelText::Elsewhere(spi))
    }
}

/// A route in the table.
#[derive(Clone, Copy)]
pub(super) struct TunnelRoute {
    /// With the number of its target as port.
    route: Route,
}

/// Where packets go.
#[derive(Clone, Copy, Debug)]
pub(super) struct TunnelHop {
    pub gateway: Ipv4Addr,
    pub port: u32,
    pub tunnel: Tunnel,
    /// The index of the association, if the packets go through a tunnel.
    pub spi: u32,
}

/// What a route leads to, beside its gateway.
#[derive(Clone, Copy, Default)]
struct Target {
    port: u32,
    tunnel: Tunnel,
    spi: u32,
}

/// Routes, and the associations of routes through tunnels.
///
/// The routing table knows of each route the number of its target, in the place of an output.
pub(super) struct TunnelRoutes {
    table: RouteTable,
    targets: Vec<Target>,
    free: Vec<u32>,
    pub associations: Associations,
}

impl Default for TunnelRoutes {
    fn default() -> Self {
        TunnelRoutes {
            table: RouteTable::new(Order::Latest),
            targets: Vec::new(),
            free: Vec::new(),
            associations: Associations::default(),
        }
    }
}

impl TunnelRoutes {
    fn target(&self, id: u32) -> Option<&Target> {
        self.targets.get(id as usize)
    }

    /// A route as users write it.
    fn shown(&self, route: &Route) -> Route {
        let target = route.port.and_then(|id| self.target(id));
        Route {
            port: target.map(|target| target.port),
            ..*route
        }
    }

    fn acquire(&mut self, port: u32, tunnel: TunnelText) -> Result<u32, &'static str> {
        let (tunnel, spi) = match tunnel {
            TunnelText::None => (Tunnel::None, 0),
            TunnelText::Elsewhere(spi) => (Tunnel::Elsewhere(spi), spi),
            TunnelText::Own(spec) => {
                let spi = spec.spi;
                let slot = self.associations.acquire(spec).ok_or(FULL)?;
                (Tunnel::Own(slot), spi)
            }
        };
        let target = Target { port, tunnel, spi };
        if let Some(id) = self.free.pop()
            && let Some(place) = self.targets.get_mut(id as usize)
        {
            *place = target;
            return Ok(id);
        }
        self.targets.push(target);
        Ok(self.targets.len() as u32 - 1)
    }

    fn release(&mut self, id: u32) {
        if let Some(place) = self.targets.get_mut(id as usize) {
            if let Tunnel::Own(slot) = core::mem::take(place).tunnel {
                self.associations.release(slot);
            }
            self.free.push(id);
        }
    }

    /// Adds a route; with `set`, in place of its prefix's. What is replaced is returned beside it,
    /// and is kept until it is [forgotten](Self::forget).
    pub fn add(
        &mut self,
        text: &RouteText,
        tunnel: TunnelText,
        set: bool,
    ) -> Result<(TunnelRoute, Option<TunnelRoute>), String> {
        let port = text.port().unwrap_or_default();
        let id = self.acquire(port, tunnel)?;
        let route = Route {
            port: Some(id),
            ..text.route
        };
        match self.table.add(route, set) {
            Ok(old) => Ok((
                TunnelRoute { route },
                old.map(|route| TunnelRoute { route }),
            )),
            Err(refused) => {
                self.release(id);
                Err(match refused {
                    Refused::Exists(old) => {
                        let old = self.shown(&old);
                        format!("conflict with existing route ‘{old}’")
                    }
                    _ => format!("no memory to store route '{}'", text.route),
                })
            }
        }
    }

    /// Removes a route. It is kept until it is [forgotten](Self::forget).
    pub fn remove(&mut self, text: &RouteText) -> Result<TunnelRoute, String> {
        let missing = || format!("route '{}' not found", text.route);
        let any = Route {
            port: None,
            ..text.route
        };
        let route = self.table.remove(&any).map_err(|_| missing())?;
        if text.route.means(&self.shown(&route)) {
            return Ok(TunnelRoute { route });
        }
        // There was room for it.
        let _ = self.table.add(route, false);
        Err(missing())
    }

    /// Gives up what a route that is no longer in the table led to.
    pub fn forget(&mut self, route: &TunnelRoute) {
        if let Some(id) = route.route.port {
            self.release(id);
        }
    }

    /// Puts a route back that was removed or replaced.
    pub fn restore(&mut self, route: TunnelRoute) {
        if let Ok(Some(route)) = self.table.add(route.route, true) {
            self.forget(&TunnelRoute { route });
        }
    }

    /// Takes a route out again that was added.
    pub fn withdraw(&mut self, route: &TunnelRoute) {
        if self.table.remove(&route.route).is_ok() {
            self.forget(route);
        }
    }

    /// Where packets for an address go.
    #[inline]
    pub fn find(&self, address: Ipv4Addr) -> Option<TunnelHop> {
        let hop = self.table.find(address.to_bits());
        let target = self.target(hop.port)?;
        Some(TunnelHop {
            gateway: hop.gateway,
            port: target.port,
            tunnel: target.tunnel,
            spi: target.spi,
        })
    }

    /// A line for each route.
    pub fn lines(&self) -> String {
        self.table.iter().fold(String::new(), |mut text, route| {
            let _ = write!(text, "{}", self.shown(route).line());
            let target = route.port.and_then(|id| self.target(id));
            if let Some(target) = target.filter(|target| target.tunnel != Tunnel::None) {
                text.truncate(text.trim_end().len());
                let _ = writeln!(text, "\tSPI {}", target.spi);
            }
            text
        })
    }
}
