//! Sessions as handlers show them.

use core::fmt::{self, Write};

use crate::bras::ppp::Phase;
use crate::bras::sessions::Session;
use crate::bras::table::{Line, Table, number};
use crate::prelude::*;

/// How far a session is.
fn state(session: &Session) -> &'static str {
    match session.ppp.phase() {
        Phase::Dead | Phase::Establish => "establishing",
        Phase::Authenticate => "authenticating",
        Phase::Network if session.ppp.is_up() => "up",
        Phase::Network => "addressing",
        Phase::Terminate => "ending",
    }
}

/// A name that its sender chose, without what a terminal would act on, or spaces.
struct Shown<'n>(&'n [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        self.0.iter().try_for_each(|byte| match byte {
            b' ' => f.write_str("\\x20"),
            byte => write!(f, "{}", byte.escape_ascii()),
        })
    }
}

/// A session's address, or `-`.
fn address(line: &Line) -> String {
    match line.open {
        true => Ipv4Addr::from_bits(line.address).to_string(),
        false => "-".into(),
    }
}

fn seconds(session: &Session, now: u64) -> u64 {
    now.saturating_sub(session.up) / super::SECOND
}

/// A line about a session.
pub fn line(
    out: &mut dyn Write,
    (slot, session): (usize, &Session),
    table: &Table,
    now: u64,
) -> fmt::Result {
    let line = table.line(slot).copied().unwrap_or_default();
    writeln!(
        out,
        "{} {:#} {} {} {} {} {} {} {} {}",
        number(slot),
        session.peer,
        Shown(session.ppp.user()),
        address(&line),
        state(session),
        seconds(session, now),
        line.in_packets,
        line.in_bytes,
        line.out_packets,
        line.out_bytes,
    )
}

/// All about a session.
pub fn page((slot, session): (usize, &Session), table: &Table, now: u64) -> String {
    let line = table.line(slot).copied().unwrap_or_default();
    let left = match session.ends {
        super::NEVER => "-".to_string(),
        end => (end.saturating_sub(now) / super::SECOND).to_string(),
    };
    let prefix = match line.open6 {
        true => {
            let prefix = Ipv6Addr::from_bits(u128::from(table.prefix(slot)) << 64);
            format!("{prefix}/64")
        }
        false => "-".into(),
    };
    format!(
        "session {}\nhost {:#}\nuser {}\nknown_by {}\naddress {}\nstate {}\nprefix {prefix}\naccount {:016x}\n\
         seconds {}\nseconds_left {left}\nin_packets {}\nin_bytes {}\nout_packets {}\nout_bytes {}\nspoofed {}\n",
        number(slot),
        session.peer,
        Shown(session.ppp.user()),
        if session.local { "users" } else { "radius" },
        address(&line),
        state(session),
        session.id,
        seconds(session, now),
        line.in_packets,
        line.in_bytes,
        line.out_packets,
        line.out_bytes,
        line.spoofed,
    )
}
