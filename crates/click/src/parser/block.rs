//! Compound elements and groups.

use super::{Block, BlockKind, MAX_DEPTH, Parser};
use crate::Context;
use crate::classes::{ClassId, ClassKind, Classes};
use crate::compound::{Compound, INPUT, OUTPUT, SIDES, Variable};
use crate::lexer::Kind;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The most overloads written in one class.
const MAX_OVERLOADS: usize = 1000;
/// The most parameters and defined variables of one compound or file.
const MAX_VARIABLES: usize = 4096;

impl Parser<'_> {
    /// Reads a compound element from after its `{`; defines it as `name`, if
    /// that is not empty.
    pub(super) fn compound(&mut self, name: &str) -> ClassId {
        let mut overloads = Vec::new();
        let mut extended = None;
        loop {
            let lexeme = self.lex();
            if lexeme.kind == Kind::Ellipsis {
                extended = Some(self.extended_class(name, overloads.is_empty()));
                if self.accept(b'}') {
                    break;
                }
                continue;
            }
            self.unlex(lexeme);
            let (compound, end) = self.compound_body(name);
            overloads.push(compound);
            if overloads.len() > MAX_OVERLOADS {
                self.halt(format_args!(
                    "more than {MAX_OVERLOADS} overloads of ‘{name}’"
                ));
            }
            if end != Kind::DoubleBar {
                break;
            }
        }
        let kind = match (self.classes.add_overloads(overloads, extended), extended) {
            (Some(kind), _) => kind,
            (None, Some(class)) => self.classes.kind(class).clone(),
            (None, None) => ClassKind::Primitive(name.into()),
        };
        self.classes.define(name, kind)
    }

    /// What `...` stands for in the class `name`.
    fn extended_class(&mut self, name: &str, first: bool) -> ClassId {
        let class = self.find_class(name).unwrap_or_else(|| {
            self.error(format_args!("cannot extend unknown element class ‘{name}’"));
            self.make_up_class(name)
        });
        let lexeme = self.lex();
        if first || lexeme.kind != Kind::Byte(b'}') {
            self.error("‘...’ should occur last, after one or more compounds");
        }
        self.unlex(lexeme);
        class
    }

    /// Reads one overload; gives it and what ended it.
    fn compound_body(&mut self, name: &str) -> (Compound, Kind) {
        let compound = Compound::new(name, self.lexer.location(), self.current.depth + 1);
        let outer = core::mem::replace(&mut self.current, compound);
        self.classes.enter_scope();
        self.depth += 1;
        for side in SIDES {
            let location = self.lexer.location();
            self.add_element(side.into(), Classes::TUNNEL, String::new(), location);
        }
        self.parameters();
        let end = if self.depth >= MAX_DEPTH {
            self.error("maximum compound element nesting depth exceeded");
            Kind::End
        } else {
            self.statements(Block::new(BlockKind::Compound))
        };
        self.depth -= 1;
        self.classes.leave_scope();
        let mut compound = core::mem::replace(&mut self.current, outer);
        if !self.halted {
            compound.finish(self.diagnostics);
        }
        (compound, end)
    }

    /// Reads formal parameters: `$a, KEYWORD $b, __REST__ $c |`.
    fn parameters(&mut self) {
        let mut misordered = false;
        loop {
            let first = self.lex();
            let (kind, name) = match first.kind {
                Kind::Variable => (String::new(), first.text.into_owned()),
                Kind::Byte(b'|') => return,
                Kind::Identifier => {
                    let second = self.lex();
                    if second.kind != Kind::Variable {
                        self.complain_about_missing_parameter();
                        self.unlex(second);
                        self.unlex(first);
                        return;
                    }
                    (first.text.into_owned(), second.text.into_owned())
                }
                _ => {
                    self.complain_about_missing_parameter();
                    self.unlex(first);
                    return;
                }
            };
            self.add_parameter(name, kind, &mut misordered);
            let separator = self.lex();
            match separator.kind {
                Kind::Byte(b'|') => return,
                Kind::Byte(b',') => {}
                _ => {
                    self.error("expected ‘,’ or ‘|’");
                    self.unlex(separator);
                    return;
                }
            }
        }
    }

    fn complain_about_missing_parameter(&mut self) {
        if !self.current.variables.is_empty() {
            self.error("expected variable");
        }
    }

    /// Adds a formal parameter. `misordered` is whether a wrong order was
    /// reported already.
    fn add_parameter(&mut self, name: String, kind: String, misordered: &mut bool) {
        let variables = &self.current.variables;
        let repeated = !kind.is_empty() && variables.iter().any(|v| v.value == kind);
        let out_of_order = variables.last().is_some_and(|last| {
            last.value == "__REST__" || (kind.is_empty() && !last.value.is_empty())
        });
        if !self.add_variable(name, kind.clone()) {
            return;
        }
        self.current.parameters += 1;
        if repeated {
            let text = format!("repeated keyword parameter ‘{kind}’ in compound element");
            self.error(text);
        }
        if out_of_order && !core::mem::replace(misordered, true) {
            self.error(
                "compound element parameters out of order\n\
                 (The correct order is ‘[positional], [keywords], [__REST__]’.)",
            );
        }
    }

    /// Defines a variable of the current compound; reports whether it was new.
    pub(super) fn add_variable(&mut self, name: String, value: String) -> bool {
        let variables = &self.current.variables;
        if variables.len() >= MAX_VARIABLES {
            self.halt(format_args!(
                "more than {MAX_VARIABLES} variables in one scope"
            ));
            return false;
        }
        if variables.iter().any(|variable| variable.name == name) {
            self.error(format_args!("parameter ‘${name}’ multiply defined"));
            return false;
        }
        self.current.variables.push(Variable { name, value });
        true
    }

    /// Reads a group from after its `(`; gives the numbers of ports it has on
    /// each side. A group is a passage in the compound around it: its inner
    /// `input` and `output` are tunnelled to the element `name`.
    pub(super) fn group(&mut self, name: &str) -> [u32; 2] {
        let location = self.lexer.location();
        let mut add =
            |name| self.add_element(name, Classes::TUNNEL, String::new(), location.clone());
        add(name.into());
        let inner = SIDES.map(|side| add(format!("{name}/{side}")));
        let outer: Vec<_> = SIDES
            .iter()
            .zip(inner)
            .map(|(side, node)| self.current.rebind(side, Some(node)))
            .collect();
        let first_link = self.current.links.len();

        self.depth += 1;
        if self.depth >= MAX_DEPTH {
            self.error("maximum element group nesting depth exceeded");
        } else {
            self.statements(Block::new(BlockKind::Group));
        }
        self.depth -= 1;

        let ports = self.check_group(name, inner, first_link);
        for (side, node) in SIDES.iter().zip(outer) {
            self.current.rebind(side, node);
        }
        ports
    }

    fn check_group(&mut self, name: &str, inner: [usize; 2], first_link: usize) -> [u32; 2] {
        let name = if name.starts_with(';') {
            "<anonymous group>"
        } else {
            name
        };
        if self.halted {
            return [0, 0];
        }
        let place = Context::location(&self.lexer.location());
        let mut diagnostics = self.diagnostics.within(place);
        [INPUT, OUTPUT].map(|side| {
            let (node, current) = (inner[side], &self.current);
            current.check_pseudoelement(node, side, name, first_link, &mut diagnostics)
        })
    }
}
