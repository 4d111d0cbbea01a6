//! Text to the host.

use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};

use abi::bytes::Producer;
use spin::Mutex;

/// Attempts to lock the ring before text is dropped: far more than a write by another CPU takes.
const TRIES: u32 = 1 << 20;

/// The writing side of the console ring. Text that does not fit is dropped and counted: a guest never waits
/// for its console's reader.
pub struct Console {
    ring: Mutex<Producer<'static>>,
    written: AtomicBool,
}

impl Console {
    pub(crate) fn new(ring: Producer<'static>) -> Self {
        Self {
            ring: Mutex::new(ring),
            written: AtomicBool::new(false),
        }
    }

    /// Writes text as it is.
    pub fn write(&self, bytes: &[u8]) {
        for _ in 0..TRIES {
            if let Some(mut ring) = self.ring.try_lock() {
                // A host that broke its own cursor gets no text.
                let _ = ring.write_lossy(bytes);
                self.written.store(true, Ordering::Relaxed);
                return;
            }
            spin_loop();
        }
        // A panic in the middle of a write finds the ring locked; the status message has its text.
    }

    /// Whether something was written since the last call.
    pub(crate) fn take_written(&self) -> bool {
        self.written.load(Ordering::Relaxed) && self.written.swap(false, Ordering::Relaxed)
    }
}

impl fmt::Write for &Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(&click::text::encode(text));
        Ok(())
    }
}
