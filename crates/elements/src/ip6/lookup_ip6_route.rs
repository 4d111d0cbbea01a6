use click::config;

use super::route_table::{Full, Hop, RouteTable};
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;

/// Looks up IPv6 routes by the longest prefix.
///
/// Each packet leaves by the output that the route of its destination address annotation names. The
/// address of a route's gateway replaces the annotation. Packets without a route are dropped.
///
/// A lookup takes a few nanoseconds more for each doubling of the number of routes. A table has at
/// most 524288 routes; further ones are refused.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> GetIP6Address(24)
///     -> rt :: LookupIP6Route(
///         2001:db8::1/128 0,
///         2001:db8:1::/48 1,
///         ::/0 2001:db8:1::9 1);
/// rt[0] -> Discard;
/// rt[1] -> Discard;
/// ```
///
/// # See also
/// GetIP6Address, IP6NDSolicitor, RadixIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", segments, handlers)]
#[outputs("one for each OUTPUT of the routes")]
pub struct LookupIP6Route {
    /// The routes. `::` as the gateway means none. A later route of the same prefix replaces an
    /// earlier one.
    #[arg(
        rest,
        name = "ADDR/MASK [GATEWAY] OUTPUT",
        kind = "any number of routes"
    )]
    routes: Vec<String>,
    table: RouteTable,
    /// Whether the table ever had a route: `table` has its heading from then on.
    was_filled: bool,
}

/// What handlers say when there is no room.
const NO_ROOM: &str = "no room for another route; give the guest more memory, as in --memory 32M";

/// Reads `ADDR/MASK [GATEWAY] OUTPUT`.
fn route(text: &str, context: &Context<'_>) -> Option<(Ipv6Prefix, Hop)> {
    let words = config::split_space(text);
    let (prefix, gateway, port) = match &words[..] {
        [prefix, port] => (prefix, None, port),
        [prefix, gateway, port] => (prefix, Some(gateway), port),
        _ => return None,
    };
    let prefix = context.parse_with(Ip6PrefixArg::OR_ADDRESS, prefix).ok()?;
    let gateway = match gateway {
        Some(gateway) => context.parse(gateway).ok()?,
        None => Ipv6Addr::UNSPECIFIED,
    };
    let port = u32::try_from(context.parse::<i32>(port).ok()?).ok()?;
    Some((prefix, Hop { gateway, port }))
}

/// What `$?` becomes after a text that is no route is that of an invalid value, as in Click.
fn invalid(error: HandlerError) -> HandlerError {
    match error {
        HandlerError::Failed(failure) => failure.text.into(),
        error => error,
    }
}

#[handlers]
impl LookupIP6Route {
    /// Adds the route `ADDR/MASK [GATEWAY] OUTPUT`, or replaces the prefix's.
    #[write]
    fn add(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let mut prefix = Ipv6Prefix {
            address: Ipv6Addr::UNSPECIFIED,
            length: 0,
        };
        let (mut gateway, mut port) = (Ipv6Addr::UNSPECIFIED, 0i32);
        let has_gateway = config::split_space(text).len() != 2;
        router::parse_words(cx, text, |args| {
            let read = args.read().mandatory_positional_with(
                "PREFIX",
                Ip6PrefixArg::OR_ADDRESS,
                &mut prefix,
            );
            let read = if has_gateway {
                read.mandatory_positional("GATEWAY", &mut gateway)
            } else {
                read
            };
            read.mandatory_positional("PORT", &mut port).complete()
        })
        .map_err(invalid)?;
        let port = usize::try_from(port)
            .ok()
            .filter(|port| *port < cx.outputs());
        let port = port.ok_or("output port out of range")? as u32;
        let added = self.table.add(prefix, Hop { gateway, port });
        self.was_filled |= added.is_ok();
        added.map_err(|Full| NO_ROOM.into())
    }

    /// Removes the route of the prefix `ADDR/MASK`, if there is one.
    #[write]
    fn remove(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let mut prefix = None;
        let parser = |text: &str, context: &Context<'_>| {
            context.parse_with(Ip6PrefixArg::OR_ADDRESS, text).map(Some)
        };
        router::parse_words(cx, text, |args| {
            args.read()
                .mandatory_positional_with("PREFIX", parser, &mut prefix)
                .complete()
        })
        .map_err(invalid)?;
        if let Some(prefix) = prefix {
            self.table.remove(prefix).map_err(|Full| NO_ROOM)?;
        }
        Ok(())
    }

    /// `add` or `remove`, and the value of that handler.
    #[write]
    fn ctrl(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        match config::shift_space(value.trim_start()) {
            ("add", rest) => self.add(cx, rest),
            ("remove", rest) => self.remove(cx, rest),
            _ => Err("bad command, should be `add' or `remove'".into()),
        }
    }

    /// A line for each route: prefix, gateway, output.
    #[read]
    fn table(&self) -> Result<String, HandlerError> {
        listing(|out| {
            if self.was_filled {
                out.write_str("# Active routes\n")?;
            }
            self.table
                .iter()
                .try_for_each(|(prefix, Hop { gateway, port })| {
                    writeln!(out, "{prefix}\t{}\t{port}", unparse::ip6(gateway))
                })
        })
    }
}

impl Element for LookupIP6Route {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.table = RouteTable::default();
        let (mut routes, mut needed) = (Vec::new(), 0);
        for (i, text) in (1..).zip(&self.routes) {
            match route(text, &args.context()) {
                Some((prefix, hop)) => {
                    needed = needed.max(hop.port as usize + 1);
                    routes.push((prefix, hop));
                }
                None => args.error(format_args!(
                    "argument {i} should be DADDR/MASK [GW] OUTPUT"
                )),
            }
        }
        args.finish()?;
        if needed == 0 {
            args.warning("no routes");
        }
        if needed > cx.outputs() {
            return Err(args.fail(format_args!("need {needed} or more output ports")));
        }
        self.was_filled = !routes.is_empty();
        let added = self.table.add_all(routes);
        added.map_err(|Full| args.fail(NO_ROOM))
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let mut addresses = [0; BATCH];
        for (address, packet) in addresses.iter_mut().zip(batch.iter()) {
            *address = packet.dst_ip6().to_bits();
        }
        let count = batch.len().min(BATCH);
        let mut found = [Hop::NOWHERE; BATCH];
        self.table.find_all(&addresses[..count], &mut found);
        let mut outputs = [DROP; BATCH];
        for ((packet, hop), output) in batch.iter_mut().zip(&found).zip(&mut outputs) {
            *output = hop.port;
            if !hop.gateway.is_unspecified() {
                packet.set_dst_ip6(hop.gateway);
            }
        }
        send(cx, batch, &outputs)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::addr;
    use crate::testing::*;

    fn rig(routes: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> a :: GetIP6Address(0) -> rt :: LookupIP6Route({routes});
            rt[0] -> c0 :: Collect; rt[1] -> c1 :: Collect;"
        ))
    }

    /// What leaves by each output when packets to the addresses come as one batch: the
    /// annotations.
    fn route(rig: &mut Rig, to: &[&str]) -> [Vec<alloc::string::String>; 2] {
        let packets: Vec<_> = to.iter().map(|to| addr(to).octets().to_vec()).collect();
        rig.push_all("i", &packets);
        ["c0", "c1"].map(|name| {
            let packets = rig.collected(name);
            packets.iter().map(|p| format!("{}", p.dst_ip6())).collect()
        })
    }

    #[test]
    fn packets_leave_by_the_longest_prefix_and_take_its_gateway() {
        let mut rig = rig("2001:db8::/32 1, 2001:db8::1/128 0, fe80::/10 ::0 0, \
            2001:db8:5::/48 fe80::5 0");
        let [c0, c1] = route(
            &mut rig,
            &[
                "2001:db8::1",
                "2001:db8::2",
                "2001:db8:5::9",
                "fe80::7",
                "9::9",
            ],
        );
        assert_eq!(c0, ["2001:db8::1", "fe80::5", "fe80::7"]);
        assert_eq!(c1, ["2001:db8::2"]);
        assert_eq!(rig.outstanding(), 0);
        let table = "# Active routes\n2001:db8::/32\t::\t1\n2001:db8::1/128\t::\t0\n\
            fe80::/10\t::\t0\n2001:db8:5::/48\tfe80::5\t0\n";
        assert_eq!(rig.read("rt.table"), table);
    }

    #[test]
    fn routes_come_and_go_by_handlers() {
        let mut rig = rig("::/0 0, ::/0 1");
        assert_eq!(route(&mut rig, &["::7"])[1], ["::7"]);
        assert!(
            rig.read("rt.handlers")
                .starts_with("table\tr\nctrl\tw\nremove\tw\nadd\tw\n")
        );
        rig.write("rt.add", "::7 fe80::1 0");
        assert_eq!(route(&mut rig, &["::7"])[0], ["fe80::1"]);
        rig.write("rt.ctrl", "remove ::7/128");
        rig.write("rt.remove", "::8");
        assert_eq!(route(&mut rig, &["::7"])[1], ["::7"]);
        rig.write("rt.ctrl", "add ::6/127 0");
        assert_eq!(route(&mut rig, &["::7"])[0], ["::7"]);
        rig.write("rt.remove", "::6/127");
        rig.write("rt.remove", "::/0");
        assert_eq!(rig.read("rt.table"), "# Active routes\n");
        for (handler, value, error) in [
            ("add", "::/0 2", "output port out of range"),
            ("add", "::/0 -1", "output port out of range"),
            ("add", "zork 1", "PREFIX"),
            ("add", "::/0", "GATEWAY: required argument missing"),
            ("remove", "", "PREFIX: required argument missing"),
            (
                "ctrl",
                "set ::/0 1",
                "bad command, should be `add' or `remove'",
            ),
        ] {
            let got = rig.try_write(&format!("rt.{handler}"), value).unwrap_err();
            assert!(format!("{got:?}").contains(error), "{got:?}");
        }
    }

    #[test]
    fn wrong_routes_are_refused() {
        Rig::refuses(
            "Inject -> LookupIP6Route(::/0 0, zork 1) -> Collect;",
            "argument 2 should be DADDR/MASK [GW] OUTPUT",
        );
        Rig::refuses(
            "Inject -> LookupIP6Route(::/0 1) -> Collect;",
            "need 2 or more output ports",
        );
        let mut rig = Rig::new("Inject -> LookupIP6Route -> Collect;");
        assert!(rig.printed().concat().contains("no routes"));
    }
}
