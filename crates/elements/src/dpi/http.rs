//! The first line of HTTP/1 (RFC 9112), RTSP (RFC 7826), SIP (RFC 3261) and SSDP, and the Host header.

use super::guess::{Found, Guess, begins};
use super::name::Name;
use super::protocol::Protocol;

/// What requests begin with. Several of the protocols have some in common.
const METHODS: &[&[u8]] = &[
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PROPFIND ",
    b"REPORT ",
    b"DESCRIBE ",
    b"SETUP ",
    b"PLAY ",
    b"INVITE ",
    b"REGISTER ",
    b"ACK ",
    b"BYE ",
    b"CANCEL ",
    b"SUBSCRIBE ",
    b"NOTIFY ",
    b"MESSAGE ",
    b"INFO ",
    b"M-SEARCH ",
];

/// What first lines end with if they are requests, and begin with if they are answers.
const VERSIONS: &[(&[u8], Protocol)] = &[
    (b"HTTP/1.", Protocol::Http),
    (b"RTSP/", Protocol::Rtsp),
    (b"SIP/2.0", Protocol::Sip),
];

/// Looks at the first bytes of an answer.
pub fn answer(bytes: &[u8]) -> Guess {
    let guesses = VERSIONS
        .iter()
        .map(|(version, protocol)| begins(bytes, version, || Guess::Found(Found::new(*protocol))));
    guesses.fold(Guess::None, Guess::or)
}

/// Looks at the first bytes of a request. Empty lines may be before it (RFC 9112, section 2.2).
pub fn request(bytes: &[u8]) -> Guess {
    let start = bytes.iter().position(|byte| !b"\r\n".contains(byte));
    let bytes = &bytes[start.unwrap_or(bytes.len())..];
    let guesses = METHODS
        .iter()
        .map(|method| begins(bytes, method, || request_line(bytes)));
    guesses.fold(Guess::None, Guess::or)
}

fn request_line(bytes: &[u8]) -> Guess {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        let is_text = bytes.iter().all(|byte| *byte >= b' ' || *byte == b'\r');
        return if is_text {
            Guess::More(None)
        } else {
            Guess::None
        };
    };
    let (line, head) = bytes.split_at(end + 1);
    let line = line.trim_ascii_end();
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Guess::None;
    };
    let protocol = VERSIONS
        .iter()
        .find(|(start, _)| version.starts_with(start));
    let protocol = match protocol {
        Some((_, Protocol::Http))
            if target == b"*" && matches!(method, b"M-SEARCH" | b"NOTIFY") =>
        {
            Protocol::Ssdp
        }
        Some((_, protocol)) => *protocol,
        None => return Guess::None,
    };
    let mut found = Found::new(protocol);
    if protocol != Protocol::Http {
        return Guess::Found(found);
    }
    if method == b"CONNECT" {
        found.name = server(target);
        return Guess::Found(found);
    }
    // A target with a server's name stands for it, whatever Host says (RFC 9112, section 3.2.2).
    if let Some(authority) = authority(target) {
        found.name = server(authority);
        return Guess::Found(found);
    }
    let mut has_host = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if !line.ends_with(b"\n") {
            break;
        }
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return Guess::Found(found);
        }
        if let Some((name, value)) = line.split_at_checked(5)
            && name.eq_ignore_ascii_case(b"host:")
        {
            let name = server(value.trim_ascii());
            match has_host {
                true => found.is_ambiguous |= name != found.name,
                false => found.name = name,
            }
            has_host = true;
        }
    }
    Guess::More(Some(found))
}

/// What names the server in a target that is a whole address: `http://user@example.com:80/`.
fn authority(target: &[u8]) -> Option<&[u8]> {
    let at = target.windows(3).position(|part| part == b"://")?;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let (scheme, rest) = (&target[..at], &target[at + 3..]);
    let end = rest.iter().position(|byte| b"/?#\\".contains(byte));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let user = authority.iter().rposition(|byte| *byte == b'@');
    let is_right = !scheme.is_empty() && scheme.iter().all(is_scheme);
    is_right.then_some(&authority[user.map_or(0, |at| at + 1)..])
}

/// The name in a name that may have a port behind it.
fn server(host: &[u8]) -> Name {
    let host = match (host.first(), host.iter().position(|byte| *byte == b']')) {
        // An IPv6 address.
        (Some(b'['), Some(end)) => &host[1..end],
        _ => {
            let end = host.iter().position(|byte| *byte == b':');
            &host[..end.unwrap_or(host.len())]
        }
    };
    Name::new(host).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(guess: Guess) -> std::string::String {
        match guess {
            Guess::Found(found) => {
                let more = if found.is_ambiguous {
                    " and others"
                } else {
                    ""
                };
                std::format!("{} {}{more}", found.protocol.name(), found.name)
            }
            Guess::More(None) => "more".into(),
            Guess::More(Some(found)) => std::format!("more {}", found.protocol.name()),
            Guess::None => "none".into(),
        }
    }

    #[test]
    fn requests_tell_their_protocol_and_host() {
        for (text, expected) in [
            (
                "GET / HTTP/1.1\r\nHost: Example.com:8080\r\n\r\n",
                "http example.com",
            ),
            (
                "GET / HTTP/1.1\r\nAccept: */*\r\nhost:a.b\r\n\r\n",
                "http a.b",
            ),
            // A second one may follow.
            ("GET / HTTP/1.1\r\nhost:a.b\r\n", "more http"),
            (
                "GET / HTTP/1.1\r\nHost: a.b\r\nX: y\r\nHost: c.d\r\n\r\n",
                "http a.b and others",
            ),
            (
                "GET / HTTP/1.1\r\nHost: a.b\r\nHost: A.b:80\r\n\r\n",
                "http a.b",
            ),
            (
                "GET / HTTP/1.1\r\nHost:\r\nHost: a.b\r\n\r\n",
                "http - and others",
            ),
            (
                "GET http://u:p@Bad.example:80/x?y HTTP/1.1\r\nHost: a.b\r\n\r\n",
                "http bad.example",
            ),
            ("GET HTTP://bad.example HTTP/1.1\r\n", "http bad.example"),
            (
                "GET /?to=http://c.d/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
                "http a.b",
            ),
            ("\r\n\r\n\nGET / HTTP/1.1\r\nHost: a.b\r\n\r\n", "http a.b"),
            ("\r\n", "more"),
            ("GET / HTTP/1.0\n\n", "http -"),
            ("GET / HTTP/1.1\r\nHost: examp", "more http"),
            ("GET /index.h", "more"),
            ("GE", "more"),
            ("GET / FTP/1.0\r\n", "none"),
            ("GET /\x01", "none"),
            ("GEX", "none"),
            ("CONNECT a.example:443 HTTP/1.1\r\n", "http a.example"),
            (
                "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",
                "http 2001:db8::1",
            ),
            ("OPTIONS * RTSP/1.0\r\n", "rtsp -"),
            ("OPTIONS sip:a@b SIP/2.0\r\n", "sip -"),
            ("M-SEARCH * HTTP/1.1\r\n", "ssdp -"),
        ] {
            assert_eq!(shown(request(text.as_bytes())), expected, "{text}");
        }
        assert_eq!(shown(answer(b"HTTP/1.1 200 OK\r\n")), "http -");
        assert_eq!(shown(answer(b"SIP/")), "more");
        assert_eq!(shown(answer(b"220 hello")), "none");
    }
}
