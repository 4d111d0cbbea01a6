//! Guests.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Body;
use crate::error::{Error, Result};
use crate::model::{GuestView, HandlerRead, HandlerValue, HandlerWrite, NewGuest};
use crate::service::Handle;

pub fn routes() -> OpenApiRouter<Handle> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, destroy))
        .routes(routes!(read))
        .routes(routes!(write))
}

/// All guests.
#[utoipa::path(get, path = "/v1/guests", tag = "guests", operation_id = "list_guests",
    responses((status = 200, description = "What was asked for", body = [GuestView]), Error))]
async fn list(State(handle): State<Handle>) -> Result<Json<Vec<GuestView>>> {
    handle.run(|node| node.guests()).await.map(Json)
}

/// Creates a guest; answered when it runs.
#[utoipa::path(post, path = "/v1/guests", tag = "guests",
    operation_id = "create_guest", request_body = NewGuest,
    responses((status = 201, description = "What was made", body = GuestView), Error))]
async fn create(
    State(handle): State<Handle>,
    Body(new): Body<NewGuest>,
) -> Result<(StatusCode, Json<GuestView>)> {
    let guest = handle.create_guest(new).await?;
    Ok((StatusCode::CREATED, Json(guest)))
}

/// One guest.
#[utoipa::path(get, path = "/v1/guests/{name}", tag = "guests",
    operation_id = "show_guest", params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = GuestView), Error))]
async fn show(State(handle): State<Handle>, Path(name): Path<String>) -> Result<Json<GuestView>> {
    handle.run(move |node| node.guest(&name)).await.map(Json)
}

/// Ends a guest and removes it.
#[utoipa::path(delete, path = "/v1/guests/{name}", tag = "guests",
    params(("name" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn destroy(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle.run(move |node| node.destroy_guest(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads a handler.
#[utoipa::path(post, path = "/v1/guests/{name}/read", tag = "guests",
    params(("name" = String, Path)), request_body = HandlerRead,
    responses((status = 200, description = "What was asked for", body = HandlerValue), Error))]
async fn read(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(read): Body<HandlerRead>,
) -> Result<Json<HandlerValue>> {
    let asked = handle.ask(move |node| node.ask_read(&name, &read.handler));
    let value = asked.await?;
    Ok(Json(HandlerValue { value }))
}

/// Writes a handler. `hotconfig` replaces the configuration.
#[utoipa::path(post, path = "/v1/guests/{name}/write", tag = "guests",
    params(("name" = String, Path)), request_body = HandlerWrite,
    responses((status = 200, description = "What was asked for", body = HandlerValue), Error))]
async fn write(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(write): Body<HandlerWrite>,
) -> Result<Json<HandlerValue>> {
    let (guest, asked) = (name.clone(), write.clone());
    let ask = handle.ask(move |node| node.ask_write(&guest, &asked.handler, &asked.value));
    let value = ask.await?;
    if write.handler == "hotconfig" {
        let keep = handle.run(move |node| node.keep_config(&name, &write.value));
        keep.await?;
    }
    Ok(Json(HandlerValue { value }))
}
