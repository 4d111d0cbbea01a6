//! The Click configuration language.
//!
//! A configuration is text that declares elements and connects their ports.
//! [`parse`] reads one and gives the flat graph it stands for: compound
//! elements expanded, variables substituted, every connection between two real
//! elements. Which element classes exist, how many ports they have and what
//! their configuration strings mean is the engine's business; the module
//! [`config`] has what it needs for the latter.
//!
//! The language, its error messages and the names and order of what comes out
//! are those of Click 2.1 (`doc/click.5` in its sources).
//!
//! ```
//! use click::{Diagnostics, Options};
//! let source = b"elementclass Twice { input -> Queue($n) -> Queue($n) -> output }
//!                define($n 5)
//!                s :: Source -> Twice -> Sink;";
//! let mut diagnostics = Diagnostics::new();
//! let graph = click::parse(source, "example.click", &Options::default(), &mut diagnostics);
//! assert_eq!(
//!     graph.expect("no errors").unparse(),
//!     "s :: Source;\n\
//!      Sink@3 :: Sink;\n\
//!      Twice@2/Queue@1 :: Queue(5);\n\
//!      Twice@2/Queue@2 :: Queue(5);\n\n\
//!      s -> Twice@2/Queue@1\n    -> Twice@2/Queue@2\n    -> Sink@3;\n"
//! );
//! ```
//!
//! No input makes this crate panic, recurse deeply or use memory without
//! bound: see [`Limits`]. The deepest nesting takes less than 96 KiB of stack
//! in an optimized build.
//!
//! # Where Click does otherwise
//!
//! - A configuration that is empty once variables are substituted is empty.
//!   Click leaves `Queue($rest)` as it stands when `$rest` is empty.
//! - `elementclass A { … || ... }` adds no overload of its own and extends the
//!   class that `A` was before. Click adds an empty overload, and never comes
//!   back if there are two before the `...`.
//! - An error found during expansion has the location of its element. Click
//!   gives some of these errors the last line of the file.
//! - Defined variables are not listed among a compound's parameters in
//!   messages, and a bad element name is reported once, not at each expansion.
//! - A group may be followed by an element that has the name its ends would
//!   have had.
//! - An archive (text that starts with `!<arch>`) must be unpacked before.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod classes;
mod compound;
pub mod config;
pub mod configurations;
mod diagnostics;
mod elaborate;
mod graph;
mod lexer;
mod location;
mod options;
mod parser;
mod scope;
pub mod settings;
pub mod text;
mod unparse;

pub use diagnostics::{Context, Diagnostics, Entry, Quotes, Severity, Within};
pub use graph::{Connection, FlatElement, FlatGraph, Requirement};
pub use location::Location;
pub use options::{Environment, Library, Limits, Options};

/// Reads a configuration.
///
/// `source` is its text, which is [decoded](text::decode). `file` is its name
/// in locations; Click's own for text without a file is `config`. Errors and
/// warnings go to `diagnostics`; `None` if there is an error.
pub fn parse(
    source: &[u8],
    file: &str,
    options: &Options<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<FlatGraph> {
    let before = diagnostics.errors();
    let source = text::decode(source);
    let program = parser::parse(&source, file, options, diagnostics);
    let graph = elaborate::elaborate(program, options, diagnostics);
    (diagnostics.errors() == before).then_some(graph)
}
