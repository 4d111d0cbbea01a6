//! Alerts, and how they are shown: a line of JSON each, as Suricata's EVE output.

use core::fmt::Write;

use crate::ids::rules::Rule;
use crate::prelude::*;

/// What a rule found.
#[derive(Clone)]
pub struct Alert {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// The rules of which it is one.
    pub rules: Arc<[Rule]>,
    /// The rule's number among them.
    pub rule: u16,
    /// The packet's protocol.
    pub protocol: IpProtocol,
    /// The packet's sender.
    pub source: (IpAddr, u16),
    /// The packet's receiver.
    pub destination: (IpAddr, u16),
}

/// Year, month and day of a number of days since 1970-01-01 (Hinnant, chrono-compatible low-level date
/// algorithms).
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (year + era * 400 + later, month, day)
}

/// A string of JSON.
fn quote(text: &str, into: &mut String) {
    into.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => into.extend(['\\', character]),
            character if character < ' ' => {
                let _ = write!(into, "\\u{:04x}", u32::from(character));
            }
            character => into.push(character),
        }
    }
    into.push('"');
}

impl Alert {
    /// The alert as a line of JSON, without a line end.
    pub fn line(&self) -> String {
        let mut line = String::new();
        let Some(rule) = self.rules.get(usize::from(self.rule)) else {
            return line;
        };
        let seconds = self.time.div_euclid(1_000_000_000);
        let microseconds = self.time.rem_euclid(1_000_000_000) / 1000;
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let clock = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
        let _ = write!(
            line,
            "{{\"timestamp\":\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.\
             {microseconds:06}+0000\",\"event_type\":\"alert\",\"src_ip\":\"{}\"",
            self.source.0
        );
        let (name, has_ports) = match self.protocol {
            IpProtocol::TCP => ("TCP".to_string(), true),
            IpProtocol::UDP => ("UDP".to_string(), true),
            IpProtocol::ICMP => ("ICMP".to_string(), false),
            IpProtocol::ICMPV6 => ("IPv6-ICMP".to_string(), false),
            other => (format!("{:03}", other.0), false),
        };
        if has_ports {
            let _ = write!(line, ",\"src_port\":{}", self.source.1);
        }
        let _ = write!(line, ",\"dest_ip\":\"{}\"", self.destination.0);
        if has_ports {
            let _ = write!(line, ",\"dest_port\":{}", self.destination.1);
        }
        let _ = write!(
            line,
            ",\"proto\":\"{name}\",\"alert\":{{\"action\":\"allowed\",\"gid\":{},\"signature_id\":{},\
             \"rev\":{},\"signature\":",
            rule.gid, rule.sid, rule.revision
        );
        quote(&rule.message, &mut line);
        line += ",\"category\":";
        quote(&rule.class, &mut line);
        let _ = write!(line, ",\"severity\":{}}}}}", rule.priority);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::rules::{Set, parse};

    #[test]
    fn dates_are_right() {
        for (days, shown) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_784, (2026, 11, 27)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(date(days), shown);
        }
    }

    #[test]
    fn an_alert_is_a_line_of_json() {
        let text = "alert udp any any -> any any (msg:\"a \\\"b\\\" \\\\\"; classtype:misc; priority:2; sid:5; rev:3;)";
        let alert = Alert {
            time: 1_000_000_000_123_456_789,
            rules: parse(text, &Set::default()).unwrap().into(),
            rule: 0,
            protocol: IpProtocol::UDP,
            source: (Ipv4Addr::new(1, 2, 3, 4).into(), 5),
            destination: (Ipv4Addr::new(6, 7, 8, 9).into(), 53),
        };
        assert_eq!(
            alert.line(),
            "{\"timestamp\":\"2001-09-09T01:46:40.123456+0000\",\"event_type\":\"alert\",\"src_ip\":\"1.2.3.4\",\
             \"src_port\":5,\"dest_ip\":\"6.7.8.9\",\"dest_port\":53,\"proto\":\"UDP\",\"alert\":{\"action\":\
             \"allowed\",\"gid\":1,\"signature_id\":5,\"rev\":3,\"signature\":\"a \\\"b\\\" \\\\\",\"category\":\
             \"misc\",\"severity\":2}}"
        );
    }
}
