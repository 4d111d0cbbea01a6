use packet::Batch;
use router::{Class, Cx, Declared, Element, Notice, Search};

/// Drops what is pushed into it and has nothing to be pulled.
///
/// Fills ports that are not to be used: its inputs and outputs agree with anything.
///
/// # Arguments
/// None.
///
/// # Ports
/// Any number of inputs and outputs, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// c :: Classifier(12/0800, -);
/// FromDump(in.pcap) -> c;
/// c[0] -> ToDump(ip.pcap);
/// c[1] -> Idle;
/// ```
///
/// # See also
/// Discard, Null
#[derive(Default)]
pub struct Idle;

impl Class for Idle {
    const NAME: &'static str = "Idle";
    const PORTS: &'static str = "-/-";
    const PROCESSING: &'static str = "a/a";
    const FLOW: &'static str = "x/y";
    const SEGMENTS: bool = true;
}

impl Declared for Idle {}

impl Element for Idle {
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        cx.pool().recycle(batch);
        0
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, _most: usize) {}

    fn notifier(&self, notice: Notice, port: usize) -> Search {
        let _ = (notice, port);
        Search::Never
    }
}
