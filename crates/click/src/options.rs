//! What surrounds a configuration when it is read: the classes and packages
//! there are, libraries, settings from the command line, and limits.

use alloc::string::String;
use alloc::vec::Vec;

/// A library file found for `require(library NAME)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The path it was found at. A path is read only once per configuration.
    pub path: String,
    /// Its text, which is [decoded](crate::text::decode).
    pub source: Vec<u8>,
}

/// The language's interface to the program around it. Every method has a
/// default, so `&()` is an environment: without packages, without libraries,
/// where any name of letters and digits with a capital at its start is a class.
pub trait Environment {
    /// Whether an element class of this name exists. This distinguishes
    /// `Idle -> x`, where `Idle` is an anonymous element of that class, from a
    /// reference to an element called `Idle`. A name that is a class can't
    /// name an element.
    fn has_class(&self, name: &str) -> bool {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_alphanumeric())
    }

    /// The class that may have been meant by an unknown name.
    fn nearest_class(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether a name that is neither an element nor a known class stands for a
    /// class that others know: so it is for a program that only rewrites
    /// configurations. Otherwise such a name is an error.
    fn is_open(&self) -> bool {
        false
    }

    /// Whether `require(package NAME)` is satisfied.
    fn has_package(&self, _name: &str) -> bool {
        false
    }

    /// Finds `require(library NAME)`, asked for in the file `from`. `Ok(None)`
    /// when there is none in the library path; `Err` says in one sentence why
    /// a library that is there can't be read.
    fn library(&self, _name: &str, _from: &str) -> Result<Option<Library>, String> {
        Ok(None)
    }
}

impl Environment for () {}

/// Bounds on what one configuration may become. Going past one is an error
/// that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Elements, in any one compound and after expansion.
    pub elements: usize,
    /// Connections, as written and after expansion.
    pub connections: usize,
    /// The highest port number.
    pub port: u32,
    /// Bytes of names and configuration strings after expansion.
    pub text: usize,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Limits = Limits {
        elements: 1 << 17,
        connections: 1 << 19,
        port: 4095,
        text: 1 << 25,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// Options of [`parse`](crate::parse).
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Classes, packages and libraries.
    pub environment: &'a dyn Environment,
    /// `NAME=VALUE` settings. Each overrides a `define($NAME …)` at file scope.
    pub variables: &'a [(String, String)],
    /// Bounds on the result.
    pub limits: Limits,
}

impl<'a> Options<'a> {
    /// Options with no settings and the default limits.
    pub fn new(environment: &'a dyn Environment) -> Self {
        Options {
            environment,
            variables: &[],
            limits: Limits::DEFAULT,
        }
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options::new(&())
    }
}
