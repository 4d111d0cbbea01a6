//! How a router is to run.

use packet::BATCH;

/// Most threads of a router.
pub const THREADS_MAX: u16 = 64;

/// How a router is to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most packets of a batch, from 1 to [`BATCH`]. With 1, the order of events is Click's.
    pub batch: usize,
    /// Number of threads that the router will be [divided](crate::Router::divide) among, from 1 to
    /// [`THREADS_MAX`].
    pub threads: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            batch: BATCH,
            threads: 1,
        }
    }
}
