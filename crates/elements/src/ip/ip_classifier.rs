use super::pattern_list::PatternList;
use crate::prelude::*;

/// Classifies IP packets by patterns like tcpdump's.
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
/// Packets must have their network header marked, by CheckIPHeader or MarkIPHeader. Patterns are
/// compiled: the time per packet hardly grows with their number.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): the pattern of an output.
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
/// IPFilter, DualStackClassifier, Classifier, CheckIPHeader, MarkIPHeader
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPFilter"), segments, live)]
#[outputs("one for each pattern")]
pub struct IPClassifier {
    #[delegate]
    list: PatternList<false>,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
        let text = "pattern 1: ‘port’: value missing";
        assert_eq!(error, HandlerError::failed(FailureKind::Failed, text));
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
        Rig::refuses(
            "Idle -> IPClassifier(tcp, udp) -> Discard;",
            "need 1 arguments, one per output port",
        );
    }
}
