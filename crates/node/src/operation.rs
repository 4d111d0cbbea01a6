//! Operations of the API, each declared once: the server's route, the description and the client
//! follow from the declaration.

pub mod others;

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{OpenApi, Ref, RefOr, Required, ResponseBuilder};

use crate::config::Role;
use crate::error::{Error, FIELD_NOT_FOUND, Kind, Result};
use crate::model::{Object, Selection, Spec, Verb, parsed, parsed_from};
use serde_json::Value;

/// The method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Reads.
    Get,
    /// Makes something, or asks for something to be done.
    Post,
    /// Creates a resource, or changes it to the body's specification.
    Put,
    /// Changes some fields.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// Its name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    fn described(self) -> HttpMethod {
        match self {
            Method::Get => HttpMethod::Get,
            Method::Post => HttpMethod::Post,
            Method::Put => HttpMethod::Put,
            Method::Patch => HttpMethod::Patch,
            Method::Delete => HttpMethod::Delete,
        }
    }
}

/// Longest body of most requests, in bytes.
pub const BODY: usize = 1 << 20;
/// Longest body of a request that bears configurations: one of the longest, or the file of a wire, with each of its
/// characters escaped.
pub const LONG_BODY: usize = 2 * abi::boot::CONFIG_MAX + (64 << 10);

/// A body or an answer of an operation; `()` if there is none.
pub trait Payload: Serialize + DeserializeOwned + Send + 'static {
    /// Its longest form as a request's body, in bytes.
    const BODY: usize = BODY;

    /// Its schema; none, if there is nothing.
    fn described(_api: &mut OpenApi) -> Option<RefOr<Schema>>;

    /// The schema of it as a body of a request whose path names its resource.
    fn described_unnamed(api: &mut OpenApi) -> Option<RefOr<Schema>> {
        Self::described(api)
    }

    /// The schema of the query that it is, in an operation that only reads; none, if it is none.
    fn query() -> Option<RefOr<Schema>> {
        None
    }

    /// Its subject beside the path, for the record of changes.
    fn subject(&self) -> String {
        String::new()
    }

    /// Parses a request's body; an error names the field.
    fn parse(body: Value) -> Result<Self> {
        parsed(body)
    }
}

impl Payload for () {
    fn described(_: &mut OpenApi) -> Option<RefOr<Schema>> {
        None
    }
}

impl Payload for serde_json::Value {
    fn described(_: &mut OpenApi) -> Option<RefOr<Schema>> {
        Some(ObjectBuilder::new().schema_type(Type::Object).into())
    }
}

impl<T: ToSchema + Serialize + DeserializeOwned + Send + 'static> Payload for Vec<T> {
    fn described(api: &mut OpenApi) -> Option<RefOr<Schema>> {
        add_schema::<T>(api);
        let items = Ref::from_schema_name(T::name());
        let array = utoipa::openapi::schema::ArrayBuilder::new().items(items);
        Some(array.into())
    }
}

/// Makes types bodies and answers, described by their schemas, with a limit on their bodies'
/// length.
macro_rules! payloads {
    ($most:expr => $($type:ty $(: $subject:expr)?),* $(,)?) => { $(
        impl Payload for $type {
            const BODY: usize = $most;

            $(fn subject(&self) -> String {
                let subject: fn(&$type) -> String = $subject;
                subject(self)
            })?

            fn described(api: &mut OpenApi) -> Option<RefOr<Schema>> {
                add_schema::<$type>(api);
                Some(Ref::from_schema_name(<$type>::name()).into())
            }
        }
    )* };
}
payloads!(
    BODY =>
    crate::model::NodeStatus,
    crate::model::Purge,
    crate::model::HandlerRead,
    crate::model::HandlerValue,
    crate::model::GuestAction: |it| format!("{:?} {}", it.action, few(&it.guests)).to_lowercase(),
    crate::model::Rename: |it| it.name.clone(),
    crate::model::Save: |it| it.file.display().to_string(),
    crate::model::Saved,
    crate::model::Restore: |it| it.file.display().to_string(),
    crate::model::Clones: |it| it.name.clone(),
    crate::model::Migrate: |it| it.to.clone(),
    crate::model::Migrated,
    crate::model::CrashReport,
    crate::model::Entry,
    crate::model::PortStats,
    crate::model::FlowStats,
    crate::model::WireChange,
    crate::model::Admission: |it| it.name.clone(),
    crate::model::Admitted,
    crate::model::SocketTrace,
);

payloads!(
    LONG_BODY =>
    crate::model::Configuration: |it| it.file.as_ref().map_or_else(String::new, |file| file.display().to_string()),
    crate::model::HandlerWrite: |it| it.handler.clone(),
    crate::model::GuestSeries: |it| format!("{} × {}", it.count, it.name),
);

/// Names for the record of changes, the first ones if there are many.
fn few(names: &[String]) -> String {
    const MOST: usize = 10;
    let first = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Makes types queries: each field is a parameter.
macro_rules! queries {
    ($($type:ty),* $(,)?) => { $(
        impl Payload for $type {
            fn described(_: &mut OpenApi) -> Option<RefOr<Schema>> {
                None
            }

            fn query() -> Option<RefOr<Schema>> {
                Some(<$type as utoipa::PartialSchema>::schema())
            }
        }
    )* };
}
queries!(
    Selection,
    crate::model::LogQuery,
    crate::model::LogsQuery,
    crate::model::CrashesQuery,
    crate::model::EventsQuery,
    crate::model::TraceQuery,
);

impl<S: Spec> Payload for Object<S> {
    const BODY: usize = if S::HAS_CONFIG { LONG_BODY } else { BODY };

    fn subject(&self) -> String {
        self.name.clone()
    }

    fn parse(body: Value) -> Result<Self> {
        Object::from_request(body)
    }

    fn described(api: &mut OpenApi) -> Option<RefOr<Schema>> {
        add_schema::<Object<S>>(api);
        Some(Ref::from_schema_name(Object::<S>::name()).into())
    }

    fn described_unnamed(api: &mut OpenApi) -> Option<RefOr<Schema>> {
        add_schema::<Object<S>>(api);
        Some(Object::<S>::unnamed_schema())
    }
}

fn add_schema<T: ToSchema>(api: &mut OpenApi) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    let components = api.components.get_or_insert_default();
    components.schemas.extend(schemas);
}

/// A body as a client sends it: how a resource is, it does not say.
pub(crate) fn asked<B: Serialize>(body: &B) -> serde_json::Result<Value> {
    let mut body = serde_json::to_value(body)?;
    if let Some(fields) = body.as_object_mut() {
        fields.remove("status");
    }
    Ok(body)
}

/// What a parameter of a path is.
fn described(path: &str, parameter: &str) -> String {
    let of = path.split('/').nth(2).unwrap_or_default();
    match (parameter, of) {
        ("configuration", _) => "The configuration's name.".into(),
        ("flow", _) => "The flow, as the list of entries has it.".into(),
        ("name", "stats") => "The link's or VNIC's name.".into(),
        ("name", "flow-stats") => "The flow's name.".into(),
        ("name", "crashes") => "The report's number, or a guest's name or pattern.".into(),
        ("name", "nsms") => "The NSM's name.".into(),
        ("name", "vnics") => "The VNIC's name.".into(),
        ("name", "switches") => "The link's or stub's name.".into(),
        ("name", plural) => format!("The {}'s name.", plural.strip_suffix('s').unwrap_or(plural)),
        (parameter, _) => format!("The {parameter}."),
    }
}

/// An operation without parameters was given some.
pub(crate) fn no_parameters(query: &str) -> Error {
    let name = query.split(['=', '&']).next().unwrap_or_default();
    Error::invalid(format_args!(
        "unknown parameter `{name}`: the operation takes none in its query"
    ))
    .of_field(name)
}

/// An operation with a body `B` (or, if it only reads, a query) and an answer `T`.
pub struct Operation<B, T> {
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: String,
    /// Its name.
    pub id: String,
    /// Its description, one sentence.
    pub summary: String,
    /// The HTTP status of its answer.
    pub status: u16,
    /// The kinds of errors that it answers with, beside the common ones.
    pub errors: Vec<Kind>,
    /// An example of its body, if it has one.
    pub body: B,
    /// The longest body, in bytes.
    pub longest: usize,
    /// An example of its answer.
    pub answer: T,
    payloads: PhantomData<(B, T)>,
}

/// Every operation may answer so.
const ALWAYS: [Kind; 4] = [
    Kind::Invalid,
    Kind::Forbidden,
    Kind::Unavailable,
    Kind::Failed,
];

/// One that has a body may answer so, too.
const OF_BODIES: [Kind; 3] = [Kind::Late, Kind::TooLarge, Kind::NotJson];

impl<B: Payload, T: Payload> Operation<B, T> {
    /// An operation.
    pub fn new(
        (method, path): (Method, &str),
        (id, summary): (&str, &str),
        errors: &[Kind],
        body: B,
        answer: T,
    ) -> Operation<B, T> {
        let has_answer = !serde_json::to_value(&answer).is_ok_and(|it| it.is_null());
        let mut operation = Operation {
            method,
            path: path.into(),
            id: id.into(),
            summary: summary.into(),
            status: if has_answer { 200 } else { 204 },
            errors: errors.iter().copied().chain(ALWAYS).collect(),
            body,
            longest: B::BODY,
            answer,
            payloads: PhantomData,
        };
        if operation.has_body() {
            operation.errors.extend(OF_BODIES);
        }
        operation.errors.sort_unstable_by_key(|kind| kind.status());
        operation.errors.dedup();
        operation
    }

    fn creates(self) -> Operation<B, T> {
        Operation {
            status: 201,
            ..self
        }
    }

    /// Whether it has a body.
    pub fn has_body(&self) -> bool {
        B::query().is_none() && !serde_json::to_value(&self.body).is_ok_and(|it| it.is_null())
    }

    /// How its body looks, if that is short.
    pub fn example_text(&self) -> String {
        const LONG: usize = 100;
        let text = serde_json::to_string(&self.body).unwrap_or_default();
        if text.len() > LONG || text == "{}" {
            return "an object, {} at least".into();
        }
        format!("an object, as in {text}")
    }

    /// The least role that may ask for it.
    pub fn role(&self) -> Role {
        match (self.method, self.id.as_str()) {
            (Method::Get, _) | (_, "read-handler" | "compare-wire") => Role::ReadOnly,
            (_, "purge-node" | "end-unknown" | "forget-damaged") => Role::Admin,
            // They write and read any file of the host.
            (_, "save-guest" | "restore-guest") => Role::Admin,
            _ => Role::Operator,
        }
    }

    /// The names of the path's parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        let segments = self.path.split('/');
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Parses a request's query.
    pub fn parse_query(query: Option<&str>) -> Result<B> {
        if B::query().is_none() {
            if let Some(query) = query.filter(|it| !it.is_empty()) {
                return Err(no_parameters(query));
            }
            return serde_json::from_value(Value::Null).map_err(Error::failed);
        }
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        parsed_from(serde_urlencoded::Deserializer::new(pairs), "query")
    }

    /// The path of a request with a query.
    pub fn with_query(path: String, query: &B) -> Result<String> {
        if B::query().is_none() {
            return Ok(path);
        }
        let query = serde_urlencoded::to_string(query).map_err(Error::invalid)?;
        Ok(if query.is_empty() {
            path
        } else {
            path + "?" + &query
        })
    }

    /// The statuses of its errors, each with the kinds that have it.
    fn refusals(&self) -> BTreeMap<u16, Vec<Kind>> {
        let mut refusals = BTreeMap::<u16, Vec<Kind>>::new();
        for kind in &self.errors {
            refusals.entry(kind.status()).or_default().push(*kind);
        }
        let has_fields = match self.method {
            Method::Get => B::query().is_some(),
            Method::Delete => false,
            _ => true,
        };
        if has_fields && self.errors.contains(&Kind::NotFound) {
            let kinds = refusals.entry(FIELD_NOT_FOUND).or_default();
            kinds.push(Kind::NotFound);
        }
        refusals
    }

    /// Adds it to a description.
    pub fn describe(&self, api: &mut OpenApi) {
        let tag = self.path.split('/').nth(2).unwrap_or("node");
        let mut operation = OperationBuilder::new()
            .tag(tag)
            .operation_id(Some(self.id.clone()))
            .summary(Some(self.summary.clone()));
        for parameter in self.parameters() {
            let text = ObjectBuilder::new().schema_type(Type::String);
            operation = operation.parameter(
                ParameterBuilder::new()
                    .name(parameter)
                    .parameter_in(ParameterIn::Path)
                    .required(Required::True)
                    .description(Some(described(&self.path, parameter)))
                    .schema(Some(text)),
            );
        }
        let mut follows = false;
        if let Some(RefOr::T(Schema::Object(query))) = B::query() {
            follows = query.properties.contains_key("follow");
            for (name, schema) in query.properties {
                let required = query.required.contains(&name);
                let description = match &schema {
                    RefOr::T(Schema::Object(schema)) => schema.description.clone(),
                    _ => None,
                };
                operation = operation.parameter(
                    ParameterBuilder::new()
                        .name(name)
                        .parameter_in(ParameterIn::Query)
                        .required(if required {
                            Required::True
                        } else {
                            Required::False
                        })
                        .description(description)
                        .schema(Some(schema)),
                );
            }
        }
        let is_named = self.parameters().next().is_some();
        let body = if is_named {
            B::described_unnamed(api)
        } else {
            B::described(api)
        };
        if let Some(schema) = body {
            let content = ContentBuilder::new().schema(Some(schema));
            let content = content.example(asked(&self.body).ok()).build();
            let body = RequestBodyBuilder::new().content("application/json", content);
            let body = body.required(Some(Required::True)).build();
            operation = operation.request_body(Some(body));
        }
        let mut answer = ResponseBuilder::new().description(match self.status {
            201 => "It is made.",
            204 => "It is done.",
            _ => "The answer.",
        });
        if let Some(schema) = T::described(api) {
            let content = ContentBuilder::new().schema(Some(schema));
            let content = content
                .example(serde_json::to_value(&self.answer).ok())
                .build();
            answer = answer.content("application/json", content);
        }
        if follows {
            let last = ObjectBuilder::new().schema_type(Type::Integer);
            operation = operation.parameter(
                ParameterBuilder::new()
                    .name("Last-Event-ID")
                    .parameter_in(ParameterIn::Header)
                    .required(Required::False)
                    .description(Some(
                        "The number of the last event that the client has had.",
                    ))
                    .schema(Some(last)),
            );
            let text = || ObjectBuilder::new().schema_type(Type::String);
            let events = ObjectBuilder::new()
                .schema_type(Type::Object)
                .property("id", text())
                .property("data", text())
                .required("id")
                .required("data")
                .description(Some(
                    "With `follow`, or if the client accepts only this: events, each with its `number` as `id` and an element of the list as `data`.",
                ));
            let content = ContentBuilder::new().schema(Some(events)).build();
            answer = answer.content("text/event-stream", content);
        }
        operation = operation.response(self.status.to_string(), answer.build());
        add_schema::<Error>(api);
        for (status, kinds) in self.refusals() {
            let content = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Error")))
                .example(serde_json::to_value(example_of(kinds[0])).ok())
                .build();
            let said = kinds.iter().map(|kind| told(status, *kind).to_string());
            let mut said: Vec<_> = said.collect();
            if kinds == [Kind::TooLarge] {
                said.push(format!("The maximum is {} bytes.", self.longest));
            }
            let response = ResponseBuilder::new().description(said.join(" "));
            let response = response.content("application/json", content).build();
            operation = operation.response(status.to_string(), response);
        }
        let item = PathItem::new(self.method.described(), operation.build());
        let there = api.paths.paths.entry(self.path.clone()).or_default();
        there.merge_operations(item);
    }
}

/// An example sentence of each kind of error, for the description.
fn told(status: u16, kind: Kind) -> &'static str {
    match kind {
        Kind::NotFound if status == FIELD_NOT_FOUND => {
            "`not-found`: nothing has the name that a field of the request says."
        }
        Kind::Invalid => "`invalid`: the request itself is wrong.",
        Kind::Forbidden => "`forbidden`: the client's role does not permit it.",
        Kind::NotFound => "`not-found`: nothing has that name.",
        Kind::NotAllowed => {
            "`not-allowed`: the path has no such method; `allow` lists its methods."
        }
        Kind::Late => "`late`: the request's body came too slowly.",
        Kind::TooLarge => "`too-large`: the request's body is too long.",
        Kind::NotJson => "`not-json`: the request's body has another content type than JSON.",
        Kind::Exists => "`exists`: the name or address is taken.",
        Kind::InUse => "`in-use`: something else uses it.",
        Kind::Refused => "`refused`: the host, the switch or the guest refused.",
        Kind::Unavailable => "`unavailable`: the switch is not running, or does not answer.",
        Kind::Failed => "`failed`: the node failed; nothing was changed.",
    }
}

fn example_of(kind: Kind) -> Error {
    let sentence = match kind {
        Kind::Invalid => {
            "‘a b’ is not a valid name for a VNIC: use 1 to 64 letters, digits, ‘.’, ‘_’ or ‘-’"
        }
        Kind::Forbidden => "‘alice’ has the role read-only, and this needs the role operator",
        Kind::NotFound => "no VNIC ‘desk0’: `weir vnic show` lists them",
        Kind::NotAllowed => "the path has no such method: /v1/openapi.json describes it",
        Kind::Late => "the request's body is too slow",
        Kind::TooLarge => "the request's body cannot be read: it is too long",
        Kind::NotJson => {
            "the request's body is ‘text/plain’: send ‘content-type: application/json’"
        }
        Kind::Exists => "there is already a VNIC named ‘desk0’: choose another name",
        Kind::InUse => "VNIC ‘desk0’ is an interface of guest ‘fw’: `weir destroy fw` first",
        Kind::Refused => "interface ‘eth1’ is down: `ip link set eth1 up`",
        Kind::Unavailable => "the switch is not running: try again in a second",
        Kind::Failed => "the node's state cannot be written: no space left on device",
    };
    Error::new(kind, sentence)
}

/// The operations that all resources have.
impl<S: Spec> Object<S> {
    /// An example as a request has it.
    fn example_body() -> Object<S> {
        let example = S::example();
        Object::new(example.name, example.spec)
    }

    fn operation<B: Payload, T: Payload>(
        verb: Verb,
        method: Method,
        named: bool,
        errors: &[Kind],
        body: B,
        answer: T,
    ) -> Operation<B, T> {
        let [one, all] = S::CALLED;
        let (id, does) = match verb {
            Verb::List => (format!("list-{}", S::PATH), format!("Lists {all}.")),
            Verb::Show => (format!("show-{}", S::NOUN), format!("Shows {one}.")),
            Verb::Create => (format!("create-{}", S::NOUN), format!("Creates {one}.")),
            Verb::Put if !S::VERBS.contains(&Verb::Create) => (
                format!("put-{}", S::NOUN),
                format!("Changes {one} to match the body."),
            ),
            Verb::Put => (
                format!("put-{}", S::NOUN),
                format!("Creates {one}, or changes it to match the body."),
            ),
            Verb::Patch => (
                format!("patch-{}", S::NOUN),
                format!("Changes fields of {one} (JSON merge patch); null resets a field."),
            ),
            Verb::Delete => (format!("delete-{}", S::NOUN), format!("Removes {one}.")),
        };
        let name = if named { "/{name}" } else { "" };
        let path = format!("/v1/{}{name}", S::PATH);
        let note = S::note(verb);
        let space = if note.is_empty() { "" } else { " " };
        let summary = format!("{does}{space}{note}");
        Operation::new((method, &path), (&id, &summary), errors, body, answer)
    }

    /// `GET /v1/{resources}`.
    pub fn list_operation() -> Operation<Selection, Vec<Object<S>>> {
        let mut example = S::example();
        example.spec.shorten();
        let errors = [Kind::Invalid, Kind::NotFound];
        let all = Selection::default();
        Self::operation(Verb::List, Method::Get, false, &errors, all, vec![example])
    }

    /// `GET /v1/{resources}/{name}`.
    pub fn show_operation() -> Operation<(), Object<S>> {
        let errors = [Kind::NotFound];
        Self::operation(Verb::Show, Method::Get, true, &errors, (), S::example())
    }

    /// `POST /v1/{resources}`.
    pub fn create_operation() -> Operation<Object<S>, Object<S>> {
        let errors = [
            Kind::Invalid,
            Kind::NotFound,
            Kind::Exists,
            Kind::InUse,
            Kind::Refused,
        ];
        let body = Self::example_body();
        Self::operation(
            Verb::Create,
            Method::Post,
            false,
            &errors,
            body,
            S::example(),
        )
        .creates()
    }

    /// `PUT /v1/{resources}/{name}`.
    pub fn put_operation() -> Operation<Object<S>, Object<S>> {
        let errors = [
            Kind::Invalid,
            Kind::NotFound,
            Kind::Exists,
            Kind::InUse,
            Kind::Refused,
        ];
        let body = Self::example_body();
        Self::operation(Verb::Put, Method::Put, true, &errors, body, S::example())
    }

    /// `PATCH /v1/{resources}/{name}`.
    pub fn patch_operation() -> Operation<serde_json::Value, Object<S>> {
        let errors = [Kind::Invalid, Kind::NotFound, Kind::InUse, Kind::Refused];
        let mut body = serde_json::to_value(S::example().spec).unwrap_or_default();
        if let Some(fields) = body.as_object_mut() {
            // A short one: a configuration is not.
            let can = |name: &str| match S::CHANGEABLE {
                [] => !["link", "config", "mtu"].contains(&name),
                can => can.contains(&name) && name != "mac",
            };
            fields.retain(|name, _| can(name));
        }
        let patch = Self::operation(
            Verb::Patch,
            Method::Patch,
            true,
            &errors,
            body,
            S::example(),
        );
        Operation {
            longest: Self::BODY,
            ..patch
        }
    }

    /// `DELETE /v1/{resources}/{name}`.
    pub fn delete_operation() -> Operation<(), ()> {
        let errors = [Kind::NotFound, Kind::InUse];
        Self::operation(Verb::Delete, Method::Delete, true, &errors, (), ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_changes_has_the_first_of_many_names() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|n| n.to_string()).collect() };
        assert_eq!(few(&names(2)), "0, 1");
        assert_eq!(few(&names(10)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert!(few(&names(12)).ends_with(" 9 and 2 more"));
    }
}
