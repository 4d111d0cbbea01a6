//! The shares of time that ScheduleInfo gives to elements.
//!
//! A parameter is given to an element or to a compound; an element's share is the product of its
//! own and the shares of all compounds around it. An outer definition replaces inner ones (Click
//! manual, ScheduleInfo).

use crate::args::{Kind, NameDatabase, Value};
use crate::prelude::*;
use crate::scheduler::task::TICKETS;

/// The kind of name that ScheduleInfo defines; the number is the parameter in fixed point.
pub const KIND: Kind = Kind::Other(u32::from_be_bytes(*b"schd"));

/// Bits of fraction of a parameter: 1 is a task's usual tickets.
pub const FRACTION: u32 = TICKETS.trailing_zeros();

/// The tickets of `element`'s task, if a parameter is defined for it.
pub(crate) fn tickets(names: &NameDatabase, element: &str) -> Option<u64> {
    // `a/`, `a/b/` and `a/b/x`, outermost first; and the scopes they are defined in.
    let ends = element.match_indices('/').map(|(at, _)| at + 1);
    let prefixes: Vec<&str> = ends
        .clone()
        .map(|end| &element[..end])
        .chain([element])
        .collect();
    let scopes: Vec<&str> = [""]
        .into_iter()
        .chain(ends.map(|end| &element[..end]))
        .collect();
    let mut shares: Vec<Option<u32>> = alloc::vec![None; prefixes.len()];
    for scope in scopes.iter().rev() {
        let mut replaced = false;
        for (prefix, share) in prefixes.iter().zip(&mut shares).rev() {
            let Some(name) = prefix.strip_prefix(scope).filter(|name| !name.is_empty()) else {
                break;
            };
            let name = name.strip_suffix('/').unwrap_or(name);
            match names.defined_in(KIND, name, scope) {
                Some(Value::Int(value)) => (*share, replaced) = (Some(value), true),
                _ if replaced => *share = None,
                _ => {}
            }
        }
    }
    if shares.iter().all(Option::is_none) {
        return None;
    }
    let one = u64::from(TICKETS);
    let product = shares.into_iter().flatten().fold(one, |product, share| {
        product.saturating_mul(share.into()) >> FRACTION
    });
    Some(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn define(names: &mut NameDatabase, name: &str, value: u32, from: &str) {
        names.define(KIND, name, Value::Int(value), from);
    }

    #[test]
    fn shares_multiply_from_the_outside_in() {
        let mut names = NameDatabase::new();
        assert_eq!(tickets(&names, "c/i"), None);
        define(&mut names, "i", 512, "c/ScheduleInfo@2");
        define(&mut names, "c", 4096, "ScheduleInfo@4");
        assert_eq!(tickets(&names, "c/i"), Some(2048));
        assert_eq!(tickets(&names, "c/j"), Some(4096));
        assert_eq!(tickets(&names, "i"), None);
        define(&mut names, "c/i", 1024, "ScheduleInfo@4");
        assert_eq!(tickets(&names, "c/i"), Some(4096));
    }
}
