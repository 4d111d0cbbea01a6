//! Click's analysis group: traces and their aggregates.

#[cfg(feature = "host")]
pub mod dumps;

crate::elements! {}
