//! A resource: a name, a specification (the desired state) and a status (the observed state).

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{AnyOfBuilder, Object as Fields, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{Error, Result};

/// What can be done with a resource of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Lists all.
    List,
    /// Shows one.
    Show,
    /// Creates one.
    Create,
    /// Creates one or changes it to the given specification.
    Put,
    /// Changes some fields.
    Patch,
    /// Removes one.
    Delete,
}

/// The specification of a resource. The API, the store, wire files, the client and the commands use
/// this one type; everything else about the resource follows from here.
pub trait Spec:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + ToSchema + Send + 'static
{
    /// What the node reports beside it.
    type Status: Clone
        + fmt::Debug
        + Default
        + Serialize
        + DeserializeOwned
        + ToSchema
        + Send
        + 'static;
    /// The collection in the API's paths: `vnics` for `/v1/vnics`.
    const PATH: &'static str;
    /// The resource in operation names.
    const NOUN: &'static str;
    /// The resource in sentences, with its article, and several of them.
    const CALLED: [&'static str; 2];
    /// What can be done with it.
    const VERBS: &'static [Verb] = &[
        Verb::List,
        Verb::Show,
        Verb::Create,
        Verb::Put,
        Verb::Patch,
        Verb::Delete,
    ];
    /// The fields that can change; all, if none is named.
    const CHANGEABLE: &'static [&'static str] = &[];
    /// Whether configurations are a part of it, which may be long.
    const HAS_CONFIG: bool = false;
    /// What a reader of the API should know of a verb.
    fn note(_verb: Verb) -> &'static str {
        ""
    }
    /// One as the API shows it.
    fn example() -> Object<Self>;
    /// Completes a merge patch by what follows from its fields.
    fn complete(_patch: &mut Map<String, Value>) {}
    /// Whether a merge patch of the resource of this name removes only what is there.
    fn check_patch(&self, _name: &str, _patch: &Map<String, Value>) -> Result<()> {
        Ok(())
    }
    /// Leaves out of a list what is long.
    fn shorten(&mut self) {}
}

/// Something that the store keeps, as JSON under its key.
pub trait Record: Serialize + DeserializeOwned {
    /// The name of its table.
    const TABLE: &'static str;
    /// Its key.
    fn key(&self) -> &str;
}

/// Has records be kept under their names; one with a specification is used as that.
macro_rules! record {
    ($record:ty: $table:literal $(, $spec:ty)?) => {
        impl $crate::model::Record for $record {
            const TABLE: &'static str = $table;
            fn key(&self) -> &str {
                &self.name
            }
        }
        $(
            impl std::ops::Deref for $record {
                type Target = $spec;
                fn deref(&self) -> &$spec {
                    &self.spec
                }
            }
            impl std::ops::DerefMut for $record {
                fn deref_mut(&mut self) -> &mut $spec {
                    &mut self.spec
                }
            }
        )?
    };
}
pub(super) use record;

/// A resource as the API has it: the specification's fields, `name` and `status`. In a request, the
/// status is ignored, so that an answer can be sent back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Object<S: Spec> {
    /// Its name.
    pub name: String,
    /// The specification.
    #[serde(flatten)]
    pub spec: S,
    /// What is.
    pub status: S::Status,
}

impl<S: Spec> Object<S> {
    /// One as a request has it.
    pub fn new(name: impl Into<String>, spec: S) -> Object<S> {
        Object {
            name: name.into(),
            spec,
            status: S::Status::default(),
        }
    }
}

impl<S: Spec> Object<S> {
    /// One as a request has it, whose status is ignored. Its name may be in the path alone.
    pub fn from_request(body: Value) -> Result<Object<S>> {
        let mut fields: Map<String, Value> = parsed(body)?;
        if let Some(status) = fields.remove("status") {
            check_status::<S>(status)?;
        }
        let name = name_of(&mut fields)?;
        let spec = parsed(Value::Object(fields)).map_err(ranged::<S>)?;
        Ok(Object::new(name, spec))
    }
}

/// The name in a request's fields, which is taken out; empty, if it is in the path alone.
pub fn name_of(fields: &mut Map<String, Value>) -> Result<String> {
    match fields.remove("name") {
        None => Ok(String::new()),
        Some(Value::String(name)) => Ok(name),
        Some(_) => Err(Error::invalid("`name` is invalid: a text is expected").of_field("name")),
    }
}

/// Whether a request's status, which is ignored, is one all the same: a text in its place is a slip.
pub fn check_status<S: Spec>(status: Value) -> Result<()> {
    let parsed = parsed::<S::Status>(status);
    parsed.map(drop).map_err(|error| Error {
        field: Some("status".into()),
        ..Error::invalid(format_args!(
            "in `status`: {}",
            error
                .error
                .trim_start_matches("the request's body cannot be parsed: ")
        ))
    })
}

/// `S` denies unknown fields, which serde's `flatten` cannot do for it.
impl<'de, S: Spec> Deserialize<'de> for Object<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let name = match fields.remove("name") {
            Some(Value::String(name)) => name,
            Some(_) => return Err(D::Error::custom("the field `name` is a text")),
            None => return Err(D::Error::missing_field("name")),
        };
        let status = match fields.remove("status") {
            None | Some(Value::Null) => S::Status::default(),
            Some(status) => serde_json::from_value(status)
                .map_err(|error| D::Error::custom(format_args!("in `status`: {error}")))?,
        };
        let spec = S::deserialize(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Object { name, spec, status })
    }
}

impl<S: Spec> PartialSchema for Object<S> {
    /// All fields in one object: `S` permits no others, so that no composition could add any.
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Its name."));
        let mut all = match S::schema() {
            RefOr::T(Schema::Object(fields)) => fields,
            _ => Fields::default(),
        };
        let status = Ref::from_schema_name(S::Status::name());
        all.properties.insert("name".into(), RefOr::T(name.into()));
        all.properties.insert("status".into(), status.into());
        all.required.push("name".into());
        RefOr::T(all.into())
    }
}

impl<S: Spec> ToSchema for Object<S> {
    fn name() -> Cow<'static, str> {
        format!("{}Object", S::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        S::schemas(schemas);
        schemas.push((S::Status::name().into(), S::Status::schema()));
        S::Status::schemas(schemas);
    }
}

impl<S: Spec> Object<S> {
    /// The schema of a request whose path has the name, which its body may leave out.
    pub fn unnamed_schema() -> RefOr<Schema> {
        let mut unnamed = Self::schema();
        if let RefOr::T(Schema::Object(fields)) = &mut unnamed {
            fields.required.retain(|name| name != "name");
        }
        let named = Ref::from_schema_name(Self::name());
        let either = AnyOfBuilder::new().item(named).item(unnamed);
        RefOr::T(either.build().into())
    }
}

/// Changes a specification as a JSON merge patch (RFC 7396) says: a field that is null is as if it
/// had never been given.
pub fn patched<S: Spec>(spec: &S, patch: &Value) -> Result<S> {
    check_removed::<S>(patch)?;
    let mut fields = serde_json::to_value(spec).map_err(Error::failed)?;
    merge(&mut fields, patch);
    parsed(fields).map_err(ranged::<S>)
}

/// An error about a number that its type has no room for, with the range that the schema of `S` gives.
fn ranged<S: Spec>(error: Error) -> Error {
    let Some((number, _)) = error.error.split_once(OUT_OF_RANGE) else {
        return error;
    };
    match error.field.as_deref().and_then(range::<S>) {
        Some((least, most)) => Error {
            error: format!("{number}{OUT_OF_RANGE}{least} to {most} is expected"),
            ..error
        },
        None => error,
    }
}

/// What an error says between a number and its range.
const OUT_OF_RANGE: &str = " is out of range: a whole number from ";

/// The least and the most that the schema of `S` gives for the field with this path.
fn range<S: Spec>(path: &str) -> Option<(Value, Value)> {
    let mut schemas = Vec::new();
    S::schemas(&mut schemas);
    let resolved = |schema: Value| {
        let name = schema["$ref"].as_str()?.rsplit('/').next()?.to_string();
        let (_, there) = schemas.iter().find(|(it, _)| *it == name)?;
        serde_json::to_value(there).ok()
    };
    let mut schema = serde_json::to_value(S::schema()).ok()?;
    for name in path.split('.') {
        let name = name.split('[').next().unwrap_or_default();
        // What may be null is either that or what another schema says.
        let either = schema["oneOf"].as_array().cloned();
        let all = either.unwrap_or_else(|| vec![schema.clone()]).into_iter();
        let mut all = all.map(|it| resolved(it.clone()).unwrap_or(it));
        schema = all.find_map(|it| it["properties"].get(name).cloned())?;
    }
    let [least, most] = ["minimum", "maximum"].map(|it| schema[it].clone());
    (least.is_number() && most.is_number()).then_some((least, most))
}

/// The value that a request's JSON stands for; an error names the field.
pub fn parsed<T: DeserializeOwned>(json: Value) -> Result<T> {
    parsed_from(json, "body")
}

/// The value that a `part` of a request stands for; an error names the field.
pub(crate) fn parsed_from<'de, T, D>(from: D, part: &str) -> Result<T>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    serde_path_to_error::deserialize(from).map_err(|error| {
        let path = error.path().to_string();
        let path = path.trim_matches(['.', '?']);
        let error = error.into_inner().to_string();
        if let Some((what, name)) = of_a_field(&error) {
            let field = match path {
                "" => name.to_string(),
                // Of what may be one of several things, the path is that of the field itself.
                path if path == name || path.ends_with(&format!(".{name}")) => path.into(),
                path => format!("{path}.{name}"),
            };
            let error = match what {
                "missing" => format!("`{field}` is missing"),
                "unknown" => {
                    let known = error.split_once(", expected ").map_or("none", |(_, it)| it);
                    let known = known.trim_start_matches("one of ");
                    format!("unknown field `{field}`: there is {known}")
                }
                _ => format!("`{field}` is given twice: give it once"),
            };
            return Error::invalid(error).of_field(&field);
        }
        let error = match (error.as_str(), path) {
            ("invalid IP address syntax", path) if path.starts_with("addresses") => {
                "an address with its prefix length is expected, as in 10.0.0.2/24".into()
            }
            ("invalid IP address syntax", _) => "an IP address is expected, as in 192.0.2.2".into(),
            _ => plain(&error),
        };
        match path {
            "" => Error::invalid(format_args!(
                "the request's {part} cannot be parsed: {error}"
            )),
            field => Error::invalid(format_args!("`{field}` is invalid: {error}")).of_field(field),
        }
    })
}

/// The field that is the subject of an error of serde, and what it is: `unknown`, `missing`, `duplicate`.
fn of_a_field(error: &str) -> Option<(&str, &str)> {
    let (what, rest) = error.split_once(" field `")?;
    ["unknown", "missing", "duplicate"]
        .contains(&what)
        .then_some(())?;
    Some((what, rest.split('`').next()?))
}

/// What serde calls the types of values, and what users of JSON do.
const TYPES: [(&str, &str); 18] = [
    ("usize", "a whole number"),
    ("u8", "a whole number"),
    ("u16", "a whole number"),
    ("u32", "a whole number"),
    ("u64", "a whole number"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "a text"),
    ("path string", "a text"),
    ("borrowed string", "a text"),
    ("a sequence", "a list"),
    ("a map", "an object"),
    ("string or map", "a text"),
    ("map with a single key", "a text"),
    ("internally tagged enum", "an object"),
    ("unit", "null"),
    (
        "properties by their names",
        "an object of properties by their names",
    ),
];

/// What serde calls a value, as users of JSON do.
fn value(given: &str) -> String {
    let beginnings = [
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let found = beginnings.iter().find_map(|(beginning, plain)| {
        let rest = given.strip_prefix(beginning)?;
        Some(format!("{plain}{}", rest.trim_matches('`')))
    });
    found.unwrap_or_else(|| match given {
        "map" => "an object".into(),
        "sequence" => "a list".into(),
        "null" | "unit value" => "null".into(),
        "unit variant" => "its name alone".into(),
        other => other.into(),
    })
}

/// What is wrong with a whole number that its type has no room for, or a list of another length.
fn out_of_range(error: &str) -> Option<String> {
    if let Some(rest) = error.strip_prefix("invalid length ") {
        if rest.contains(", expected struct ") {
            return Some("an object is expected, not a list".into());
        }
        let (given, wanted) = rest.split_once(", expected an array of length ")?;
        return Some(format!("{wanted} elements are expected, not {given}"));
    }
    let rest = error.strip_prefix("invalid value: integer `")?;
    let (given, wanted) = rest.split_once("`, expected ")?;
    let most = match wanted {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX,
        "u64" | "usize" => return Some(format!("{given}{OUT_OF_RANGE}0 on is expected")),
        _ => return None,
    };
    Some(format!("{given}{OUT_OF_RANGE}0 to {most} is expected"))
}

/// What is wrong with a value, without the words of a programming language.
pub(crate) fn plain(error: &str) -> String {
    if let Some(range) = out_of_range(error) {
        return range;
    }
    let given = error
        .strip_prefix("invalid type: ")
        .or_else(|| error.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((given, wanted)) = given {
        let known = TYPES.iter().find(|(name, _)| *name == wanted);
        let wanted = match known {
            Some((_, plain)) => plain,
            None if wanted.starts_with("struct ") => "an object",
            None => wanted,
        };
        return format!("{wanted} is expected, not {}", value(given));
    }
    if error.starts_with("invalid digit found") || error.starts_with("cannot parse integer") {
        return "a whole number is expected".into();
    }
    if error.starts_with("number too large") {
        return "the number is too large".into();
    }
    if error.starts_with("provided string was not `true` or `false`") {
        return "true or false is expected".into();
    }
    if error == "invalid socket address syntax" {
        return "ADDRESS:PORT is expected, as in 192.0.2.1:6640".into();
    }
    let parts = error
        .strip_prefix("unknown variant `")
        .and_then(|rest| rest.split_once("`, expected "));
    match parts {
        Some((given, known)) => {
            let known = known.trim_start_matches("one of ");
            format!("‘{given}’ is none of {known}")
        }
        None => error.into(),
    }
}

/// Refuses a field that a patch removes and that there cannot be: merged, it leaves no trace.
fn check_removed<S: Spec>(patch: &Value) -> Result<()> {
    let mut schemas = Vec::new();
    S::schemas(&mut schemas);
    match unknown(&S::schema(), &schemas, patch) {
        None => Ok(()),
        Some((field, known)) => {
            let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            let known = known.join(", ");
            Err(Error::invalid(format_args!(
                "`{field}` is invalid: there is no such field, but {known}"
            ))
            .of_field(&field))
        }
    }
}

/// The path of a null that is no field of what a schema describes, and the fields that there are.
fn unknown(
    schema: &RefOr<Schema>,
    schemas: &[(String, RefOr<Schema>)],
    patch: &Value,
) -> Option<(String, Vec<String>)> {
    let named = |to: &Ref| {
        let name = to.ref_location.rsplit('/').next();
        let found = schemas.iter().find(|(it, _)| Some(it.as_str()) == name);
        found.map(|(_, schema)| schema)
    };
    let schema = match schema {
        RefOr::Ref(to) => return unknown(named(to)?, schemas, patch),
        RefOr::T(schema) => schema,
    };
    let fields = match schema {
        Schema::Object(fields) if !fields.properties.is_empty() => &fields.properties,
        // A field that may be null is either that or what another schema says.
        Schema::OneOf(either) => {
            let mut found = either.items.iter();
            return found.find_map(|item| unknown(item, schemas, patch));
        }
        _ => return None,
    };
    patch
        .as_object()?
        .iter()
        .find_map(|(name, value)| match (fields.get(name), value) {
            (None, Value::Null) => Some((name.clone(), fields.keys().cloned().collect())),
            (Some(field), Value::Object(_)) => {
                let (path, known) = unknown(field, schemas, value)?;
                Some((format!("{name}.{path}"), known))
            }
            _ => None,
        })
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// Whether a field is as it would be if it were not given.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Vnic;

    #[test]
    fn a_value_that_is_none_of_those_known_is_told_plainly() {
        let wrong = json!({"config": "Idle;", "restart": "sometimes"});
        let error = parsed::<crate::model::Guest>(wrong).unwrap_err();
        assert_eq!(
            error.error,
            "`restart` is invalid: ‘sometimes’ is none of `always`, `on-failure`, `never`"
        );
        let wrong = json!({"config": "Idle;", "cpus": "two"});
        let error = parsed::<crate::model::Guest>(wrong).unwrap_err();
        assert_eq!(
            error.error,
            "`cpus` is invalid: a whole number is expected, not the text \"two\""
        );
    }

    #[test]
    fn an_answer_can_be_sent_back_and_unknown_fields_cannot() {
        let vnic = Vnic::example();
        let text = serde_json::to_string(&vnic).unwrap();
        assert_eq!(serde_json::from_str::<Object<Vnic>>(&text).unwrap(), vnic);
        let wrong = |value: Value| {
            let error = serde_json::from_value::<Object<Vnic>>(value).unwrap_err();
            error.to_string()
        };
        assert_eq!(wrong(json!({"link": "lan"})), "missing field `name`");
        assert_eq!(wrong(json!({"name": "a"})), "missing field `link`");
        let unknown = wrong(json!({"name": "a", "link": "lan", "maxbw": "1G"}));
        assert!(unknown.starts_with("unknown field `maxbw`"), "{unknown}");
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_resets() {
        let mut vnic = Vnic::example().spec;
        vnic.properties = "maxbw=1G,share=7".parse().unwrap();
        let patch = json!({"properties": {"maxbw": null, "delay": "2ms"}});
        let changed = patched(&vnic, &patch).unwrap();
        assert_eq!(changed.properties.to_string(), "share=7,delay=2ms");
        assert_eq!(changed.link, vnic.link);
        assert!(patched(&vnic, &json!({"properties": {"speed": 1}})).is_err());
    }
}
