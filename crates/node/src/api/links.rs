//! Links, stubs, and their switching functions.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Body;
use crate::error::{Error, Result};
use crate::model::{
    Address, Class, FlowEntryView, LaneStats, LinkView, NewFlowEntry, NewLink, NewStub, PortStats,
    PropertyChange, SwitchChange, SwitchView,
};
use crate::service::Handle;

pub fn routes() -> OpenApiRouter<Handle> {
    OpenApiRouter::new()
        .routes(routes!(list, attach))
        .routes(routes!(show, set_link, detach))
        .routes(routes!(stubs, create))
        .routes(routes!(delete))
        .routes(routes!(switches))
        .routes(routes!(switch, set))
        .routes(routes!(macs))
        .routes(routes!(flush))
        .routes(routes!(flow_entries, add_flow_entry))
        .routes(routes!(remove_flow_entry))
        .routes(routes!(stats))
        .routes(routes!(stats_of))
        .routes(routes!(stats_by_lane))
        .routes(routes!(lanes))
}

/// All links, stubs included.
#[utoipa::path(get, path = "/v1/links", tag = "links", operation_id = "list_links",
    responses((status = 200, description = "What was asked for", body = [LinkView]), Error))]
async fn list(State(handle): State<Handle>) -> Result<Json<Vec<LinkView>>> {
    handle.run(|node| node.links()).await.map(Json)
}

/// Attaches an interface of the host.
#[utoipa::path(post, path = "/v1/links", tag = "links", request_body = NewLink,
    responses((status = 201, description = "What was made", body = LinkView), Error))]
async fn attach(
    State(handle): State<Handle>,
    Body(new): Body<NewLink>,
) -> Result<(StatusCode, Json<LinkView>)> {
    let link = handle.run(|node| node.attach_link(new)).await?;
    Ok((StatusCode::CREATED, Json(link)))
}

/// One link.
#[utoipa::path(get, path = "/v1/links/{name}", tag = "links",
    operation_id = "show_link", params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = LinkView), Error))]
async fn show(State(handle): State<Handle>, Path(name): Path<String>) -> Result<Json<LinkView>> {
    handle.run(move |node| node.link(&name)).await.map(Json)
}

/// Changes what the port of a link's interface may do.
#[utoipa::path(patch, path = "/v1/links/{name}", tag = "links",
    params(("name" = String, Path)), request_body = PropertyChange,
    responses((status = 200, description = "What was asked for", body = LinkView), Error))]
async fn set_link(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    Body(change): Body<PropertyChange>,
) -> Result<Json<LinkView>> {
    let set = handle.run(move |node| node.set_link(&name, &change));
    set.await.map(Json)
}

/// Detaches an interface, which is as it was before.
#[utoipa::path(delete, path = "/v1/links/{name}", tag = "links", params(("name" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn detach(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle
        .run(move |node| node.remove_link(&name, Class::Nic))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All stubs.
#[utoipa::path(get, path = "/v1/stubs", tag = "links",
    responses((status = 200, description = "What was asked for", body = [LinkView]), Error))]
async fn stubs(State(handle): State<Handle>) -> Result<Json<Vec<LinkView>>> {
    let mut links = handle.run(|node| node.links()).await?;
    links.retain(|link| link.class == Class::Stub);
    Ok(Json(links))
}

/// Makes a stub.
#[utoipa::path(post, path = "/v1/stubs", tag = "links",
    operation_id = "create_stub", request_body = NewStub,
    responses((status = 201, description = "What was made", body = LinkView), Error))]
async fn create(
    State(handle): State<Handle>,
    Body(new): Body<NewStub>,
) -> Result<(StatusCode, Json<LinkView>)> {
    let link = handle.run(|node| node.create_stub(new)).await?;
    Ok((StatusCode::CREATED, Json(link)))
}

/// Removes a stub.
#[utoipa::path(delete, path = "/v1/stubs/{name}", tag = "links",
    operation_id = "delete_stub", params(("name" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn delete(State(handle): State<Handle>, Path(name): Path<String>) -> Result<StatusCode> {
    handle
        .run(move |node| node.remove_link(&name, Class::Stub))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The switching functions of all links.
#[utoipa::path(get, path = "/v1/switches", tag = "switches",
    responses((status = 200, description = "What was asked for", body = [SwitchView]), Error))]
async fn switches(State(handle): State<Handle>) -> Result<Json<Vec<SwitchView>>> {
    handle.run(|node| node.switches()).await.map(Json)
}

/// The switching function of a link.
#[utoipa::path(get, path = "/v1/switches/{link}", tag = "switches",
    params(("link" = String, Path)),
    responses((status = 200, description = "What was asked for", body = SwitchView), Error))]
async fn switch(
    State(handle): State<Handle>,
    Path(link): Path<String>,
) -> Result<Json<SwitchView>> {
    handle.run(move |node| node.switch(&link)).await.map(Json)
}

/// Changes how a link's switch works.
#[utoipa::path(patch, path = "/v1/switches/{link}", tag = "switches", operation_id = "set_switch",
    params(("link" = String, Path)), request_body = SwitchChange,
    responses((status = 200, description = "What was asked for", body = SwitchView), Error))]
async fn set(
    State(handle): State<Handle>,
    Path(link): Path<String>,
    Body(change): Body<SwitchChange>,
) -> Result<Json<SwitchView>> {
    let set = handle.run(move |node| node.set_switch(&link, change));
    set.await.map(Json)
}

/// The addresses that a link's switch knows.
#[utoipa::path(get, path = "/v1/switches/{link}/macs", tag = "switches",
    params(("link" = String, Path)),
    responses((status = 200, description = "What was asked for", body = [Address]), Error))]
async fn macs(
    State(handle): State<Handle>,
    Path(link): Path<String>,
) -> Result<Json<Vec<Address>>> {
    handle
        .run(move |node| node.addresses(&link))
        .await
        .map(Json)
}

/// Has a link's switch forget what it learned.
#[utoipa::path(post, path = "/v1/switches/{link}/flush", tag = "switches",
    params(("link" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn flush(State(handle): State<Handle>, Path(link): Path<String>) -> Result<StatusCode> {
    handle.run(move |node| node.flush(&link)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The entries of a link's flow table: those made by command, and those that were learned.
#[utoipa::path(get, path = "/v1/switches/{link}/flows", tag = "switches",
    params(("link" = String, Path)),
    responses((status = 200, description = "What was asked for", body = [FlowEntryView]), Error))]
async fn flow_entries(
    State(handle): State<Handle>,
    Path(link): Path<String>,
) -> Result<Json<Vec<FlowEntryView>>> {
    let entries = handle.run(move |node| node.flow_entries(&link));
    entries.await.map(Json)
}

/// Has a flow go to a port of the link, be it that it had another before.
#[utoipa::path(post, path = "/v1/switches/{link}/flows", tag = "switches",
    params(("link" = String, Path)), request_body = NewFlowEntry,
    responses((status = 201, description = "What was made", body = FlowEntryView), Error))]
async fn add_flow_entry(
    State(handle): State<Handle>,
    Path(link): Path<String>,
    Body(new): Body<NewFlowEntry>,
) -> Result<(StatusCode, Json<FlowEntryView>)> {
    let entry = handle.run(move |node| node.add_flow_entry(&link, &new));
    Ok((StatusCode::CREATED, Json(entry.await?)))
}

/// Removes a flow's entry that was made by command.
#[utoipa::path(delete, path = "/v1/switches/{link}/flows/{flow}", tag = "switches",
    params(("link" = String, Path), ("flow" = String, Path)),
    responses((status = 204, description = "It is done"), Error))]
async fn remove_flow_entry(
    State(handle): State<Handle>,
    Path((link, flow)): Path<(String, String)>,
) -> Result<StatusCode> {
    handle
        .run(move |node| node.remove_flow_entry(&link, &flow))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Counters of all attached interfaces, VNICs and patches.
#[utoipa::path(get, path = "/v1/stats", tag = "statistics",
    responses((status = 200, description = "What was asked for", body = [PortStats]), Error))]
async fn stats(State(handle): State<Handle>) -> Result<Json<Vec<PortStats>>> {
    handle.run(|node| node.stats(None)).await.map(Json)
}

/// Counters of one attached interface, VNIC or end of a patch.
#[utoipa::path(get, path = "/v1/stats/{name}", tag = "statistics",
    params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = [PortStats]), Error))]
async fn stats_of(
    State(handle): State<Handle>,
    Path(name): Path<String>,
) -> Result<Json<Vec<PortStats>>> {
    let stats = handle.run(move |node| node.stats(Some(&name)));
    stats.await.map(Json)
}

/// Counters of one attached interface or VNIC, of each lane apart.
#[utoipa::path(get, path = "/v1/stats/{name}/lanes", tag = "statistics",
    params(("name" = String, Path)),
    responses((status = 200, description = "What was asked for", body = [PortStats]), Error))]
async fn stats_by_lane(
    State(handle): State<Handle>,
    Path(name): Path<String>,
) -> Result<Json<Vec<PortStats>>> {
    let stats = handle.run(move |node| node.stats_by_lane(&name));
    stats.await.map(Json)
}

/// Counters of the switch's lanes.
#[utoipa::path(get, path = "/v1/lanes", tag = "statistics",
    responses((status = 200, description = "What was asked for", body = [LaneStats]), Error))]
async fn lanes(State(handle): State<Handle>) -> Result<Json<Vec<LaneStats>>> {
    handle.run(|node| node.lanes()).await.map(Json)
}
