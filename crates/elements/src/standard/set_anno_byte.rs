use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{AnnoArg, Annotation, Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Sets a byte of packets' annotations: Paint with its arguments the other way round.
///
/// Paint is to be preferred.
///
/// # Arguments
/// - `ANNO` (annotation): the one-byte annotation.
/// - `VALUE` (0 to 255): what it is set to.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `anno` (read): the annotation's offset.
/// - `value` (read, write): the argument.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> SetAnnoByte(PAINT, 3) -> CheckPaint(3) -> Discard;
/// ```
///
/// # See also
/// Paint, AnnotationInfo
#[derive(Default)]
pub struct SetAnnoByte {
    at: usize,
    value: u8,
}

impl Class for SetAnnoByte {
    const NAME: &'static str = "SetAnnoByte";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for SetAnnoByte {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.warning("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
        let mut annotation = Annotation { offset: 0, size: 1 };
        args.mandatory_positional_with("ANNO", AnnoArg(1), &mut annotation)
            .mandatory_positional("VALUE", &mut self.value)
            .complete()?;
        self.at = annotation.offset.into();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("anno").read_write("value");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "anno" => Ok(self.at.to_string()),
            "value" => Ok(self.value.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "value" {
            return Err(HandlerError::Unknown);
        }
        let parsed = cx.names().parse(value);
        self.value = parsed.map_err(|_| "expected uint8_t")?;
        Ok(())
    }
}

impl Element for SetAnnoByte {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.annotations_mut()[self.at] = self.value;
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn the_byte_is_set() {
        let mut rig = Rig::new("i :: Inject -> s :: SetAnnoByte(17, 5) -> c :: Collect;");
        assert!(rig.printed().concat().contains("use Paint(VALUE, ANNO) instead"));
        rig.push("i", &[1]);
        assert_eq!((rig.read("s.anno"), rig.read("s.value")), ("17".into(), "5".into()));
        rig.write("s.value", "255");
        rig.push("i", &[1]);
        let bytes = rig.collected("c");
        assert!(bytes.iter().map(|packet| packet.annotations()[17]).eq([5, 255]));
        assert!(rig.try_write("s.value", "256").is_err());
        let errors = Rig::errors("Idle -> SetAnnoByte(DST_IP, 1) -> Discard;");
        assert!(errors.contains("ANNO"), "{errors}");
    }
}
