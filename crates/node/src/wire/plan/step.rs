//! Steps, and how they are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::part::Part;

/// How a part of a wire that was made is found on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// As it was made.
    None,
    /// Not at all: it was removed, and perhaps another part has its name.
    Missing,
    /// A VNIC whose interface or namespace was removed.
    Lost,
    /// A VNIC without some of its addresses, or routes some of which are gone.
    Incomplete,
    /// With other properties or another configuration than the wire's.
    Altered,
    /// A guest or a program that has ended, and how, and is not restarted.
    Ended(String),
}

/// One field that is another: its name, the value before and the value after.
pub type Field = (String, Option<Value>, Option<Value>);

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The file is another: a part is new or removed, or these fields of it changed.
    File(Vec<Field>),
    /// The host is another.
    Drift(Drift),
    /// A part that it needs is made again, or it is made again for the file's sake.
    Again,
}

/// A step: a part that is there becomes another, or none; or one comes to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The part's name.
    pub name: String,
    /// The part before.
    pub from: Option<Part>,
    /// The part afterwards.
    pub to: Option<Part>,
    /// Why.
    pub why: Why,
}

impl Step {
    /// The step back.
    pub fn back(self) -> Step {
        Step {
            from: self.to,
            to: self.from,
            ..self
        }
    }

    /// Whether the step ends a guest or a program, whose state is lost then.
    pub fn loses_state(&self) -> bool {
        let ends = matches!(self.from, Some(Part::Guest(_) | Part::Application(_)));
        ends && self.to.is_none()
    }

    /// How a message calls the part.
    pub fn part(&self) -> String {
        let part = self.to.as_ref().or(self.from.as_ref());
        format!("{} ‘{}’", part.map_or("part", Part::noun), self.name)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = matches!(self.why, Why::Drift(Drift::Lost));
        let sign = match (&self.from, &self.to) {
            (None, _) => '+',
            (_, None) => '-',
            _ if lost => '+',
            _ => '~',
        };
        write!(f, "{sign} {}", self.part())?;
        match &self.why {
            Why::File(fields) => show_fields(f, fields),
            Why::Drift(Drift::None) => Ok(()),
            Why::Drift(Drift::Missing | Drift::Lost) => f.write_str(": it was missing"),
            Why::Drift(Drift::Incomplete) => match &self.to {
                Some(Part::Vnic(_)) => f.write_str(": an address was missing"),
                _ => f.write_str(": a route was missing"),
            },
            Why::Drift(Drift::Altered) => f.write_str(": it was changed by hand"),
            Why::Drift(Drift::Ended(how)) => match &self.to {
                None => write!(f, ": it had ended ({how})"),
                Some(_) => f.write_str(": it had ended"),
            },
            Why::Again => match (&self.from, &self.to) {
                (Some(_), None) => f.write_str(": it is recreated"),
                (None, _) => f.write_str(": it is recreated"),
                _ => f.write_str(": set again"),
            },
        }
    }
}

fn show_fields(f: &mut fmt::Formatter<'_>, fields: &[Field]) -> fmt::Result {
    let is_long = |value: &Option<Value>| {
        let text = value.as_ref().and_then(Value::as_str);
        text.is_some_and(|text| text.contains('\n'))
    };
    for (i, (name, old, new)) in fields.iter().enumerate() {
        f.write_str(if i == 0 { ": " } else { ", " })?;
        if is_long(old) || is_long(new) {
            write!(f, "{name} changes")?;
        } else {
            write!(f, "{name} {} → {}", shown(old), shown(new))?;
        }
    }
    Ok(())
}

/// A value as a person writes it.
fn shown(value: &Option<Value>) -> String {
    match value {
        None => "none".into(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(all)) => {
            let all = all.iter().map(|value| shown(&Some(value.clone())));
            all.collect::<Vec<_>>().join(",")
        }
        Some(value) => value.to_string(),
    }
}

/// The fields in which two parts differ.
pub(super) fn fields(old: &Part, new: &Part) -> Vec<Field> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    leaves("", &old.value(), &mut before);
    leaves("", &new.value(), &mut after);
    let names: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let pairs = names.into_iter().map(|name| {
        let (old, new) = (before.get(&name).cloned(), after.get(&name).cloned());
        (name, old, new)
    });
    pairs.filter(|(_, old, new)| old != new).collect()
}

fn leaves(name: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    if let Value::Object(members) = value {
        for (member, value) in members {
            let dot = if name.is_empty() { "" } else { "." };
            leaves(&format!("{name}{dot}{member}"), value, into);
        }
    } else {
        into.insert(name.into(), value.clone());
    }
}
