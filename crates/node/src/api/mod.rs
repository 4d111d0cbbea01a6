//! The API: REST and JSON over HTTP, described by OpenAPI at `/v1/openapi.json`.
//!
//! This layer is thin: a request's body becomes a value of [`crate::model`], and the node does the
//! work. A failure is answered with an [`Error`] and the HTTP status of its kind.

mod body;
pub mod clients;
mod json;
mod metrics;
pub mod serve;
mod stream;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{ACCEPT, CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use axum::{Json, Router};
use clients::{Client, Permits};
use futures_util::StreamExt;
use hyper_util::rt::TokioIo;
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};

use crate::config::Role;
use crate::error::{Error, Fault, InField, Kind, Result};
use crate::kept;
use crate::migration;
use crate::model::{
    Application, Flow, Guest, GuestOutcome, HandlerValue, Link, Nsm, Object, Stub, SwitchFunction,
    Verb, Vnic, Wire, check_status, name_of, patched,
};
use crate::node::for_each_resource;
use crate::node::resource::{found, selected};
use crate::operation::{Method, Operation, Payload, no_parameters, others as operations};
use crate::service::{Handle, Served};

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.shortened())).into_response()
    }
}

/// A request that is being carried out. It keeps its turn until this is dropped.
struct Asked {
    /// The client and the change that it asked for; `None` if the request changes nothing.
    noting: Option<(Client, String)>,
    _permits: [Permits; 2],
}

/// Marks an answer at whose end the outcome of the change is recorded.
#[derive(Clone, Copy)]
struct NotedLater;

/// A path's parameters, if it has any.
type PathNames = std::result::Result<Option<Path<Vec<String>>>, PathRejection>;

/// Routes and their description, growing together.
struct Api {
    router: Router<Handle>,
    description: OpenApi,
}

impl Api {
    /// Adds an operation, which `work` does: it is given the path's parameters and the body.
    fn on<B: Payload, T: Payload, F: Future<Output = Result<T>> + Send>(
        &mut self,
        operation: Operation<B, T>,
        work: impl Fn(Handle, Vec<String>, B) -> F + Clone + Send + Sync + 'static,
    ) {
        let status = StatusCode::from_u16(operation.status).unwrap_or(StatusCode::OK);
        self.answered(operation, move |handle, names, body, _, asked| {
            let work = work(handle, names, body);
            async move {
                let answer = work.await?;
                drop(asked);
                Ok(match status {
                    StatusCode::NO_CONTENT => status.into_response(),
                    _ => (status, Json(answer)).into_response(),
                })
            }
        });
    }

    /// Adds an operation on many guests, whose answer is a list that is sent as it grows.
    fn on_each<B, S, F>(
        &mut self,
        operation: Operation<B, Vec<GuestOutcome>>,
        work: impl Fn(Handle, Vec<String>, B) -> F + Clone + Send + Sync + 'static,
    ) where
        B: Payload,
        S: futures_util::Stream<Item = GuestOutcome> + Send + 'static,
        F: Future<Output = Result<S>> + Send,
    {
        self.answered(operation, move |handle, names, body, _, asked| {
            let work = work(handle, names, body);
            async move { Ok(stream::list(work.await?, asked)) }
        });
    }

    /// Adds an operation that can be followed: its answer is a list, or `follow` makes it a stream of
    /// events, each with its number, that goes on behind the number that it is given.
    fn on_follow<B, T, S, F, G>(
        &mut self,
        operation: Operation<B, Vec<T>>,
        follows: fn(&B) -> bool,
        list: impl Fn(Handle, Vec<String>, B) -> F + Clone + Send + Sync + 'static,
        follow: impl Fn(Handle, Vec<String>, B, u64) -> G + Clone + Send + Sync + 'static,
    ) where
        B: Payload + Sync,
        Vec<T>: Payload,
        T: serde::Serialize,
        S: futures_util::Stream<Item = (u64, T)> + Send + 'static,
        F: Future<Output = Result<Vec<T>>> + Send,
        G: Future<Output = Result<S>> + Send,
    {
        self.answered(operation, move |handle, names, query, headers, asked| {
            let (list, follow) = (list.clone(), follow.clone());
            async move {
                let after = last_event(&headers)?;
                if !follows(&query) && !wants_events(&headers) {
                    return Ok(Json(list(handle, names, query).await?).into_response());
                }
                let events = follow(handle, names, query, after).await?;
                // A follower keeps no other client waiting.
                drop(asked);
                Ok(stream::events(events))
            }
        });
    }

    /// Adds an operation whose response `work` makes. It keeps its turn until it is done.
    fn answered<B: Payload, T: Payload, F: Future<Output = Result<Response>> + Send>(
        &mut self,
        operation: Operation<B, T>,
        work: impl Fn(Handle, Vec<String>, B, HeaderMap, Asked) -> F + Clone + Send + Sync + 'static,
    ) {
        operation.describe(&mut self.description);
        let has_body = operation.has_body();
        let (method, longest) = (operation.method, operation.longest);
        let (role, id) = (operation.role(), operation.id.clone());
        let least = operation.example_text();
        let serve =
            async move |State(handle): State<Handle>, names: PathNames, request: Request| {
                let headers = request.headers().clone();
                let client = client(&request)?;
                let mut what = format!("{id} {}", request.uri().path());
                let allowed = client.check(role);
                if role > Role::ReadOnly
                    && let Err(error) = &allowed
                {
                    client.note(&what, Err(error));
                }
                allowed?;
                let (body, room) = if has_body {
                    if let Some(query) = request.uri().query().filter(|it| !it.is_empty()) {
                        return Err(no_parameters(query));
                    }
                    body::body(&client, request, (longest, &least)).await?
                } else {
                    let query = Operation::<B, T>::parse_query(request.uri().query())?;
                    (query, Permits::default())
                };
                let names = names.map_err(|rejection| Error::invalid(rejection.body_text()))?;
                let names = names.map(|Path(names)| names).unwrap_or_default();
                let turn = client.turn(method).await;
                let handle = handle.of(client.who.to_string());
                let handle = handle.until(client.has_enough());
                let subject = body.subject();
                if role > Role::ReadOnly && !subject.is_empty() {
                    what = format!("{what} ‘{subject}’");
                }
                let noting = (role > Role::ReadOnly).then_some((client, what));
                let asked = Asked {
                    noting: noting.clone(),
                    _permits: [turn, room],
                };
                let mut done = work(handle, names, body, headers, asked).await;
                let later = done.as_mut().ok();
                let later = later.and_then(|done| done.extensions_mut().remove::<NotedLater>());
                if let (Some((client, what)), None) = (noting, later) {
                    client.note(&what, done.as_ref().map(drop));
                }
                done
            };
        let method = match operation.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let serve = move |handle: State<Handle>, names: PathNames, request| {
            let serve = serve.clone();
            async move { serve(handle, names, request).await }
        };
        let router = std::mem::take(&mut self.router);
        self.router = router.route(&operation.path, on(method, serve));
    }

    /// Adds the operations of a resource.
    fn resource<S: Served>(&mut self) {
        for verb in S::VERBS {
            match verb {
                Verb::List => self.on(
                    Object::<S>::list_operation(),
                    |handle, _, selection| async move {
                        let names = selection.names();
                        let all = handle.run(move |node| selected::<S>(node, &names)).await;
                        let mut all = all.in_field("name")?;
                        all.iter_mut().for_each(|one| one.spec.shorten());
                        Ok(all)
                    },
                ),
                Verb::Show => self.on(
                    Object::<S>::show_operation(),
                    |handle, names, ()| async move {
                        handle.run(move |node| S::one(node, &name(&names))).await
                    },
                ),
                Verb::Create => {
                    self.on(
                        Object::<S>::create_operation(),
                        |handle, _, new| async move {
                            if new.name.is_empty() {
                                let sentence = "`name` is missing or empty";
                                return Err(Error::invalid(sentence).of_field("name"));
                            }
                            S::create_on(handle, new.name, new.spec).await
                        },
                    );
                }
                Verb::Put => self.on(Object::<S>::put_operation(), put),
                Verb::Patch => self.on(Object::<S>::patch_operation(), patch),
                Verb::Delete => self.on(
                    Object::<S>::delete_operation(),
                    |handle, names, ()| async move { S::delete_on(handle, name(&names)).await },
                ),
            }
        }
    }
}

/// The client of a request.
fn client(request: &Request) -> Result<Client> {
    let client = request.extensions().get().cloned();
    client.ok_or_else(|| Error::failed("the request has no client"))
}

/// Whether a client asks for server-sent events, as a browser's EventSource does.
fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// The number of the last event that a client has had; 0 if it has had none.
fn last_event(headers: &HeaderMap) -> Result<u64> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(0);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Error::invalid("the header Last-Event-ID is invalid: it is the number of the last event")
    })
}

/// The first parameter of a path.
fn name(names: &[String]) -> String {
    names.first().cloned().unwrap_or_default()
}

/// A body under another's name cannot be.
fn check_name(path: &str, body: &str) -> Result<()> {
    if body.is_empty() || path == body {
        return Ok(());
    }
    let (path, body) = (path.into(), body.into());
    Err(Fault::OtherName { path, body }.into())
}

async fn put<S: Served>(handle: Handle, names: Vec<String>, new: Object<S>) -> Result<Object<S>> {
    let name = name(&names);
    check_name(&name, &new.name)?;
    let wanted = name.clone();
    match handle.run(move |node| found::<S>(node, &wanted)).await? {
        Some(is) if is.spec == new.spec => Ok(is),
        Some(_) => S::change_on(handle, name, new.spec).await,
        None if S::VERBS.contains(&Verb::Create) => S::create_on(handle, name, new.spec).await,
        // It is told what there is none of.
        None => handle.run(move |node| S::one(node, &name)).await,
    }
}

async fn patch<S: Served>(
    handle: Handle,
    names: Vec<String>,
    mut patch: serde_json::Value,
) -> Result<Object<S>> {
    let name = name(&names);
    if let Some(fields) = patch.as_object_mut() {
        if let Some(status) = fields.remove("status") {
            check_status::<S>(status)?;
        }
        check_name(&name, &name_of(fields)?)?;
        S::complete(fields);
    }
    let wanted = name.clone();
    let is = handle.run(move |node| S::one(node, &wanted)).await?;
    if let Some(fields) = patch.as_object() {
        is.spec.check_patch(&name, fields)?;
    }
    let spec = patched(&is.spec, &patch)?;
    if spec == is.spec {
        return Ok(is);
    }
    S::change_on(handle, name, spec).await
}

/// A wire under another's name cannot be.
fn check_wire(names: &[String], wire: &Object<Wire>) -> Result<()> {
    let path = name(names);
    check_name(&path, &wire.name)?;
    if path == wire.spec.wire {
        return Ok(());
    }
    Err(Fault::WireName {
        path,
        text: wire.spec.wire.clone(),
    }
    .into())
}

/// The API's routes and their description.
fn api() -> Api {
    let info = InfoBuilder::new()
        .title("Weir node")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "One host: its links, stubs, VNICs, flows, guests and wires. On a Unix socket, `$WEIR_RUN/node.sock`. `GET /metrics` shows all counters in Prometheus's text format. A path that has no such method answers 405 and lists its methods in `allow`.",
        ));
    let mut api = Api {
        router: Router::new(),
        description: OpenApiBuilder::new().info(info.build()).build(),
    };
    api.on(operations::show_node(), async |handle, _, ()| {
        handle.run(|node| node.status()).await
    });
    api.on(operations::purge_node(), async |handle, _, purge| {
        if !purge.confirm {
            return Err(Fault::Unconfirmed {}.into());
        }
        handle.run(|node| node.purge()).await
    });
    api.on(operations::end_unknown(), async |handle, _, ()| {
        handle.run(|node| Ok(node.end_unknown())).await
    });
    api.on(operations::forget_damaged(), async |handle, _, ()| {
        handle.run(|node| node.forget_damaged()).await
    });
    macro_rules! resources {
        ($($resource:ident),*; $($waiting:ident),*) => {
            $(api.resource::<$resource>();)*
            $(api.resource::<$waiting>();)*
        };
    }
    for_each_resource!(resources);
    switches(&mut api);
    applications(&mut api);
    guests(&mut api);
    logs(&mut api);
    events(&mut api);
    crashes(&mut api);
    api.on(operations::apply_wire(), async |handle, names, wire| {
        check_wire(&names, &wire)?;
        handle.apply_wire(wire.spec).await
    });
    api.on(operations::compare_wire(), async |handle, names, wire| {
        check_wire(&names, &wire)?;
        handle.run(move |node| node.compare_wire(&wire.spec)).await
    });
    statistics(&mut api);
    api
}

fn switches(api: &mut Api) {
    api.on(operations::list_macs(), async |handle, names, ()| {
        handle.run(move |node| node.addresses(&name(&names))).await
    });
    api.on(operations::flush_macs(), async |handle, names, ()| {
        handle.run(move |node| node.flush(&name(&names))).await
    });
    api.on(operations::list_entries(), async |handle, names, ()| {
        handle
            .run(move |node| node.flow_entries(&name(&names)))
            .await
    });
    api.on(operations::add_entry(), async |handle, names, new| {
        let added = handle.run(move |node| node.add_flow_entry(&name(&names), &new));
        added.await
    });
    api.on(operations::remove_entry(), async |handle, names, ()| {
        let flow = names.get(1).cloned().unwrap_or_default();
        let removed = handle.run(move |node| node.remove_flow_entry(&name(&names), &flow));
        removed.await
    });
}

fn applications(api: &mut Api) {
    api.on(operations::admit_application(), async |handle, _, new| {
        handle.run(move |node| node.admit(new)).await
    });
    api.on(operations::list_sockets(), async |handle, names, ()| {
        handle.run(move |node| node.sockets(&name(&names))).await
    });
    api.on(operations::trace_sockets(), async |handle, names, query| {
        handle
            .run(move |node| node.trace(&name(&names), query.after))
            .await
    });
}

fn guests(api: &mut Api) {
    api.on_each(operations::act_on_guests(), async |handle, _, action| {
        handle.act_on_guests(action).await
    });
    api.on_each(operations::create_guests(), async |handle, _, series| {
        handle.create_guests(series).await
    });
    api.on(operations::save_guest(), async |handle, names, save| {
        handle.save_guest(name(&names), save).await
    });
    api.on(operations::restore_guest(), async |handle, _, restore| {
        handle.restore_guest(restore).await
    });
    api.on_each(operations::clone_guest(), async |handle, names, clones| {
        handle.clone_guest(name(&names), clones).await
    });
    api.on(operations::migrate_guest(), async |handle, names, to| {
        migration::migrate(&handle, name(&names), to).await
    });
    api.on(operations::rename_guest(), async |handle, names, new| {
        handle.rename_guest(name(&names), new).await
    });
    api.on(
        operations::show_configuration(),
        async |handle, names, ()| {
            let name = names.get(1).cloned().unwrap_or_default();
            let shown = handle.run(move |node| node.configuration(&self::name(&names), &name));
            shown.await
        },
    );
    api.on(
        operations::install_configuration(),
        async |handle, names, it| {
            let configuration = names.get(1).cloned().unwrap_or_default();
            handle.install(name(&names), configuration, it).await
        },
    );
    api.on(
        operations::uninstall_configuration(),
        async |handle, names, ()| {
            let configuration = names.get(1).cloned().unwrap_or_default();
            let guest = handle.uninstall(name(&names), configuration).await;
            guest.map(drop)
        },
    );
    api.on(operations::read_handler(), async |handle, names, read| {
        let asked = handle.ask(move |node| node.ask_read(&name(&names), &read.handler));
        let value = asked.await?;
        Ok(HandlerValue { value })
    });
    api.on(operations::write_handler(), async |handle, names, write| {
        let (guest, asked) = (name(&names), write.clone());
        let ask = handle.ask(move |node| node.ask_write(&guest, &asked.handler, &asked.value));
        let value = ask
            .await
            .map_err(|error| match (error.kind, &error.field) {
                // The handler is there, and does not take it.
                (Kind::Refused, None) => error.of_field("value"),
                _ => error,
            })?;
        if write.handler == "hotconfig" {
            let keep = handle.run(move |node| node.keep_config(&name(&names), &write.value));
            keep.await?;
        }
        Ok(HandlerValue { value })
    });
}

fn logs(api: &mut Api) {
    api.on_follow(
        operations::show_guest_log(),
        |query| query.follow,
        async |handle, names, query| {
            let lines = handle.run(move |node| node.log(&names, &query, 0));
            lines.await
        },
        async |handle, names, query, after| {
            let lines = handle.follow_log(names, query, after).await?;
            Ok(lines.map(|line| (line.number, line)))
        },
    );
    api.on_follow(
        operations::list_guest_logs(),
        |query| query.follow,
        async |handle, _, query| {
            let (names, query) = query.split();
            handle.run(move |node| node.log(&names, &query, 0)).await
        },
        async |handle, _, query, after| {
            let (names, query) = query.split();
            let lines = handle.follow_log(names, query, after).await?;
            Ok(lines.map(|line| (line.number, line)))
        },
    );
}

fn events(api: &mut Api) {
    api.on_follow(
        operations::list_events(),
        |query| query.follow,
        async |handle, _, query| handle.run(move |node| node.all_events(&query)).await,
        async |handle, _, query, after| {
            let events = handle.follow_events(query, after).await?;
            Ok(events.map(|event| (event.number, event)))
        },
    );
}

fn crashes(api: &mut Api) {
    api.on(operations::list_crashes(), async |handle, _, query| {
        handle.run(move |node| node.crashes(&query)).await
    });
    api.on(operations::show_crash(), async |handle, names, ()| {
        handle.run(move |node| node.crash(&name(&names))).await
    });
    api.on(operations::remove_crashes(), async |handle, names, ()| {
        let meant = name(&names);
        handle.run(move |node| node.remove_crashes(&meant)).await
    });
}

fn statistics(api: &mut Api) {
    api.on(operations::list_stats(), async |handle, _, ()| {
        handle.run(|node| node.all_stats()).await
    });
    api.on(operations::show_stats(), async |handle, names, ()| {
        handle.run(move |node| node.stats(&name(&names))).await
    });
    api.on(operations::show_lane_stats(), async |handle, names, ()| {
        handle
            .run(move |node| node.stats_by_lane(&name(&names)))
            .await
    });
    api.on(operations::list_flow_stats(), async |handle, _, ()| {
        handle.run(|node| node.flow_stats()).await
    });
    api.on(operations::list_settled_flows(), async |handle, _, of| {
        handle.run(move |node| node.settled_flows(&of)).await
    });
    api.on(operations::show_flow_stats(), async |handle, names, ()| {
        handle
            .run(move |node| node.stats_of_flow(&name(&names)))
            .await
    });
    api.on(operations::list_lanes(), async |handle, _, ()| {
        handle.run(|node| node.lanes()).await
    });
}

/// The API's description, as JSON.
pub fn description() -> String {
    pretty(&api().description)
}

fn pretty(description: &OpenApi) -> String {
    // It has no map with keys that are not text, which is all that can go wrong. As a value, its fields have an order.
    let value = serde_json::to_value(description).unwrap_or_default();
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    // The library spells the formats of OpenAPI's registry, uint32 and the like, in its own way.
    text.replace("\"format\": \"u-int", "\"format\": \"uint")
}

async fn show_metrics(State(handle): State<Handle>, request: Request) -> Result<Response> {
    let client = client(&request)?;
    client.check(Role::ReadOnly)?;
    let _turn = client.turn(Method::Get).await;
    let scrape = handle.run(|node| node.scrape()).await?;
    let kind = [(
        axum::http::header::CONTENT_TYPE,
        "text/plain; version=0.0.4",
    )];
    Ok((kind, metrics::render(&scrape)).into_response())
}

/// Receives a guest from another node, over the connection of this request.
async fn receive_guest(
    State(handle): State<Handle>,
    mut request: Request,
) -> Result<impl IntoResponse> {
    let client = client(&request)?;
    let what = "receive a guest";
    let allowed = client.check(Role::Peer);
    if let Err(error) = &allowed {
        client.note(what, Err(error));
    }
    allowed?;
    let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    if header(UPGRADE) != Some(migration::PROTOCOL.as_bytes()) {
        let protocol = migration::PROTOCOL;
        return Err(Error::invalid(format_args!(
            "this is for other nodes, which upgrade the connection to ‘{protocol}’"
        )));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let from = client.who.to_string();
    let handle = handle.of(from.clone());
    tokio::spawn(async move {
        let received = match upgrade.await {
            Ok(stream) => migration::receive(handle, &from, TokioIo::new(stream)).await,
            Err(error) => Err(Error::failed(error)),
        };
        client.note(what, received.as_ref().map(drop));
    });
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, migration::PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers))
}

/// Keeps a saved guest for another host.
async fn keep_guest(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    let client = client(&request)?;
    client.check(Role::Peer)?;
    let _turn = client.turn(Method::Put).await;
    let folder = handle.run(|node| Ok(node.kept())).await?;
    kept::put(&folder, &name, request.into_body()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a saved guest that is kept.
async fn show_kept(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Vec<u8>> {
    let client = client(&request)?;
    client.check(Role::Peer)?;
    let _turn = client.turn(Method::Get).await;
    let folder = handle.run(|node| Ok(node.kept())).await?;
    kept::get(&folder, &name)
}

/// The API of a node.
pub fn router(handle: Handle) -> Router {
    let api = api();
    let text = Bytes::from(pretty(&api.description));
    let described = axum::routing::get(async move || {
        let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
        (json, text)
    });
    api.router
        .route("/v1/openapi.json", described)
        .route("/v1/migration", axum::routing::post(receive_guest))
        .route(
            "/v1/kept/{name}",
            axum::routing::put(keep_guest).get(show_kept),
        )
        .route("/metrics", axum::routing::get(show_metrics))
        .fallback(async || {
            Error::not_found("the API has no such resource: /v1/openapi.json describes it")
        })
        .method_not_allowed_fallback(async || {
            let sentence = "the path has no such method: /v1/openapi.json describes it";
            Error::new(Kind::NotAllowed, sentence)
        })
        .with_state(handle)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    #[test]
    fn every_operation_has_a_sentence_of_its_own_an_example_and_its_errors() {
        let description: Value = serde_json::from_str(&super::description()).unwrap();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        let (mut ids, mut sentences) = (BTreeSet::new(), BTreeSet::new());
        let paths = description["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|path| path.as_object().unwrap());
        for (method, operation) in operations {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "two operations are called {id}");
            let sentence = operation["summary"].as_str().unwrap();
            assert!(sentence.ends_with('.') && sentence.len() > 10, "{id}");
            assert!(sentences.insert(sentence), "{id}: {sentence} is another's");
            if ["post", "put", "patch"].contains(&method.as_str())
                && !["flush-macs", "end-unknown", "forget-damaged"].contains(&id)
            {
                let body = &operation["requestBody"]["content"]["application/json"];
                assert!(body["example"].is_object(), "{id}: its body has no example");
                assert!(body["schema"].is_object(), "{id}");
            }
            let responses = operation["responses"].as_object().unwrap();
            let mut errors = 0;
            for (status, response) in responses {
                let said = response["description"].as_str();
                assert!(said.is_some_and(|said| !said.is_empty()), "{id} {status}");
                let content = &response["content"]["application/json"];
                errors += usize::from(status.starts_with(['4', '5']));
                assert!(
                    status == "204" || !content["example"].is_null(),
                    "{id} {status}"
                );
                assert!(
                    status == "204" || content["schema"].is_object(),
                    "{id} {status}"
                );
            }
            assert!(errors >= 2, "{id}: its errors are not described");
            let parameters = operation["parameters"].as_array();
            let named = parameters.is_some_and(|all| all.iter().any(|one| one["in"] == "path"));
            assert!(
                !named || responses.contains_key("404"),
                "{id}: no name is unknown to it"
            );
        }
        // Every schema that is named is there.
        let text = description.to_string();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
