//! The command line's form of properties: `name=value` by commas.

use super::units::Unfit;

/// Gives a set of properties, whose names are `NAMES` and which can be `set` and got one by one, the
/// command line's form.
macro_rules! text_form {
    ($type:ty) => {
        impl $type {
            /// Sets those properties that `text` gives: `maxbw=100M,priority=high`. All or none.
            pub fn set_all(&mut self, text: &str) -> Result<(), PropertyError> {
                let mut changed = self.clone();
                super::text::for_each(text, |name, value| changed.set(name, value))?;
                *self = changed;
                Ok(())
            }
        }

        impl std::str::FromStr for $type {
            type Err = PropertyError;

            fn from_str(text: &str) -> Result<Self, PropertyError> {
                let mut properties = Self::default();
                properties.set_all(text)?;
                Ok(properties)
            }
        }

        /// As the command line has it; properties that are as they would be without are left out.
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let without = Self::default();
                let mut written = super::Written::new(f);
                for name in Self::NAMES {
                    let value = self.get(name);
                    if value != without.get(name) {
                        written.some(name, value)?;
                    }
                }
                Ok(())
            }
        }
    };
}

/// Why properties cannot be as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// There is no such property.
    #[error("no property ‘{name}’: there are {known}")]
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
    #[error("{name}={value} cannot be: {must}")]
    Value {
        /// The property.
        name: String,
        /// The value, as it was written.
        value: String,
        /// What it must be.
        must: Unfit,
    },
    /// Two properties contradict each other, or one needs another.
    #[error("{0}")]
    Together(String),
}

impl PropertyError {
    pub(super) fn unknown(name: &str, known: &[&str]) -> PropertyError {
        PropertyError::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        }
    }

    pub(super) fn value(name: &str, value: impl ToString, must: impl Into<String>) -> Self {
        PropertyError::Value {
            name: name.to_owned(),
            value: value.to_string(),
            must: Unfit::new(must),
        }
    }
}

/// Reads `value` as property `name`'s.
pub(super) fn read<T>(name: &str, value: &str) -> Result<T, PropertyError>
where
    T: std::str::FromStr<Err = Unfit>,
{
    value.parse().map_err(|must| PropertyError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        must,
    })
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
