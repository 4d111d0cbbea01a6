//! The table: a row for each property, from which all that is general about properties follows.
//!
//! [`properties!`] declares a set of properties as a struct with a row for each field: the sentence
//! that describes it, its type, its name, and where the type does not say so its default and its
//! range. From the rows come the parser and the text form, messages and files, the checks of each
//! value by itself, a JSON schema, help and the table in the documentation. A property that is
//! added is a row there, besides the code that obeys it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::json;

use super::LIST_MAX;
use super::text::{PropertyError, for_each, parts};
use super::units::Invalid;

/// One row: a property of the set `S`.
pub struct Property<S: 'static> {
    /// Its name.
    pub name: &'static str,
    /// What it is; the first sentence is a description by itself.
    pub(super) doc: &'static str,
    /// What its values are.
    pub form: fn() -> Form,
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
        }
        schema
    }
}

/// What the values of a property are.
pub struct Form {
    /// The type in messages and files: `string` or `integer`.
    pub json: &'static str,
    /// The values are lists of this.
    pub is_list: bool,
    /// The unit of numbers.
    pub unit: Option<&'static str>,
    /// The least and the most, if the values are numbers in messages and files.
    pub range: Option<[u64; 2]>,
    /// The values, if they can be listed.
    pub choices: &'static [&'static str],
    /// What a value must be, as a sentence without its full stop.
    pub must: String,
}

impl Form {
    /// What a value must be, as words that stand by themselves.
    pub fn values(&self) -> &str {
        let must = &self.must;
        let verbs = [" is ", " are "].into_iter();
        let cut = verbs.filter_map(|verb| must.split_once(verb)).next();
        cut.map_or(must, |(_, values)| values)
    }

    fn schema(&self) -> serde_json::Value {
        let mut schema = json!({ "type": self.json });
        if let Some([least, most]) = self.range {
            schema["minimum"] = least.into();
            schema["maximum"] = most.into();
        }
        if !self.choices.is_empty() {
            schema["enum"] = self.choices.into();
        }
        if self.is_list {
            schema = json!({ "type": "array", "items": schema, "maxItems": LIST_MAX });
        }
        if let Some(unit) = self.unit {
            schema["x-unit"] = unit.into();
        }
        schema["x-values"] = self.values().into();
        schema
    }
}

/// The range of a property whose values are plain numbers.
#[derive(Clone, Copy)]
pub struct Range {
    pub least: u64,
    pub most: u64,
    /// What a value must be, with `{}` in the place of the range.
    pub must: &'static str,
    /// What is counted.
    pub unit: &'static str,
}

impl Range {
    /// Of properties whose type says what the range is.
    pub const OF_TYPE: Range = Range {
        least: 0,
        most: u64::MAX,
        must: "it is a number from {}",
        unit: "",
    };

    fn must(&self) -> String {
        let range = format!("{} to {}", self.least, self.most);
        self.must.replace("{}", &range)
    }

    fn read(&self, name: &str, text: &str) -> Result<u64, PropertyError> {
        let number = text.parse().ok();
        let number = number.filter(|number| (self.least..=self.most).contains(number));
        number.ok_or_else(|| PropertyError::value(name, text, self.must()))
    }
}

/// A type whose values are written as one word.
pub trait Quantity: Display + FromStr<Err = Invalid> + Clone + PartialEq {
    /// What the word must be, as a sentence without its full stop.
    const MUST: &'static str;
    /// The unit, if it is a number.
    const UNIT: Option<&'static str> = None;
    /// The least and the most, if it is a number in messages and files.
    const NUMBER: Option<[u64; 2]> = None;
    /// The words, if they can be listed.
    const CHOICES: &'static [&'static str] = &[];
}

/// A type that a property can have.
pub trait Value: Sized {
    /// Reads the value of property `name` as the command line has it.
    fn read(name: &str, text: &str, range: &Range) -> Result<Self, PropertyError>;

    /// The value as the command line has it; `None` if nothing is given.
    fn text(&self) -> Option<String>;

    /// Checks a value that came by another way than [`read`](Self::read).
    fn check(&self, name: &str, range: &Range) -> Result<(), PropertyError> {
        let _ = (name, range);
        Ok(())
    }

    /// What the values are.
    fn form(range: &Range) -> Form;
}

impl<T: Quantity> Value for T {
    fn read(name: &str, text: &str, _: &Range) -> Result<T, PropertyError> {
        let invalid = |must| PropertyError::invalid(name, text, must);
        text.parse().map_err(invalid)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn form(_: &Range) -> Form {
        Form {
            json: match T::NUMBER {
                Some(_) => "integer",
                None => "string",
            },
            is_list: false,
            unit: T::UNIT,
            range: T::NUMBER,
            choices: T::CHOICES,
            must: T::MUST.into(),
        }
    }
}

macro_rules! plain_numbers {
    ($($type:ty),*) => { $(
        impl Value for $type {
            fn read(name: &str, text: &str, range: &Range) -> Result<$type, PropertyError> {
                let number = range.read(name, text)?;
                number.try_into().map_err(|_| PropertyError::value(name, text, range.must()))
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn check(&self, name: &str, range: &Range) -> Result<(), PropertyError> {
                range.read(name, &self.to_string()).map(drop)
            }

            fn form(range: &Range) -> Form {
                Form {
                    json: "integer",
                    is_list: false,
                    unit: Some(range.unit).filter(|unit| !unit.is_empty()),
                    range: Some([range.least, range.most]),
                    choices: &[],
                    must: range.must(),
                }
            }
        }
    )* };
}
plain_numbers!(u16, u32);

impl<T: Value> Value for Option<T> {
    fn read(name: &str, text: &str, range: &Range) -> Result<Option<T>, PropertyError> {
        T::read(name, text, range).map(Some)
    }

    fn text(&self) -> Option<String> {
        self.as_ref().and_then(T::text)
    }

    fn check(&self, name: &str, range: &Range) -> Result<(), PropertyError> {
        let value = self.iter();
        value.map(|value| value.check(name, range)).collect()
    }

    fn form(range: &Range) -> Form {
        T::form(range)
    }
}

macro_rules! lists {
    ($($list:ident: $($bound:ident)?),*) => { $(
        impl<T: Quantity $(+ $bound)?> Value for $list<T> {
            fn read(name: &str, text: &str, range: &Range) -> Result<$list<T>, PropertyError> {
                let list: $list<T> =
                    parts(text).map(|part| T::read(name, part, range)).collect::<Result<_, _>>()?;
                check_length(name, text, list.len())?;
                Ok(list)
            }

            fn text(&self) -> Option<String> {
                joined(self)
            }

            fn check(&self, name: &str, _: &Range) -> Result<(), PropertyError> {
                check_length(name, "…", self.len())
            }

            fn form(range: &Range) -> Form {
                Form { is_list: true, ..T::form(range) }
            }
        }
    )* };
}
lists!(Vec:, BTreeSet: Ord);

/// What CPUs are, as the command line has them.
const CPUS: &str = "CPUs are numbers or ranges, as in 0+2 or 1-3";

/// CPUs: `0`, `0+2`, `1-3`.
impl Value for Vec<u16> {
    fn read(name: &str, text: &str, _: &Range) -> Result<Vec<u16>, PropertyError> {
        let invalid = || PropertyError::value(name, text, CPUS);
        let mut cpus = BTreeSet::new();
        for part in parts(text) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u16 = first.parse().map_err(|_| invalid())?;
            let last: u16 = last.parse().map_err(|_| invalid())?;
            if first > last || usize::from(last - first) >= LIST_MAX {
                return Err(invalid());
            }
            cpus.extend(first..=last);
        }
        check_length(name, text, cpus.len())?;
        Ok(cpus.into_iter().collect())
    }

    fn text(&self) -> Option<String> {
        joined(self)
    }

    fn check(&self, name: &str, _: &Range) -> Result<(), PropertyError> {
        check_length(name, "…", self.len())
    }

    fn form(_: &Range) -> Form {
        Form {
            json: "integer",
            is_list: true,
            unit: None,
            range: Some([0, u16::MAX.into()]),
            choices: &[],
            must: CPUS.into(),
        }
    }
}

/// The parts of a list as the command line has them; `None` if there are none.
pub(super) fn joined<'a, T: ToString + 'a>(
    parts: impl IntoIterator<Item = &'a T>,
) -> Option<String> {
    let texts: Vec<_> = parts.into_iter().map(T::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("+"))
}

fn check_length(name: &str, text: &str, length: usize) -> Result<(), PropertyError> {
    if length > LIST_MAX {
        let must = format!("it has at most {LIST_MAX} parts");
        return Err(PropertyError::value(name, text, must));
    }
    Ok(())
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

/// Declares a set of properties; see the [module](self).
macro_rules! properties {
    (
        $(#[$meta:meta])*
        pub struct $Set:ident $(, all by $whole:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $name:literal $(, default $usual:expr)? $(, in $range:expr)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $Set {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl Default for $Set {
            fn default() -> Self {
                $Set { $( $field: properties!(@usual $($usual)?), )+ }
            }
        }

        impl $Set {
            /// The properties' names, in the order in which they are shown.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The table of these properties.
            pub const ROWS: &'static [$crate::properties::table::Property<$Set>] = {
                use $crate::properties::table::{Property, Value};
                &[$( {
                    const RANGE: $crate::properties::table::Range = properties!(@range $($range)?);
                    Property {
                        name: $name,
                        doc: concat!($($doc),+),
                        form: || <$type as Value>::form(&RANGE),
                        set: |set, text| {
                            set.$field = <$type as Value>::read($name, text, &RANGE)?;
                            Ok(())
                        },
                        get: |set| Value::text(&set.$field),
                        reset: |set| set.$field = properties!(@usual $($usual)?),
                        check: |set| Value::check(&set.$field, $name, &RANGE),
                        default: || {
                            let usual: $type = properties!(@usual $($usual)?);
                            match Value::text(&usual) {
                                Some(_) => serde_json::json!(usual),
                                None => serde_json::Value::Null,
                            }
                        },
                    }
                } ),+]
            };

            /// Sets one property to a value as the command line has it. Whether all properties can
            /// be together is checked apart.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
                $crate::properties::table::set(Self::ROWS, self, name, value)
            }

            /// Sets the properties that `text` gives: `maxbw=100M,priority=high`. All or none.
            pub fn set_all(&mut self, text: &str) -> Result<(), PropertyError> {
                $crate::properties::table::set_all(Self::ROWS, self, text)
            }

            /// Gives one property its default.
            pub fn reset(&mut self, name: &str) -> Result<(), PropertyError> {
                $crate::properties::table::reset(Self::ROWS, self, name)
            }

            /// The value of one property as the command line has it; `None` if it has none, or there
            /// is no such property.
            pub fn get(&self, name: &str) -> Option<String> {
                $crate::properties::table::get(Self::ROWS, self, name)
            }

            /// Names and values of the properties that differ from their defaults.
            pub fn given(&self) -> impl Iterator<Item = (&'static str, String)> {
                $crate::properties::table::given(Self::ROWS, self)
            }

            /// The JSON schema of the properties in messages and files.
            pub fn schema() -> serde_json::Value {
                $crate::properties::table::schema(Self::ROWS)
            }

            /// The properties for the help of a command: two lines each.
            pub fn help() -> String {
                $crate::properties::table::help(Self::ROWS)
            }

            /// The properties as a table for the documentation.
            pub fn markdown() -> String {
                $crate::properties::table::markdown(Self::ROWS)
            }

            /// Serializes the properties with those that have their default, which the usual form
            /// leaves out.
            pub fn serialize_whole<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use $crate::properties::table::Value;
                self.serialize_if(to, [$(Value::text(&self.$field).is_some()),+])
            }

            fn serialize_if<S: serde::Serializer>(
                &self,
                to: S,
                fields: [bool; Self::NAMES.len()],
            ) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let count = fields.iter().filter(|is_shown| **is_shown).count();
                let mut to = to.serialize_struct(stringify!($Set), count)?;
                let mut fields = fields.into_iter();
                $(
                    match fields.next() {
                        Some(true) => to.serialize_field($name, &self.$field)?,
                        _ => to.skip_field($name)?,
                    }
                )+
                to.end()
            }
        }

        impl serde::Serialize for $Set {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let usual = Self::default();
                self.serialize_if(to, [$(self.$field != usual.$field),+])
            }
        }

        impl<'de> serde::Deserialize<'de> for $Set {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                use serde::de::{Error, MapAccess};
                struct Visitor;
                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = $Set;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("properties by their names")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$Set, A::Error> {
                        let mut set = $Set::default();
                        let mut seen = Vec::new();
                        while let Some(name) = map.next_key::<String>()? {
                            if seen.contains(&name) {
                                return Err(A::Error::custom(PropertyError::Twice(name)));
                            }
                            match name.as_str() {
                                $( $name => set.$field = map.next_value()?, )+
                                other => return Err(A::Error::unknown_field(other, &$Set::NAMES)),
                            }
                            seen.push(name);
                        }
                        Ok(set)
                    }
                }
                from.deserialize_struct(stringify!($Set), &Self::NAMES, Visitor)
            }
        }

        impl std::str::FromStr for $Set {
            type Err = PropertyError;

            fn from_str(text: &str) -> Result<Self, PropertyError> {
                let mut properties = Self::default();
                properties.set_all(text)?;
                $( properties.$whole()?; )?
                Ok(properties)
            }
        }

        /// As the command line has it; properties that have their default are left out.
        impl std::fmt::Display for $Set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut comma = "";
                for (name, value) in self.given() {
                    write!(f, "{comma}{name}={value}")?;
                    comma = ",";
                }
                Ok(())
            }
        }
    };
    (@usual) => { Default::default() };
    (@usual $usual:expr) => { $usual };
    (@range) => { $crate::properties::table::Range::OF_TYPE };
    (@range $range:expr) => { $range };
}
pub(super) use properties;
