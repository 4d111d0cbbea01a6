//! Untrusted JSON: no field of an object twice, and a bounded number of values.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};

/// Most values in a body: one takes up to a hundred bytes of memory, and may be one byte of JSON.
const VALUES_MAX: usize = 1 << 18;

/// The value that a body stands for.
pub fn parse(bytes: &[u8]) -> Result<Value> {
    let checked = Checked {
        left: Cell::new(VALUES_MAX),
        twice: RefCell::default(),
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = checked.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| Error {
        field: checked.twice.take(),
        ..Error::invalid(format_args!("the request's body cannot be parsed: {error}"))
    })
}

/// The state of the check while a body is parsed.
struct Checked {
    /// Values that may come.
    left: Cell<usize>,
    /// The path of the field that was given twice.
    twice: RefCell<Option<String>>,
}

impl Checked {
    /// The field that was given twice is in what this one holds.
    fn is_in(&self, outer: &str) {
        if let Some(field) = &mut *self.twice.borrow_mut() {
            let dot = if field.starts_with('[') { "" } else { "." };
            *field = format!("{outer}{dot}{field}");
        }
    }

    fn count<E: serde::de::Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1);
        let too_many = || E::custom(format_args!("it has more than {VALUES_MAX} values"));
        self.left.set(left.ok_or_else(too_many)?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &Checked {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Checked {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let value = list.next_element_seed(self);
            let value = value.inspect_err(|_| self.is_in(&format!("[{}]", values.len())));
            let Some(value) = value? else {
                break;
            };
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            if fields.contains_key(&name) {
                let error = A::Error::custom(format_args!("the field `{name}` is given twice"));
                self.twice.replace(Some(name));
                return Err(error);
            }
            let value = object.next_value_seed(self);
            let value = value.inspect_err(|_| self.is_in(&name))?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_that_is_given_twice_is_named() {
        for (text, field) in [
            (r#"{"name": "a", "name": "b"}"#, "name"),
            (
                r#"{"x": [0, {"name": 1, "y": 2, "n\u0061me": 3}]}"#,
                "x[1].name",
            ),
            (r#"{"x": {"y": {"name": 1, "name": 3}}}"#, "x.y.name"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
            assert!(error.error.contains("`name` is given twice"), "{error}");
        }
    }

    #[test]
    fn many_values_in_few_bytes_are_refused() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values - 1));
        assert!(parse(list(VALUES_MAX - 1).as_bytes()).is_ok());
        let error = parse(list(VALUES_MAX).as_bytes()).unwrap_err();
        assert!(error.error.contains("more than 262144 values"), "{error}");
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json(bytes in "[\\[\\]{}\",:0-9a-z .\\\\-]{0,60}") {
            let ours = parse(bytes.as_bytes()).ok();
            let theirs = serde_json::from_str::<Value>(&bytes).ok();
            // It takes the last of two fields of one name.
            prop_assert!(ours == theirs || ours.is_none());
        }

        #[test]
        fn it_reads_what_serde_json_writes(
            name in ".{0,9}", text in ".{0,20}", number in any::<i64>(), real in any::<f64>(), flag in any::<bool>(),
        ) {
            let value = serde_json::json!({ name: [text, number, real, flag, null, { "a": {} }] });
            let written = value.to_string();
            prop_assert_eq!(parse(written.as_bytes()).unwrap(), serde_json::from_str::<Value>(&written).unwrap());
        }
    }
}
