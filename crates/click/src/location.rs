//! Places in configuration text.

use alloc::sync::Arc;
use core::fmt;

/// A place in a configuration: a file (or other name of a text) and a line.
///
/// Cloning is a reference-count increment. The default value is the unknown
/// place, which displays as nothing and, in [`Diagnostics`](crate::Diagnostics),
/// takes the place of the surrounding context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    file: Option<Arc<str>>,
    line: u32,
}

impl Location {
    /// Line `line` (counted from 1) of `file`; line 0 means the file as a whole.
    pub fn new(file: impl Into<Arc<str>>, line: u32) -> Self {
        Location {
            file: Some(file.into()),
            line,
        }
    }

    /// The unknown place.
    pub const fn unknown() -> Self {
        Location {
            file: None,
            line: 0,
        }
    }

    /// Whether this is a place at all.
    pub fn is_known(&self) -> bool {
        self.file.as_deref().is_some_and(|file| !file.is_empty()) || self.line > 0
    }

    /// The file's name; empty when unknown.
    pub fn file(&self) -> &str {
        self.file.as_deref().unwrap_or("")
    }

    /// The line, from 1; 0 when unknown.
    pub fn line(&self) -> u32 {
        self.line
    }
}

impl fmt::Display for Location {
    /// `file:line`. A file name that ends in a colon or a space is followed by
    /// the line directly, as preprocessors leave such names behind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file();
        f.write_str(file)?;
        match self.line {
            0 => Ok(()),
            line if file.ends_with(|c: char| c == ':' || c.is_ascii_whitespace()) => {
                write!(f, "{line}")
            }
            line => write!(f, ":{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn displays_as_click_landmarks() {
        assert_eq!(Location::new("config", 3).to_string(), "config:3");
        assert_eq!(Location::new("config", 0).to_string(), "config");
        assert_eq!(Location::new("line ", 3).to_string(), "line 3");
        assert_eq!(Location::new("x:", 3).to_string(), "x:3");
        assert_eq!(Location::unknown().to_string(), "");
        assert!(!Location::unknown().is_known());
    }
}
