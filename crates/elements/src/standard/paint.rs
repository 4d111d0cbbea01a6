use alloc::string::{String, ToString};

use packet::{Batch, Packet, anno};
use router::args::{AnnoArg, Annotation, Args, Failed};
use router::{Class, Cx, Element, HandlerError, HandlerList, Verdict};

/// A colour and the annotation it is painted in.
#[derive(Clone, Copy)]
struct Colour {
    value: u8,
    at: usize,
}

impl Default for Colour {
    fn default() -> Self {
        Colour {
            value: 0,
            at: anno::PAINT.offset,
        }
    }
}

impl Colour {
    fn configure(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut value, mut annotation) = (0, PAINT);
        args.mandatory_positional("COLOR", &mut value)
            .positional_with("ANNO", AnnoArg(1), &mut annotation)
            .complete()?;
        (self.value, self.at) = (value, annotation.offset.into());
        Ok(())
    }

    #[inline]
    fn is_on(&self, packet: &Packet) -> bool {
        packet.annotations()[self.at] == self.value
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "color" => Ok(self.value.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "color" {
            return Err(HandlerError::Unknown);
        }
        let colour = cx.names().parse(value);
        self.value = colour.map_err(|_| "expected uint8_t")?;
        Ok(())
    }
}

const PAINT: Annotation = Annotation {
    offset: anno::PAINT.offset as u8,
    size: 1,
};

/// Paints packets a colour.
///
/// # Arguments
/// - `COLOR` (0 to 255): the colour.
/// - `ANNO` (annotation, PAINT): the one-byte annotation that takes it.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `color` (read, write): the argument.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(3) -> p :: PaintSwitch;
/// p[0] -> Discard;
/// p[1] -> Discard;
/// p[2] -> Discard;
/// p[3] -> Discard;
/// ```
///
/// # See also
/// PaintSwitch, CheckPaint, PaintTee
#[derive(Default)]
pub struct Paint {
    colour: Colour,
}

impl Class for Paint {
    const NAME: &'static str = "Paint";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Element for Paint {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.colour.configure(args)
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.annotations_mut()[self.colour.at] = self.colour.value;
        Verdict::Forward
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("color");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.colour.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.colour.write(cx, name, value)
    }
}

/// Lets packets of one colour pass.
///
/// Packets of other colours leave by output 1, or are dropped if that is not connected.
///
/// # Arguments
/// - `COLOR` (0 to 255): the colour.
/// - `ANNO` (annotation, PAINT): the one-byte annotation that holds it.
///
/// # Ports
/// One input; output 0 of the same kind; output 1, optional, is push.
///
/// # Handlers
/// - `color` (read, write): the argument.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(1) -> CheckPaint(1) -> Discard;
/// ```
///
/// # See also
/// Paint, PaintTee
#[derive(Default)]
pub struct CheckPaint {
    colour: Colour,
}

impl Class for CheckPaint {
    const NAME: &'static str = "CheckPaint";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Element for CheckPaint {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.colour.configure(args)
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.colour.is_on(packet) {
            true => Verdict::Forward,
            false => Verdict::To(1),
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("color");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.colour.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.colour.write(cx, name, value)
    }
}

/// Sends copies of packets of one colour to output 1.
///
/// All packets leave by output 0.
///
/// # Arguments
/// - `COLOR` (0 to 255): the colour.
/// - `ANNO` (annotation, PAINT): the one-byte annotation that holds it.
///
/// # Ports
/// One input; output 0 of the same kind; output 1 is push.
///
/// # Handlers
/// - `color` (read, write): the argument.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(1) -> p :: PaintTee(1) -> Discard;
/// p[1] -> Print(copy) -> Discard;
/// ```
///
/// # See also
/// Paint, Tee
#[derive(Default)]
pub struct PaintTee {
    colour: Colour,
}

impl Class for PaintTee {
    const NAME: &'static str = "PaintTee";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Element for PaintTee {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.colour.configure(args)
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if self.colour.is_on(packet)
            && let Some(copy) = cx.pool().clone(packet)
        {
            cx.emit(1, copy);
        }
        Verdict::Forward
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("color");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.colour.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.colour.write(cx, name, value)
    }
}

/// The colour of a packet that goes to every output.
const EVERYWHERE: u8 = 255;

/// Sends packets to the output that their colour names.
///
/// A packet of colour 255 goes to every output. One whose colour has no output is dropped.
///
/// # Arguments
/// - `ANNO` (annotation, PAINT): the one-byte annotation that holds the colour.
///
/// # Ports
/// One push input, any number of push outputs.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(1) -> p :: PaintSwitch;
/// p[0] -> Discard;
/// p[1] -> Print(painted) -> Discard;
/// ```
///
/// # See also
/// Paint, Switch
pub struct PaintSwitch {
    at: usize,
}

impl Default for PaintSwitch {
    fn default() -> Self {
        let at = anno::PAINT.offset;
        PaintSwitch { at }
    }
}

impl Class for PaintSwitch {
    const NAME: &'static str = "PaintSwitch";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

impl PaintSwitch {
    /// Where the packets go if all are of one colour.
    fn common(&self, batch: &Batch) -> Option<usize> {
        let mut colours = batch.iter().map(|packet| packet.annotations()[self.at]);
        let first = colours.next()?;
        let same = first != EVERYWHERE && colours.all(|colour| colour == first);
        same.then_some(first.into())
    }
}

impl Element for PaintSwitch {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut annotation = PAINT;
        args.positional_with("ANNO", AnnoArg(1), &mut annotation)
            .complete()?;
        self.at = annotation.offset.into();
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if let Some(port) = self.common(batch) {
            return port;
        }
        for packet in batch.drain() {
            let colour = packet.annotations()[self.at];
            if colour != EVERYWHERE {
                cx.emit(colour.into(), packet);
                continue;
            }
            let last = cx.outputs().saturating_sub(1);
            for port in 0..last {
                if let Some(copy) = cx.pool().clone(&packet) {
                    cx.emit(port, copy);
                }
            }
            cx.emit(last, packet);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn paint_is_put_where_it_is_asked_for() {
        let config = "i :: Inject -> p :: Paint(3) -> Paint(9, 17) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.write("p.color", "255");
        rig.push("i", &[1]);
        let packets = rig.collected("c");
        let paints = packets.iter().map(|p| (p.paint(), p.annotations()[17]));
        assert!(paints.eq([(3, 9), (255, 9)]));
        assert_eq!(rig.read("p.color"), "255");
        assert!(rig.try_write("p.color", "256").is_err());
    }

    #[test]
    fn wrong_colours_and_annotations_are_refused() {
        let errors = Rig::errors("Inject -> Paint(300) -> Collect;");
        assert!(errors.contains("COLOR: out of range, bound 255"), "{errors}");
        let errors = Rig::errors("Inject -> Paint(3, 99) -> Collect;");
        assert!(errors.contains("ANNO: "), "{errors}");
    }

    #[test]
    fn only_the_right_colour_passes() {
        let config = "i :: Inject -> k :: CheckPaint(2) -> a :: Collect; k[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| packet.set_paint(2));
        rig.push_with("i", &[2], |packet| packet.set_paint(3));
        assert_eq!(rig.data("a"), [[1]]);
        assert_eq!(rig.data("b"), [[2]]);
        let mut rig = Rig::new("i :: Inject -> Queue -> CheckPaint(2) -> p :: Puller;");
        rig.push("i", &[1]);
        assert!(rig.pull("p", 1).is_empty());
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn packets_of_the_colour_are_copied() {
        let config = "i :: Inject -> t :: PaintTee(2) -> a :: Collect; t[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| packet.set_paint(2));
        rig.push("i", &[2]);
        assert_eq!(rig.data("a"), [[1], [2]]);
        assert_eq!(rig.data("b"), [[1]]);
    }

    #[test]
    fn colours_choose_outputs() {
        for batch in [1, 64] {
            let config = "i :: Inject -> Null -> p :: PaintSwitch;
                p[0] -> a :: Collect; p[1] -> b :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            for colour in [0, 1, 2, 255] {
                rig.push_with("i", &[colour], |packet| packet.set_paint(colour));
            }
            assert_eq!(rig.data("a"), [[0], [255]]);
            assert_eq!(rig.data("b"), [[1], [255]]);
            assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn colours_choose_outputs_within_a_batch() {
        let config = "i :: Inject -> q :: Queue -> u :: Unqueue(BURST 64, ACTIVE false)
            -> p :: PaintSwitch; p[0] -> a :: Collect; p[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        for colour in [1, 0, 255, 1] {
            rig.push_with("i", &[colour], |packet| packet.set_paint(colour));
        }
        rig.write("u.active", "true");
        rig.run();
        assert_eq!(rig.data("a"), [[0], [255]]);
        assert_eq!(rig.data("b"), [[1], [255], [1]]);
    }
}
