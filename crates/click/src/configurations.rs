//! Several configurations in one router.
//!
//! Each is elaborated by itself, with its own variables, requirements and element classes. Then its
//! elements join the others' under the configuration's name: `NAME/element`. The text of all of them
//! is one: a first line with names and lengths, the texts in that order, and the main configuration,
//! which has no name. Each has its settings in front ([`settings`](crate::settings)).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{FlatGraph, Location};

/// The start of the line.
const MARK: &str = "//=configurations";
/// Most configurations beside the main one.
pub const INSTALLED_MAX: usize = 63;

/// The configurations of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configurations<'t> {
    /// Those beside the main one: the name and the text of each.
    pub installed: Vec<(&'t str, &'t [u8])>,
    /// The main one.
    pub main: &'t [u8],
}

/// Joins configurations to one text. Without any beside the main one, it is the main one alone.
pub fn join<'t>(installed: impl IntoIterator<Item = (&'t str, String)>, main: &str) -> String {
    let (mut line, mut texts) = (String::from(MARK), String::new());
    for (name, text) in installed {
        line += &format!(" {name} {}", text.len());
        texts += &text;
    }
    if texts.is_empty() && line == MARK {
        return main.into();
    }
    format!("{line}\n{texts}{main}")
}

/// The configurations of a text. If its first line is not as [`join`] writes it, all of it is the
/// main one, to which that line is a comment.
pub fn split(text: &[u8]) -> Configurations<'_> {
    parse(text).unwrap_or(Configurations {
        installed: Vec::new(),
        main: text,
    })
}

fn parse(text: &[u8]) -> Option<Configurations<'_>> {
    let rest = text.strip_prefix(MARK.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, mut rest) = (&rest[..end], &rest[end + 1..]);
    let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let mut installed = Vec::new();
    while let Some(name) = words.next() {
        let length = words.next()?.parse().ok()?;
        let text;
        (text, rest) = rest.split_at_checked(length)?;
        installed.push((name, text));
    }
    let few = installed.len() <= INSTALLED_MAX;
    few.then_some(Configurations {
        installed,
        main: rest,
    })
}

/// Where the elements of a configuration stand in a graph of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The configuration's name; empty for the main one.
    pub name: String,
    /// The indices of its elements.
    pub elements: Range<usize>,
}

impl FlatGraph {
    /// Adds the elements of another configuration under its name. If an element here has such a name
    /// already, nothing is added, and its place is the error.
    pub fn install(&mut self, name: &str, other: FlatGraph) -> Result<(), Location> {
        let prefix = format!("{name}/");
        let taken = |element: &&crate::FlatElement| element.name.starts_with(&prefix);
        if let Some(element) = self.elements.iter().find(taken) {
            return Err(element.location.clone());
        }
        let first = self.elements.len();
        if self.parts.is_empty() {
            self.parts.push(Part {
                name: String::new(),
                elements: 0..first,
            });
        }
        self.parts.push(Part {
            name: name.into(),
            elements: first..first + other.elements.len(),
        });
        let elements = other.elements.into_iter().map(|mut element| {
            element.name.insert_str(0, &prefix);
            element
        });
        self.elements.extend(elements);
        let connections = other.connections.into_iter().map(|mut connection| {
            connection.from.0 += first;
            connection.to.0 += first;
            connection
        });
        self.connections.extend(connections);
        for requirement in other.requirements {
            if !self.requirements.contains(&requirement) {
                self.requirements.push(requirement);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Diagnostics, Options};
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    fn flat(text: &str) -> FlatGraph {
        let mut diagnostics = Diagnostics::new();
        crate::parse(text.as_bytes(), "f", &Options::default(), &mut diagnostics)
            .expect("it is right")
    }

    #[test]
    fn a_text_alone_is_the_main_configuration() {
        assert_eq!(join([], "Idle;\n"), "Idle;\n");
        for text in [
            "Idle;",
            "//=configurations",
            "//=configurations a 5\nIdle",
            "//=configurations a\nIdle;",
            "//=configurations a -1\nIdle;",
            "//=configurations a 99999999999999999999\nIdle;",
        ] {
            let is = split(text.as_bytes());
            assert_eq!((is.installed, is.main), (vec![], text.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn configurations_of_any_bytes_cross(
            texts in prop::collection::btree_map("[a-z]{1,8}", ".{0,60}", 0..6),
            main in "[^/].{0,40}",
        ) {
            let installed = texts.iter().map(|(name, text)| (name.as_str(), text.clone()));
            let joined = join(installed, &main);
            let is = split(joined.as_bytes());
            prop_assert_eq!(is.main, main.as_bytes());
            let there: Vec<_> = is.installed.iter().map(|(name, text)| (name.to_string(), text.to_vec())).collect();
            let wanted: Vec<_> = texts.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
            prop_assert_eq!(there, wanted);
        }
    }

    #[test]
    fn each_keeps_its_own_names() {
        let mut all = flat("a :: Source -> Sink;");
        let other = flat("elementclass C { input -> Sink } a :: Source -> c :: C;");
        all.install("b", other.clone()).unwrap();
        all.install("d", other.clone()).unwrap();
        let names: Vec<_> = all.elements.iter().map(|e| e.name.as_str()).collect();
        let wanted = ["a", "Sink@2", "b/a", "b/c/Sink@1", "d/a", "d/c/Sink@1"];
        assert_eq!(names, wanted);
        let edges: Vec<_> = all.connections.iter().map(|c| (c.from.0, c.to.0)).collect();
        assert_eq!(edges, [(0, 1), (2, 3), (4, 5)]);
        let parts: Vec<_> = all.parts.iter().map(|part| part.elements.clone()).collect();
        assert_eq!(parts, [0..2, 2..4, 4..6]);

        let place = all.install("b", other).unwrap_err();
        assert_eq!(place.to_string(), "f:1");
        assert_eq!(all.elements.len(), 6);
    }
}
