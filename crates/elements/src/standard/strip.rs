use packet::{Edit, Facts, Packet};
use router::args::{Args, Failed};
use router::{Class, Cx, Element, Verdict};

/// Removes bytes from the front of packets.
///
/// The bytes stay in the packet's headroom: Unstrip brings them back.
///
/// # Arguments
/// - `LENGTH` (integer): number of bytes; of a shorter packet nothing is left.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> Unstrip(14) -> Discard;
/// ```
///
/// # See also
/// Unstrip, EtherEncap, IPEncap
#[derive(Default)]
pub struct Strip {
    length: u32,
}

impl Class for Strip {
    const NAME: &'static str = "Strip";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Element for Strip {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("LENGTH", &mut self.length)
            .complete()
    }

    #[inline]
    fn keeps(&self) -> Facts {
        Facts::ALL.without(Facts::DESTINATION)
    }

    fn edit(&self) -> Option<Edit> {
        Edit::pull(self.length as usize)
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.pull(self.length as usize);
        Verdict::Forward
    }
}

/// Adds bytes to the front of packets: those that Strip removed, if it did.
///
/// A packet for which there is no memory is dropped.
///
/// # Arguments
/// - `LENGTH` (integer): number of bytes.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> Unstrip(14) -> Discard;
/// ```
///
/// # See also
/// Strip, EtherEncap, IPEncap
#[derive(Default)]
pub struct Unstrip {
    length: u32,
}

impl Class for Unstrip {
    const NAME: &'static str = "Unstrip";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Element for Unstrip {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("LENGTH", &mut self.length)
            .complete()
    }

    #[inline]
    fn keeps(&self) -> Facts {
        Facts::ALL.without(Facts::DESTINATION)
    }

    fn edit(&self) -> Option<Edit> {
        Edit::push(self.length as usize)
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.push(self.length as usize) {
            true => Verdict::Forward,
            false => Verdict::Drop,
        }
    }
}

/// Removes or brings back bytes so that packets start with their network header.
///
/// A packet whose network header is not marked stays as it is.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> StripToNetworkHeader -> Discard;
/// ```
///
/// # See also
/// Strip, Unstrip, MarkIPHeader, CheckIPHeader
#[derive(Default)]
pub struct StripToNetworkHeader;

impl Class for StripToNetworkHeader {
    const NAME: &'static str = "StripToNetworkHeader";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Element for StripToNetworkHeader {
    #[inline]
    fn keeps(&self) -> Facts {
        Facts::ALL.without(Facts::DESTINATION)
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let offset = packet.network_offset().unwrap_or(0);
        let bytes = offset.unsigned_abs();
        if offset > 0 {
            packet.pull(bytes);
        } else if !packet.push(bytes) {
            return Verdict::Drop;
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn what_is_stripped_comes_back() {
        let config = "i :: Inject -> Strip(2) -> t :: Tee -> a :: Collect;
            t[1] -> Unstrip(2) -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2, 3]);
        rig.push("i", &[1]);
        assert_eq!(rig.data("a"), [&[3][..], &[]]);
        let back = rig.data("b");
        assert_eq!(back[0], [1, 2, 3]);
        assert_eq!(back[1].len(), 2);
    }

    #[test]
    fn a_long_way_back_is_found_too() {
        let mut rig = Rig::new("i :: Inject -> Unstrip(5000) -> c :: Collect;");
        rig.push("i", &[7]);
        let data = rig.data("c");
        assert_eq!((data[0].len(), data[0].last()), (5001, Some(&7)));
    }

    #[test]
    fn packets_start_with_their_network_header() {
        let config = "i :: Inject -> StripToNetworkHeader -> a :: Collect;
            j :: Inject -> Strip(4) -> StripToNetworkHeader -> b :: Collect;";
        let mut rig = Rig::new(config);
        for name in ["i", "j"] {
            rig.push_with(name, &[1, 2, 3, 4, 5], |packet| packet.set_network_header(2, 1));
            rig.push(name, &[1, 2, 3, 4, 5]);
        }
        assert_eq!(rig.data("a"), [&[3, 4, 5][..], &[1, 2, 3, 4, 5]]);
        assert_eq!(rig.data("b"), [&[3, 4, 5][..], &[5]]);
    }

    #[test]
    fn the_length_must_be_given() {
        let errors = Rig::errors("Inject -> Strip -> Collect;");
        assert!(errors.contains("LENGTH: required argument missing"), "{errors}");
    }
}
