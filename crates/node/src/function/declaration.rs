//! What a function's comments declare.
//!
//! The comment at the head of the file is the manual page: the first paragraph says what the
//! function is, headings begin with `#`, and lines that are indented are commands or examples. Each
//! parameter is a `define` of its own, with a comment above it that begins with the parameter's
//! kind and a colon:
//!
//! ```click
//! // number from 1 to 65535: the port that the server listens on.
//! define($port 80);
//! ```
//!
//! Behind the kind of an address or prefix may stand where it has to be: `in NAME`, in the prefix that
//! another parameter has, or `without NAME, NAME`, a prefix that does not contain these addresses.

use super::kind::Kind;

/// A function's comments, read.
#[derive(Debug)]
pub struct Declaration<'t> {
    /// The first paragraph of the head, in one line.
    pub summary: String,
    /// The rest of the head.
    pub text: String,
    /// The parameters, in order.
    pub parameters: Vec<Parameter<'t>>,
}

/// A parameter of a function.
#[derive(Debug)]
pub struct Parameter<'t> {
    /// Its name.
    pub name: &'t str,
    /// What values it takes.
    pub kind: Kind,
    /// Where it has to be.
    pub relation: Relation,
    /// The value that it has if none is given, in Click's language.
    pub default: &'t str,
    /// What it means.
    pub text: String,
}

/// Where an address or a prefix has to be, by the names of other parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Anywhere.
    None,
    /// In the prefix of one.
    Within(String),
    /// Not around the addresses of some.
    Without(Vec<String>),
}

impl Relation {
    /// Reads what stands before the colon of a parameter's comment: a kind, and perhaps a relation.
    fn of(text: &str) -> (&str, Relation) {
        if let Some((kind, other)) = text.split_once(" in ") {
            return (kind, Relation::Within(other.into()));
        }
        match text.split_once(" without ") {
            Some((kind, others)) => {
                let others = others.split(", ").map(String::from).collect();
                (kind, Relation::Without(others))
            }
            None => (text, Relation::None),
        }
    }
}

/// A comment's line without its slashes.
fn comment(line: &str) -> Option<&str> {
    let text = line.strip_prefix("//")?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

impl<'t> Declaration<'t> {
    /// Reads the comments of a configuration. A `define` without a comment that names a kind is
    /// none of the user's business.
    pub fn of(text: &'t str) -> Declaration<'t> {
        let head: Vec<&str> = text.lines().map_while(comment).collect();
        let end = head.iter().position(|line| line.is_empty());
        let (summary, rest) = head.split_at(end.unwrap_or(head.len()));
        let (mut parameters, mut above) = (Vec::new(), Vec::new());
        let mut rest_of_file = text;
        while let Some((line, after)) = rest_of_file.split_once('\n') {
            if let Some(text) = comment(line) {
                above.push(text);
            } else {
                if let Some(parameter) = Parameter::of(rest_of_file, &above) {
                    parameters.push(parameter);
                }
                above.clear();
            }
            rest_of_file = after;
        }
        Declaration {
            summary: summary.join(" "),
            text: rest.join("\n").trim().to_string(),
            parameters,
        }
    }
}

impl<'t> Parameter<'t> {
    /// The parameter that `text` begins with the definition of.
    fn of(text: &'t str, above: &[&str]) -> Option<Parameter<'t>> {
        let definition = text.strip_prefix("define($")?;
        let (definition, _) = definition.split_once(");")?;
        let (name, default) = definition.split_once(char::is_whitespace)?;
        let above = above.join(" ");
        let (kind, text) = above.split_once(": ")?;
        let (kind, relation) = Relation::of(kind);
        Some(Parameter {
            name,
            kind: Kind::named(kind)?,
            relation,
            default: default.trim(),
            text: text.to_string(),
        })
    }
}
