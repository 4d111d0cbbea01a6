//! HTTP: a cache between clients and an origin server (RFC 9110, 9111 and 9112), with TCP of its own.

mod conditions;
mod control;
mod date;
pub mod framing;
pub mod head;
mod stack;
mod store;

crate::elements! {
    http_cache: HTTPCache;
}
