//! The macro that declares a set of properties.
//!
//! A row is the sentence that describes the property, its field, its type, its name, and where the
//! type does not say so its default and its range. A new property is a row, and the code that obeys
//! it. The code that all sets share is in [`table`](super::table).

/// Declares a set of properties, a row for each.
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
                use $crate::properties::{table::Property, values::Value};
                &[$( {
                    const RANGE: $crate::properties::values::Range = properties!(@range $($range)?);
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

            /// The value of one property as the command line has it; `None` if it has none, or
            /// there is no such property.
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

            /// Serializes all properties, also the ones at their default, which the usual form
            /// leaves out.
            pub fn serialize_whole<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use $crate::properties::values::Value;
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
    (@range) => { $crate::properties::values::Range::OF_TYPE };
    (@range $range:expr) => { $range };
}
pub(super) use properties;
