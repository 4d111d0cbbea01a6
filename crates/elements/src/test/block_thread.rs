use router::args::Microseconds;
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

/// Keeps a thread from its work for a while, for trials.
///
/// # Arguments
/// None.
///
/// # Ports
/// None.
///
/// # Handlers
/// - `block` (write): a time, for which the thread that this element is on does nothing.
///
/// # Example
/// ```click
/// b :: BlockThread;
/// Script(write b.block 0.01s, stop);
/// ```
///
/// # See also
/// StaticThreadSched, Script
#[derive(Default)]
pub struct BlockThread;

impl Class for BlockThread {
    const NAME: &'static str = "BlockThread";
    const PORTS: &'static str = "0/0";
}

impl Declared for BlockThread {
    fn handlers(&self, list: &mut HandlerList) {
        list.write("block");
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "block" => {
                let time = cx.names().parse::<Microseconds>(value.trim());
                std::thread::sleep(time.map_err(|_| "bad TIME")?.into());
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for BlockThread {}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::testing::Rig;

    #[test]
    fn it_blocks_for_the_time_given() {
        let mut rig = Rig::new("b :: BlockThread;");
        let start = Instant::now();
        rig.write("b.block", "20ms");
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(rig.try_write("b.block", "x").is_err());
    }
}
