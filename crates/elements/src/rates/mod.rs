//! Rates: how they are measured, and how they are kept to.

pub mod average;
pub mod gaps;
pub mod token_bucket;
pub mod traffic;
