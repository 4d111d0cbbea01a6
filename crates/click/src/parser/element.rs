//! Elements in chains: `[port] name :: Class (config) [port]`.

use super::chain::{List, PortList};
use super::{Block, BlockKind, Parser};
use crate::Location;
use crate::classes::ClassId;
use crate::compound::{INPUT, OUTPUT, SIDES};
use crate::config::parse_port;
use crate::lexer::{Kind, Lexeme};
use alloc::string::String;

/// An element as written. What its name means is found out once the list it
/// is in is complete.
#[derive(Clone, Debug)]
pub(super) struct Element {
    /// The name, or the class of an anonymous element.
    pub(super) name: String,
    /// The class that `name` is.
    pub(super) class: Option<ClassId>,
    /// The class after `::`.
    pub(super) declared: Option<ClassId>,
    /// Just a name, with neither class nor configuration.
    pub(super) bare: bool,
    pub(super) config: String,
    pub(super) location: Location,
    pub(super) ports: [PortList; 2],
}

impl Parser<'_> {
    /// Reads an element and adds it to `list`. `first` is whether the list is
    /// the first of its chain. `false` if there is none.
    pub(super) fn element(&mut self, block: &Block, list: &mut List, first: bool) -> bool {
        let mut ports = [PortList::default(), PortList::default()];
        if self.accept(b'[') {
            ports[INPUT] = self.port_list();
        }
        let lexeme = self.lex();
        let mut element = match lexeme.kind {
            Kind::Identifier => {
                let class = self.find_class(&lexeme.text);
                self.named(lexeme.text.into_owned(), class, true, ports)
            }
            Kind::Byte(b'{') => {
                let class = self.compound("");
                self.named(String::new(), Some(class), false, ports)
            }
            Kind::Byte(b'(') => {
                let name = self.current.anonymous_name("");
                let sizes = self.group(&name);
                // These ports may be overridden.
                for (list, size) in ports.iter_mut().zip(sizes) {
                    if list.ports.is_empty() {
                        list.ports = (0..size).collect();
                    }
                }
                self.named(name, None, false, ports)
            }
            _ => {
                let nested = self.current.depth > 0 || block.kind == BlockKind::Group;
                if !nested || !self.is_implicit(&lexeme, block, list, &ports[INPUT], first) {
                    return self.no_element(lexeme, nested && first, list, &ports[INPUT]);
                }
                self.unlex(lexeme);
                return self.add_implicit(list, first, ports);
            }
        };
        self.declaration(&mut element);
        self.configuration(&mut element);
        self.add_to_list(list, element);
        true
    }

    fn named(
        &mut self,
        name: String,
        class: Option<ClassId>,
        bare: bool,
        ports: [PortList; 2],
    ) -> Element {
        Element {
            name,
            class,
            declared: None,
            bare,
            config: String::new(),
            location: self.lexer.location(),
            ports,
        }
    }

    fn add_to_list(&mut self, list: &mut List, element: Element) {
        list.any_ports |= element.ports.iter().any(|ports| !ports.ports.is_empty());
        list.elements.push(element);
    }

    /// Adds `input` or `output` where neither is written.
    fn add_implicit(&mut self, list: &mut List, first: bool, mut ports: [PortList; 2]) -> bool {
        list.any_implicit = true;
        if first {
            // `[1] -> x` means output port 1 of `input`.
            ports.swap(INPUT, OUTPUT);
        }
        let name = SIDES[if first { INPUT } else { OUTPUT }];
        let class = self.find_class(name);
        let element = self.named(name.into(), class, false, ports);
        self.add_to_list(list, element);
        true
    }

    /// Deals with something else in the place of an element.
    fn no_element(&mut self, lexeme: Lexeme, may_end: bool, list: &List, ports: &PortList) -> bool {
        if !ports.ports.is_empty() {
            self.error("stranded port ignored");
        }
        if list.elements.is_empty() {
            if may_end {
                self.unlex(lexeme);
            } else {
                self.syntax_error(&lexeme);
            }
        }
        false
    }

    /// Reads `:: Class`.
    fn declaration(&mut self, element: &mut Element) {
        let lexeme = self.lex();
        if lexeme.kind != Kind::DoubleColon {
            return self.unlex(lexeme);
        }
        element.bare = false;
        let lexeme = self.lex();
        element.declared = Some(match lexeme.kind {
            Kind::Identifier => {
                let class = self.force_class(&lexeme.text);
                let next = self.lex();
                self.unlex(next);
                class
            }
            Kind::Byte(b'{') => self.compound(""),
            _ => {
                self.error("missing element type in declaration");
                let class = self.force_class(&element.name);
                self.unlex(lexeme);
                class
            }
        });
    }

    /// Reads `(config)` and the output ports.
    fn configuration(&mut self, element: &mut Element) {
        let mut lexeme = self.lex();
        if lexeme.kind == Kind::Byte(b'(') {
            if self.current.find(&element.name).is_some() {
                self.error("configuration string ignored on element reference");
            }
            element.config = self.lexer.config(self.diagnostics);
            self.expect(b')');
            element.bare = false;
            lexeme = self.lex();
        }
        if lexeme.kind != Kind::Byte(b'[') {
            return self.unlex(lexeme);
        }
        element.ports[OUTPUT] = self.port_list();
    }

    /// Reads ports from after `[` to `]`: `0, 2-4, 6,`.
    fn port_list(&mut self) -> PortList {
        let mut list = PortList::default();
        let mut range_from = None;
        loop {
            let lexeme = self.lex();
            match lexeme.kind {
                Kind::Identifier => {
                    let port = parse_port(&lexeme.text).unwrap_or_else(|| {
                        self.error("syntax error: port number should be integer");
                        0
                    });
                    self.add_ports(&mut list, range_from, port);
                }
                Kind::Byte(b']') => {
                    if list.ports.is_empty() {
                        list.ports.push(0);
                    }
                    list.open = true;
                    return list;
                }
                _ => {
                    self.error("syntax error: expected port number");
                    self.unlex(lexeme);
                    return list;
                }
            }
            let lexeme = self.lex();
            match lexeme.kind {
                Kind::Byte(b']') => return list,
                Kind::Byte(b'-') if range_from.is_none() => {
                    range_from = Some(list.ports.last().map_or(0, |last| last + 1));
                }
                Kind::Byte(b',') => range_from = None,
                _ => {
                    self.error("syntax error: expected ‘,’");
                    self.unlex(lexeme);
                }
            }
        }
    }

    fn add_ports(&mut self, list: &mut PortList, from: Option<u32>, to: u32) {
        let highest = self.options.limits.port;
        let (from, to) = (from.unwrap_or(to), to);
        if to > highest {
            return self.error(format_args!("port number {to} is more than {highest}"));
        }
        let count = (to + 1).saturating_sub(from) as usize;
        if self.count_connections(count) {
            list.ports.extend(from..=to);
        }
    }

    /// Counts connections, and ports that want some, towards their limit.
    pub(super) fn count_connections(&mut self, count: usize) -> bool {
        let limit = self.options.limits.connections;
        self.connections = self.connections.saturating_add(count);
        if self.connections > limit && !self.halted {
            self.halt(format_args!(
                "more than {limit} connections; split the configuration"
            ));
        }
        self.connections <= limit
    }
}
