//! What a packet is: a buffer with headroom, metadata and annotations; batches and pools of them;
//! views of the headers inside; checksums.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ahead;
pub mod anno;
mod batch;
mod buffer;
pub mod checksum;
mod depot;
mod edit;
mod extended;
mod facts;
mod fifo;
mod pool;
pub mod segmenter;
mod usual;
pub mod wire;

#[cfg(test)]
mod tests;

pub use ahead::Ahead;
pub use batch::{BATCH, Batch, Deal, Drain, first};
pub use buffer::{HEADROOM, LARGE_MAX, META, Packet, PacketType, prefetch};
pub use edit::{Edit, Plan};
pub use extended::{Offload, PART_MAX, PART_OFFSET, SegmentKind, Segments};
pub use facts::Facts;
pub use fifo::Fifo;
pub use pool::{BUFFER, DATA_MAX, Mold, Pool};
pub use usual::USUAL;
