//! The types of properties: parsing, output, checks and descriptions of their values.

use std::collections::BTreeSet;

use serde_json::json;

use super::LIST_MAX;
use super::quantity::Quantity;
use super::text::{PropertyError, parts};

/// What the values of a property are.
pub struct ValueType {
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

impl ValueType {
    /// What a value must be, as words that stand by themselves.
    pub fn values(&self) -> &str {
        let must = &self.must;
        let verbs = [" is ", " are "].into_iter();
        let cut = verbs.filter_map(|verb| must.split_once(verb)).next();
        cut.map_or(must, |(_, values)| values)
    }

    /// Its JSON schema.
    pub(super) fn schema(&self) -> serde_json::Value {
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
    fn form(range: &Range) -> ValueType;
}

impl<T: Quantity> Value for T {
    fn read(name: &str, text: &str, _: &Range) -> Result<T, PropertyError> {
        let invalid = |must| PropertyError::invalid(name, text, must);
        text.parse().map_err(invalid)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn form(_: &Range) -> ValueType {
        ValueType {
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

            fn form(range: &Range) -> ValueType {
                ValueType {
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
        let mut value = self.iter();
        value.try_for_each(|value| value.check(name, range))
    }

    fn form(range: &Range) -> ValueType {
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

            fn form(range: &Range) -> ValueType {
                ValueType { is_list: true, ..T::form(range) }
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

    fn form(_: &Range) -> ValueType {
        ValueType {
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
