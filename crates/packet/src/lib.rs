//! Packets: buffers with headroom, metadata and annotations; batches and pools of packets; views of
//! the headers inside; checksums.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod anno;
mod batch;
mod buffer;
pub mod checksum;
mod edit;
mod extended;
mod facts;
mod fifo;
mod plain_header;
mod pool;
mod prefetch;
pub mod segmenter;
pub mod wire;

#[cfg(test)]
mod tests;

pub use batch::{BATCH, Batch, Dispatch, Drain, first};
pub use buffer::{ARRIVAL, HEADROOM, LARGE_MAX, META, Packet, PacketType};
pub use edit::{Edit, Plan};
pub use extended::{Offload, PART_MAX, PART_OFFSET, Passed, SegmentKind, Segments};
pub use facts::Facts;
pub use fifo::Fifo;
pub use plain_header::PLAIN_HEADER;
pub use pool::{BUFFER, DATA_MAX, PacketTemplate, Pool};
pub use prefetch::{Prefetcher, prefetch, prefetch_next};
