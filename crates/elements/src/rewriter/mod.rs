//! Network address translation: what IPRewriter and its kin are made of.
//!
//! - [`key`]: what tells a flow from others;
//! - [`flow`]: one flow in a cache line, with its changes of checksums worked out;
//! - [`index`]: from a key to its flow, in one cache line nearly always;
//! - [`deadlines`]: when flows may be given up, at no cost to packets;
//! - [`table`], [`set`]: flows of a kind, and flows under one limit;
//! - [`pattern`], [`input`], [`mapper`]: what becomes of packets of no known flow;
//! - [`headers`], [`sequence`], [`quoted`], [`payload`]: what is read from packets and written into them;
//! - [`path`]: the way of a packet, a batch at a time;
//! - [`base`]: the part that the elements share, with its handlers.

pub mod base;
pub mod checksums;
pub mod deadlines;
pub mod flow;
mod handlers;
pub mod headers;
pub mod index;
pub mod input;
pub mod key;
pub mod mapper;
pub mod path;
pub mod pattern;
pub mod payload;
pub mod quoted;
pub mod scratch;
pub mod sequence;
pub mod set;
pub mod table;
#[cfg(test)]
mod tests;

/// The methods of an element that its `base` does for it. `$scheme` is how it reads packets.
macro_rules! rewriter_methods {
    ($scheme:ty) => {
        fn initialize(&mut self, cx: &mut router::Cx<'_>) -> Result<(), router::args::Failed> {
            self.base.initialize(cx)
        }

        #[inline]
        fn push(
            &mut self,
            cx: &mut router::Cx<'_>,
            port: usize,
            batch: &mut packet::Batch,
        ) -> usize {
            self.base.push::<$scheme>(cx, port, batch)
        }

        fn run_timer(&mut self, cx: &mut router::Cx<'_>, timer: router::TimerId) {
            self.base.run_timer(cx, timer);
        }
    };
}
pub(crate) use rewriter_methods;
