use crate::prelude::*;

/// Nanoseconds of a jiffy.
const JIFFY: u64 = 1_000_000;

/// Shows the steady clock in jiffies, of a millisecond each.
///
/// In FastClick, it makes timeouts come from a counter of jiffies. Weir's timers read the steady
/// clock.
///
/// # Example
/// ```click
/// clock :: JiffieClock;
/// DriverManager(print clock.jiffies);
/// ```
///
/// # See also
/// TSCClock
#[derive(Element)]
#[element(ports = "0/0", handlers)]
pub struct JiffieClock {
    /// Accepted and ignored.
    #[arg(positional)]
    verbose: bool,
    /// Accepted and ignored.
    #[arg(positional, name = "MINPRECISION")]
    least_precision: i32,
}

#[handlers]
impl JiffieClock {
    /// The steady clock, in jiffies.
    #[read]
    fn jiffies(&self, cx: &mut Cx<'_>) -> u64 {
        cx.steady().0 / JIFFY
    }

    /// Whether timers count jiffies: false.
    #[read]
    fn status(&self) -> bool {
        false
    }
}

impl Element for JiffieClock {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn a_jiffy_is_a_millisecond() {
        let mut rig = Rig::new("k :: JiffieClock(MINPRECISION 1000);");
        assert_eq!(rig.read("k.jiffies"), "0");
        rig.pause(2_999_999);
        rig.assert_handlers(&[("k.jiffies", "2"), ("k.status", "false")]);
    }
}
