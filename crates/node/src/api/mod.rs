//! The API: REST and JSON over HTTP, described by OpenAPI at `/v1/openapi.json`.
//!
//! Thin: a request's body becomes a value of [`crate::model`], the node does the rest. Whatever
//! fails is answered with an [`Error`] and the HTTP status of its kind.

mod flows;
mod guests;
mod links;
pub mod serve;
mod vnics;
mod wires;

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::{Error, Result};
use crate::model::NodeView;
use crate::service::Handle;

/// Longest body of a request, in bytes: a configuration as JSON, every character escaped.
const BODY_MAX: usize = 6 * abi::boot::CONFIG_MAX + 4096;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Weir node",
        description = "One host: its links, stubs, VNICs, flows and guests. On a Unix socket, `$WEIR_RUN/node.sock`."
    ),
    components(schemas(Error))
)]
struct Description;

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.kind.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}

/// How long the next part of a request's body may take.
const BODY_WAIT: Duration = Duration::from_secs(2);
/// Bodies over so many bytes, or of a length that is not told, are large.
const LARGE: u64 = 1 << 20;
/// Large bodies wait for each other, so that no number of clients takes all memory.
static LARGE_BODIES: Semaphore = Semaphore::const_new(8);

/// A request's body; one that cannot be understood is an [`Error`].
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>> {
        let length = request.body().size_hint().exact();
        let _turn = match length.is_some_and(|length| length <= LARGE) {
            true => None,
            false => LARGE_BODIES.acquire().await.ok(),
        };
        let (parts, body) = request.into_parts();
        let body = read(body).await?;
        // What is made of an object would be made of its values alone as well.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(Error::invalid(
                "the request's body is an array: it is to be an object, {\"name\": …}",
            ));
        }
        let body = axum::body::Body::from(body);
        match Json::from_request(Request::from_parts(parts, body), state).await {
            Ok(Json(body)) => Ok(Body(body)),
            Err(rejection) => Err(Error::invalid(sentence(&rejection))),
        }
    }
}

/// All of a body, as long as it keeps coming and is not too long.
async fn read(body: axum::body::Body) -> Result<Vec<u8>> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::invalid(format_args!("the request's body cannot be read: {why}"))
    };
    let late = format!("nothing came for {} s", BODY_WAIT.as_secs());
    let long = format!("it is longer than {BODY_MAX} bytes, which is the most");
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(wrong(&long));
    }
    let mut body = Limited::new(body, BODY_MAX);
    let mut bytes = Vec::new();
    let next = async |body: &mut Limited<axum::body::Body>| {
        let frame = tokio::time::timeout(BODY_WAIT, body.frame()).await;
        frame.map_err(|_| wrong(&late))
    };
    while let Some(frame) = next(&mut body).await? {
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => wrong(&long),
            false => wrong(&error),
        })?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    Ok(bytes)
}

fn sentence(rejection: &JsonRejection) -> String {
    format!(
        "the request's body cannot be understood: {}",
        rejection.body_text()
    )
}

/// What the API's routes and their descriptions are.
fn routes() -> OpenApiRouter<Handle> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(node, purge))
        .merge(links::routes())
        .merge(vnics::routes())
        .merge(flows::routes())
        .merge(wires::routes())
        .merge(guests::routes())
}

/// The API's description, as JSON.
pub fn description() -> String {
    let (_, description) = routes().split_for_parts();
    // It has no map with keys that are not text, which is all that can go wrong.
    description.to_pretty_json().unwrap_or_default()
}

/// The API of a node.
pub fn router(handle: Handle) -> Router {
    let (router, _) = routes().split_for_parts();
    let described = axum::routing::get(async || {
        let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
        (json, description())
    });
    router
        .route("/v1/openapi.json", described)
        .fallback(async || {
            Error::not_found("the API has no such resource: /v1/openapi.json describes it")
        })
        .method_not_allowed_fallback(async || {
            Error::invalid("that cannot be done with this resource: /v1/openapi.json describes it")
        })
        .layer(axum::extract::DefaultBodyLimit::max(BODY_MAX))
        .with_state(handle)
}

/// What the node is and has.
#[utoipa::path(get, path = "/v1/node", tag = "node",
    responses((status = 200, description = "What was asked for", body = NodeView), Error))]
async fn node(State(handle): State<Handle>) -> Result<Json<NodeView>> {
    handle.run(|node| node.view()).await.map(Json)
}

/// Removes everything and ends the node.
#[utoipa::path(delete, path = "/v1/node", tag = "node",
    responses((status = 204, description = "It is done"), Error))]
async fn purge(State(handle): State<Handle>) -> Result<StatusCode> {
    handle.run(|node| node.purge()).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_route_is_described() {
        let description: serde_json::Value = serde_json::from_str(&super::description()).unwrap();
        let paths = description["paths"].as_object().unwrap();
        for path in [
            "/v1/node",
            "/v1/links/{name}",
            "/v1/vnics",
            "/v1/guests/{name}/read",
        ] {
            assert!(paths.contains_key(path), "{path}");
        }
        let operations = paths.values().flat_map(|path| path.as_object().unwrap());
        let mut ids = std::collections::BTreeSet::new();
        for (method, operation) in operations {
            let id = &operation["operationId"];
            assert!(ids.insert(id.to_string()), "two operations are called {id}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("default"), "{method} {id}");
            for (status, response) in responses {
                let said = response["description"].as_str();
                assert!(said.is_some_and(|said| !said.is_empty()), "{id} {status}");
            }
        }
        let schemas = description["components"]["schemas"].as_object().unwrap();
        for schema in ["Error", "LinkView", "NewVnic", "GuestView"] {
            assert!(schemas.contains_key(schema), "{schema}");
        }
    }
}
