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
#[utoipa::path(get, path = "/v1/vnics", tag = "vnics",
    responses((status = 200, body = [VnicView]), (status = "default", body = Error)))]
async fn list(State(handle): State<Handle>) -> Result<Json<Vec<VnicView>>> {
    handle.run(|node| node.vnics()).await.map(Json)
}

/// Makes a VNIC.
#[utoipa::path(post, path = "/v1/vnics", tag = "vnics", request_body = NewVnic,
    responses((status = 201, body = VnicView), (status = "default", body = Error)))]
async fn create(
    State(handle): State<Handle>,
    Body(new): Body<NewVnic>,
) -> Result<(StatusCode, Json<VnicView>)> {
    let vnic = handle.run(|node| node.create_vnic(new)).await?;
    Ok((StatusCode::CREATED, Json(vnic)))
}

/// One VNIC.
#[utoipa::path(get, path = "/v1/vnics/{name}", tag = "vnics", params(("name" = String, Path)),
    responses((status = 200, body = VnicView), (status = "default", body = Error)))]
async fn show(State(handle): State<Handle>, Path(name): Path<String>) -> Result<Json<VnicView>> {
    handle.run(move |node| node.vnic(&name)).await.map(Json)
}

/// Changes what a VNIC may do.
#[utoipa::path(patch, path = "/v1/vnics/{name}", tag = "vnics",
    params(("name" = String, Path)), request_body = PropertyChange,
    responses((status = 200, body = VnicView), (status = "default", body = Error)))]
async fn set(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(change): Body<PropertyChange>,
) -> Result<Json<VnicView>> {
    let set = handle.run(move |node| node.set_vnic(&name, &change));
    set.await.map(Json)
}

/// Removes a VNIC and its interface.
#[utoipa::path(delete, path = "/v1/vnics/{name}", tag = "vnics", params(("name" = String, Path)),
    responses((status = 204), (status = "default", body = Error)))]
async fn delete(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle.run(move |node| node.remove_vnic(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}
