//! Flows.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Body;
use crate::error::{Error, Result};
use crate::model::{FlowStats, FlowView, NewFlow};
use crate::service::Handle;

pub fn routes() -> OpenApiRouter<Handle> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(show, remove))
        .routes(routes!(stats))
}

/// All flows.
#[utoipa::path(get, path = "/v1/flows", tag = "flows", operation_id = "list_flows",
    responses((status = 200, description = "What was asked for", body = [FlowView]), Error))]
async fn list(State(handle): State<Handle>) -> Result<Json<Vec<FlowView>>> {
    handle.run(|node| node.flows()).await.map(Json)
}

/// Adds a flow.
#[utoipa::path(post, path = "/v1/flows", tag = "flows", request_body = NewFlow,
    responses((status = 201, description = "What was made", body = FlowView), Error))]
async fn add(
    State(handle): State<Handle>,
    Body(new): Body<NewFlow>,
) -> Result<(StatusCode, Json<FlowView>)> {
    let flow = handle.run(|node| node.add_flow(new)).await?;
    Ok((StatusCode::CREATED, Json(flow)))
}

/// One flow.
#[utoipa::path(get, path = "/v1/flows/{name}", tag = "flows",
    operation_id = "show_flow", params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = FlowView), Error))]
async fn show(State(handle): State<Handle>, Path(name): Path<String>) -> Result<Json<FlowView>> {
    handle.run(move |node| node.flow(&name)).await.map(Json)
}

/// Removes a flow.
#[utoipa::path(delete, path = "/v1/flows/{name}", tag = "flows", params(("name" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn remove(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle.run(move |node| node.remove_flow(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What passed of each flow.
#[utoipa::path(get, path = "/v1/flow-stats", tag = "statistics", operation_id = "flow_stats",
    responses((status = 200, description = "What was asked for", body = [FlowStats]), Error))]
async fn stats(State(handle): State<Handle>) -> Result<Json<Vec<FlowStats>>> {
    handle.run(|node| node.flow_stats()).await.map(Json)
}
