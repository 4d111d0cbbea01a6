//! The first bytes of a TCP connection.

use super::super::{hello, http};
use super::{Guess, begins, ber_message, contains, dns, found, found_if, is_stun};
use crate::dpi::protocol::Protocol;
use crate::dpi::reader::Reader;
use crate::prelude::*;

/// Bytes that a protocol can be told by.
const FEW: usize = 16;

/// What the bytes of a client begin with.
const CLIENT: &[(&[u8], Protocol)] = &[
    (b"SSH-", Protocol::Ssh),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http2),
    (b"\x13BitTorrent protocol", Protocol::BitTorrent),
    (b"EHLO ", Protocol::Smtp),
    (b"HELO ", Protocol::Smtp),
    (b"LHLO ", Protocol::Smtp),
    (b"AUTH TLS\r\n", Protocol::Ftp),
    (b"AUTH SSL\r\n", Protocol::Ftp),
    (b"FEAT\r\n", Protocol::Ftp),
    (b"NICK ", Protocol::Irc),
    (b"CAP LS", Protocol::Irc),
    (b"AMQP\x00", Protocol::Amqp),
    (b"AMQP\x01", Protocol::Amqp),
    (b"AMQP\x02", Protocol::Amqp),
    (b"AMQP\x03", Protocol::Amqp),
    (b"@RSYNCD:", Protocol::Rsync),
    (b"RFB 003.", Protocol::Vnc),
    (b"PING\r\n", Protocol::Redis),
    (
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        Protocol::Bgp,
    ),
];

/// What the bytes of a server begin with.
const SERVER: &[(&[u8], Protocol)] = &[
    (b"SSH-", Protocol::Ssh),
    (b"\x13BitTorrent protocol", Protocol::BitTorrent),
    (b"* OK", Protocol::Imap),
    (b"* PREAUTH", Protocol::Imap),
    (b"+OK", Protocol::Pop3),
    (b"@RSYNCD:", Protocol::Rsync),
    (b"RFB 003.", Protocol::Vnc),
    (b"AMQP\x00", Protocol::Amqp),
    (
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        Protocol::Bgp,
    ),
];

/// Further protocols, that prefixes do not tell.
const BOTH: &[fn(&[u8]) -> Guess] = &[telnet, xmpp, smb, mongodb, stun];

/// So few bytes say nothing yet: some protocols are told by a whole message alone.
fn too_few(bytes: &[u8]) -> Guess {
    match bytes.len() < FEW {
        true => Guess::More(None),
        false => Guess::None,
    }
}

fn prefixes(bytes: &[u8], known: &[(&[u8], Protocol)]) -> Guess {
    let guesses = known
        .iter()
        .map(|(prefix, protocol)| begins(bytes, prefix, || found(*protocol)));
    guesses.fold(Guess::None, Guess::or)
}

fn all(bytes: &[u8], known: &[fn(&[u8]) -> Guess]) -> Guess {
    let guesses = known.iter().map(|look| look(bytes));
    guesses.fold(Guess::None, Guess::or)
}

/// Looks at the first bytes of the side that opened a connection. `scratch` is for bytes of TLS, as many as
/// there are.
pub fn from_client(bytes: &[u8], scratch: &mut Vec<u8>) -> Guess {
    let known: &[fn(&[u8]) -> Guess] = &[
        user, mqtt, redis, postgresql, mssql, rdp, ldap, openvpn, dns_query,
    ];
    prefixes(bytes, CLIENT)
        .or(http::request(bytes))
        .or(hello::records(bytes, scratch))
        .or(all(bytes, known))
        .or(all(bytes, BOTH))
        .or(too_few(bytes))
}

/// Looks at the first bytes of the other side.
pub fn from_server(bytes: &[u8]) -> Guess {
    prefixes(bytes, SERVER)
        .or(http::answer(bytes))
        .or(all(bytes, &[greeting, mysql, tls_answer]))
        .or(all(bytes, BOTH))
        .or(too_few(bytes))
}

/// The first line, without its end; `None` if it is not whole.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some(bytes[..end].trim_ascii_end())
}

/// A server of mail or files: only some say which, then the client does.
fn greeting(bytes: &[u8]) -> Guess {
    begins(bytes, b"220", || match line(bytes) {
        None => Guess::More(None),
        Some(line) if contains(line, b"smtp") => found(Protocol::Smtp),
        Some(line) if contains(line, b"ftp") => found(Protocol::Ftp),
        Some(_) => Guess::More(None),
    })
}

/// `USER` is FTP's; IRC's has a name behind a colon.
fn user(bytes: &[u8]) -> Guess {
    begins(bytes, b"USER ", || match line(bytes) {
        None => Guess::More(None),
        Some(line) if contains(line, b" :") => found(Protocol::Irc),
        Some(_) => found(Protocol::Ftp),
    })
}

/// CONNECT of MQTT 3.1 to 5.
fn mqtt(bytes: &[u8]) -> Guess {
    begins(bytes, &[0x10], || {
        // The length's last byte is the one without its highest bit; there are four at most.
        let length = bytes[1..].iter().take(4).position(|byte| *byte < 0x80);
        match length.map(|at| &bytes[2 + at..]) {
            Some(rest) => begins(rest, b"\x00\x04MQTT", || found(Protocol::Mqtt)).or(begins(
                rest,
                b"\x00\x06MQIsdp",
                || found(Protocol::Mqtt),
            )),
            None if bytes.len() < 5 => Guess::More(None),
            None => Guess::None,
        }
    })
}

/// An array of strings (RESP).
fn redis(bytes: &[u8]) -> Guess {
    let counts = [b'*', b'$'];
    let mut rest = bytes;
    for mark in counts {
        let Some((first, digits)) = rest.split_first() else {
            return Guess::More(None);
        };
        let end = digits.iter().position(|byte| !byte.is_ascii_digit());
        match (*first == mark, end) {
            (true, Some(end)) if (1..8).contains(&end) => match digits[end..] {
                [b'\r', b'\n', ..] => rest = &digits[end + 2..],
                [b'\r'] => return Guess::More(None),
                _ => return Guess::None,
            },
            (true, None) if digits.len() < 8 => return Guess::More(None),
            _ => return Guess::None,
        }
    }
    found(Protocol::Redis)
}

/// A startup message, or a request for encryption.
fn postgresql(bytes: &[u8]) -> Guess {
    let mut rest = Reader(bytes);
    let (Some(length), Some(code)) = (rest.number(4), rest.number(4)) else {
        return match bytes.iter().take(2).all(|byte| *byte == 0) {
            true => Guess::More(None),
            false => Guess::None,
        };
    };
    let is_right = match code {
        // Version 3; TLS; GSSAPI; cancel.
        0x0003_0000..=0x0003_0002 => (8..10_000).contains(&length),
        80_877_103 | 80_877_104 => length == 8,
        80_877_102 => length == 16,
        _ => false,
    };
    found_if(is_right, Protocol::PostgreSql)
}

/// A server's handshake, version 10: the server's version in text.
fn mysql(bytes: &[u8]) -> Guess {
    let Some(header) = bytes.first_chunk::<5>() else {
        return match bytes.get(1..3).is_none_or(|high| high == [0, 0]) {
            true => Guess::More(None),
            false => Guess::None,
        };
    };
    let [length, middle, high, number, version] = *header;
    let text = &bytes[5..];
    let end = text.iter().take(64).position(|byte| *byte == 0);
    let text = &text[..end.unwrap_or(text.len().min(64))];
    let is_right = (middle, high, number, version) == (0, 0, 0, 10)
        && length > 40
        && text.iter().all(u8::is_ascii_graphic);
    match end {
        _ if !is_right => Guess::None,
        None if bytes.len() < 69 => Guess::More(None),
        None => Guess::None,
        Some(_) => found_if(
            text.first().is_some_and(u8::is_ascii_digit),
            Protocol::MySql,
        ),
    }
}

/// PRELOGIN of TDS.
fn mssql(bytes: &[u8]) -> Guess {
    begins(bytes, b"\x12\x01", || match bytes.first_chunk::<9>() {
        Some(header) => found_if(
            header[4..] == [0, 0, header[6], 0, 0] && header[6] <= 1,
            Protocol::Mssql,
        ),
        None => Guess::More(None),
    })
}

/// A connection request in a TPKT (RFC 1006).
fn rdp(bytes: &[u8]) -> Guess {
    begins(bytes, b"\x03\x00", || match bytes.first_chunk::<6>() {
        Some([_, _, high, low, length, kind]) => {
            let whole = u16::from_be_bytes([*high, *low]);
            found_if(
                *kind == 0xe0 && u16::from(*length) + 5 == whole,
                Protocol::Rdp,
            )
        }
        None => Guess::More(None),
    })
}

/// A bind request.
fn ldap(bytes: &[u8]) -> Guess {
    let bind = ber_message(bytes).filter(|(_, rest)| rest.0.first() == Some(&0x60));
    found_if(bind.is_some(), Protocol::Ldap)
}

/// A hard reset from a client, version 2 or 3, behind its length.
fn openvpn(bytes: &[u8]) -> Guess {
    match Reader(bytes).counted(2) {
        Some(packet) => found_if(super::datagram::is_openvpn(packet), Protocol::OpenVpn),
        None => Guess::None,
    }
}

fn dns_query(bytes: &[u8]) -> Guess {
    let found = Reader(bytes).counted(2).and_then(dns);
    found.map_or(Guess::None, Guess::Found)
}

/// An alert, or the handshake of a server.
fn tls_answer(bytes: &[u8]) -> Guess {
    let Some([kind, 3, 0..=4, _, _, first]) = bytes.first_chunk::<6>() else {
        return Guess::None;
    };
    // ServerHello; warning or fatal.
    let is_right = matches!((kind, first), (22, 2) | (21, 1 | 2));
    found_if(is_right, Protocol::Tls)
}

/// A negotiation of options.
fn telnet(bytes: &[u8]) -> Guess {
    match bytes {
        [0xff] | [0xff, 0xfb..=0xfe] => Guess::More(None),
        [0xff, 0xfb..=0xfe, option, ..] => found_if(*option < 50, Protocol::Telnet),
        _ => Guess::None,
    }
}

fn xmpp(bytes: &[u8]) -> Guess {
    let start = &bytes[..bytes.len().min(256)];
    begins(bytes, b"<", || {
        if contains(start, b"jabber:") || contains(start, b"etherx.jabber.org") {
            return found(Protocol::Xmpp);
        }
        let is_xml = begins(bytes, b"<?xml", || found(Protocol::Xmpp)).or(begins(
            bytes,
            b"<stream:stream",
            || found(Protocol::Xmpp),
        ));
        match is_xml {
            Guess::None => Guess::None,
            _ if bytes.len() < 256 => Guess::More(None),
            _ => Guess::None,
        }
    })
}

/// A message of version 1 to 3 behind its length.
fn smb(bytes: &[u8]) -> Guess {
    begins(bytes, &[0], || match bytes.get(4..) {
        Some(rest) => {
            begins(rest, b"\xfeSMB", || found(Protocol::Smb))
                .or(begins(rest, b"\xffSMB", || found(Protocol::Smb)))
        }
        None => Guess::More(None),
    })
}

/// OP_QUERY or OP_MSG.
fn mongodb(bytes: &[u8]) -> Guess {
    let Some(header) = bytes.first_chunk::<16>() else {
        return Guess::None;
    };
    let [a, b, c, d, .., e, f, g, h] = *header;
    let (length, code) = (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    );
    found_if(
        matches!(code, 2004 | 2013) && (26..1 << 24).contains(&length),
        Protocol::MongoDb,
    )
}

/// STUN in TCP, which TURN uses.
fn stun(bytes: &[u8]) -> Guess {
    found_if(is_stun(bytes), Protocol::Stun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn name(guess: Guess) -> &'static str {
        match guess {
            Guess::Found(found) => found.protocol.name(),
            Guess::More(_) => "more",
            Guess::None => "none",
        }
    }

    fn client(bytes: &[u8]) -> &'static str {
        name(from_client(bytes, &mut Vec::with_capacity(bytes.len())))
    }

    /// What clients of the protocols send first.
    const CLIENTS: &[(&[u8], &str)] = &[
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12", "http2"),
        (b"POST /a HTTP/1.1\r\nHost: a\r\n\r\n", "http"),
        (b"\x13BitTorrent protocol\x00\x00\x00\x00\x00\x10\x00\x05", "bittorrent"),
        (b"EHLO mail.example\r\n", "smtp"),
        (b"USER anonymous\r\n", "ftp"),
        (b"USER guest 0 * :Guest\r\n", "irc"),
        (b"NICK guest\r\n", "irc"),
        (b"\x10\x1b\x00\x04MQTT\x04\x02\x00\x3c\x00\x0f", "mqtt"),
        (b"\x10\x80\x02\x00\x06MQIsdp\x03", "mqtt"),
        (b"*1\r\n$4\r\nPING\r\n", "redis"),
        (b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n", "redis"),
        (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", "postgresql"),
        (b"\x00\x00\x00\x21\x00\x03\x00\x00user\x00a\x00database\x00b\x00\x00", "postgresql"),
        (b"\x12\x01\x00\x2f\x00\x00\x01\x00\x00\x00\x1a", "mssql"),
        (b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00", "rdp"),
        (b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", "ldap"),
        (b"\x00\x0e\x38\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00", "openvpn"),
        (
            b"\x00\x18\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01",
            "dns",
        ),
        (b"\xff\xfb\x18\xff\xfb\x20", "telnet"),
        (b"<?xml version='1.0'?><stream:stream xmlns='jabber:client'", "xmpp"),
        (b"\x00\x00\x00\xd4\xfeSMB\x40\x00", "smb"),
        (
            b"\x3a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xd4\x07\x00\x00\x00\x00\x00\x00",
            "mongodb",
        ),
        (b"RFB 003.008\n", "vnc"),
        (b"@RSYNCD: 31.0\n", "rsync"),
        (b"AMQP\x00\x00\x09\x01", "amqp"),
        (b"\x16\x03\x01\x00\x05\x02abcdefghijk", "none"),
        (b"hello, world and all", "none"),
        (b"hello", "more"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "none"),
    ];

    const SERVERS: &[(&[u8], &str)] = &[
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (b"220 mail.example ESMTP\r\n", "smtp"),
        (b"220 (vsFTPd 3.0)\r\n", "ftp"),
        (b"220 welcome\r\n", "more"),
        (b"* OK [CAPABILITY IMAP4rev1] ready\r\n", "imap"),
        (b"+OK ready\r\n", "pop3"),
        (b"HTTP/1.1 200 OK\r\n", "http"),
        (
            b"\x4a\x00\x00\x00\x0a8.0.36\x00\x08\x00\x00\x00abcdefgh\x00\xff\xff",
            "mysql",
        ),
        (b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76", "tls"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "tls"),
        (b"\xff\xfd\x18", "telnet"),
        (b"hello, world and all", "none"),
        (b"hello", "more"),
    ];

    #[test]
    fn protocols_are_told_by_their_first_bytes() {
        for (bytes, expected) in CLIENTS {
            assert_eq!(client(bytes), *expected, "{}", bytes.escape_ascii());
        }
        for (bytes, expected) in SERVERS {
            let guess = name(from_server(bytes));
            assert_eq!(guess, *expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_beginning_is_never_another_protocol() {
        for (bytes, expected) in CLIENTS.iter().filter(|(_, name)| *name != "none") {
            for end in 0..bytes.len() {
                // Some protocols are told by a whole message alone.
                let guess = client(&bytes[..end]);
                let right = guess == "more" || guess == *expected || guess == "none";
                assert!(right, "{}: {guess}", bytes[..end].escape_ascii());
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300), known: prop::sample::Index, keep in 0usize..40) {
            let (start, _) = known.get(CLIENTS);
            let start = &start[..keep.min(start.len())];
            for bytes in [&bytes[..], &[start, &bytes].concat()] {
                client(bytes);
                from_server(bytes);
            }
        }
    }
}
