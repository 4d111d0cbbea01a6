//! What FTP control connections announce: the address and port of a data connection (RFC 959, RFC
//! 2428).

use core::ops::Range;

use crate::prelude::*;

/// An address and port that a segment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The address; `None` if it is the sender's.
    pub address: Option<Ipv4Addr>,
    /// The port.
    pub port: u16,
    /// Where they stand, in bytes from the start of the TCP header.
    pub place: Range<usize>,
    /// The sequence number behind the segment.
    pub next: u32,
    form: Form,
}

/// How they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `10,0,0,1,4,1`, in PORT and 227.
    Numbers,
    /// `|1|10.0.0.1|1025|`, in EPRT.
    Extended,
    /// `|||1025|`, in 229.
    PortOnly,
}

impl Announced {
    /// What a segment of the client announces (PORT, EPRT), or one of the server (227, 229). The line
    /// must be in one segment.
    pub fn of(segment: &[u8], client: bool) -> Option<Announced> {
        let header = segment.first_chunk::<20>()?;
        let start = (usize::from(header[12] >> 4) * 4).max(20);
        let data = segment.get(start..)?;
        let line = data.get(..data.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?)?;
        let (word, rest) = line.split_at_checked(4)?;
        let (form, skipped, text) = match (client, word.to_ascii_uppercase().as_slice()) {
            (true, b"PORT") | (true, b"EPRT") => {
                let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
                let form = match word[0].to_ascii_uppercase() {
                    b'P' => Form::Numbers,
                    _ => Form::Extended,
                };
                (form, 4 + spaces, rest.get(spaces..).filter(|_| spaces > 0)?)
            }
            (false, b"227 " | b"229 ") => {
                let open = rest.iter().position(|byte| *byte == b'(')? + 1;
                let close = rest.iter().position(|byte| *byte == b')')?;
                let form = if word[2] == b'7' {
                    Form::Numbers
                } else {
                    Form::PortOnly
                };
                (form, 4 + open, rest.get(open..close)?)
            }
            _ => return None,
        };
        let (address, port) = match form {
            Form::Numbers => {
                let [a, b, c, d, high, low] = numbers(text)?;
                (
                    Some(Ipv4Addr::new(a, b, c, d)),
                    u16::from_be_bytes([high, low]),
                )
            }
            Form::Extended | Form::PortOnly => extended(text, form)?,
        };
        let start = start + skipped;
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        (port > 0).then_some(Announced {
            address,
            port,
            place: start..start + text.len(),
            next: number.wrapping_add(data.len() as u32),
            form,
        })
    }

    /// The text for another address and port.
    pub fn text(&self, address: Ipv4Addr, port: u16) -> String {
        let [a, b, c, d] = address.octets();
        let [high, low] = port.to_be_bytes();
        match self.form {
            Form::Numbers => format!("{a},{b},{c},{d},{high},{low}"),
            Form::Extended => format!("|1|{address}|{port}|"),
            Form::PortOnly => format!("|||{port}|"),
        }
    }
}

/// Six numbers below 256 with commas between.
fn numbers(text: &[u8]) -> Option<[u8; 6]> {
    let mut numbers = [0u8; 6];
    let mut parts = text.split(|byte| *byte == b',');
    for number in &mut numbers {
        let digits = core::str::from_utf8(parts.next()?).ok()?;
        *number = digits.parse().ok().filter(|_| !digits.starts_with('+'))?;
    }
    parts.next().is_none().then_some(numbers)
}

/// The fields of an extended form, with any delimiter.
fn extended(text: &[u8], form: Form) -> Option<(Option<Ipv4Addr>, u16)> {
    let delimiter = *text.first().filter(|byte| byte.is_ascii_punctuation())?;
    let text = core::str::from_utf8(text.get(1..)?).ok()?;
    let fields: Vec<&str> = text.splitn(5, char::from(delimiter)).collect();
    let [family, address, port, ""] = fields[..] else {
        return None;
    };
    let port = port.parse().ok().filter(|_| !port.starts_with('+'))?;
    match form {
        Form::Extended if family == "1" => Some((Some(address.parse().ok()?), port)),
        Form::PortOnly if family.is_empty() && address.is_empty() => Some((None, port)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(client: bool, line: &str) -> Option<(Option<Ipv4Addr>, u16, String)> {
        let mut segment = std::vec![0; 20];
        segment[12] = 5 << 4;
        segment.extend(line.bytes());
        let announced = Announced::of(&segment, client)?;
        let mut text = segment.clone();
        let new = announced.text(Ipv4Addr::new(1, 2, 3, 4), 258);
        text.splice(announced.place, new.bytes());
        let text = String::from_utf8(text[20..].to_vec()).unwrap();
        Some((announced.address, announced.port, text))
    }

    #[test]
    fn announcements_are_read_and_rewritten() {
        let address = Some(Ipv4Addr::new(10, 0, 0, 9));
        for (client, line, address, new) in [
            (
                true,
                "PORT 10,0,0,9,4,1\r\n",
                address,
                "PORT 1,2,3,4,1,2\r\n",
            ),
            (
                true,
                "eprt  |1|10.0.0.9|1025|\r\n",
                address,
                "eprt  |1|1.2.3.4|258|\r\n",
            ),
            (
                false,
                "227 Entering Passive Mode (10,0,0,9,4,1).\r\n",
                address,
                "227 Entering Passive Mode (1,2,3,4,1,2).\r\n",
            ),
            (
                false,
                "229 Entering Extended Passive Mode (|||1025|)\r\n",
                None,
                "229 Entering Extended Passive Mode (|||258|)\r\n",
            ),
        ] {
            assert_eq!(of(client, line), Some((address, 1025, new.into())));
            assert_eq!(of(!client, line), None);
        }
    }

    #[test]
    fn what_is_no_announcement_is_left_alone() {
        for line in [
            "PORT 10,0,0,9,4,1",
            "PORT 10,0,0,9,4\n",
            "PORT 10,0,0,9,4,256\n",
            "PORT 10,0,0,9,4,1,2\n",
            "PORT 10,0,0,9,0,0\n",
            "PORT 10,0,0,9,4,+1\n",
            "PORT10,0,0,9,4,1\n",
            "EPRT |2|::1|1025|\n",
            "EPRT |1|10.0.0.9|\n",
            "EPRT |1|10.0.0.9|1025|x\n",
            "POR",
            "",
        ] {
            assert_eq!(of(true, line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn hostile_segments_do_no_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            line in "(PORT|EPRT|227|229) [(|0-9,.)]{0,30}\r\n",
            client: bool,
        ) {
            let mut segment = bytes.clone();
            segment.resize(20, 0);
            segment.extend(line.bytes());
            for segment in [bytes, segment] {
                if let Some(it) = Announced::of(&segment, client) {
                    prop_assert!(it.place.start <= it.place.end && it.place.end < segment.len());
                }
            }
        }
    }
}
