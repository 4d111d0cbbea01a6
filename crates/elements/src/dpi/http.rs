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

/// Looks at the first bytes of a request.
pub fn request(bytes: &[u8]) -> Guess {
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
            found.name = server(value.trim_ascii());
            return Guess::Found(found);
        }
    }
    Guess::More(Some(found))
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
            Guess::Found(found) => std::format!("{} {}", found.protocol.name(), found.name),
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
            ("GET / HTTP/1.1\r\nAccept: */*\r\nhost:a.b\r\n", "http a.b"),
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
