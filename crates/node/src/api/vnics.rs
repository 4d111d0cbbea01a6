//! VNICs.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Body;
use crate::error::{Error, Result};
use crate::model::{NewVnic, PropertyChange, VnicView};
use crate::service::Handle;

pub fn routes() -> OpenApiRouter<Handle> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, set, delete))
}

/// All VNICs.
#[utoipa::path(get, path = "/v1/vnics", tag = "vnics", operation_id = "list_vnics",
    responses((status = 200, description = "What was asked for", body = [VnicView]), Error))]
async fn list(State(handle): State<Handle>) -> Result<Json<Vec<VnicView>>> {
    handle.run(|node| node.vnics()).await.map(Json)
}

/// Makes a VNIC.
#[utoipa::path(post, path = "/v1/vnics", tag = "vnics",
    operation_id = "create_vnic", request_body = NewVnic,
    responses((status = 201, description = "What was made", body = VnicView), Error))]
async fn create(
    State(handle): State<Handle>,
    Body(new): Body<NewVnic>,
) -> Result<(StatusCode, Json<VnicView>)> {
    let vnic = handle.run(|node| node.create_vnic(new)).await?;
    Ok((StatusCode::CREATED, Json(vnic)))
}

/// One VNIC.
#[utoipa::path(get, path = "/v1/vnics/{name}", tag = "vnics",
    operation_id = "show_vnic", params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = VnicView), Error))]
async fn show(State(handle): State<Handle>, Path(name): Path<String>) -> Result<Json<VnicView>> {
    handle.run(move |node| node.vnic(&name)).await.map(Json)
}

/// Changes what a VNIC may do.
#[utoipa::path(patch, path = "/v1/vnics/{name}", tag = "vnics", operation_id = "set_vnic",
    params(("name" = String, Path)), request_body = PropertyChange,
    responses((status = 200, description = "What was asked for", body = VnicView), Error))]
async fn set(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(change): Body<PropertyChange>,
) -> Result<Json<VnicView>> {
    let set = handle.run(move |node| node.set_vnic(&name, &change));
    set.await.map(Json)
}

/// Removes a VNIC and its interface.
#[utoipa::path(delete, path = "/v1/vnics/{name}", tag = "vnics",
    operation_id = "delete_vnic", params(("name" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn delete(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle.run(move |node| node.delete_vnic(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}
