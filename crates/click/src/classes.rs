//! Element classes and the names they go by.

use crate::Environment;
use crate::compound::Compound;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// An index into [`Classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassId(usize);

/// The kind of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClassKind {
    /// An end of a tunnel that elaboration removes.
    Tunnel,
    /// A class of the engine, by its name there.
    Primitive(Arc<str>),
    /// The compound at an index of [`Classes`].
    Compound(usize),
}

/// All classes of a configuration, and the scopes of their names.
#[derive(Debug)]
pub(crate) struct Classes {
    kinds: Vec<ClassKind>,
    compounds: Vec<Rc<Compound>>,
    /// Names, innermost scope last. The first also remembers which names the
    /// engine knows.
    scopes: Vec<BTreeMap<String, ClassId>>,
}

impl Classes {
    pub(crate) const TUNNEL: ClassId = ClassId(0);

    pub(crate) fn new() -> Self {
        Classes {
            kinds: vec![ClassKind::Tunnel],
            compounds: Vec::new(),
            scopes: vec![BTreeMap::new()],
        }
    }

    pub(crate) fn kind(&self, class: ClassId) -> &ClassKind {
        &self.kinds[class.0]
    }

    /// The compound that a class is.
    pub(crate) fn compound(&self, class: ClassId) -> Option<&Rc<Compound>> {
        match *self.kind(class) {
            ClassKind::Compound(index) => Some(&self.compounds[index]),
            _ => None,
        }
    }

    /// The name of a class of the engine; empty for others.
    pub(crate) fn primitive_name(&self, class: ClassId) -> Arc<str> {
        match self.kind(class) {
            ClassKind::Primitive(name) => Arc::clone(name),
            _ => "".into(),
        }
    }

    /// The class that `name` means in the innermost scope.
    pub(crate) fn find(&mut self, name: &str, environment: &dyn Environment) -> Option<ClassId> {
        let known = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        if let Some(&class) = known {
            return Some(class);
        }
        if !environment.has_class(name) {
            return None;
        }
        Some(self.assume(name))
    }

    /// Takes `name` for a class of the engine.
    pub(crate) fn assume(&mut self, name: &str) -> ClassId {
        let class = self.add(ClassKind::Primitive(name.into()));
        self.scopes[0].insert(name.into(), class);
        class
    }

    /// Adds a class and lets `name`, unless empty, mean it in the innermost
    /// scope.
    pub(crate) fn define(&mut self, name: &str, kind: ClassKind) -> ClassId {
        let class = self.add(kind);
        if let Some(scope) = self.scopes.last_mut().filter(|_| !name.is_empty()) {
            scope.insert(name.into(), class);
        }
        class
    }

    fn add(&mut self, kind: ClassKind) -> ClassId {
        self.kinds.push(kind);
        ClassId(self.kinds.len() - 1)
    }

    /// Adds the compounds of one class, each of which stands in for the one
    /// before it where that doesn't fit; after the last comes `extended`.
    /// Gives the kind of the whole class.
    pub(crate) fn add_overloads(
        &mut self,
        overloads: Vec<Compound>,
        extended: Option<ClassId>,
    ) -> Option<ClassKind> {
        let mut next = extended;
        let mut kind = None;
        for mut compound in overloads.into_iter().rev() {
            compound.next = next;
            self.compounds.push(Rc::new(compound));
            let this = ClassKind::Compound(self.compounds.len() - 1);
            next = Some(self.add(this.clone()));
            kind = Some(this);
        }
        kind
    }

    pub(crate) fn enter_scope(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    pub(crate) fn leave_scope(&mut self) {
        self.scopes.pop();
    }
}
