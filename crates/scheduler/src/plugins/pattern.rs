//! `properties_validation`: which properties a plugin takes, and what their values must match.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may take.
const COMPILED_MAX: usize = 256 << 10;
/// Most properties of a plugin.
const PROPERTIES_MAX: usize = 64;

/// What a property's value must match.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    fn new(text: &str) -> Option<Pattern> {
        // The whole value is to match, as with oVirt.
        let regex = RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(COMPILED_MAX)
            .build();
        Some(Pattern {
            text: text.into(),
            regex: regex.ok()?,
        })
    }

    /// Whether a value is right.
    pub fn accepts(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    /// What a value must be.
    pub fn must(&self) -> String {
        format!("it matches {}", self.text)
    }
}

/// Reads `key=regex;key=regex`, in braces or not.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, Pattern>, String> {
    let text = text.trim();
    let braces = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let text = braces.unwrap_or(text);
    // oVirt's documentation has commas in braces, its samples have semicolons.
    let separator = if text.contains(';') || braces.is_none() {
        ';'
    } else {
        ','
    };
    let mut properties = BTreeMap::new();
    for entry in text
        .split(separator)
        .filter(|entry| !entry.trim().is_empty())
    {
        let wrong = || {
            let entry: String = entry.trim().chars().take(80).collect();
            format!("properties_validation has ‘{entry}’; write KEY=REGEX, separated by ‘;’")
        };
        let (key, pattern) = entry.split_once('=').ok_or_else(wrong)?;
        let (key, pattern) = (key.trim(), pattern.trim());
        let named = !key.is_empty() && key.len() <= 64;
        let pattern = Pattern::new(pattern).filter(|_| named).ok_or_else(wrong)?;
        properties.insert(key.to_string(), pattern);
        if properties.len() > PROPERTIES_MAX {
            return Err(format!(
                "properties_validation has more than {PROPERTIES_MAX} properties"
            ));
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_of_ovirt_are_read() {
        let read = |text| read(text).unwrap();
        let properties = read("minimum_host_memoryMB=[0-9]*;safe_selection=True|False");
        assert!(properties["minimum_host_memoryMB"].accepts("500"));
        assert!(!properties["minimum_host_memoryMB"].accepts("5x"));
        assert!(properties["safe_selection"].accepts("False"));
        assert!(!properties["safe_selection"].accepts("Falsehood"));
        let properties = read("{ cpu = [0-9], os = (linux|bsd) }");
        assert!(properties["cpu"].accepts("3") && !properties["cpu"].accepts("33"));
        assert!(properties["os"].accepts("bsd"));
        assert!(read("").is_empty());
    }

    #[test]
    fn a_wrong_validation_is_refused() {
        for wrong in [
            "novalue",
            "=x",
            "a=[",
            "a=((((x{1000}){1000}){1000}){1000})",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("KEY=REGEX"), "{error}");
        }
    }
}
