//! What a carrier-grade NAT logs: which subscriber had which ports of which address, from when to when
//! (RFC 6888, section 4). With blocks of ports, an event stands for all mappings in it.

use crate::prelude::*;

/// Facility local0, severity informational (RFC 5424, section 6.2.1).
const PRIORITY: u8 = 16 * 8 + 6;

/// A block of ports is given to a subscriber, or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since 1970.
    pub time: i64,
    pub is_allocation: bool,
    pub subscriber: Ipv4Addr,
    pub address: Ipv4Addr,
    /// The block's first and last port.
    pub ports: (u16, u16),
}

/// A moment as RFC 3339 writes it, to the millisecond.
struct Time(i64);

impl core::fmt::Display for Time {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let milliseconds = self.0.div_euclid(1_000_000);
        let (days, rest) = (
            milliseconds.div_euclid(86_400_000),
            milliseconds.rem_euclid(86_400_000),
        );
        // Days since 1 March of the year 0, in eras of 400 years (Hinnant, *chrono-compatible
        // low-level date algorithms*).
        let days = days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        let year = year + 400 * era + next;
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, fraction) = (rest / 1000 % 60, rest % 1000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z"
        )
    }
}

/// As a syslog message (RFC 5424).
impl core::fmt::Display for Event {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let word = if self.is_allocation {
            "allocated"
        } else {
            "released"
        };
        let (subscriber, address, (first, last)) = (self.subscriber, self.address, self.ports);
        let time = Time(self.time);
        write!(
            f,
            "<{PRIORITY}>1 {time} - CarrierGradeNAT - block-{word} - \
             subscriber={subscriber} address={address} ports={first}-{last} protocols=tcp,udp,icmp"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // By `date -u -d @SECONDS`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(Time(seconds * 1_000_000_000).to_string(), expected);
        }
    }
}
