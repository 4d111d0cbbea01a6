use crate::prelude::*;

/// Blocks a thread for a time, for tests.
///
/// # Example
/// ```click
/// b :: BlockThread;
/// Script(write b.block 0.01s, stop);
/// ```
///
/// # See also
/// StaticThreadSched, Script
#[derive(Element)]
#[element(ports = "0/0", handlers)]
pub struct BlockThread;

#[handlers]
impl BlockThread {
    /// A time, for which the thread that this element is on does nothing.
    #[write(error = "bad TIME")]
    fn block(&mut self, time: Microseconds) {
        std::thread::sleep(time.into());
    }
}

impl Element for BlockThread {}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::testing::*;

    #[test]
    fn it_blocks_for_the_time_given() {
        let mut rig = Rig::new("b :: BlockThread;");
        let start = Instant::now();
        rig.write("b.block", "20ms");
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(rig.try_write("b.block", "x").is_err());
    }
}
