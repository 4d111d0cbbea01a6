use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Sorting};

use super::ip_filter::filter;
use crate::classification::{Program, ip_classifier};
use crate::rules::{RouterNames, take_compiled};

/// Sorts IP packets by patterns like tcpdump's.
///
/// A packet leaves by the output of the first pattern that it matches, and is dropped if it
/// matches none. A pattern is made of primitives, joined by `and` (`&&`), `or` (`||`), `not`
/// (`!`), `? :` and parentheses:
///
/// - `[src|dst] host ADDR`, `[src|dst] net ADDR/MASK`: the addresses.
/// - `[src|dst] [tcp|udp] port PORT`: the ports, of first fragments.
/// - `[src|dst] ether host MAC`: the Ethernet addresses, where the MAC header is marked.
/// - `ip proto PROTO`, or the protocol's name alone.
/// - `ip vers N`, `ip hl N`, `ip id N`, `ip tos N`, `ip dscp N`, `ip ttl N`, `ip len N`,
///   `ip frag`, `ip unfrag`, `ip ect`, `ip ce`: fields of the IP header.
/// - `tcp opt FLAG` (or the flag's name alone), `tcp win N`, `icmp type TYPE`: fields of the
///   transport header, of first fragments.
/// - `true`, `false`; and `-`, `any` or `all` as the whole pattern.
///
/// `src and dst` and `src or dst` go where `src` does; left out, it means `src or dst`. Numbers may
/// be compared with `=`, `!=`, `<`, `>`, `<=`, `>=`, and masked: `ip tos & 3 == 1`. A list such as
/// `port 80 or 443` repeats the words in front.
///
/// Packets need a network header mark, as CheckIPHeader and MarkIPHeader give them. Patterns are
/// compiled: the time per packet hardly grows with their number.
///
/// # Arguments
/// - `PATTERN`, ... (pattern): one for each output.
///
/// # Ports
/// One push input; as many push outputs as patterns.
///
/// # Handlers
/// - `program` (read): the tests that the patterns became.
/// - `pattern0`, `pattern1`, ... (read, write): the pattern of an output.
/// - `config` (read, write): all patterns; packets follow the new ones at once.
///
/// # Example
/// ```click
/// c :: IPClassifier(dst tcp port www or https, icmp type echo, src net 10.0.0.0/8, -);
/// FromDump(in.pcap, FORCE_IP true) -> c;
/// c[0] -> Discard;
/// c[1] -> Discard;
/// c[2] -> Discard;
/// c[3] -> Discard;
/// ```
///
/// # See also
/// IPFilter, Classifier, CheckIPHeader, MarkIPHeader
#[derive(Default)]
pub struct IPClassifier {
    program: Option<Program>,
    outputs: usize,
    /// Click warns of unreachable outputs only while the router starts.
    started: bool,
}

impl Class for IPClassifier {
    const NAME: &'static str = "IPClassifier";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const IS_A: &'static [&'static str] = &["IPFilter"];
    const SEGMENTS: bool = true;
}

fn unquoted<S: AsRef<str>>(patterns: &[S]) -> Vec<String> {
    let patterns = patterns.iter();
    patterns
        .map(|pattern| click::config::unquote_text(pattern.as_ref()))
        .collect()
}

impl IPClassifier {
    /// Puts `pattern` in the place of the one for output `number`.
    fn set_pattern(
        &mut self,
        cx: &mut Cx<'_>,
        number: usize,
        pattern: &str,
    ) -> Result<(), HandlerError> {
        let mut patterns = click::config::split_args(cx.config(cx.id()));
        match patterns.get_mut(number) {
            Some(old) => *old = pattern.to_string(),
            None => return Err("missing mandatory arguments".into()),
        }
        let compiled = ip_classifier(&unquoted(&patterns), &RouterNames(cx.names()));
        let compiled = compiled.map_err(|errors| errors.to_string())?;
        self.program = Some(compiled.program);
        cx.set_config(click::config::join_args(&patterns));
        Ok(())
    }
}

/// The number in a handler's name `patternN`.
fn pattern_number(name: &str, outputs: usize) -> Result<usize, HandlerError> {
    let number = name.strip_prefix("pattern").and_then(|n| n.parse().ok());
    number
        .filter(|number| *number < outputs)
        .ok_or(HandlerError::Unknown)
}

impl Declared for IPClassifier {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.outputs = cx.outputs();
        if args.raw().len() != self.outputs {
            return Err(args.fail(format_args!(
                "need {} arguments, one per output port",
                self.outputs
            )));
        }
        let compiled = ip_classifier(&unquoted(args.raw()), &RouterNames(args.context()));
        self.program = Some(take_compiled(args, compiled, !self.started)?);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("program");
        for output in 0..self.outputs {
            list.read_write(format!("pattern{output}"));
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        if let ("program", Some(program)) = (name, &self.program) {
            return Ok(program.text());
        }
        let number = pattern_number(name, self.outputs)?;
        let patterns = click::config::split_args(cx.config(cx.id()));
        Ok(patterns.get(number).cloned().unwrap_or_default())
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let number = pattern_number(name, self.outputs)?;
        self.set_pattern(cx, number, value)
    }
}

impl Element for IPClassifier {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.started = true;
        Ok(())
    }

    fn sorting(&self) -> Option<Arc<dyn Sorting>> {
        Some(self.program.as_ref()?.patterns()?)
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        filter(cx, batch, self.program.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Rig, tcp, udp};

    const CONFIG: &str = "i :: Inject -> c :: IPClassifier(dst tcp port 80 or 443, udp);
        c[0] -> a :: Collect; c[1] -> b :: Collect;";

    fn push(rig: &mut Rig) {
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for data in [
            tcp((from, 9), (to, 443), 2, &[]),
            tcp((from, 9), (to, 22), 2, &[]),
            udp((from, 9), (to, 22), &[]),
        ] {
            rig.push_with("i", &data, |packet| packet.set_network_header(0, 20));
        }
    }

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        let mut rig = Rig::new(CONFIG);
        push(&mut rig);
        assert_eq!((rig.data("a").len(), rig.data("b").len()), (1, 1));
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn single_patterns_can_be_read_and_written() {
        let mut rig = Rig::new(CONFIG);
        assert_eq!(rig.read("c.pattern0"), "dst tcp port 80 or 443");
        rig.write("c.pattern1", "tcp");
        assert_eq!(rig.read("c.config"), "dst tcp port 80 or 443, tcp");
        push(&mut rig);
        assert_eq!((rig.data("a").len(), rig.data("b").len()), (1, 1));
        let error = rig.try_write("c.pattern1", "port").unwrap_err();
        assert_eq!(error, "pattern 1: 'port': value missing".into());
        assert_eq!(rig.read("c.pattern1"), "tcp");
        assert!(rig.try_read("c.pattern2").is_err());
    }

    #[test]
    fn unreachable_outputs_are_warned_of_only_at_the_start() {
        let config = "Idle -> c :: IPClassifier(tcp, tcp) -> Discard; c[1] -> Discard;";
        let mut rig = Rig::new(config);
        let printed = rig.printed().join("\n");
        assert!(printed.contains("output 1 matches no packets"), "{printed}");
        rig.write("c.config", "udp, udp");
        assert!(rig.printed().is_empty());
    }

    #[test]
    fn every_output_needs_a_pattern() {
        let errors = Rig::errors("Idle -> IPClassifier(tcp, udp) -> Discard;");
        assert!(
            errors.contains("need 1 arguments, one per output port"),
            "{errors}"
        );
    }
}
