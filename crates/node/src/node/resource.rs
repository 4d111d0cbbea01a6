//! The node's operations on a resource: the same few for every kind.

use super::Node;
use crate::error::{Error, Fault, Kind, Result};
use crate::model::{Object, Spec, is_pattern, select};

/// A specification that the node brings about. All of it happens at once; where something has to be
/// waited for, the service does more.
pub trait Resource: Spec {
    /// All, by name.
    fn all(node: &mut Node) -> Result<Vec<Object<Self>>>;

    /// The one called `name`.
    fn one(node: &mut Node, name: &str) -> Result<Object<Self>>;

    /// Makes one: all of it, or nothing.
    fn create(_node: &mut Node, name: &str, _spec: Self) -> Result<()> {
        Err(unchangeable::<Self>(name))
    }

    /// Changes an existing resource to `spec`.
    fn change(_node: &mut Node, name: &str, _spec: Self) -> Result<()> {
        Err(unchangeable::<Self>(name))
    }

    /// What the event of a change to `spec` says besides that it was changed.
    fn note_of_change(_node: &mut Node, _name: &str, _spec: &Self) -> Option<String> {
        None
    }

    /// Brings about all that are wanted and not there. What cannot be is noted with its reason and
    /// tried again later; the rest goes on.
    fn reconcile(_node: &mut Node) -> Result<()> {
        Ok(())
    }

    /// Removes one.
    fn delete(_node: &mut Node, name: &str) -> Result<()> {
        Err(unchangeable::<Self>(name))
    }
}

/// No route leads here: a resource has routes for its own verbs only.
fn unchangeable<S: Spec>(name: &str) -> Error {
    let (what, name) = (S::NOUN, name.into());
    let (can, field) = ("nothing", String::new());
    let fault = Fault::Fixed {
        what,
        name,
        can,
        field,
    };
    fault.into()
}

/// The first field that differs between two specifications and cannot change.
pub(super) fn changed<S: Spec>(is: &S, new: &S) -> String {
    let [is, new] = [is, new].map(|it| serde_json::to_value(it).unwrap_or_default());
    let fields = [&is, &new].into_iter().filter_map(|it| it.as_object());
    let mut names = fields.flat_map(|it| it.keys());
    let differs =
        |name: &&String| !S::CHANGEABLE.contains(&name.as_str()) && is[*name] != new[*name];
    names.find(differs).cloned().unwrap_or_default()
}

/// The one called `name`, if there is one.
pub fn found<R: Resource>(node: &mut Node, name: &str) -> Result<Option<Object<R>>> {
    match R::one(node, name) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The resources that names and patterns select, in their order, each once; without any, all.
pub fn selected<R: Resource>(node: &mut Node, names: &[String]) -> Result<Vec<Object<R>>> {
    if names.is_empty() {
        return R::all(node);
    }
    let all = match names.iter().any(|name| is_pattern(name)) {
        true => R::all(node)?,
        false => Vec::new(),
    };
    let there = || all.iter().map(|one| one.name.as_str()).collect();
    let selected = select(names, there, R::NOUN).into_iter();
    selected
        .map(|one| one.map_err(|(_, error)| error))
        .map(|name| R::one(node, &name?))
        .collect()
}
