//! What came back of the requests that ICMPPingSource sent.

use core::fmt::{self, Display, Write};

use crate::prelude::*;

/// Requests that are remembered: the last so many. A power of two.
const SENT_MAX: usize = 4096;

/// A request that was sent.
#[derive(Clone, Copy)]
struct Sent {
    /// Its number; 0: none was sent.
    number: u16,
    answered: bool,
    /// In nanoseconds since 1970.
    time: i64,
}

const NEVER: Sent = Sent {
    number: 0,
    answered: false,
    time: 0,
};

/// Requests on their way, and the round trips of the answered ones, in microseconds.
pub struct Replies {
    sent: Box<[Sent]>,
    /// Replies, duplicates included.
    received: u64,
    duplicates: u64,
    least: u32,
    most: u32,
    sum: u64,
    squares: u128,
}

impl Default for Replies {
    fn default() -> Self {
        Replies {
            sent: alloc::vec![NEVER; SENT_MAX].into_boxed_slice(),
            received: 0,
            duplicates: 0,
            least: 0,
            most: 0,
            sum: 0,
            squares: 0,
        }
    }
}

impl Replies {
    /// Remembers request `number`, not 0, sent at `time`.
    pub fn sent(&mut self, number: u16, time: i64) {
        self.sent[usize::from(number) % SENT_MAX] = Sent {
            number,
            answered: false,
            time,
        };
    }

    /// Counts a reply to request `number` that came at `time`; 0 is not known. Returns the round
    /// trip's microseconds, or `None` if that request is not remembered.
    pub fn received(&mut self, number: u16, time: i64) -> Option<u32> {
        let sent = &mut self.sent[usize::from(number) % SENT_MAX];
        if sent.number != number || number == 0 {
            return None;
        }
        if core::mem::replace(&mut sent.answered, true) {
            self.duplicates += 1;
        }
        let mut microseconds = 0;
        if time != 0 {
            let nanoseconds = time.saturating_sub(sent.time).max(0);
            microseconds = u32::try_from(nanoseconds / 1000).unwrap_or(u32::MAX);
            let first = self.received == 0;
            self.least = if first {
                microseconds
            } else {
                self.least.min(microseconds)
            };
            self.most = self.most.max(microseconds);
            self.sum += u64::from(microseconds);
            self.squares += u128::from(microseconds).pow(2);
        }
        self.received += 1;
        Some(microseconds)
    }

    /// The shortest round trip.
    pub fn least(&self) -> u32 {
        self.least
    }

    /// The longest round trip.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The average round trip.
    pub fn average(&self) -> u32 {
        (self.sum / self.received.max(1)) as u32
    }

    /// What ping prints at its end, of `count` requests.
    pub fn summary(&self, count: i32) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_summary(&mut text, count.max(0).unsigned_abs().into());
        text
    }

    fn write_summary(&self, text: &mut String, count: u64) -> fmt::Result {
        let answered = self.received - self.duplicates;
        write!(text, "{count} packets transmitted, {answered} received")?;
        if self.duplicates > 0 {
            write!(text, ", +{} duplicates", self.duplicates)?;
        }
        let lost = count.saturating_sub(answered) * 100;
        if let Some(lost) = lost.checked_div(count) {
            writeln!(text, ", {lost}% packet loss")?;
        }
        if self.received == 0 {
            return Ok(());
        }
        let received = u128::from(self.received);
        let average = u128::from(self.average());
        let variance = (self.squares / received).saturating_sub(average * average);
        let deviation = variance.isqrt() as u32;
        let [least, average, most, deviation] =
            [self.least, self.average(), self.most, deviation].map(Millis);
        writeln!(
            text,
            "rtt min/avg/max/mdev = {least}/{average}/{most}/{deviation}"
        )
    }
}

/// Microseconds, shown as milliseconds with three decimals.
pub struct Millis(pub u32);

impl Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
