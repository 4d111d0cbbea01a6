//! Headers, as elements of several groups meet them: link types, destinations, checks.

pub mod destination;
pub mod link_type;
pub mod transport_check;
