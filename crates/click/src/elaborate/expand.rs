//! Expansion of compound elements.

use super::Elaborator;
use crate::classes::{ClassId, Classes};
use crate::compound::{Compound, SIDES};
use crate::config::{assign_arguments, split_args};
use crate::scope::Scope;
use crate::{Context, Location};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

/// The most overloads and extensions considered for one use of a class.
const MAX_CANDIDATES: usize = 4000;

/// A compound chosen for a use of its class.
struct Choice {
    class: ClassId,
    /// One value a parameter.
    values: Vec<String>,
}

impl Elaborator<'_> {
    /// Expands everything, depth first: a compound's elements are added in a
    /// row and then expanded one by one.
    pub(super) fn expand_all(&mut self) {
        let mut scope = Scope::inside(None);
        for variable in &self.flat.variables {
            scope.set(&variable.name, variable.value.clone());
        }
        for (name, value) in self.options.variables {
            scope.set(name, value.clone());
        }
        let scope = Rc::new(scope);
        let mut pending: Vec<(usize, Rc<Scope>)> = Vec::new();
        self.flat.reserve_names();
        for node in 0..self.flat.nodes.len() {
            pending.push((node, scope.clone()));
            while let Some((node, scope)) = pending.pop().filter(|_| !self.halted) {
                if let Some((inner, scope)) = self.expand(node, &scope) {
                    let inner = inner.into_iter().rev();
                    pending.extend(inner.map(|node| (node, scope.clone())));
                }
            }
        }
    }

    /// Substitutes the variables of a node's configuration. If the node is a
    /// compound element, adds its elements beside it, and returns the nodes to
    /// expand next and their scope.
    fn expand(&mut self, node: usize, scope: &Rc<Scope>) -> Option<(Vec<usize>, Rc<Scope>)> {
        self.flat.settle_name(node);
        let class = self.flat.nodes[node].class;
        if class == Classes::TUNNEL {
            return None;
        }
        let location = self.flat.nodes[node].location.clone();
        let config = core::mem::take(&mut self.flat.nodes[node].config);
        let config = self.substitute(&config, scope, &location);
        self.flat.nodes[node].config = config;
        self.classes.compound(class)?;

        let choice = self.choose(node, class)?;
        self.flat.nodes[node].class = choice.class;
        let compound = self.classes.compound(choice.class)?.clone();
        let mut inside = Scope::inside(scope.enclosing(compound.depth));
        let mut values = choice.values.into_iter();
        for variable in &compound.variables {
            let value = match values.next() {
                Some(value) => value,
                None => self.substitute(&variable.value, &inside, &location),
            };
            inside.set(&variable.name, value);
        }
        let inside = Rc::new(inside);
        let nodes = self.insert(node, &compound, &inside);
        Some((nodes, inside))
    }

    fn substitute(&mut self, text: &str, scope: &Scope, location: &Location) -> String {
        let text = scope.expand(text, &mut self.fuel);
        if self.fuel.is_exhausted() {
            self.halt(
                location,
                "variables expand to too much text; look for variables that refer to each other",
            );
        }
        text
    }

    /// Chooses among a class's overloads by arguments and ports. Without a
    /// match it may still give a choice, which makes for better messages
    /// about ports.
    fn choose(&mut self, node: usize, class: ClassId) -> Option<Choice> {
        let use_of = &self.flat.nodes[node];
        let location = use_of.location.clone();
        let (args, ports) = (split_args(&use_of.config), use_of.ports);
        let mut nearest = None;
        let mut candidates = 0;
        let mut next = Some(class);
        while let Some(class) = next {
            let Some(compound) = self.classes.compound(class) else {
                return Some(Choice {
                    class,
                    values: Vec::new(),
                });
            };
            candidates += 1;
            if candidates > MAX_CANDIDATES {
                self.halt(
                    &location,
                    format_args!("more than {MAX_CANDIDATES} overloads"),
                );
                return None;
            }
            if let Some(values) = assign_arguments(&args, &compound.parameter_types()) {
                let choice = Choice { class, values };
                if compound.ports == ports {
                    return Some(choice);
                }
                nearest = Some(choice);
            }
            next = compound.next;
        }
        if candidates != 1 || nearest.is_none() {
            self.complain_about_mismatch(class, &location, args.len(), ports);
        }
        if nearest.is_none() {
            self.flat.nodes[node].class = Classes::TUNNEL;
        }
        nearest
    }

    fn complain_about_mismatch(
        &mut self,
        class: ClassId,
        location: &Location,
        args: usize,
        ports: [u32; 2],
    ) {
        let first = self.classes.compound(class);
        let Some(wanted) = first.map(|compound| compound.wanted_signature(args, ports)) else {
            return;
        };
        self.error(location, format_args!("no match for ‘{wanted}’"));
        let mut diagnostics = self.diagnostics.within(Context::heading("candidates are:"));
        let mut next = Some(class);
        while let Some(compound) = next.and_then(|class| self.classes.compound(class)) {
            diagnostics.message(&compound.location, compound.signature());
            next = compound.next;
        }
    }

    /// Turns `node` into tunnels and adds the inside of a compound; gives the
    /// nodes added.
    fn insert(&mut self, node: usize, compound: &Compound, scope: &Rc<Scope>) -> Vec<usize> {
        let name = self.flat.nodes[node].name.clone();
        self.flat.nodes[node].class = Classes::TUNNEL;
        let mut nodes: Vec<Option<usize>> = Vec::with_capacity(compound.nodes.len());
        let ends = self.add_tunnels(node, &name);
        nodes.extend(ends.map(Some));
        while nodes.len() < compound.nodes.len() && !self.halted {
            self.insert_node(compound, node, &name, scope, &mut nodes);
        }
        let links = self.flat.links.len() + compound.links.len();
        let limit = self.options.limits.connections;
        if links > limit {
            let location = self.flat.nodes[node].location.clone();
            self.halt(
                &location,
                format_args!("expands to more than {limit} connections"),
            );
        }
        for link in compound.links.iter().filter(|_| !self.halted) {
            if let (Some(from), Some(to)) = (nodes[link.from.0], nodes[link.to.0]) {
                let (from, to) = ((from, link.from.1), (to, link.to.1));
                self.flat.connect(from, to, link.location.clone());
            }
        }
        nodes.into_iter().skip(SIDES.len()).flatten().collect()
    }

    /// Adds the next node of a compound, or the three of a group, under the
    /// name of the element `whole`.
    fn insert_node(
        &mut self,
        compound: &Compound,
        whole: usize,
        whole_name: &str,
        scope: &Rc<Scope>,
        nodes: &mut Vec<Option<usize>>,
    ) {
        let inner = &compound.nodes[nodes.len()];
        let name = format!("{whole_name}/{}", inner.name);
        let place = self.flat.nodes[whole].location.clone();
        if let Some(previous) = self.flat.find(&name) {
            let previous = self.flat.nodes[previous].location.clone();
            self.complain_about_name(&name, &place, &previous);
            return nodes.push(None);
        }
        if self.classes.find(&name, self.options.environment).is_some() {
            self.error(&place, format_args!("‘{name}’ is an element class"));
        }
        if inner.class == Classes::TUNNEL {
            let group = self.add_node(
                name.clone(),
                Classes::TUNNEL,
                String::new(),
                &inner.location,
            );
            let ends = self.add_tunnels(group, &name);
            nodes.push(Some(group));
            nodes.extend(ends.map(Some));
            return;
        }
        let config = self.substitute(&inner.config, scope, &inner.location);
        let added = self.add_node(name, inner.class, config, &inner.location);
        nodes.push(Some(added));
    }

    /// Adds the tunnels of a compound element or group: from its inputs to a
    /// node called `input` inside it, and from `output` to its outputs.
    fn add_tunnels(&mut self, node: usize, name: &str) -> [usize; 2] {
        let place = self.flat.nodes[node].location.clone();
        let mut clear = true;
        let ends = SIDES.map(|side| {
            let name = format!("{name}/{side}");
            if let Some(previous) = self.flat.find(&name) {
                let location = self.flat.nodes[previous].location.clone();
                self.complain_about_name(&name, &place, &location);
                clear = false;
                return previous;
            }
            self.add_node(name, Classes::TUNNEL, String::new(), &place)
        });
        if clear {
            self.tunnels.add(node, ends);
        }
        ends
    }

    fn complain_about_name(&mut self, name: &str, place: &Location, previous: &Location) {
        self.error(place, format_args!("redeclaration of element ‘{name}’"));
        self.error(previous, format_args!("‘{name}’ previously declared here"));
    }

    fn add_node(
        &mut self,
        name: String,
        class: ClassId,
        config: String,
        location: &Location,
    ) -> usize {
        let limits = &self.options.limits;
        self.text = self.text.saturating_add(name.len() + config.len());
        if self.flat.nodes.len() >= limits.elements {
            let limit = limits.elements;
            self.halt(
                location,
                format_args!("compound elements expand to more than {limit} elements"),
            );
        } else if self.text > limits.text {
            let limit = limits.text;
            self.halt(
                location,
                format_args!("compound elements expand to more than {limit} bytes of text"),
            );
        }
        self.flat.add(name, class, config, location.clone())
    }
}
