use alloc::string::{String, ToString};

use packet::Packet;
use packet::wire::{EtherAddress, EthernetFrame};
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use crate::values;

/// Sets the addresses of frames' Ethernet headers and leaves the type as it is.
///
/// The header is where the packet's MAC header is marked, or at its start if none is. This does
/// where a link has a single other end. Packets too short for an Ethernet header pass unchanged.
///
/// # Arguments
/// - `SRC` (Ethernet address): who the frames are to be from.
/// - `DST` (Ethernet address): who they are to be for.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `src`, `dst` (read, write): the arguments.
///
/// # Example
/// ```click
/// FromDevice(eth0)
///     -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)
///     -> Queue -> ToDevice(eth1);
/// ```
///
/// # See also
/// EtherEncap, EtherMirror, ARPQuerier
#[derive(Default)]
pub struct EtherRewrite {
    source: EtherAddress,
    destination: EtherAddress,
}

impl Class for EtherRewrite {
    const NAME: &'static str = "EtherRewrite";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl EtherRewrite {
    #[inline(always)]
    fn rewrite(&self, header: &mut [u8]) {
        let mut frame = EthernetFrame::new_unchecked(header);
        if frame.header_mut().is_some() {
            frame.set_destination(self.destination);
            frame.set_source(self.source);
        }
    }
}

impl Declared for EtherRewrite {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("SRC", &mut self.source)
            .mandatory_positional("DST", &mut self.destination)
            .complete()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("src").read_write("dst");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.source.to_string()),
            "dst" => Ok(self.destination.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "src" => values::argument(cx, 0, "SRC", value, &mut self.source),
            "dst" => values::argument(cx, 1, "DST", value, &mut self.destination),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for EtherRewrite {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.mac_header_mut() {
            Some(header) => self.rewrite(header),
            None => self.rewrite(packet.data_mut()),
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use crate::testing::{Rig, ether};

    const CONFIG: &str = "i :: Inject -> e :: EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> c :: Collect;";

    #[test]
    fn addresses_are_set_and_the_type_stays() {
        let mut rig = Rig::new(CONFIG);
        rig.push_all("i", &[ether([7; 6], [8; 6], 0x1234, &[7]), vec![1; 13]]);
        let expected = [ether([2; 6], [1; 6], 0x1234, &[7]), vec![1; 13]];
        assert_eq!(rig.data("c"), expected);
    }

    #[test]
    fn the_marked_header_is_the_one() {
        let mut rig = Rig::new(CONFIG);
        let frame = [vec![5; 4], ether([7; 6], [8; 6], 0x1234, &[])].concat();
        rig.push_with("i", &frame, |packet| packet.set_mac_header(4));
        let expected = [vec![5; 4], ether([2; 6], [1; 6], 0x1234, &[])].concat();
        assert_eq!(rig.data("c"), [expected]);
    }

    #[test]
    fn handlers_change_the_arguments() {
        let mut rig = Rig::new(CONFIG);
        rig.write("e.src", "4:4:4:4:4:4");
        assert_eq!(rig.read("e.src"), "04-04-04-04-04-04");
        assert_eq!(rig.read("e.dst"), "02-02-02-02-02-02");
        assert_eq!(rig.read("e.config"), "4:4:4:4:4:4, 2:2:2:2:2:2");
    }
}
