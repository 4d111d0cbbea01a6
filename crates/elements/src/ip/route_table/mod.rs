//! Routing tables: what the elements that look up IP routes share.
//!
//! A [`RouteTable`] keeps routes in the order in which handlers show them, and [`Ranges`] beside
//! them for fast look-ups. [`RouteLookup`] is an element's body around a table: configuration
//! strings, handlers and the data path, after Click's IPRouteTable.

mod hops;
mod lookup;
mod ranges;
mod route;
mod slots;
mod table;

#[cfg(test)]
mod tests;

pub use hops::Hop;
pub(super) use lookup::{FixedRoutes, FlushableRoutes, RouteLookup, Routes};
pub use route::Route;
pub use slots::Order;
pub(crate) use slots::Slots;
pub use table::{Found, Refused, RouteTable};
