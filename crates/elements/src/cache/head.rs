//! Heads of requests and responses (RFC 9112): what is ambiguous is refused, so that the cache and its
//! neighbors never read a message's end in different places.

use crate::prelude::*;

/// Most bytes of a head.
pub const HEAD_MAX: usize = 8192;
/// Most fields of a head.
const FIELDS_MAX: usize = 64;

/// Fields that are about one connection (RFC 9110, section 7.6.1), and those that this cache writes itself.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The fields of a head, in order: names in small letters, values without the spaces around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Vec<u8>)>);

impl Fields {
    fn of(parsed: &[httparse::Header<'_>]) -> Fields {
        let fields = parsed.iter().map(|field| {
            let value = field.value.trim_ascii().to_vec();
            (field.name.to_ascii_lowercase(), value)
        });
        Fields(fields.collect())
    }

    /// The values of a name, in order.
    pub fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f [u8]> + Clone {
        let fields = self.0.iter().filter(move |(own, _)| own == name);
        fields.map(|(_, value)| value.as_slice())
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.0.iter().find(|(own, _)| own == name)?;
        Some(value)
    }

    /// The only value of a name; `Err` if there are several.
    fn only(&self, name: &str) -> Result<Option<&[u8]>, ()> {
        let mut all = self.0.iter().filter(|(own, _)| own == name);
        let first = all.next().map(|(_, value)| value.as_slice());
        all.next().map_or(Ok(first), |_| Err(()))
    }

    /// All, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The items of a list that all values of a name make, in small letters.
    pub fn items(&self, name: &str) -> Vec<String> {
        let items = self.0.iter().filter(|(own, _)| own == name);
        let items = items.flat_map(|(_, value)| value.split(|byte| *byte == b','));
        items
            .map(|item| String::from_utf8_lossy(item.trim_ascii()).to_ascii_lowercase())
            .filter(|item| !item.is_empty())
            .collect()
    }

    /// Removes the fields that are about the connection they came by.
    fn leave_connection(&mut self) {
        let named = self.items("connection");
        self.0
            .retain(|(name, _)| !OF_CONNECTION.contains(&name.as_str()) && !named.contains(name));
    }

    /// Removes the fields of some names.
    pub fn remove(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| !names.contains(&name.as_str()));
    }

    /// Replaces the fields that others have, and adds those that are new.
    pub fn update(&mut self, others: &Fields) {
        let is_there = |name: &String| others.0.iter().any(|(other, _)| other == name);
        self.0.retain(|(name, _)| !is_there(name));
        self.0.extend(others.0.iter().cloned());
    }

    /// Counts a server on the way in Max-Forwards, if it is there (RFC 9110, section 7.6.2); false if this is
    /// the last one.
    pub fn forward(&mut self) -> bool {
        let field = self.0.iter_mut().find(|(name, _)| name == "max-forwards");
        let Some((_, value)) = field else {
            return true;
        };
        match length(value) {
            Some(0) => return false,
            Some(left) => *value = (left - 1).to_string().into_bytes(),
            // What is no number means nothing.
            None => {}
        }
        true
    }

    /// Writes them as lines.
    pub fn write(&self, to: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            to.extend_from_slice(name.as_bytes());
            to.extend_from_slice(b": ");
            to.extend_from_slice(value);
            to.extend_from_slice(b"\r\n");
        }
    }

    /// Bytes of memory, about.
    pub fn size(&self) -> usize {
        let each = self
            .0
            .iter()
            .map(|(name, value)| name.len() + value.len() + 64);
        each.sum()
    }
}

/// How the end of a body is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path and query, or `*`.
    pub target: String,
    /// The server's name, in small letters, and its port if it is given; empty in old requests.
    pub host: String,
    /// Whether it is of HTTP/1.1, and not 1.0.
    pub is_current: bool,
    /// Whether the connection ends after it.
    pub closes: bool,
    /// The end of its body.
    pub framing: Framing,
    /// The fields that are not about the connection, nor the Host.
    pub fields: Fields,
}

/// A method: those that are treated in ways of their own, and others, which are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Head,
    Options,
    Trace,
    Other(String),
}

impl Method {
    /// Its name in requests.
    pub fn name(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Other(name) => name,
        }
    }

    fn named(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            "TRACE" => Method::Trace,
            other => Method::Other(other.into()),
        }
    }

    /// Whether it changes nothing at the server (RFC 9110, section 9.2.1). An unknown one may.
    pub fn is_safe(&self) -> bool {
        !matches!(self, Method::Other(_))
    }
}

/// Why a request is refused: a status, and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u16, pub &'static str);

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The end of its body.
    pub framing: Framing,
    /// The fields that are not about the connection.
    pub fields: Fields,
}

/// A response that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// A Content-Length: digits alone.
fn length(value: &[u8]) -> Option<u64> {
    let is_plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(value).ok()?;
    text.parse().ok().filter(|_| is_plain)
}

fn is_host(host: &str) -> bool {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(&byte);
    host.len() <= 261 && host.bytes().all(is_right)
}

/// Reads the head that some bytes begin with, and its length; `None` if it is not whole.
pub fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refused> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let size = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(size)) if size <= HEAD_MAX => size,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
        Ok(_) => return Err(Refused(431, "the head has more than 8192 bytes")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refused(431, "the head has more than 64 fields"));
        }
        Err(httparse::Error::Version) => {
            return Err(Refused(505, "only HTTP/1.1 and 1.0 are known"));
        }
        Err(_) => return Err(Refused(400, "the head is none of HTTP/1.1")),
    };
    let (method, target) = (
        parsed.method.unwrap_or_default(),
        parsed.path.unwrap_or_default(),
    );
    let is_current = parsed.version == Some(1);
    let mut fields = Fields::of(parsed.headers);
    if method == "CONNECT" {
        return Err(Refused(501, "CONNECT is for proxies, and this is none"));
    }
    let method = Method::named(method);
    let several = |_| Refused(400, "the head has several Host fields");
    let own_host = fields.only("host").map_err(several)?;
    let own_host = own_host.map(|host| String::from_utf8_lossy(host).to_ascii_lowercase());
    if is_current && own_host.is_none() {
        return Err(Refused(400, "the head lacks a Host field"));
    }
    // The absolute form, which a proxy gets, has the server in it.
    let (host, target) = match target.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http://") => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            let path = match path.starts_with('/') {
                true => path.to_string(),
                false => format!("/{path}"),
            };
            (host.to_ascii_lowercase(), path)
        }
        _ => (own_host.unwrap_or_default(), target.to_string()),
    };
    if !is_host(&host) {
        return Err(Refused(400, "the Host is no name of a server"));
    }
    let is_right = target.starts_with('/') || (target == "*" && method == Method::Options);
    if !is_right || target.contains('#') {
        return Err(Refused(400, "the target is no path"));
    }
    let framing = match (
        fields.only("content-length"),
        fields.only("transfer-encoding"),
    ) {
        (Err(()), _) => return Err(Refused(400, "the head has several Content-Length fields")),
        (_, Err(())) => {
            return Err(Refused(
                400,
                "the head has several Transfer-Encoding fields",
            ));
        }
        (Ok(Some(_)), Ok(Some(_))) => {
            return Err(Refused(
                400,
                "the head has both Content-Length and Transfer-Encoding",
            ));
        }
        (Ok(Some(value)), Ok(None)) => match length(value) {
            Some(length) => Framing::Length(length),
            None => return Err(Refused(400, "the Content-Length is no number")),
        },
        (Ok(None), Ok(Some(_))) if !is_current => {
            return Err(Refused(400, "HTTP/1.0 has no Transfer-Encoding"));
        }
        (Ok(None), Ok(Some(value))) if value.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
        (Ok(None), Ok(Some(_))) => {
            return Err(Refused(501, "the only Transfer-Encoding is chunked"));
        }
        (Ok(None), Ok(None)) => Framing::Length(0),
    };
    if method == Method::Trace && framing != Framing::Length(0) {
        return Err(Refused(400, "a TRACE has no body"));
    }
    let options = fields.items("connection");
    let has = |option: &str| options.iter().any(|own| own == option);
    let closes = has("close") || !(is_current || has("keep-alive"));
    fields.leave_connection();
    fields.remove(&["host"]);
    let request = Request {
        method,
        target,
        host,
        is_current,
        closes,
        framing,
        fields,
    };
    Ok(Some((request, size)))
}

/// Reads the head of a response to a request of some method; as [`request`]. Informational responses are
/// responses like others.
pub fn response(bytes: &[u8], method: &Method) -> Result<Option<(Response, usize)>, Unreadable> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let size = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(size)) if size <= HEAD_MAX => size,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
        _ => return Err(Unreadable),
    };
    let status = parsed.code.ok_or(Unreadable)?;
    let is_current = parsed.version == Some(1);
    let mut fields = Fields::of(parsed.headers);
    let lengths = (
        fields.only("content-length").map_err(|()| Unreadable)?,
        fields.only("transfer-encoding").map_err(|()| Unreadable)?,
    );
    let framing = match lengths {
        _ if *method == Method::Head || matches!(status, 100..=199 | 204 | 304) => {
            Framing::Length(0)
        }
        (Some(_), Some(_)) => return Err(Unreadable),
        (Some(value), None) => Framing::Length(length(value).ok_or(Unreadable)?),
        (None, Some(value)) if is_current && value.eq_ignore_ascii_case(b"chunked") => {
            Framing::Chunked
        }
        (None, Some(_)) => return Err(Unreadable),
        (None, None) => Framing::Close,
    };
    if !(100..=599).contains(&status) || status == 101 {
        return Err(Unreadable);
    }
    // What a HEAD would have as a body is of use to its client.
    let length = match method {
        Method::Head => lengths.0.map(<[u8]>::to_vec),
        _ => None,
    };
    fields.leave_connection();
    if let Some(length) = length {
        fields.0.push(("content-length".into(), length));
    }
    let response = Response {
        status,
        framing,
        fields,
    };
    Ok(Some((response, size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn refused(head: &str) -> (u16, &'static str) {
        match request(head.as_bytes()) {
            Err(Refused(status, why)) => (status, why),
            Ok(read) => panic!("{head}: {read:?}"),
        }
    }

    #[test]
    fn a_head_is_read() {
        let head = "GET /a?b HTTP/1.1\r\nHost: Example.com:80\r\nAccept:  x \r\nX-Hop: y\r\nConnection: close, x-hop\r\n\r\nrest";
        let (read, size) = request(head.as_bytes()).unwrap().unwrap();
        assert_eq!(&head[size..], "rest");
        assert_eq!((&read.method, read.target.as_str()), (&Method::Get, "/a?b"));
        assert_eq!(read.host, "example.com:80");
        assert!(read.closes && read.is_current);
        assert_eq!(read.framing, Framing::Length(0));
        let mut text = Vec::new();
        read.fields.write(&mut text);
        assert_eq!(text, b"accept: x\r\n");
        let (read, _) = request(b"GET http://Other/x HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!((read.host.as_str(), read.target.as_str()), ("other", "/x"));
        let (read, _) = request(b"GET http://other HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!((read.target.as_str(), read.closes), ("/", false));
        assert_eq!(request(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for (fields, status, why) in [
            (
                "Content-Length: 5\r\nContent-Length: 5\r\n",
                400,
                "several Content-Length",
            ),
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                400,
                "both",
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                400,
                "several Transfer",
            ),
            (
                "Transfer-Encoding: gzip, chunked\r\n",
                501,
                "only Transfer-Encoding",
            ),
            (
                "Transfer-Encoding: xchunked\r\n",
                501,
                "only Transfer-Encoding",
            ),
            ("Content-Length: +5\r\n", 400, "no number"),
            ("Content-Length: 5, 5\r\n", 400, "no number"),
            ("Content-Length: 99999999999999999999\r\n", 400, "no number"),
            ("Content-Length:\r\n", 400, "no number"),
            ("X: a\r\n b\r\n", 400, "none of HTTP"),
            ("Transfer-Encoding : chunked\r\n", 400, "none of HTTP"),
            ("Host: b\r\n", 400, "several Host"),
            ("X: \0\r\n", 400, "none of HTTP"),
        ] {
            let head = std::format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let said = refused(&head);
            assert_eq!(said.0, status, "{fields}");
            assert_contains(said.1, why);
        }
        for (head, status) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
            ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
            (
                "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
                400,
            ),
            ("B{EW / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ] {
            assert_eq!(refused(head).0, status, "{head}");
        }
        let long = std::format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(HEAD_MAX));
        assert_eq!(refused(&long).0, 431);
        let many = std::format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(64));
        assert_eq!(refused(&many).0, 431);
    }

    #[test]
    fn responses_end_where_they_say() {
        for (fields, method, expected) in [
            ("Content-Length: 5\r\n", Method::Get, Ok(Framing::Length(5))),
            (
                "Content-Length: 5\r\n",
                Method::Head,
                Ok(Framing::Length(0)),
            ),
            (
                "Transfer-Encoding: chunked\r\n",
                Method::Get,
                Ok(Framing::Chunked),
            ),
            ("", Method::Get, Ok(Framing::Close)),
            (
                "Content-Length: 5\r\nContent-Length: 6\r\n",
                Method::Get,
                Err(Unreadable),
            ),
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                Method::Get,
                Err(Unreadable),
            ),
            ("Transfer-Encoding: gzip\r\n", Method::Get, Err(Unreadable)),
        ] {
            let head = std::format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            let read = response(head.as_bytes(), &method);
            assert_eq!(
                read.map(|read| read.unwrap().0.framing),
                expected,
                "{fields}"
            );
        }
        let (read, _) = response(
            b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
            &Method::Get,
        )
        .unwrap()
        .unwrap();
        assert_eq!((read.status, read.framing), (304, Framing::Length(0)));
    }

    proptest! {
        /// What is read is what was meant, and no bytes panic.
        #[test]
        fn any_head_is_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            start in prop::sample::select(std::vec!["", "GET / HTTP/1.1\r\nHost: a\r\n", "HTTP/1.1 200 OK\r\n"]),
            names in prop::collection::vec(("[A-Za-z-]{1,12}", "[!-~ ]{0,20}"), 0..8),
        ) {
            let mut head = start.as_bytes().to_vec();
            for (name, value) in &names {
                head.extend(std::format!("{name}: {value}\r\n").bytes());
            }
            let whole = [&head, &b"\r\n"[..]].concat();
            for text in [&[&head[..], &bytes].concat(), &whole] {
                let _ = response(text, &Method::Get);
                if let Ok(Some((read, size))) = request(text) {
                    prop_assert!(size <= text.len());
                    // Written again, it is read as the same.
                    let mut again = std::format!("{} {} HTTP/1.1\r\nHost: {}\r\n", read.method.name(), read.target, read.host).into_bytes();
                    read.fields.write(&mut again);
                    again.extend(b"\r\n");
                    let (second, _) = request(&again).unwrap().unwrap();
                    prop_assert_eq!((second.target, second.host, second.fields), (read.target, read.host, read.fields));
                }
            }
        }
    }
}
