use crate::prelude::*;

/// Sets a byte of packets' annotations: Paint with its arguments exchanged.
///
/// Prefer Paint.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> SetAnnoByte(PAINT, 3) -> CheckPaint(3) -> Discard;
/// ```
///
/// # See also
/// Paint, AnnotationInfo
#[derive(Element)]
#[element(
    ports = "1/1",
    segments,
    live,
    deprecated = "SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead"
)]
pub struct SetAnnoByte {
    /// The one-byte annotation; its handler shows the offset.
    #[arg(mandatory, read = |anno: &AnnoOf<1>| anno.offset())]
    #[init(AnnoOf::new(packet::anno::PAINT))]
    anno: AnnoOf<1>,
    /// The value, 0 to 255.
    #[arg(mandatory, read, write, error = "expected uint8_t")]
    value: u8,
}

impl Element for SetAnnoByte {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.annotations_mut()[self.anno.offset()] = self.value;
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_byte_is_set() {
        let mut rig = Rig::new("i :: Inject -> s :: SetAnnoByte(17, 5) -> c :: Collect;");
        assert_contains(&rig.printed().concat(), "use Paint(VALUE, ANNO) instead");
        rig.push("i", &[1]);
        rig.assert_handlers(&[("s.anno", "17"), ("s.value", "5")]);
        rig.write("s.value", "255");
        rig.push("i", &[1]);
        let bytes = rig.collected("c");
        assert!(
            bytes
                .iter()
                .map(|packet| packet.annotations()[17])
                .eq([5, 255])
        );
        assert!(rig.try_write("s.value", "256").is_err());
        let config = "Idle -> SetAnnoByte(DST_IP, 1) -> Discard;";
        Rig::refuses(config, "  ANNO: ");
        Rig::refuses(config, "is obsolete");
    }
}
