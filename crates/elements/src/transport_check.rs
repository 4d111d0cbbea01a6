//! What CheckTCPHeader, CheckUDPHeader and CheckICMPHeader share: arguments, counts and messages.

use alloc::string::{String, ToString};
use core::fmt::Write;

use router::args::{Args, Failed};
use router::{Cx, HandlerError, HandlerList, Verdict};

/// What may be wrong with a packet, in the order of `drop_details`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It carries another protocol, or no IP header is marked.
    Protocol,
    Length,
    Checksum,
}

/// The arguments and counts of a check.
#[derive(Default)]
pub struct Faults {
    verbose: bool,
    count: u64,
    details: Option<[u64; 3]>,
}

impl Faults {
    pub fn configure(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut details = false;
        args.keyword("VERBOSE", &mut self.verbose)
            .keyword("DETAILS", &mut details)
            .complete()?;
        self.details = details.then(Default::default);
        Ok(())
    }

    fn text(reason: Reason, protocol: &str) -> String {
        match reason {
            Reason::Protocol => alloc::format!("not {protocol}"),
            Reason::Length => "bad packet length".into(),
            Reason::Checksum => alloc::format!("bad {protocol} checksum"),
        }
    }

    /// Counts a wrong packet, which is to leave by output 1.
    #[cold]
    pub fn refuse(&mut self, cx: &mut Cx<'_>, protocol: &str, reason: Reason) -> Verdict {
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
        if let Some(details) = &mut self.details {
            details[reason as usize] += 1;
        }
        Verdict::To(1)
    }

    pub fn handlers(&self, list: &mut HandlerList) {
        list.read("drops");
        if self.details.is_some() {
            list.read("drop_details");
        }
    }

    pub fn read(&self, name: &str, protocol: &str) -> Result<String, HandlerError> {
        match (name, &self.details) {
            ("drops", _) => Ok(self.count.to_string()),
            ("drop_details", Some(counts)) => {
                let mut text = String::new();
                let reasons = [Reason::Protocol, Reason::Length, Reason::Checksum];
                for (count, reason) in counts.iter().zip(reasons) {
                    let _ = writeln!(text, "{count}\t{}", Faults::text(reason, protocol));
                }
                Ok(text)
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

/// Defines an element that checks `$protocol` packets by the function `$check`.
macro_rules! check {
    ($(#[$doc:meta])* $name:ident, $protocol:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            faults: $crate::transport_check::Faults,
        }

        impl router::Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1-2";
            const PROCESSING: &'static str = "a/ah";
        }

        impl router::Declared for $name {
            fn configure(
                &mut self,
                _cx: &mut router::Cx<'_>,
                args: &mut router::args::Args<'_>,
            ) -> Result<(), router::args::Failed> {
                self.faults.configure(args)
            }

            fn handlers(&self, list: &mut router::HandlerList) {
                self.faults.handlers(list);
            }

            fn read(
                &mut self,
                _cx: &mut router::Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<alloc::string::String, router::HandlerError> {
                self.faults.read(name, $protocol)
            }
        }

        impl router::Element for $name {
            #[inline]
            fn action(
                &mut self,
                cx: &mut router::Cx<'_>,
                packet: &mut packet::Packet,
            ) -> router::Verdict {
                match $check(packet) {
                    Ok(()) => router::Verdict::Forward,
                    Err(reason) => self.faults.refuse(cx, $protocol, reason),
                }
            }
        }
    };
}
pub(crate) use check;
