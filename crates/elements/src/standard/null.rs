use crate::prelude::*;

/// Passes packets on unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Null -> Discard;
/// ```
///
/// # See also
/// PushNull, PullNull, Idle
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct Null;

impl Element for Null {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_unchanged() {
        let mut rig = Rig::new("i :: Inject -> Null -> c :: Collect;");
        rig.push("i", &[1, 2]);
        assert_eq!(rig.data("c"), [[1, 2]]);
    }

    #[test]
    fn the_ports_handler_marks_agnostic_ports() {
        let mut rig = Rig::new(
            "i :: Inject -> n :: Null -> q :: Queue -> m :: Null -> u :: Unqueue -> c :: Collect;",
        );
        for (name, ports) in [
            (
                "n.ports",
                "1 input\npush~\t-\ti [0]\n1 output\npush~\t-\t[0] q\n",
            ),
            (
                "m.ports",
                "1 input\npull~\t-\tq [0]\n1 output\npull~\t-\t[0] u\n",
            ),
            (
                "q.ports",
                "1 input\npush\t-\tn [0]\n1 output\npull\t-\t[0] m\n",
            ),
        ] {
            assert_eq!(rig.read(name), ports, "{name}");
        }
    }

    #[test]
    fn the_handlers_handler_shows_flags() {
        let mut rig = Rig::new("s :: RatedSource -> q :: Queue -> u :: Unqueue -> Discard;");
        let handlers = [rig.read("s.handlers"), rig.read("u.handlers")].concat();
        for line in ["data\trw%.\n", "datasize\trwD\n", "reset_counts\twUb\n"] {
            assert!(handlers.contains(line), "{line}: {handlers}");
        }
    }
}
