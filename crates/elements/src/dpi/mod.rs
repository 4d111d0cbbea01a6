//! Deep packet inspection: the protocol of a flow, and the name of its server, by its first bytes.

mod guess;
mod hello;
mod http;
mod name;
pub mod policy;
mod protocol;
mod quic;
mod reader;
mod recognize;

crate::elements! {
    flow_dpi: FlowDPI;
}
