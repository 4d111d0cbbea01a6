//! Text to the host.

use core::cell::{Cell, RefCell};
use core::fmt;

use abi::bytes::Producer;

/// The writing side of the console ring. What does not fit is dropped and counted there: a guest never waits
/// for whoever reads its console.
pub struct Console {
    ring: RefCell<Producer<'static>>,
    written: Cell<bool>,
}

impl Console {
    pub(crate) fn new(ring: Producer<'static>) -> Self {
        Self {
            ring: RefCell::new(ring),
            written: Cell::new(false),
        }
    }

    /// Writes text as it is.
    pub fn write(&self, bytes: &[u8]) {
        // A panic in the middle of a write finds the ring borrowed; its text is in the message then.
        if let Ok(mut ring) = self.ring.try_borrow_mut() {
            // A host that broke its own cursor does without a console.
            let _ = ring.write_lossy(bytes);
            self.written.set(true);
        }
    }

    /// Whether something was written since the last call.
    pub(crate) fn take_written(&self) -> bool {
        self.written.replace(false)
    }
}

impl fmt::Write for &Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(text.as_bytes());
        Ok(())
    }
}
