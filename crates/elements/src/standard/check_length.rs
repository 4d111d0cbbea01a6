use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use crate::values;

/// Lets packets pass that are no longer than a number of bytes.
///
/// Longer packets leave by output 1, or are dropped if that is not connected.
///
/// # Arguments
/// - `LENGTH` (integer): most bytes of a packet that passes.
///
/// # Ports
/// One input; output 0 of the same kind; output 1, optional, is push.
///
/// # Handlers
/// - `length` (read, write): the argument.
///
/// # Example
/// ```click
/// c :: CheckLength(1500);
/// FromDump(in.pcap) -> Strip(14) -> c -> Discard;
/// c[1] -> Print(large) -> Discard;
/// ```
///
/// # See also
/// Truncate, IPFragmenter
#[derive(Default)]
pub struct CheckLength {
    length: u32,
}

impl Class for CheckLength {
    const NAME: &'static str = "CheckLength";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
}

impl Declared for CheckLength {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("LENGTH", &mut self.length)
            .complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("length");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "length" => Ok(self.length.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "length" {
            return Err(HandlerError::Unknown);
        }
        self.length = values::unsigned(cx, value)?;
        Ok(())
    }
}

impl Element for CheckLength {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.len() > self.length as usize {
            true => Verdict::To(1),
            false => Verdict::Forward,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn long_packets_leave_elsewhere() {
        let config = "i :: Inject -> c :: CheckLength(2); c[0] -> a :: Collect; c[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        for data in [&[1, 2][..], &[1, 2, 3], &[]] {
            rig.push("i", data);
        }
        assert_eq!(rig.data("a"), [&[1, 2][..], &[]]);
        assert_eq!(rig.data("b"), [[1, 2, 3]]);
        rig.write("c.length", "3");
        assert_eq!(rig.read("c.length"), "3");
        rig.push("i", &[1, 2, 3]);
        assert_eq!(rig.data("a").len(), 1);
    }

    #[test]
    fn without_output_1_they_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> Queue -> CheckLength(1) -> p :: Puller;");
        for data in [&[1, 2][..], &[3], &[4, 5]] {
            rig.push("i", data);
        }
        let pulled = rig.pull("p", 9);
        assert_eq!((pulled.len(), pulled[0].data()), (1, &[3][..]));
        drop(pulled);
        assert_eq!(rig.outstanding(), 0);
        let errors = Rig::errors("Idle -> CheckLength -> Discard;");
        assert!(errors.contains("LENGTH: required argument missing"), "{errors}");
    }
}
