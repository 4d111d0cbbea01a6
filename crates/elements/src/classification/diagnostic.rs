//! The compiler's messages about patterns, in Click's words.

use super::Program;
use crate::prelude::*;
use core::fmt;

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration works, though perhaps not as meant.
    Warning,
}

/// One message about the patterns.
///
/// Displayed it is the line Click prints: `pattern 2: 'port': value missing`,
/// `pattern 0: warning: relation '< 300' is always true (range 0-255)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The pattern (the configuration argument, from 0) it is about.
    pub pattern: Option<usize>,
    /// The message without prefixes.
    pub text: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pattern) = self.pattern {
            write!(f, "pattern {pattern}: ")?;
        }
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.text)
    }
}

/// All messages of one compilation, in the order they arose: one a line when
/// displayed. As an error it holds at least one [`Severity::Error`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// The first error; the first warning if there is none.
    pub fn into_first(self) -> Option<Diagnostic> {
        self.0
            .into_iter()
            .min_by_key(|it| it.severity != Severity::Error)
    }

    pub(super) fn error(&mut self, pattern: Option<usize>, text: impl Into<String>) {
        self.push(Severity::Error, pattern, text.into());
    }

    pub(super) fn warning(&mut self, pattern: Option<usize>, text: impl Into<String>) {
        self.push(Severity::Warning, pattern, text.into());
    }

    fn push(&mut self, severity: Severity, pattern: Option<usize>, text: String) {
        self.0.push(Diagnostic {
            severity,
            pattern,
            text,
        });
    }

    pub(super) fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl core::error::Error for Diagnostics {}

/// A program, and warnings about its patterns.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// Warnings only; empty for most configurations.
    pub warnings: Diagnostics,
}
