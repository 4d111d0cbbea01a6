//! Virtual wires.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Body;
use crate::error::{Error, Result};
use crate::model::{WireChange, WireView};
use crate::service::Handle;
use crate::wire::file::Wire;

pub fn routes() -> OpenApiRouter<Handle> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, apply, delete))
        .routes(routes!(compare))
}

/// A wire under another's name cannot be.
fn check_name(name: &str, wire: &Wire) -> Result<()> {
    match name == wire.wire {
        true => Ok(()),
        false => Err(Error::invalid(format_args!(
            "the wire is called ‘{}’ in its text and ‘{name}’ in its path: they have to be one",
            wire.wire
        ))),
    }
}

/// All wires.
#[utoipa::path(get, path = "/v1/wires", tag = "wires", operation_id = "list_wires",
    responses((status = 200, description = "What was asked for", body = [WireView]), Error))]
async fn list(State(handle): State<Handle>) -> Result<Json<Vec<WireView>>> {
    handle.run(|node| node.wires()).await.map(Json)
}

/// One wire, as it was applied.
#[utoipa::path(get, path = "/v1/wires/{name}", tag = "wires",
    operation_id = "show_wire", params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = Object), Error))]
async fn show(State(handle): State<Handle>, Path(name): Path<String>) -> Result<Json<Wire>> {
    handle.run(move |node| node.wire(&name)).await.map(Json)
}

/// Makes a wire, or makes another of it: all of it or none.
#[utoipa::path(put, path = "/v1/wires/{name}", tag = "wires",
    params(("name" = String, Path)), request_body = Object,
    responses((status = 200, description = "What was asked for", body = WireChange), Error))]
async fn apply(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(wire): Body<Wire>,
) -> Result<Json<WireChange>> {
    check_name(&name, &wire)?;
    handle.apply_wire(wire).await.map(Json)
}

/// Tells what applying a wire would do.
#[utoipa::path(post, path = "/v1/wires/{name}/diff", tag = "wires",
    params(("name" = String, Path)), request_body = Object,
    responses((status = 200, description = "What was asked for", body = WireChange), Error))]
async fn compare(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(wire): Body<Wire>,
) -> Result<Json<WireChange>> {
    check_name(&name, &wire)?;
    handle
        .run(move |node| node.compare_wire(&wire))
        .await
        .map(Json)
}

/// Removes a wire and all that belongs to it.
#[utoipa::path(delete, path = "/v1/wires/{name}", tag = "wires",
    operation_id = "delete_wire", params(("name" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn delete(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle.delete_wire(name).await?;
    Ok(StatusCode::NO_CONTENT)
}
