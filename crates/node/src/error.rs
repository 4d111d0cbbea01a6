//! What can go wrong, as whoever asked is told: one sentence, and what kind of thing it is.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What was asked for cannot be, whatever is there.
    Invalid,
    /// What was named is not there.
    NotFound,
    /// The name, or the address, is taken.
    Exists,
    /// Something else stands on it.
    InUse,
    /// The host, the switch or the guest said no.
    Refused,
    /// What would have to answer does not.
    Unavailable,
    /// The node itself failed.
    Failed,
}

impl Kind {
    /// The HTTP status that goes with it.
    pub const fn status(self) -> u16 {
        match self {
            Kind::Invalid => 400,
            Kind::NotFound => 404,
            Kind::Exists | Kind::InUse => 409,
            Kind::Refused => 422,
            Kind::Unavailable => 503,
            Kind::Failed => 500,
        }
    }
}

/// Why the node did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// What kind of thing went wrong.
    pub kind: Kind,
    /// What, where, and what to do about it.
    pub error: String,
}

/// The result of what the node is asked.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a kind, in a sentence.
    pub fn new(kind: Kind, sentence: impl fmt::Display) -> Error {
        Error {
            kind,
            error: sentence.to_string(),
        }
    }

    /// Something that cannot be asked for.
    pub fn invalid(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::Invalid, sentence)
    }

    /// Something that is not there.
    pub fn not_found(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::NotFound, sentence)
    }

    /// Something that the host, the switch or a guest does not do.
    pub fn refused(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::Refused, sentence)
    }

    /// A failure of the node's own.
    pub fn failed(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::Failed, sentence)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Error {}

/// How the API's description has it: whatever is asked, this may be the answer.
impl IntoResponses for Error {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let schema = Ref::from_schema_name("Error");
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let response = ResponseBuilder::new()
            .description("It is not done, and why")
            .content("application/json", content);
        BTreeMap::from([("default".into(), response.build().into())])
    }
}

impl From<switch::client::ClientError> for Error {
    fn from(error: switch::client::ClientError) -> Error {
        use switch::client::ClientError;
        match error {
            ClientError::Refused(why) => Error::refused(format_args!("the switch refused: {why}")),
            error => Error::new(
                Kind::Unavailable,
                format_args!("{error}: try again in a second, the node starts another"),
            ),
        }
    }
}

impl From<switch::links::LinkError> for Error {
    fn from(error: switch::links::LinkError) -> Error {
        use switch::links::Fault;
        let kind = match error.fault() {
            Fault::Missing => Kind::NotFound,
            Fault::Exists => Kind::Exists,
            Fault::Invalid => Kind::Invalid,
            Fault::Refused => Kind::Refused,
        };
        Error::new(kind, error)
    }
}

impl From<switch::properties::PropertyError> for Error {
    fn from(error: switch::properties::PropertyError) -> Error {
        Error::invalid(error)
    }
}

impl From<vmm::Error> for Error {
    fn from(error: vmm::Error) -> Error {
        use vmm::Error as Vmm;
        let kind = match &error {
            Vmm::MemoryTooSmall { .. } | Vmm::MemoryTooLarge { .. } | Vmm::RequestTooLong(_) => {
                Kind::Invalid
            }
            Vmm::Ended | Vmm::NoAnswer(_) | Vmm::Backlog(_) => Kind::Unavailable,
            _ => Kind::Refused,
        };
        Error::new(kind, error)
    }
}

impl From<switch::memory::MemoryError> for Error {
    fn from(error: switch::memory::MemoryError) -> Error {
        Error::refused(error)
    }
}

impl From<abi::region::GeometryError> for Error {
    fn from(error: abi::region::GeometryError) -> Error {
        Error::invalid(error)
    }
}
