//! The table of properties: a row for each, from which the general code follows.
//!
//! [`properties!`](super::declare) declares a set of properties as a struct with a row for each
//! field. From the rows follow the parser and the text form, messages and files, the checks of each
//! value by itself, a JSON schema, help and the table in the documentation.

use serde_json::json;

use super::text::{PropertyError, for_each};
use super::values::ValueType;

/// One row: a property of the set `S`.
pub struct Property<S: 'static> {
    /// Its name.
    pub name: &'static str,
    /// What it is; the first sentence is a description by itself.
    pub(super) doc: &'static str,
    /// What its values are.
    pub form: fn() -> ValueType,
    /// Sets it to a value as the command line has it.
    pub(super) set: fn(&mut S, &str) -> Result<(), PropertyError>,
    /// Its value as the command line has it; `None` if it has none.
    pub(super) get: fn(&S) -> Option<String>,
    /// Gives it its default.
    pub(super) reset: fn(&mut S),
    /// Checks a value that came by another way than the command line.
    pub(super) check: fn(&S) -> Result<(), PropertyError>,
    /// Its default in messages and files; null for none.
    pub(super) default: fn() -> serde_json::Value,
}

impl<S> Property<S> {
    /// What it is, in a sentence.
    pub fn about(&self) -> String {
        let doc = self.doc.trim();
        let end = doc.find(". ").map_or(doc.len(), |at| at + 1);
        doc[..end].replace("  ", " ")
    }

    /// Its JSON schema: type, unit, range, default and description.
    pub fn schema(&self) -> serde_json::Value {
        let form = (self.form)();
        let mut schema = form.schema();
        schema["description"] = self.about().into();
        let default = (self.default)();
        if !default.is_null() {
            schema["default"] = default;
        } else if !form.is_list {
            // As if it were not given.
            schema["type"] = json!([schema["type"], "null"]);
            let choices = schema.get_mut("enum").and_then(|it| it.as_array_mut());
            if let Some(choices) = choices {
                choices.push(serde_json::Value::Null);
            }
        }
        schema
    }
}

/// The row of a name.
fn find<S>(
    rows: &'static [Property<S>],
    name: &str,
) -> Result<&'static Property<S>, PropertyError> {
    let row = rows.iter().find(|row| row.name == name);
    row.ok_or_else(|| PropertyError::Unknown {
        name: name.to_owned(),
        known: rows
            .iter()
            .map(|row| row.name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

pub(super) fn set<S>(
    rows: &'static [Property<S>],
    properties: &mut S,
    name: &str,
    value: &str,
) -> Result<(), PropertyError> {
    (find(rows, name)?.set)(properties, value)
}

pub(super) fn set_all<S: Clone>(
    rows: &'static [Property<S>],
    properties: &mut S,
    text: &str,
) -> Result<(), PropertyError> {
    let mut changed = properties.clone();
    for_each(text, |name, value| set(rows, &mut changed, name, value))?;
    *properties = changed;
    Ok(())
}

pub(super) fn reset<S>(
    rows: &'static [Property<S>],
    properties: &mut S,
    name: &str,
) -> Result<(), PropertyError> {
    (find(rows, name)?.reset)(properties);
    Ok(())
}

pub(super) fn get<S>(rows: &'static [Property<S>], properties: &S, name: &str) -> Option<String> {
    let row = rows.iter().find(|row| row.name == name)?;
    (row.get)(properties)
}

/// The properties whose values are not the default ones, as the command line has them.
pub(super) fn given<S: Default>(
    rows: &'static [Property<S>],
    properties: &S,
) -> impl Iterator<Item = (&'static str, String)> {
    let usual = S::default();
    rows.iter().filter_map(move |row| {
        let value = (row.get)(properties);
        let is_given = value != (row.get)(&usual);
        value.filter(|_| is_given).map(|value| (row.name, value))
    })
}

pub(super) fn check<S>(rows: &'static [Property<S>], properties: &S) -> Result<(), PropertyError> {
    rows.iter().try_for_each(|row| (row.check)(properties))
}

pub(super) fn schema<S>(rows: &'static [Property<S>]) -> serde_json::Value {
    let fields = rows.iter().map(|row| (row.name.to_owned(), row.schema()));
    let fields: serde_json::Map<_, _> = fields.collect();
    json!({ "type": "object", "properties": fields, "additionalProperties": false })
}

/// Columns of the names in help.
const NAME_WIDTH: usize = 13;

pub(super) fn help<S>(rows: &'static [Property<S>]) -> String {
    let lines = rows.iter().map(|row| {
        let (name, about, form) = (row.name, row.about().replace('`', ""), (row.form)());
        format!(
            "  {name:NAME_WIDTH$} {about}\n  {:NAME_WIDTH$} VALUE: {}\n",
            "",
            form.values()
        )
    });
    lines.collect()
}

pub(super) fn markdown<S>(rows: &'static [Property<S>]) -> String {
    let mut table =
        String::from("| property | is | values | default |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let (name, about, form) = (row.name, row.about(), (row.form)());
        let (values, list) = (
            form.values(),
            if form.is_list {
                "; several joined by `+`"
            } else {
                ""
            },
        );
        let default = (row.default)();
        let default = match &default {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        };
        table += &format!("| `{name}` | {about} | {values}{list} | {default} |\n");
    }
    table
}
