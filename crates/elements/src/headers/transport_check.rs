//! What CheckTCPHeader, CheckUDPHeader and CheckICMPHeader share: arguments, counts and messages.

use core::fmt::Write;

use crate::prelude::*;

/// What may be wrong with a packet, in the order of `drop_details`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It carries another protocol, or no IP header is marked.
    Protocol,
    Length,
    Checksum,
}

/// The arguments and counts of a check.
#[derive(Component)]
#[component(handlers)]
pub struct Faults {
    /// Whether every wrong packet draws a message.
    #[arg]
    verbose: bool,
    /// Whether to count wrong packets by what is wrong.
    #[arg]
    details: bool,
    /// Wrong packets.
    #[handler(read, name = "drops")]
    count: u64,
    counts: [u64; 3],
    /// What the packets are to carry: `TCP`.
    pub protocol: &'static str,
}

#[handlers]
impl Faults {
    /// With DETAILS, a line for each kind of error, with a count.
    #[read(when = self.details)]
    fn drop_details(&self) -> String {
        let mut text = String::new();
        let reasons = [Reason::Protocol, Reason::Length, Reason::Checksum];
        for (count, reason) in self.counts.iter().zip(reasons) {
            // Writing to memory does not fail.
            let _ = writeln!(text, "{count}\t{}", Faults::text(reason, self.protocol));
        }
        text
    }
}

impl Faults {
    fn text(reason: Reason, protocol: &str) -> String {
        match reason {
            Reason::Protocol => alloc::format!("not {protocol}"),
            Reason::Length => "bad packet length".into(),
            Reason::Checksum => alloc::format!("bad {protocol} checksum"),
        }
    }

    /// Counts a wrong packet, which is to leave by output 1.
    #[cold]
    pub fn refuse(&mut self, cx: &mut Cx<'_>, reason: Reason) -> Verdict {
        let protocol = self.protocol;
        if self.count == 0 || self.verbose {
            // Of the three, the message of CheckUDPHeader names no element, in Click as here.
            let who = match protocol {
                "UDP" => String::new(),
                _ => cx.declaration() + ": ",
            };
            let text = Faults::text(reason, protocol);
            cx.chatter(format_args!("{who}{protocol} header check failed: {text}"));
        }
        self.count += 1;
        self.counts[reason as usize] += 1;
        Verdict::To(1)
    }
}

/// Defines an element that checks `$protocol` packets by the function `$check`.
macro_rules! check {
    ($(#[$doc:meta])* $name:ident, $protocol:literal, $check:path) => {
        $(#[$doc])*
        #[derive(router::Element)]
        #[element(ports = "1/1-2", processing = "a/ah")]
        #[outputs("right packets", "wrong packets, and packets of other protocols")]
        pub struct $name {
            #[flatten]
            faults: $crate::headers::transport_check::Faults,
        }

        impl router::Element for $name {
            fn configured(
                &mut self,
                _cx: &mut router::Cx<'_>,
                _args: &mut router::args::Args<'_>,
            ) -> Result<(), router::args::Failed> {
                self.faults.protocol = $protocol;
                Ok(())
            }

            #[inline]
            fn action(
                &mut self,
                cx: &mut router::Cx<'_>,
                packet: &mut packet::Packet,
            ) -> router::Verdict {
                match $check(packet) {
                    Ok(()) => router::Verdict::Forward,
                    Err(reason) => self.faults.refuse(cx, reason),
                }
            }
        }
    };
}
pub(crate) use check;
