//! `require(…)` and `define(…)`.

use super::{Block, BlockKind, MAX_DEPTH, Parser};
use crate::config::{is_variable_byte, shift_space, split_args, split_space, string, word};
use crate::lexer::Lexer;
use crate::text::{decode, encode};
use crate::{Library, Location, Requirement};
use alloc::string::String;

impl Parser<'_> {
    /// Reads `(…)`; `None`, with an error, if it isn't there.
    fn parenthesized(&mut self) -> Option<String> {
        if !self.expect(b'(') {
            return None;
        }
        let config = self.lexer.config(self.diagnostics);
        self.expect(b')');
        Some(config)
    }

    /// Reads a statement from after `define`.
    pub(super) fn define(&mut self) {
        let Some(config) = self.parenthesized() else {
            return;
        };
        for arg in split_args(&config).iter().filter(|arg| !arg.is_empty()) {
            let (variable, value) = shift_space(arg);
            let name = variable.strip_prefix('$').unwrap_or_default();
            if name.is_empty() || !name.bytes().all(is_variable_byte) {
                self.error("bad ‘define’ declaration: not a variable");
            } else {
                self.add_variable(name.into(), value.into());
            }
        }
    }

    /// Reads a statement from after `require`.
    pub(super) fn require(&mut self) {
        let Some(config) = self.parenthesized() else {
            return;
        };
        self.accept(b';');
        for arg in split_args(&config) {
            let words = split_space(&arg);
            let Some(first) = words.first() else {
                continue;
            };
            let first = word(first).unwrap_or_default();
            let value = words.get(1).and_then(|text| string(text));
            let value = value.map(|bytes| decode(&bytes).into_owned());
            match (&*first, words.len(), value) {
                ("compact_config", 1, _) => self.add_requirement("compact_config", ""),
                ("package", 2, Some(name)) => self.require_package(&name),
                ("library", 2, Some(name)) => self.require_library(&name),
                ("" | "package" | "library", ..) => self.error("syntax error at requirement"),
                (name, 1, _) => self.require_package(name),
                _ => self.error("syntax error at requirement"),
            }
        }
    }

    fn add_requirement(&mut self, kind: &str, value: &str) {
        self.requirements.push(Requirement {
            kind: kind.into(),
            value: value.into(),
        });
    }

    fn require_package(&mut self, name: &str) {
        if !self.options.environment.has_package(name) {
            let text = alloc::format!("requirement ‘{name}’ not available");
            self.error_at(&Location::unknown(), text);
        }
        self.add_requirement("package", name);
    }

    fn require_library(&mut self, name: &str) {
        if self.current.depth > 0 {
            return self.error("‘require library’ must be used at file scope");
        }
        let environment = self.options.environment;
        match environment.library(name, self.lexer.file()) {
            Ok(Some(library)) => self.read_library(&library),
            Ok(None) => {
                let name = crate::config::printable(&encode(name));
                self.error(format_args!("library ‘{name}’ not found in CLICKPATH/conf"));
            }
            Err(reason) => self.error(reason),
        }
    }

    /// Reads a library, unless that was done, as if its text stood here.
    fn read_library(&mut self, library: &Library) {
        if !self.libraries.insert(library.path.clone()) {
            return;
        }
        if self.depth >= MAX_DEPTH {
            return self.error("maximum library nesting depth exceeded");
        }
        let source = decode(&library.source);
        let outer = core::mem::replace(&mut self.lexer, Lexer::new(&source, &library.path));
        self.depth += 1;
        self.statements(Block::new(BlockKind::File));
        self.depth -= 1;
        self.lexer = outer;
        if self.halted {
            self.lexer.skip_to_end();
        }
    }
}
