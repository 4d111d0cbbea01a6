//! Names of links, VNICs, flows and guests.

use crate::error::{Fault, Result};

/// Longest name, in bytes.
pub const NAME_MAX: usize = 64;
/// Longest name of a network interface, in bytes.
pub const INTERFACE_NAME_MAX: usize = 15;

/// Whether `name` can be the name of a `what`.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    check(what, name, NAME_MAX)
}

/// Whether `name` can be the name of a `what` that is a network interface too.
pub fn check_interface(what: &str, name: &str) -> Result<()> {
    check(what, name, INTERFACE_NAME_MAX)
}

fn check(what: &str, name: &str, longest: usize) -> Result<()> {
    let letters = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let right = (1..=longest).contains(&name.len())
        && name.chars().all(letters)
        && !name.starts_with(['.', '-']);
    if right {
        return Ok(());
    }
    let an = what.starts_with(['a', 'e', 'i', 'o', 'u']);
    Err(Fault::Name {
        what: format!("{} {what}", if an { "an" } else { "a" }),
        name: shown(name),
        most: longest,
    }
    .into())
}

/// A name in a message: of one that is far too long, its beginning.
pub(super) fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", name[..end].escape_debug()),
        None => name.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words() {
        assert!(check_name("stub", "lan-0.a_b").is_ok());
        assert!(check_interface("VNIC", "fifteen-letters").is_ok());
        for wrong in ["", ".x", "-x", "a/b", "a b", "ä", &"x".repeat(65)] {
            let error = check_name("stub", wrong).unwrap_err();
            assert!(
                error.error.contains("is not a valid name for a stub"),
                "{error}"
            );
        }
        let error = check_name("stub", &"x".repeat(5000)).unwrap_err();
        assert!(error.error.starts_with(&format!("‘{}…’", "x".repeat(64))));
        assert!(error.error.len() < 300, "{error}");
        let error = check_interface("interface", "").unwrap_err();
        assert!(error.error.contains("for an interface"), "{error}");
        let error = check_interface("VNIC", "sixteen-letters-").unwrap_err();
        assert!(error.error.contains("1 to 15"), "{error}");
    }
}
