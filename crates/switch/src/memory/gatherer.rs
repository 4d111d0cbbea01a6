//! Who gathers the regions of busy guests into large pages.
//!
//! Frames lie in thousands of buffers, so that with ordinary pages nearly each costs misses of the
//! TLB on either side, which behind virtualization are long walks: with 1024 slots a guest and a
//! switch on a core each move a third more in large pages. A large page is memory, though, whether
//! it is used or not, so only a region that is in steady use gets them, when its rings have
//! touched most of it anyway.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use super::SharedRegion;

/// Where regions in steady use are told of. When the last of its copies is dropped, its thread ends.
#[derive(Clone)]
pub(crate) struct Gatherer(Sender<Weak<SharedRegion>>);

impl Gatherer {
    /// Starts the thread, which no lane waits for. When this returns, it has made all the system
    /// calls that only a beginning thread makes.
    pub fn start() -> Result<Gatherer, Errno> {
        let (gatherer, asked) = Gatherer::channel();
        let (ready, is_ready) = channel();
        std::thread::Builder::new()
            .name("weir-gather".into())
            .spawn(move || {
                let told = ready.send(());
                drop(ready);
                if told.is_ok() {
                    run(asked);
                }
            })
            .map_err(|_| Errno::AGAIN)?;
        is_ready.recv().map_err(|_| Errno::IO)?;
        Ok(gatherer)
    }

    /// The two ends of what [`start`](Self::start) starts.
    pub(super) fn channel() -> (Gatherer, Receiver<Weak<SharedRegion>>) {
        let (send, receive) = channel();
        (Gatherer(send), receive)
    }

    /// Asks for a region to be gathered, if it still is there then.
    pub(super) fn ask(&self, region: &Arc<SharedRegion>) {
        // Without the thread, the region stays as it is.
        let _ = self.0.send(Arc::downgrade(region));
    }
}

fn run(asked: Receiver<Weak<SharedRegion>>) {
    for region in asked {
        if let Some(region) = region.upgrade() {
            region.gather();
        }
    }
}
