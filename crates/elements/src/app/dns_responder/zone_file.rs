//! Zone files (RFC 1035, section 5): records as a text, an entry a line.

use super::name;
use crate::prelude::*;

/// A line that is wrong, and the reason.
pub type Wrong = (usize, String);

/// Most records.
pub const RECORDS_MAX: usize = 1 << 16;
/// Most bytes of a record's data, so that an answer holds one.
pub const DATA_MAX: usize = 1024;
/// The time to live of records before any `$TTL`, in seconds.
const TTL: u32 = 3600;

/// A type of records (IANA, "Resource Record (RR) TYPEs").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type(pub u16);

impl Type {
    pub const A: Type = Type(1);
    pub const NS: Type = Type(2);
    pub const CNAME: Type = Type(5);
    pub const SOA: Type = Type(6);
    pub const PTR: Type = Type(12);
    pub const MX: Type = Type(15);
    pub const TXT: Type = Type(16);
    pub const AAAA: Type = Type(28);
    pub const OPT: Type = Type(41);
    pub const ANY: Type = Type(255);

    const NAMES: [(&str, Type); 8] = [
        ("A", Type::A),
        ("NS", Type::NS),
        ("CNAME", Type::CNAME),
        ("SOA", Type::SOA),
        ("PTR", Type::PTR),
        ("MX", Type::MX),
        ("TXT", Type::TXT),
        ("AAAA", Type::AAAA),
    ];

    fn named(text: &str) -> Option<Type> {
        let mut names = Type::NAMES.iter();
        let found = names.find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, kind)| *kind)
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its line, from 1.
    pub line: usize,
    /// Its name, on the wire.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: Type,
    /// Seconds that others may keep it.
    pub ttl: u32,
    /// Its data, on the wire, with no name compressed.
    pub data: Vec<u8>,
}

/// A word of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

/// The words of an entry, which may have several lines in parentheses.
#[derive(Debug)]
struct Entry {
    line: usize,
    /// Whether it begins with a space: it has the name of the record before it.
    is_indented: bool,
    words: Vec<Word>,
}

/// Divides a text into entries.
fn entries(text: &str) -> Result<Vec<Entry>, Wrong> {
    let (mut entries, mut words): (Vec<Entry>, Vec<Word>) = (Vec::new(), Vec::new());
    let (mut begun, mut is_indented, mut depth) = (1, false, 0);
    for (line, text) in (1..).zip(text.lines()) {
        if words.is_empty() && depth == 0 {
            (begun, is_indented) = (line, text.starts_with([' ', '\t']));
        }
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match first {
                ';' => break,
                '(' => depth += 1,
                ')' if depth == 0 => return Err((line, "‘)’ without ‘(’".into())),
                ')' => depth -= 1,
                '"' => {
                    let end = end_of(&rest[1..], |c| c == '"');
                    let end = end.ok_or_else(|| (line, "a ‘\"’ is missing".to_string()))?;
                    words.push(Word {
                        text: rest[1..1 + end].into(),
                        is_quoted: true,
                    });
                    rest = &rest[2 + end..];
                    continue;
                }
                c if c.is_whitespace() => {}
                _ => {
                    let ends = |c: char| c.is_whitespace() || "\";()".contains(c);
                    let end = end_of(rest, ends).unwrap_or(rest.len());
                    words.push(Word {
                        text: rest[..end].into(),
                        is_quoted: false,
                    });
                    rest = &rest[end..];
                    continue;
                }
            }
            rest = &rest[first.len_utf8()..];
        }
        if depth == 0 && !words.is_empty() {
            entries.push(Entry {
                line: begun,
                is_indented,
                words: core::mem::take(&mut words),
            });
        }
    }
    match depth {
        0 => Ok(entries),
        _ => Err((begun, "a ‘)’ is missing".into())),
    }
}

/// Where a character ends a word; one behind a backslash does not.
fn end_of(text: &str, ends: impl Fn(char) -> bool) -> Option<usize> {
    let mut is_escaped = false;
    let found = text.char_indices().find(|(_, c)| {
        let is_end = !is_escaped && ends(*c);
        is_escaped = !is_escaped && *c == '\\';
        is_end
    });
    found.map(|(at, _)| at)
}

/// Seconds, as `300` or `1h30m`.
fn seconds(text: &str) -> Option<u32> {
    let (mut total, mut number): (u32, Option<u32>) = (0, None);
    for c in text.chars() {
        let unit = match c.to_ascii_lowercase() {
            c if c.is_ascii_digit() => {
                let before = number.unwrap_or(0).checked_mul(10)?;
                number = Some(before.checked_add(c.to_digit(10)?)?);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    match (number, text) {
        (_, "") => None,
        (Some(number), _) => total.checked_add(number),
        (None, _) => Some(total),
    }
}

/// What the entries before one say.
struct State {
    origin: Vec<u8>,
    ttl: u32,
    name: Option<Vec<u8>>,
}

/// The records of a text. A mistake is told with its line.
pub fn parse(text: &str) -> Result<Vec<Record>, Wrong> {
    let mut records = Vec::new();
    let mut state = State {
        origin: alloc::vec![0],
        ttl: TTL,
        name: None,
    };
    for entry in entries(text)? {
        let record = state.read(&entry).map_err(|why| (entry.line, why))?;
        if let Some(record) = record {
            if records.len() == RECORDS_MAX {
                return Err((
                    entry.line,
                    format!("there are more than {RECORDS_MAX} records"),
                ));
            }
            records.push(record);
        }
    }
    Ok(records)
}

impl State {
    fn name(&self, word: &Word) -> Result<Vec<u8>, String> {
        let text = &word.text;
        let name = name::parse(text, &self.origin).filter(|_| !word.is_quoted);
        let name = name.ok_or_else(|| {
            format!("‘{text}’ is no name: write labels of up to 63 characters with dots between, as in www.example.org.")
        })?;
        if name.starts_with(b"\x01*") {
            return Err(format!(
                "‘{text}’ is a wildcard; write the names themselves"
            ));
        }
        Ok(name)
    }

    /// Reads an entry: a directive, or a record.
    fn read(&mut self, entry: &Entry) -> Result<Option<Record>, String> {
        let mut words = entry.words.iter();
        let first = &entry.words[0];
        match (first.text.as_str(), &entry.words[1..]) {
            ("$ORIGIN", [origin]) => {
                self.origin = self.name(origin)?;
                return Ok(None);
            }
            ("$TTL", [ttl]) => {
                self.ttl = seconds(&ttl.text).ok_or("write `$TTL` and seconds, as in 300")?;
                return Ok(None);
            }
            (text, _) if text.starts_with('$') => {
                return Err(format!("‘{text}’: write `$ORIGIN NAME` or `$TTL SECONDS`"));
            }
            _ => {}
        }
        if !entry.is_indented {
            words.next();
            self.name = Some(self.name(first)?);
        }
        let name = self.name.clone().ok_or("the first record has no name")?;
        let mut ttl = self.ttl;
        let kind = loop {
            let word = words
                .next()
                .ok_or("a type is missing, as in `www A 10.0.0.80`")?;
            let text = word.text.as_str();
            match (
                text.to_ascii_uppercase().as_str(),
                Type::named(text),
                seconds(text),
            ) {
                ("IN", ..) => {}
                (_, Some(kind), _) => break kind,
                (_, _, Some(seconds)) => ttl = seconds,
                _ => {
                    let names: Vec<_> = Type::NAMES.iter().map(|(name, _)| *name).collect();
                    let names = names.join(", ");
                    return Err(format!(
                        "‘{text}’ is no type that is served: write one of {names}"
                    ));
                }
            }
        };
        if ttl > i32::MAX as u32 {
            return Err("the time to live is more than 2147483647 seconds".into());
        }
        let data = self.data(kind, words.as_slice())?;
        if data.len() > DATA_MAX {
            return Err(format!("the record is longer than {DATA_MAX} bytes"));
        }
        Ok(Some(Record {
            line: entry.line,
            name,
            kind,
            ttl,
            data,
        }))
    }

    /// The data of a record.
    fn data(&self, kind: Type, words: &[Word]) -> Result<Vec<u8>, String> {
        let number = |word: &Word| {
            let text = &word.text;
            seconds(text).ok_or_else(|| format!("‘{text}’ is no number up to 4294967295"))
        };
        match (kind, words) {
            (Type::A, [word]) => {
                let address: Result<Ipv4Addr, _> = word.text.parse();
                let text = &word.text;
                let address =
                    address.map_err(|_| format!("‘{text}’ is no IPv4 address, as in 10.0.0.80"))?;
                Ok(address.octets().to_vec())
            }
            (Type::AAAA, [word]) => {
                let address: Result<Ipv6Addr, _> = word.text.parse();
                let text = &word.text;
                let address = address
                    .map_err(|_| format!("‘{text}’ is no IPv6 address, as in 2001:db8::80"))?;
                Ok(address.octets().to_vec())
            }
            (Type::NS | Type::CNAME | Type::PTR, [word]) => self.name(word),
            (Type::MX, [preference, exchange]) => {
                let text = &preference.text;
                let preference: Result<u16, _> = text.parse();
                let preference =
                    preference.map_err(|_| format!("‘{text}’ is no preference up to 65535"))?;
                let mut data = preference.to_be_bytes().to_vec();
                data.extend(self.name(exchange)?);
                Ok(data)
            }
            (Type::TXT, [_, ..]) => {
                let mut data = Vec::new();
                for Word { text, .. } in words {
                    let bytes = name::string(text).filter(|bytes| bytes.len() <= 255);
                    let bytes = bytes.ok_or_else(|| {
                        format!("‘{text}’ is no string of up to 255 bytes; write several")
                    })?;
                    data.push(bytes.len() as u8);
                    data.extend(bytes);
                }
                Ok(data)
            }
            (Type::SOA, [server, mailbox, numbers @ ..]) if numbers.len() == 5 => {
                let mut data = self.name(server)?;
                data.extend(self.name(mailbox)?);
                for word in numbers {
                    data.extend(number(word)?.to_be_bytes());
                }
                Ok(data)
            }
            (kind, _) => Err(format!("write {}", usage(kind))),
        }
    }
}

/// How a record of a type is written.
fn usage(kind: Type) -> &'static str {
    match kind {
        Type::A => "`A ADDRESS`, as in `A 10.0.0.80`",
        Type::AAAA => "`AAAA ADDRESS`, as in `AAAA 2001:db8::80`",
        Type::NS => "`NS NAME`, as in `NS ns.example.org.`",
        Type::CNAME => "`CNAME NAME`, as in `CNAME www.example.org.`",
        Type::PTR => "`PTR NAME`, as in `PTR www.example.org.`",
        Type::MX => "`MX PREFERENCE NAME`, as in `MX 10 mail.example.org.`",
        Type::TXT => "`TXT \"STRING\"`, with any number of strings",
        _ => {
            "`SOA SERVER MAILBOX SERIAL REFRESH RETRY EXPIRE MINIMUM`, as in \
             `SOA ns.example.org. root.example.org. 1 1h 10m 1d 60`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_names_times_and_data() {
        let text = "$ORIGIN example.org. ; the zone\n$TTL 5m\n@ IN SOA ns root (\n 1 ; serial\n 1h 10m\n 1d 60 )\n\
                    \tNS ns\nwww 60 IN A 10.0.0.1\n IN 2h A 10.0.0.2\nm MX 10 mail\nt TXT \"a;b\" c\\\"\n";
        let records = parse(text).unwrap();
        let shown: Vec<_> = records
            .iter()
            .map(|it| (it.line, name::show(&it.name), it.kind.0, it.ttl))
            .collect();
        let expected = [
            (3, "example.org.", 6, 300),
            (7, "example.org.", 2, 300),
            (8, "www.example.org.", 1, 60),
            (9, "www.example.org.", 1, 7200),
            (10, "m.example.org.", 15, 300),
            (11, "t.example.org.", 16, 300),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, name, kind, ttl)| (*line, name.to_string(), *kind, *ttl))
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(records[3].data, [10, 0, 0, 2]);
        assert_eq!(records[4].data, b"\x00\x0a\x04mail\x07example\x03org\x00");
        assert_eq!(records[5].data, b"\x03a;b\x02c\"");
        assert_eq!(
            records[0].data[records[0].data.len() - 16..][..4],
            3600u32.to_be_bytes()
        );
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, why) in [
            ("\n A 10.0.0.1", 2, "the first record has no name"),
            (
                "a. A 10.0.0",
                1,
                "‘10.0.0’ is no IPv4 address, as in 10.0.0.80",
            ),
            ("a. AAAA ::g", 1, "no IPv6 address"),
            ("a. A", 1, "write `A ADDRESS`, as in `A 10.0.0.80`"),
            (
                "a. SRV 1 2 3 b.",
                1,
                "‘SRV’ is no type that is served: write one of A, NS",
            ),
            ("a.", 1, "a type is missing"),
            ("a..b. A 1.2.3.4", 1, "‘a..b.’ is no name"),
            ("*.a. A 1.2.3.4", 1, "‘*.a.’ is a wildcard"),
            ("\n\na. SOA b. c. (1 2\n3 4", 3, "a ‘)’ is missing"),
            ("a. A 1.2.3.4 )", 1, "‘)’ without ‘(’"),
            ("a. TXT \"b", 1, "a ‘\"’ is missing"),
            ("a. MX 70000 b.", 1, "‘70000’ is no preference"),
            ("a. SOA b. c. 1 2 3 4 4294967296", 1, "no number up to"),
            (
                "$INCLUDE file",
                1,
                "‘$INCLUDE’: write `$ORIGIN NAME` or `$TTL SECONDS`",
            ),
            ("a. 3000000000 A 1.2.3.4", 1, "more than 2147483647 seconds"),
        ] {
            let (at, said) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}: {said}");
            assert!(said.contains(why), "{text}: {said}");
        }
        let long = format!("a. TXT {}", "x".repeat(256));
        assert!(parse(&long).unwrap_err().1.contains("up to 255 bytes"));
        let long = format!("a. TXT {}", " \"x\"".repeat(DATA_MAX));
        assert!(
            parse(&long)
                .unwrap_err()
                .1
                .contains("longer than 1024 bytes")
        );
    }
}
