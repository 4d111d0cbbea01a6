//! Reads the names of the kernel's nftables tables (linux/netfilter/nf_tables.h).

use std::io;

use netlink_sys::{Socket, SocketAddr};

/// The protocol of netlink for netfilter (linux/netlink.h: NETLINK_NETFILTER).
const NETFILTER: isize = 12;
/// The part of it that nftables are (linux/netfilter/nfnetlink.h: NFNL_SUBSYS_NFTABLES), as in a message's type.
const NFTABLES: u16 = 10 << 8;
const NEW_TABLE: u16 = NFTABLES;
const GET_TABLE: u16 = NFTABLES | 1;
const NEW_RULE: u16 = NFTABLES | 6;
const GET_RULE: u16 = NFTABLES | 7;
/// Of a table, its name, and of a rule, that of its table: both have this number.
const NAME: u16 = 1;
/// `NLM_F_REQUEST` and `NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// A message's header, and that of netfilter behind it.
const HEADER: usize = 16;
const FAMILY: usize = 4;
/// The last message of an answer, and an error.
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its family, as nft(8) has it.
    pub family: &'static str,
    /// Its name.
    pub name: String,
    /// How many rules it has.
    pub rules: usize,
}

/// The tables of this thread's network namespace. A kernel without nftables has none.
pub fn tables() -> io::Result<Vec<Table>> {
    let mut socket = match Socket::new(NETFILTER) {
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(Vec::new()),
        socket => socket?,
    };
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let found = ask(&socket, GET_TABLE, NEW_TABLE)?.into_iter();
    let mut tables: Vec<_> = found
        .map(|(family, name)| Table {
            family: called(family),
            name,
            rules: 0,
        })
        .collect();
    for (family, name) in ask(&socket, GET_RULE, NEW_RULE)? {
        let family = called(family);
        let is_its = |it: &&mut Table| it.family == family && it.name == name;
        if let Some(table) = tables.iter_mut().find(is_its) {
            table.rules += 1;
        }
    }
    Ok(tables)
}

/// The families of linux/netfilter.h.
fn called(family: u8) -> &'static str {
    match family {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "other",
    }
}

/// The family and the name in each message of type `new` that answers a question.
fn ask(socket: &Socket, question: u16, new: u16) -> io::Result<Vec<(u8, String)>> {
    let length = (HEADER + FAMILY) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(question.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    message.resize(HEADER + FAMILY, 0);
    socket.send(&message, 0)?;
    let mut found = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = bytes.as_slice();
        while let Some((kind, body)) = next(&mut rest) {
            match kind {
                DONE => return Ok(found),
                ERROR => {
                    let code = body.get(..4).and_then(|code| code.try_into().ok());
                    let code = -i32::from_ne_bytes(code.unwrap_or_default());
                    // A kernel without nftables does not know the question.
                    return match code {
                        0 | libc::EINVAL | libc::EOPNOTSUPP => Ok(found),
                        code => Err(io::Error::from_raw_os_error(code)),
                    };
                }
                kind if kind == new => {
                    let name = body.get(FAMILY..).and_then(name);
                    found.extend(body.first().copied().zip(name));
                }
                _ => {}
            }
        }
    }
}

/// The type and the body of the next message.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
    let body = rest.get(HEADER..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body))
}

/// The name among attributes.
fn name(mut rest: &[u8]) -> Option<String> {
    loop {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..length)?;
        if kind == NAME {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_what_is_cut_off_is_none() {
        let mut table = vec![8, 0, 2, 0, 9, 9, 9, 9];
        table.extend([9, 0, 1, 0, b'n', b'a', b't', b'4', 0, 0, 0, 0]);
        assert_eq!(name(&table).as_deref(), Some("nat4"));
        for most in 0..16 {
            assert_eq!(name(&table[..most]), None);
        }
        let mut rest = &[17, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..];
        assert_eq!(next(&mut rest), None);
    }
}
