//! The command line's form of properties: `name=value` by commas.

use super::quantity::Invalid;

/// Why properties cannot be as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// There is no such property.
    #[error("no property ‘{name}’: the properties are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A name without a value.
    #[error("‘{0}’ has no value: write it as {0}=VALUE")]
    NoValue(String),
    /// A value without a name.
    #[error("‘{0}’ has no name: write it as NAME=VALUE")]
    NoName(String),
    /// A property is given twice.
    #[error("‘{0}’ is given twice: give it once")]
    Twice(String),
    /// The value is none of the property's.
    #[error("{name}={value} is invalid: {must}")]
    Value {
        /// The property.
        name: String,
        /// The value, as it was written.
        value: String,
        /// What it must be.
        must: Invalid,
    },
    /// Two properties contradict each other, or one needs another.
    #[error("{0}")]
    Together(String),
}

impl PropertyError {
    /// The property whose value is wrong, if it is one's.
    pub fn property(&self) -> Option<&str> {
        match self {
            PropertyError::Value { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(super) fn value(name: &str, value: impl ToString, must: impl Into<String>) -> Self {
        PropertyError::invalid(name, value, Invalid::new(must))
    }

    pub(super) fn invalid(name: &str, value: impl ToString, must: Invalid) -> Self {
        PropertyError::Value {
            name: name.to_owned(),
            value: value.to_string(),
            must,
        }
    }
}

/// The parts of a list: by `+`, or by commas as dladm has it.
pub(super) fn parts(value: &str) -> impl Iterator<Item = &str> {
    value.split(['+', ',']).filter(|part| !part.is_empty())
}

/// Calls `set` with each property of `text` and its value. What stands between commas without a
/// `=` belongs to the list before it, as dladm has it: `allowed-ips=10.0.0.2,10.0.0.3,maxbw=1G`.
pub(super) fn for_each(
    text: &str,
    mut set: impl FnMut(&str, &str) -> Result<(), PropertyError>,
) -> Result<(), PropertyError> {
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = text.trim_matches(',');
    while !rest.is_empty() {
        let end = next_property(rest);
        let property = rest[..end].trim_end_matches(',');
        let missing = || PropertyError::NoValue(property.to_owned());
        let (name, value) = property.split_once('=').ok_or_else(missing)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return Err(PropertyError::NoName(property.to_owned()));
        }
        if value.is_empty() {
            return Err(PropertyError::NoValue(name.to_owned()));
        }
        if seen.contains(&name) {
            return Err(PropertyError::Twice(name.to_owned()));
        }
        seen.push(name);
        set(name, value)?;
        rest = &rest[end..];
    }
    Ok(())
}

/// Where the property after the first one starts: behind the first comma that has a `name=` next.
fn next_property(text: &str) -> usize {
    let mut starts = text.match_indices(',').map(|(at, _)| at + 1);
    let next = starts.find(|&at| {
        let word = text[at..].split(',').next().unwrap_or_default();
        word.contains('=')
    });
    next.unwrap_or(text.len())
}
