//! Many hosts: membership, placement, migration, over etcd.
//!
//! ```text
//! weir ──commands──> etcd <──leader     places guests by the scheduler's policy
//!                     ^
//!                     └──────agent──> node    runs what is placed on its host
//! ```
//!
//! All state is in etcd ([`keys`], [`model`]). Commands write what is desired. One agent leads ([`leader`]): it places
//! guests on hosts, and moves them. Every agent ([`agent`]) has its host's lease, says what its host has, and makes its
//! node run the guests that are placed on it. Each step is one [`transaction`], which compares the revisions that it
//! was decided on.
#![forbid(unsafe_code)]

pub mod agent;
pub mod context;
pub mod etcd;
pub mod events;
mod files;
pub mod guests;
pub mod hosts;
pub mod keys;
pub mod leader;
pub mod metrics;
pub mod model;
pub mod networks;
pub mod own_etcd;
pub mod planner;
pub mod plugins;
pub mod policies;
mod rescue;
pub mod transaction;
pub mod view;
pub mod wireguard;
pub mod wires;

use std::future::Future;

use node::error::{Error, Result};

/// Runs what waits for etcd to its end.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.map_err(Error::failed)?;
    let done = runtime.block_on(work);
    // A question to a node that hangs is not waited for.
    runtime.shutdown_background();
    done
}

/// So many of something, in a sentence.
pub fn count(number: usize, of: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {of}{s}")
}

/// Waits for a while.
pub async fn pause(time: std::time::Duration) {
    tokio::time::sleep(time).await;
}
