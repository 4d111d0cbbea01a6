//! From lexemes to compounds: statements.
//!
//! The grammar and its error recovery are Click's, so that a wrong
//! configuration gets the same messages.

mod block;
mod chain;
mod connect;
mod directive;
mod element;

use crate::classes::{ClassId, ClassKind, Classes};
use crate::compound::Compound;
use crate::lexer::{Kind, Lexeme, Lexer};
use crate::{Diagnostics, Location, Options, Requirement};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

/// How deep compounds and groups may nest, as in Click.
const MAX_DEPTH: usize = 50;

/// A configuration as written.
pub(crate) struct Program {
    pub(crate) classes: Classes,
    /// The file's own elements and connections.
    pub(crate) main: Compound,
    pub(crate) requirements: Vec<Requirement>,
}

/// Parses `source`. Errors go to `diagnostics`; the program is what could be
/// made of the rest.
pub(crate) fn parse(
    source: &str,
    file: &str,
    options: &Options<'_>,
    diagnostics: &mut Diagnostics,
) -> Program {
    let lexer = Lexer::new(source, file);
    let current = Compound::new("", lexer.location(), 0);
    let mut parser = Parser {
        lexer,
        pushed: Vec::new(),
        diagnostics,
        options,
        classes: Classes::new(),
        current,
        requirements: Vec::new(),
        libraries: BTreeSet::new(),
        depth: 0,
        elements: 0,
        connections: 0,
        halted: false,
    };
    parser.statements(Block::new(BlockKind::File));
    Program {
        classes: parser.classes,
        main: parser.current,
        requirements: parser.requirements,
    }
}

/// What statements are inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    File,
    Compound,
    Group,
}

struct Block {
    kind: BlockKind,
    /// Whether the last connection ended in `output` alone, so that one which
    /// starts with an arrow clearly starts at `input`.
    ended_at_output: bool,
}

impl Block {
    fn new(kind: BlockKind) -> Self {
        Block {
            kind,
            ended_at_output: true,
        }
    }
}

struct Parser<'a> {
    lexer: Lexer,
    /// Lexemes put back, the next one last.
    pushed: Vec<Lexeme>,
    diagnostics: &'a mut Diagnostics,
    options: &'a Options<'a>,
    classes: Classes,
    /// The compound that elements are added to.
    current: Compound,
    requirements: Vec<Requirement>,
    /// The paths of the libraries read.
    libraries: BTreeSet<String>,
    /// How many compounds, groups and libraries are being read.
    depth: usize,
    elements: usize,
    connections: usize,
    /// A limit was met: the rest is not read, and nothing more reported.
    halted: bool,
}

impl Parser<'_> {
    fn lex(&mut self) -> Lexeme {
        match self.pushed.pop() {
            Some(lexeme) => lexeme,
            None => self.lexer.next(self.diagnostics),
        }
    }

    fn unlex(&mut self, lexeme: Lexeme) {
        self.pushed.push(lexeme);
    }

    /// Takes the next lexeme if it is `symbol`.
    fn accept(&mut self, symbol: u8) -> bool {
        match self.pushed.last() {
            Some(next) if next.kind == Kind::Byte(symbol) => self.pushed.pop().is_some(),
            Some(_) => false,
            None => self.lexer.accept(symbol, self.diagnostics),
        }
    }

    fn expect(&mut self, symbol: u8) -> bool {
        let found = self.accept(symbol);
        if !found {
            self.error(format_args!("expected '{}'", char::from(symbol)));
        }
        found
    }

    fn error(&mut self, text: impl Display) {
        let location = self.lexer.location();
        self.error_at(&location, text);
    }

    fn error_at(&mut self, location: &Location, text: impl Display) {
        if !self.halted {
            self.diagnostics.error(location, text);
        }
    }

    fn syntax_error(&mut self, near: &Lexeme) {
        self.error(format_args!("syntax error near ‘{}’", near.text));
    }

    /// Reports that a limit is met and stops reading.
    fn halt(&mut self, text: impl Display) {
        self.error(text);
        self.halted = true;
        self.lexer.skip_to_end();
        self.pushed.clear();
    }

    fn find_class(&mut self, name: &str) -> Option<ClassId> {
        self.classes.find(name, self.options.environment)
    }

    /// The class called `name`, which need not be known in an open environment.
    fn find_or_assume_class(&mut self, name: &str) -> Option<ClassId> {
        let open = self.options.environment.is_open();
        let class = self.find_class(name);
        class.or_else(|| open.then(|| self.classes.assume(name)))
    }

    /// The class called `name`; one is made up, with an error, if there is
    /// none.
    fn force_class(&mut self, name: &str) -> ClassId {
        if let Some(class) = self.find_or_assume_class(name) {
            return class;
        }
        match self.options.environment.nearest_class(name) {
            Some(nearest) => self.error(format_args!(
                "unknown element class ‘{name}’; did you mean ‘{nearest}’?"
            )),
            None => self.error(format_args!("unknown element class ‘{name}’")),
        }
        self.make_up_class(name)
    }

    fn make_up_class(&mut self, name: &str) -> ClassId {
        self.classes.define(name, ClassKind::Primitive(name.into()))
    }

    /// Adds an element to the current compound, or gives the one there is.
    fn add_element(
        &mut self,
        name: String,
        class: ClassId,
        config: String,
        location: Location,
    ) -> usize {
        if let Some(node) = self.current.find(&name) {
            return node;
        }
        if name
            .split('/')
            .any(|part| part.bytes().all(|b| b.is_ascii_digit()))
        {
            self.error(format_args!(
                "element name ‘{name}’ has all-digit component"
            ));
        }
        self.elements += 1;
        let limit = self.options.limits.elements;
        if self.elements == limit + 1 {
            self.halt(format_args!(
                "more than {limit} elements; split the configuration"
            ));
        }
        self.current.add(name, class, config, location)
    }

    /// Reads the statements of a block up to its end; gives what ended it.
    fn statements(&mut self, mut block: Block) -> Kind {
        loop {
            if let Some(end) = self.statement(&mut block) {
                return end;
            }
        }
    }

    /// Reads one statement, or the end of the block.
    fn statement(&mut self, block: &mut Block) -> Option<Kind> {
        let lexeme = self.lex();
        match (lexeme.kind, block.kind) {
            (
                Kind::Identifier | Kind::Arrow | Kind::DoubleArrow | Kind::Byte(b'[' | b'{' | b'('),
                _,
            ) => {
                self.unlex(lexeme);
                self.chain(block);
            }
            (Kind::ElementClass, _) => self.element_class(),
            (Kind::Require, _) => self.require(),
            (Kind::Define, _) => self.define(),
            (Kind::Byte(b';'), _) => {}
            (Kind::Byte(b'}') | Kind::DoubleBar, BlockKind::Compound)
            | (Kind::Byte(b')'), BlockKind::Group)
            | (Kind::End, BlockKind::File) => return Some(lexeme.kind),
            (Kind::Byte(b'}') | Kind::DoubleBar, BlockKind::Group) => {
                self.syntax_error(&lexeme);
                let end = lexeme.kind;
                self.unlex(lexeme);
                return Some(end);
            }
            (Kind::End, kind) => {
                let closing = if kind == BlockKind::Group { ')' } else { '}' };
                self.error(format_args!("expected ‘{closing}’"));
                return Some(Kind::End);
            }
            _ => self.syntax_error(&lexeme),
        }
        None
    }

    /// Reads a statement from after `elementclass`.
    fn element_class(&mut self) {
        let mut name = String::new();
        let lexeme = self.lex();
        if lexeme.kind == Kind::Identifier {
            name = lexeme.text.into_owned();
        } else {
            self.unlex(lexeme);
            self.error("expected element type name");
        }
        let lexeme = self.lex();
        match lexeme.kind {
            Kind::Byte(b'{') => {
                self.compound(&name);
            }
            Kind::Identifier => {
                let class = self.force_class(&lexeme.text);
                let kind = self.classes.kind(class).clone();
                self.classes.define(&name, kind);
            }
            _ => {
                self.syntax_error(&lexeme);
                self.make_up_class(&name);
            }
        }
    }
}
