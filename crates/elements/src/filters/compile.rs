//! How elements use the classification compiler: the names of a router, and errors of arguments.

use crate::classification::{
    Compiled, Diagnostics, Names, NumberName, Program, ProtocolNames, Severity,
};
use crate::prelude::*;

/// The names of a router, as patterns ask for them.
pub struct RouterNames<'c>(pub args::Context<'c>);

impl Names for RouterNames<'_> {
    fn number(&self, kind: NumberName, name: &str) -> Option<u32> {
        let Self(context) = self;
        match kind.table() {
            Some(table) => context.names.int(table, name, context.element),
            None => ProtocolNames.number(kind, name),
        }
    }

    fn ip_address(&self, name: &str) -> Option<[u8; 4]> {
        let address = self.0.names.ip(name, self.0.element);
        address.as_ref().map(Ipv4Addr::octets)
    }

    fn ip_prefix(&self, name: &str) -> Option<([u8; 4], [u8; 4])> {
        let prefix = self.0.names.ip_prefix(name, self.0.element)?;
        Some((prefix.address.octets(), prefix.mask.octets()))
    }

    fn ip6_address(&self, name: &str) -> Option<[u8; 16]> {
        let address = self.0.names.ip6(name, self.0.element);
        address.as_ref().map(Ipv6Addr::octets)
    }

    fn ip6_prefix(&self, name: &str) -> Option<([u8; 16], u8)> {
        let prefix = self.0.names.ip6_prefix(name, self.0.element)?;
        Some((prefix.address.octets(), prefix.length))
    }

    fn ether_address(&self, name: &str) -> Option<[u8; 6]> {
        let address = self.0.names.ether(name, self.0.element)?;
        Some(address.0)
    }
}

/// Takes the program of what was compiled, or says what is wrong. Warnings are only passed on if
/// `warn` is set.
pub fn take_compiled(
    args: &Args<'_>,
    compiled: Result<Compiled, Diagnostics>,
    warn: bool,
) -> Result<Program, Failed> {
    let (program, said) = match compiled {
        Ok(compiled) => (Ok(compiled.program), compiled.warnings),
        Err(errors) => (Err(Failed), errors),
    };
    for line in said.0 {
        match (line.severity, line.pattern) {
            (Severity::Error, _) => args.error(&line),
            (Severity::Warning, _) if !warn => {}
            (Severity::Warning, Some(pattern)) => {
                args.warning_in(format_args!("pattern {pattern}"), line.text);
            }
            (Severity::Warning, None) => args.warning(line.text),
        }
    }
    program
}

/// The effects of an element that only classifies, by `program`.
#[inline]
pub fn classification_effects(program: Option<&Program>) -> Effects {
    Effects {
        rules: program
            .and_then(Program::patterns)
            .map(|rules| rules as Arc<dyn Classify>),
        ..Effects::default()
    }
}
