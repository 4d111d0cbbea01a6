//! One route: text to value and back.

use core::fmt;

use click::config::words;

use crate::prelude::*;

/// Where packets for a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination addresses. No bit outside of the mask is set.
    pub prefix: Ipv4Prefix,
    /// The router to send to; unspecified: the destination itself.
    pub gateway: Ipv4Addr,
    /// The output. `None` only in a request to remove whatever route the prefix has.
    pub port: Option<u32>,
}

impl Route {
    /// Reads `ADDR/MASK [GATEWAY] OUTPUT`; to remove a route, the output may be left out. The
    /// output is read as given: negative ones come out as [`BadPort`](Unread::BadPort).
    pub fn parse(text: &str, to_remove: bool, context: &Context<'_>) -> Result<Route, Unread> {
        let mut words = words(text);
        let mut next = || words.next().unwrap_or("");
        let prefix = context.parse_with(IpPrefixArg::OR_ADDRESS, next());
        let prefix = prefix.map_err(|_| Unread::Syntax)?;
        let mut word = next();
        let mut gateway = Ipv4Addr::UNSPECIFIED;
        if word == "-" {
            word = next();
        } else if context.parse::<i32>(word).is_err()
            && let Ok(address) = context.parse(word)
        {
            // A number is no address, and asking the host for one of that name takes long.
            gateway = address;
            word = next();
        }
        let port = match context.parse::<i32>(word) {
            Ok(-1) if to_remove => None,
            Ok(port) => Some(u32::try_from(port).map_err(|_| Unread::BadPort)?),
            Err(_) if word.is_empty() && to_remove => None,
            Err(_) => return Err(Unread::Syntax),
        };
        if !next().is_empty() {
            return Err(Unread::Syntax);
        }
        let network = prefix.network();
        Ok(Route {
            prefix: Ipv4Prefix {
                address: network,
                ..prefix
            },
            gateway,
            port,
        })
    }

    /// Whether this request to remove a route means `route`.
    pub fn means(&self, route: &Route) -> bool {
        self.port.is_none() || (self.gateway, self.port) == (route.gateway, route.port)
    }

    /// A line of the `table` handler.
    pub fn line(&self) -> Line<'_> {
        Line(self)
    }
}

/// Why a text is no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It does not have the shape of one.
    Syntax,
    /// The output is negative.
    BadPort,
}

struct Gateway(Ipv4Addr);

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_unspecified() {
            f.pad("-")
        } else {
            self.0.fmt(f)
        }
    }
}

/// The output's number; -1 if there is none.
fn port(route: &Route) -> i64 {
    route.port.map_or(-1, i64::from)
}

/// As messages show it: `ADDR/MASK GATEWAY OUTPUT`.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gateway = Gateway(self.gateway);
        write!(f, "{} {gateway} {}", self.prefix, port(self))
    }
}

/// A route as the `table` handler shows it: in columns, by tabulators.
pub struct Line<'r>(&'r Route);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(route) = self;
        let mut counted = Counted { f, written: 0 };
        counted.column(&route.prefix, 16)?;
        counted.column(&Gateway(route.gateway), 8)?;
        writeln!(f, "{}", port(route))
    }
}

struct Counted<'f, 'g> {
    f: &'f mut fmt::Formatter<'g>,
    written: usize,
}

impl Counted<'_, '_> {
    /// Writes a value and one tabulator after it, or two if it is shorter than `width`.
    fn column(&mut self, value: &dyn fmt::Display, width: usize) -> fmt::Result {
        self.written = 0;
        fmt::write(self, format_args!("{value}"))?;
        let tabs = if self.written < width { "\t\t" } else { "\t" };
        self.f.write_str(tabs)
    }
}

impl fmt::Write for Counted<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.written += text.len();
        self.f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, to_remove: bool) -> Result<String, Unread> {
        let route = Route::parse(text, to_remove, &Context::blank());
        route.map(|route| route.to_string())
    }

    #[test]
    fn routes_are_read_and_shown() {
        assert_eq!(
            shown("18.26/16 1.0.0.1 0", false).unwrap(),
            "18.26.0.0/16 1.0.0.1 0"
        );
        assert_eq!(shown("1.2.3.4 3", false).unwrap(), "1.2.3.4/32 - 3");
        assert_eq!(shown("1.2.3.4/8 - 3", false).unwrap(), "1.0.0.0/8 - 3");
        assert_eq!(shown("1.0.0.0/8", true).unwrap(), "1.0.0.0/8 - -1");
        assert_eq!(
            shown("1.0.0.0/8 9.9.9.9", true).unwrap(),
            "1.0.0.0/8 9.9.9.9 -1"
        );
        for wrong in [
            "",
            "x 1",
            "1.0.0.0/8",
            "1.0.0.0/8 1.1.1.1",
            "1.0.0.0/8 1 2",
            "1/8 a 1",
        ] {
            assert_eq!(shown(wrong, false), Err(Unread::Syntax), "{wrong:?}");
        }
        assert_eq!(shown("1.0.0.0/8 -2", true), Err(Unread::BadPort));
        assert_eq!(shown("1.0.0.0/8 -1", false), Err(Unread::BadPort));
    }

    #[test]
    fn table_lines_have_columns() {
        let line = |text| {
            let route = Route::parse(text, false, &Context::blank()).unwrap();
            route.line().to_string()
        };
        assert_eq!(line("1.0.0.0/8 0"), "1.0.0.0/8\t\t-\t\t0\n");
        assert_eq!(
            line("100.100.100.0/24 1.0.0.10 2"),
            "100.100.100.0/24\t1.0.0.10\t2\n"
        );
    }
}
