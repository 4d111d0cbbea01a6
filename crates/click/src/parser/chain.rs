//! Chains of connections, and declarations, which are chains of one link.

use super::element::Element;
use super::{Block, Parser};
use crate::classes::{ClassId, Classes};
use crate::compound::{INPUT, OUTPUT};
use crate::lexer::{Kind, Lexeme};
use alloc::format;
use alloc::vec::Vec;

/// One element of a list in a chain: a node of the current compound and the
/// ports written beside it.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) node: usize,
    pub(super) ports: [PortList; 2],
}

/// Ports as written. None means the port or ports that fit.
#[derive(Clone, Debug, Default)]
pub(super) struct PortList {
    pub(super) ports: Vec<u32>,
    /// `[]`, `[0,]`: as many more ports as fit follow the last.
    pub(super) open: bool,
}

/// A list of elements as it is read.
#[derive(Default)]
pub(super) struct List {
    pub(super) elements: Vec<Element>,
    pub(super) any_implicit: bool,
    pub(super) any_ports: bool,
}

impl Parser<'_> {
    /// Reads `a, b -> c => d`, or a declaration, to its end.
    pub(super) fn chain(&mut self, block: &mut Block) {
        let mut last: Vec<Stop> = Vec::new();
        let mut connector = Kind::Arrow;
        while let Some(list) = self.element_list(block, last.is_empty()) {
            let stops = self.resolve_list(list, last.is_empty());
            if last.is_empty() {
                self.complain_about_useless_ports(&stops, INPUT);
            } else {
                self.connect(&last, &stops, connector);
            }
            last = stops;
            match self.connector() {
                Some(kind) => connector = kind,
                None => break,
            }
        }
        self.complain_about_useless_ports(&last, OUTPUT);
        block.ended_at_output = match &*last {
            [stop] => self.current.find("output") == Some(stop.node),
            _ => false,
        };
    }

    /// Reads elements separated by commas. `None` if there is none.
    fn element_list(&mut self, block: &Block, first: bool) -> Option<List> {
        let mut list = List::default();
        loop {
            if !self.element(block, &mut list, first) && list.elements.is_empty() {
                return None;
            }
            if !self.accept_comma() {
                return Some(list);
            }
        }
    }

    /// Takes a comma; reads ahead to what follows otherwise, so that messages
    /// have its place.
    fn accept_comma(&mut self) -> bool {
        let lexeme = self.lex();
        let found = lexeme.kind == Kind::Byte(b',');
        if !found {
            self.unlex(lexeme);
        }
        found
    }

    /// Finds or makes the elements of a list.
    fn resolve_list(&mut self, mut list: List, first: bool) -> Vec<Stop> {
        let next = self.pushed.last().map_or(Kind::End, |lexeme| lexeme.kind);
        let connects = matches!(next, Kind::Arrow | Kind::DoubleArrow);
        if list.any_implicit && !first && connects {
            self.error("implicit ports used in the middle of a chain");
        }
        if first && !connects && !list.any_ports && !list.any_implicit {
            spread_declaration(&mut list.elements);
        }
        let elements = list.elements.into_iter();
        elements.map(|element| self.resolve(element)).collect()
    }

    fn resolve(&mut self, mut element: Element) -> Stop {
        let known = match element.class {
            None => self.current.find(&element.name),
            Some(_) => None,
        };
        if let Some(node) = known {
            if element.declared.is_some() {
                self.complain_about_redeclaration(&element, node);
            }
            return Stop {
                node,
                ports: element.ports,
            };
        }
        let name = &element.name;
        let open = self.options.environment.is_open();
        match (element.class, element.declared) {
            (class, Some(declared))
                if class.is_some() || open && *self.classes.primitive_name(declared) == **name =>
            {
                let text = format!("class ‘{name}’ used as element name");
                self.error_at(&element.location, text);
            }
            (None, None) => element.class = Some(self.class_of_undeclared(&element)),
            _ => {}
        }
        if element.class.is_some() {
            element.name = self.current.anonymous_name(&element.name);
        }
        let class = element.class.or(element.declared);
        let class = class.unwrap_or(Classes::TUNNEL);
        let node = self.add_element(element.name, class, element.config, element.location);
        Stop {
            node,
            ports: element.ports,
        }
    }

    /// The class that the name of an undeclared element stands for.
    fn class_of_undeclared(&mut self, element: &Element) -> ClassId {
        let name = &element.name;
        if self.options.environment.is_open()
            && let Some(class) = self.find_or_assume_class(name)
        {
            return class;
        }
        let text = match self.options.environment.nearest_class(name) {
            Some(nearest) => {
                format!("undeclared element ‘{name}’; did you mean the class ‘{nearest}’?")
            }
            None => format!("undeclared element ‘{name}’"),
        };
        self.error_at(&element.location, text);
        let class = self.find_class(name);
        class.unwrap_or_else(|| self.make_up_class(name))
    }

    fn complain_about_redeclaration(&mut self, element: &Element, node: usize) {
        let name = &element.name;
        let text = format!("redeclaration of element ‘{name}’");
        self.error_at(&element.location, text);
        let previous = &self.current.nodes[node];
        if previous.class != Classes::TUNNEL {
            let location = previous.location.clone();
            let text = format!("element ‘{name}’ previously declared here");
            self.error_at(&location, text);
        }
    }

    fn complain_about_useless_ports(&mut self, stops: &[Stop], side: usize) {
        if stops.iter().any(|stop| !stop.ports[side].ports.is_empty()) {
            self.error(if side == OUTPUT {
                "output ports ignored at end of chain"
            } else {
                "input ports ignored at start of chain"
            });
        }
    }

    /// Reads `->` or `=>`; `None` at the end of the chain.
    fn connector(&mut self) -> Option<Kind> {
        let mut lexeme = self.lex();
        while matches!(lexeme.kind, Kind::Byte(b',') | Kind::DoubleColon) {
            self.syntax_error(&lexeme);
            lexeme = self.lex();
        }
        match lexeme.kind {
            kind @ (Kind::Arrow | Kind::DoubleArrow) => return Some(kind),
            Kind::Byte(b';') | Kind::End => {}
            Kind::Byte(b'{' | b'}' | b'[' | b')')
            | Kind::Identifier
            | Kind::DoubleBar
            | Kind::ElementClass
            | Kind::Require
            | Kind::Provide
            | Kind::Define => self.unlex(lexeme),
            kind => {
                self.syntax_error(&lexeme);
                if matches!(kind, Kind::Variable | Kind::Ellipsis) {
                    self.unlex(lexeme);
                }
            }
        }
        None
    }

    /// Whether an element whose place is taken by `lexeme` is left out on
    /// purpose: `-> x` and `x ->` in compounds and groups stand for
    /// `input -> x` and `x -> output`.
    pub(super) fn is_implicit(
        &mut self,
        lexeme: &Lexeme,
        block: &Block,
        list: &List,
        ports: &PortList,
        first: bool,
    ) -> bool {
        let has_ports = !ports.ports.is_empty();
        let alone = has_ports || list.elements.is_empty();
        match lexeme.kind {
            Kind::Arrow | Kind::DoubleArrow => {
                let implicit = first && alone;
                if implicit && !has_ports && !block.ended_at_output {
                    let (location, arrow) = (self.lexer.location(), &lexeme.text);
                    let text =
                        format!("suggest ‘input {arrow}’ or ‘[0] {arrow}’ to start connection");
                    self.diagnostics.warning(&location, text);
                }
                implicit
            }
            Kind::Byte(b',') => has_ports,
            Kind::DoubleColon => false,
            _ => !first && alone,
        }
    }
}

/// `a, b :: Class(config)` declares both. Ports or references to elements
/// before the last would make it something else.
fn spread_declaration(elements: &mut [Element]) {
    let Some((last, others)) = elements.split_last_mut() else {
        return;
    };
    if others.iter().all(|element| element.bare) {
        for element in others {
            element.declared = last.declared;
            element.config = last.config.clone();
        }
    }
}
