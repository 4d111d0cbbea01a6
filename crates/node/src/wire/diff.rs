//! What tells two wires apart: the steps from one to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::file::Wire;

/// A kind of part, in the order in which parts are made: each needs only what comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noun {
    /// A namespace.
    Namespace,
    /// A switch without a NIC.
    Stub,
    /// A switch with a NIC.
    Link,
    /// A wire between switches.
    Patch,
    /// A virtual NIC.
    Vnic,
    /// A network function.
    Guest,
    /// A traffic class.
    Flow,
    /// A flow table.
    Table,
}

impl Noun {
    const ALL: [Noun; 8] = [
        Noun::Namespace,
        Noun::Stub,
        Noun::Link,
        Noun::Patch,
        Noun::Vnic,
        Noun::Guest,
        Noun::Flow,
        Noun::Table,
    ];

    /// Its name, as in the file.
    pub fn name(self) -> &'static str {
        match self {
            Noun::Namespace => "namespace",
            Noun::Stub => "stub",
            Noun::Link => "link",
            Noun::Patch => "patch",
            Noun::Vnic => "vnic",
            Noun::Guest => "guest",
            Noun::Flow => "flow",
            Noun::Table => "table",
        }
    }
}

/// What becomes of a part.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Step {
    /// It is new.
    Add,
    /// It is no more.
    Remove,
    /// Some of what is said of it is another.
    Change {
        /// What, from what, to what.
        fields: Vec<(String, Option<Value>, Option<Value>)>,
    },
}

/// One part that is not the same in both.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Difference {
    /// Of which kind.
    pub noun: Noun,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    #[serde(flatten)]
    pub step: Step,
}

/// The differences from `old` to `new`, in the order in which they can be made: what goes first,
/// what depends before what it depends on; then what is new or other.
pub fn diff(old: &Wire, new: &Wire) -> Vec<Difference> {
    let (old, new) = (parts(old), parts(new));
    let of = |noun: Noun, all: &BTreeMap<&'static str, BTreeMap<String, Value>>| {
        all.get(noun.name()).cloned().unwrap_or_default()
    };
    let mut differences = Vec::new();
    for noun in Noun::ALL.into_iter().rev() {
        let new = of(noun, &new);
        for (name, _) in of(noun, &old)
            .into_iter()
            .filter(|(name, _)| !new.contains_key(name))
        {
            differences.push(Difference {
                noun,
                name,
                step: Step::Remove,
            });
        }
    }
    for noun in Noun::ALL {
        let old = of(noun, &old);
        for (name, value) in of(noun, &new) {
            let step = match old.get(&name) {
                None => Step::Add,
                Some(before) if *before == value => continue,
                Some(before) => Step::Change {
                    fields: fields(before, &value),
                },
            };
            differences.push(Difference { noun, name, step });
        }
    }
    differences
}

/// All parts of a wire as values: by kind, by name.
fn parts(wire: &Wire) -> BTreeMap<&'static str, BTreeMap<String, Value>> {
    let Ok(Value::Object(all)) = serde_json::to_value(wire) else {
        return BTreeMap::new();
    };
    let of = |noun: Noun| match all.get(noun.name()) {
        Some(Value::Object(parts)) => parts.clone().into_iter().collect(),
        _ => BTreeMap::new(),
    };
    Noun::ALL.map(|noun| (noun.name(), of(noun))).into()
}

/// The leaves in which two values differ.
fn fields(old: &Value, new: &Value) -> Vec<(String, Option<Value>, Option<Value>)> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    leaves("", old, &mut before);
    leaves("", new, &mut after);
    let names: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let pairs = names.into_iter().map(|name| {
        let (old, new) = (before.get(&name).cloned(), after.get(&name).cloned());
        (name, old, new)
    });
    pairs.filter(|(_, old, new)| old != new).collect()
}

fn leaves(name: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let dot = if name.is_empty() { "" } else { "." };
                leaves(&format!("{name}{dot}{member}"), value, into);
            }
        }
        value => {
            into.insert(name.into(), value.clone());
        }
    }
}

/// A value as a person writes it; a text of several lines by its length.
fn shown(value: &Option<Value>) -> String {
    match value {
        None => "none".into(),
        Some(Value::String(text)) if text.contains('\n') => {
            format!("{} lines", text.lines().count())
        }
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(all)) => {
            let all: Vec<_> = all
                .iter()
                .map(|value| shown(&Some(value.clone())))
                .collect();
            all.join(",")
        }
        Some(value) => value.to_string(),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match &self.step {
            Step::Add => '+',
            Step::Remove => '-',
            Step::Change { .. } => '~',
        };
        write!(f, "{sign} {} {}", self.noun.name(), self.name)?;
        if let Step::Change { fields } = &self.step {
            for (i, (name, old, new)) in fields.iter().enumerate() {
                let before = if i == 0 { ": " } else { ", " };
                match (old, new) {
                    (Some(Value::String(a)), Some(Value::String(b)))
                        if a.contains('\n') || b.contains('\n') =>
                    {
                        write!(f, "{before}{name} is another")?;
                    }
                    _ => write!(f, "{before}{name} {} → {}", shown(old), shown(new))?,
                }
            }
        }
        Ok(())
    }
}
