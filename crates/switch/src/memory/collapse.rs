//! Huge-page collapse of busy guests' regions.
//!
//! Frames lie in thousands of buffers, so with ordinary pages nearly each frame costs misses of the
//! TLB on either side, which behind virtualization are long walks: with 1024 slots a guest and a
//! switch on a core each move a third more in huge pages. A huge page takes memory whether it is
//! used or not, so only a region in steady use gets them: its rings have touched most of it anyway.
//!
//! After 64 laps of an interface's rings, the region is collapsed (`MADV_COLLAPSE`) where it fills
//! huge pages. It does from 256 slots on. A process that touches a page under collapse waits for a
//! third of a millisecond, once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use super::SharedRegion;

/// A handle of the thread that collapses regions. The thread ends when the last copy is dropped.
#[derive(Clone)]
pub(crate) struct Collapser(Sender<Weak<SharedRegion>>);

impl Collapser {
    /// Starts the thread, which no lane waits for. When this returns, the thread has made all the
    /// system calls that only a beginning thread makes.
    pub fn start() -> Result<Collapser, Errno> {
        let (collapser, submitted) = Collapser::channel();
        let (ready, is_ready) = channel();
        std::thread::Builder::new()
            .name("weir-collapse".into())
            .spawn(move || {
                let told = ready.send(());
                drop(ready);
                if told.is_ok() {
                    run(submitted);
                }
            })
            .map_err(|_| Errno::AGAIN)?;
        is_ready.recv().map_err(|_| Errno::IO)?;
        Ok(collapser)
    }

    /// A handle, and the regions that are submitted to it.
    pub(super) fn channel() -> (Collapser, Receiver<Weak<SharedRegion>>) {
        let (send, receive) = channel();
        (Collapser(send), receive)
    }

    /// Queues a region for collapse; it is skipped if it no longer exists then.
    pub(super) fn submit(&self, region: &Arc<SharedRegion>) {
        // Without the thread, the region stays as it is.
        let _ = self.0.send(Arc::downgrade(region));
    }
}

fn run(submitted: Receiver<Weak<SharedRegion>>) {
    for region in submitted {
        if let Some(region) = region.upgrade() {
            region.collapse();
        }
    }
}
