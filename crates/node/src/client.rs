//! The API's blocking client.

mod endpoint;
mod growing;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Kind, Result};
use crate::model::{
    Address, Admission, Admitted, Clones, Configuration, CrashReport, CrashesQuery, Entry, Event,
    EventsQuery, FlowStats, Guest, GuestAction, GuestOutcome, GuestSeries, HandlerRead,
    HandlerValue, HandlerWrite, LaneStats, LogLine, LogQuery, LogsQuery, Migrate, Migrated,
    NodeStatus, Object, PortStats, Purge, Rename, Restore, Save, Saved, Selection, SettledFlow,
    Socket, SocketTrace, Spec, TraceQuery, UnknownGuest, Wire, WireChange,
};
use crate::operation::{Operation, Payload, asked, others as operations};
use crate::tls::{self, Files};
pub(crate) use endpoint::Endpoint;

/// Longest that an answer may take: creating a guest on a busy machine takes longest.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Longest that a migration or a change of a wire may take: a guest's memory goes over the network, and a wire may have
/// thousands of guests.
const LONG: Duration = Duration::from_secs(600);

/// How long a node is waited for that starts: it first brings back what ran.
const START: Duration = Duration::from_secs(10);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// The API of a node.
#[derive(Clone, Debug)]
pub struct Client {
    node: Endpoint,
}

impl Client {
    /// The API at `socket`; nothing is asked yet.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client {
            node: Endpoint::Socket(socket.into()),
        }
    }

    /// The API of a node of the network, at `https://HOST:PORT`; nothing is asked yet.
    pub fn remote(url: &str, files: &Files) -> Result<Client> {
        let node = Endpoint::remote(url, files)?;
        Ok(Client { node })
    }

    /// The API of the node that the environment names.
    pub fn from_environment() -> Client {
        Client::new(crate::paths::Paths::from_environment().api())
    }

    /// Whether a node listens there.
    pub fn is_there(&self) -> bool {
        match &self.node {
            Endpoint::Socket(path) => std::os::unix::net::UnixStream::connect(path).is_ok(),
            Endpoint::Remote { .. } => self.node().is_ok(),
        }
    }

    /// Lists all resources of a kind.
    pub fn list<S: Spec>(&self) -> Result<Vec<Object<S>>> {
        self.select(&[])
    }

    /// Lists the resources of a kind that names and patterns select; without any, all.
    pub fn select<S: Spec>(&self, names: &[String]) -> Result<Vec<Object<S>>> {
        let operation = Object::<S>::list_operation();
        self.call(&operation, &[], &Selection::of(names))
    }

    /// Shows one resource.
    pub fn show<S: Spec>(&self, name: &str) -> Result<Object<S>> {
        self.call(&Object::<S>::show_operation(), &[name], &())
    }

    /// Shows one resource, or lists all.
    pub fn some<S: Spec>(&self, name: Option<&str>) -> Result<Vec<Object<S>>> {
        match name {
            Some(name) => Ok(vec![self.show(name)?]),
            None => self.list(),
        }
    }

    /// Creates a resource.
    pub fn create<S: Spec>(&self, new: &Object<S>) -> Result<Object<S>> {
        self.call(&Object::<S>::create_operation(), &[], new)
    }

    /// Creates a resource, or replaces its specification.
    pub fn put<S: Spec>(&self, new: &Object<S>) -> Result<Object<S>> {
        self.call(&Object::<S>::put_operation(), &[&new.name], new)
    }

    /// Changes fields of a resource (JSON merge patch).
    pub fn patch<S: Spec>(&self, name: &str, patch: &Value) -> Result<Object<S>> {
        self.call(&Object::<S>::patch_operation(), &[name], patch)
    }

    /// Shows a configuration that a guest runs beside its main one.
    pub fn configuration(&self, guest: &str, name: &str) -> Result<Configuration> {
        self.call(&operations::show_configuration(), &[guest, name], &())
    }

    /// Installs another configuration on a guest, beside its main one.
    pub fn install(
        &self,
        guest: &str,
        name: &str,
        configuration: &Configuration,
    ) -> Result<Object<Guest>> {
        let operation = operations::install_configuration();
        self.call(&operation, &[guest, name], configuration)
    }

    /// Uninstalls a configuration of a guest.
    pub fn uninstall(&self, guest: &str, name: &str) -> Result<()> {
        self.call(&operations::uninstall_configuration(), &[guest, name], &())
    }

    /// Removes a resource.
    pub fn delete<S: Spec>(&self, name: &str) -> Result<()> {
        // Of a wire, much goes with it.
        self.call_within(LONG, &Object::<S>::delete_operation(), &[name], &())
    }

    /// Shows the node itself.
    pub fn node(&self) -> Result<NodeStatus> {
        self.call(&operations::show_node(), &[], &())
    }

    /// Removes everything and ends the node.
    pub fn purge(&self, confirmation: &Purge) -> Result<()> {
        self.call(&operations::purge_node(), &[], confirmation)
    }

    /// Ends the guests of which no record is left.
    pub fn end_unknown(&self) -> Result<Vec<UnknownGuest>> {
        self.call(&operations::end_unknown(), &[], &())
    }

    /// Forgets the damaged records of the state.
    pub fn forget_damaged(&self) -> Result<()> {
        self.call(&operations::forget_damaged(), &[], &())
    }

    /// Applies a verb to guests. `told` gets each guest's result as soon as it is there, and says
    /// whether to go on.
    pub fn act(
        &self,
        action: &GuestAction,
        told: impl FnMut(GuestOutcome) -> ControlFlow<()>,
    ) -> Result<()> {
        self.each(&operations::act_on_guests(), &[], action, told)
    }

    /// Creates a series of guests, as [`act`](Self::act) has it.
    pub fn create_series(
        &self,
        series: &GuestSeries,
        told: impl FnMut(GuestOutcome) -> ControlFlow<()>,
    ) -> Result<()> {
        self.each(&operations::create_guests(), &[], series, told)
    }

    /// Saves a guest to a file of the node's host.
    pub fn save(&self, guest: &str, save: &Save) -> Result<Saved> {
        self.call(&operations::save_guest(), &[guest], save)
    }

    /// Migrates a guest to another node.
    pub fn migrate(&self, name: &str, migrate: &Migrate) -> Result<Migrated> {
        self.call_within(LONG, &operations::migrate_guest(), &[name], migrate)
    }

    /// Restores a saved guest.
    pub fn restore(&self, restore: &Restore) -> Result<Object<Guest>> {
        self.call(&operations::restore_guest(), &[], restore)
    }

    /// Makes copies of a guest. `told` is given each as soon as it runs, as [`act`](Self::act) has it.
    pub fn clone_guest(
        &self,
        guest: &str,
        clones: &Clones,
        told: impl FnMut(GuestOutcome) -> ControlFlow<()>,
    ) -> Result<()> {
        self.each(&operations::clone_guest(), &[guest], clones, told)
    }

    /// Gives a guest another name.
    pub fn rename(&self, guest: &str, new: &Rename) -> Result<Object<Guest>> {
        self.call(&operations::rename_guest(), &[guest], new)
    }

    /// Reads a handler of a guest.
    pub fn read(&self, guest: &str, handler: &HandlerRead) -> Result<HandlerValue> {
        self.call(&operations::read_handler(), &[guest], handler)
    }

    /// Writes a handler of a guest.
    pub fn write(&self, guest: &str, handler: &HandlerWrite) -> Result<HandlerValue> {
        self.call(&operations::write_handler(), &[guest], handler)
    }

    /// Returns a guest's output.
    pub fn log(&self, guest: &str, query: &LogQuery) -> Result<Vec<LogLine>> {
        self.call(&operations::show_guest_log(), &[guest], query)
    }

    /// Shows what guests printed.
    pub fn logs(&self, query: &LogsQuery) -> Result<Vec<LogLine>> {
        self.call(&operations::list_guest_logs(), &[], query)
    }

    /// Passes a guest's past output, then its new output, to `told`, until `told` says not to go
    /// on.
    pub fn follow_log(
        &self,
        guest: &str,
        query: LogQuery,
        told: impl FnMut(LogLine) -> ControlFlow<()>,
    ) -> Result<()> {
        let query = LogQuery {
            follow: true,
            ..query
        };
        self.follow(&operations::show_guest_log(), &[guest], &query, told)
    }

    /// Passes guests' past output, then their new output, to `told`, until `told` says not to go
    /// on.
    pub fn follow_logs(
        &self,
        query: LogsQuery,
        told: impl FnMut(LogLine) -> ControlFlow<()>,
    ) -> Result<()> {
        let query = LogsQuery {
            follow: true,
            ..query
        };
        self.follow(&operations::list_guest_logs(), &[], &query, told)
    }

    /// Lists what happened.
    pub fn events(&self, query: &EventsQuery) -> Result<Vec<Event>> {
        self.call(&operations::list_events(), &[], query)
    }

    /// Gives `told` what happened and then what happens, until that says not to go on.
    pub fn follow_events(
        &self,
        query: EventsQuery,
        told: impl FnMut(Event) -> ControlFlow<()>,
    ) -> Result<()> {
        let query = EventsQuery {
            follow: true,
            ..query
        };
        self.follow(&operations::list_events(), &[], &query, told)
    }

    /// Lists the crash reports of guests, oldest first.
    pub fn crashes(&self, query: &CrashesQuery) -> Result<Vec<CrashReport>> {
        self.call(&operations::list_crashes(), &[], query)
    }

    /// Shows a crash report, by its number or as the last one of a guest.
    pub fn crash(&self, meant: &str) -> Result<CrashReport> {
        self.call(&operations::show_crash(), &[meant], &())
    }

    /// Removes a crash report by its number, or guests' reports by a name or a pattern.
    pub fn remove_crashes(&self, meant: &str) -> Result<()> {
        self.call(&operations::remove_crashes(), &[meant], &())
    }

    /// Lists the addresses that the switch of a link knows.
    pub fn macs(&self, link: &str) -> Result<Vec<Address>> {
        self.call(&operations::list_macs(), &[link], &())
    }

    /// Removes the addresses that the switch of a link has learned.
    pub fn flush(&self, link: &str) -> Result<()> {
        self.call(&operations::flush_macs(), &[link], &())
    }

    /// Lists the entries of a link's flow table.
    pub fn entries(&self, link: &str) -> Result<Vec<Entry>> {
        self.call(&operations::list_entries(), &[link], &())
    }

    /// Adds an entry to a link's flow table.
    pub fn add_entry(&self, link: &str, entry: &Entry) -> Result<Entry> {
        self.call(&operations::add_entry(), &[link], entry)
    }

    /// Removes an entry from a link's flow table.
    pub fn remove_entry(&self, link: &str, flow: &str) -> Result<()> {
        self.call(&operations::remove_entry(), &[link, flow], &())
    }

    /// Admits a program as an application.
    pub fn admit(&self, program: &Admission) -> Result<Admitted> {
        self.call(&operations::admit_application(), &[], program)
    }

    /// Lists the sockets of an application.
    pub fn sockets(&self, application: &str) -> Result<Vec<Socket>> {
        self.call(&operations::list_sockets(), &[application], &())
    }

    /// Shows what the sockets of an application did since a record.
    pub fn trace(&self, application: &str, after: u64) -> Result<SocketTrace> {
        let query = TraceQuery { after };
        self.call(&operations::trace_sockets(), &[application], &query)
    }

    /// Makes a wire what `wire` says; the steps that were taken.
    pub fn apply(&self, wire: &Wire) -> Result<WireChange> {
        let wire = Object::new(&wire.wire, wire.clone());
        self.call_within(LONG, &operations::apply_wire(), &[&wire.name], &wire)
    }

    /// The steps that applying a wire would take.
    pub fn compare(&self, wire: &Wire) -> Result<WireChange> {
        let wire = Object::new(&wire.wire, wire.clone());
        self.call(&operations::compare_wire(), &[&wire.name], &wire)
    }

    /// Counters of all ports.
    pub fn stats(&self) -> Result<Vec<PortStats>> {
        self.call(&operations::list_stats(), &[], &())
    }

    /// Counters of one port.
    pub fn stats_of(&self, port: &str) -> Result<PortStats> {
        self.call(&operations::show_stats(), &[port], &())
    }

    /// Counters of one port, of each lane apart.
    pub fn stats_by_lane(&self, port: &str) -> Result<Vec<PortStats>> {
        self.call(&operations::show_lane_stats(), &[port], &())
    }

    /// Counters of all flows.
    pub fn flow_stats(&self) -> Result<Vec<FlowStats>> {
        self.call(&operations::list_flow_stats(), &[], &())
    }

    /// The flows of which guests said that they are settled, of these VNICs; without any, of all.
    pub fn settled_flows(&self, vnics: &Selection) -> Result<Vec<SettledFlow>> {
        self.call(&operations::list_settled_flows(), &[], vnics)
    }

    /// Counters of one flow.
    pub fn stats_of_flow(&self, flow: &str) -> Result<FlowStats> {
        self.call(&operations::show_flow_stats(), &[flow], &())
    }

    /// Counters of the switch's lanes.
    pub fn lanes(&self) -> Result<Vec<LaneStats>> {
        self.call(&operations::list_lanes(), &[], &())
    }

    /// Has the node keep a saved guest, for another host.
    pub fn keep(&self, name: &str, saved: Vec<u8>) -> Result<()> {
        let path = format!("/v1/kept{}", encoded(name));
        match self.exchange(TIMEOUT, "PUT", &path, saved)? {
            (status, _) if status.is_success() => Ok(()),
            (status, body) => Err(refusal(status, &body)),
        }
    }

    /// A saved guest that the node keeps.
    pub fn kept(&self, name: &str) -> Result<Vec<u8>> {
        let path = format!("/v1/kept{}", encoded(name));
        match self.exchange(TIMEOUT, "GET", &path, Vec::new())? {
            (status, body) if status.is_success() => Ok(body.into()),
            (status, body) => Err(refusal(status, &body)),
        }
    }

    /// All counters in Prometheus's text format.
    pub fn metrics(&self) -> Result<String> {
        let (_, body) = self.exchange(TIMEOUT, "GET", "/metrics", Vec::new())?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Asks for an operation, with the parameters of its path in their order.
    fn call<B: Payload, T: Payload>(
        &self,
        operation: &Operation<B, T>,
        parameters: &[&str],
        body: &B,
    ) -> Result<T> {
        self.call_within(TIMEOUT, operation, parameters, body)
    }

    /// As [`call`](Self::call), with a limit of its own.
    fn call_within<B: Payload, T: Payload>(
        &self,
        limit: Duration,
        operation: &Operation<B, T>,
        parameters: &[&str],
        body: &B,
    ) -> Result<T> {
        let (path, body) = request(operation, parameters, body)?;
        self.ask_within(limit, operation.method.name(), &path, body)
    }

    /// Asks for an operation whose answer is a list, which is read as it grows. When `told` says
    /// not to go on, the node begins nothing more, and `told` gets the results of the work under
    /// way.
    fn each<B: Payload, T: DeserializeOwned>(
        &self,
        operation: &Operation<B, Vec<T>>,
        parameters: &[&str],
        body: &B,
        told: impl FnMut(T) -> ControlFlow<()>,
    ) -> Result<()>
    where
        Vec<T>: Payload,
    {
        let (path, body) = request(operation, parameters, body)?;
        let reader = growing::ask(&self.node, operation.method.name(), &path, body)?;
        growing::list(reader, told)
    }

    /// Asks for an operation whose answer is followed, until `told` says not to go on.
    fn follow<B: Payload, T: DeserializeOwned>(
        &self,
        operation: &Operation<B, Vec<T>>,
        parameters: &[&str],
        query: &B,
        told: impl FnMut(T) -> ControlFlow<()>,
    ) -> Result<()>
    where
        Vec<T>: Payload,
    {
        let (path, body) = request(operation, parameters, query)?;
        let reader = growing::ask(&self.node, operation.method.name(), &path, body)?;
        growing::events(reader, told)
    }

    fn ask_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T> {
        let (status, body) = self.exchange(limit, method, path, body)?;
        if status.is_success() {
            // Nothing is written where there is nothing to say.
            let body: &[u8] = if body.is_empty() { b"null" } else { &body };
            return serde_json::from_slice(body).map_err(|error| confused(&error));
        }
        Err(refusal(status, &body))
    }

    /// Sends a request and waits for the answer.
    fn exchange(
        &self,
        limit: Duration,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes)> {
        let exchange = async {
            let response = send(&self.node, method, path, body).await?;
            let status = response.status();
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| ended(&self.node, &error))?;
            Ok((status, body.to_bytes()))
        };
        runtime()?
            .block_on(async { tokio::time::timeout(limit, exchange).await })
            .map_err(|_| late(&self.node, limit))?
    }
}

/// The path and the body of a request, with the parameters of the path in their order.
fn request<B: Payload, T: Payload>(
    operation: &Operation<B, T>,
    parameters: &[&str],
    body: &B,
) -> Result<(String, Vec<u8>)> {
    let mut given = parameters.iter();
    let path: String = operation
        .path
        .split('/')
        .skip(1)
        .map(|segment| {
            let given = if segment.starts_with('{') {
                given.next()
            } else {
                None
            };
            encoded(given.copied().unwrap_or(segment))
        })
        .collect();
    let path = Operation::<B, T>::with_query(path, body)?;
    let body = if operation.has_body() {
        encode(body)?
    } else {
        Vec::new()
    };
    Ok((path, body))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failed(format_args!("the event loop: {error}")))
}

fn late(node: &Endpoint, limit: Duration) -> Error {
    let sentence = format_args!(
        "the node at {node} did not answer within {} s: it is busy, or was stopped by a signal",
        limit.as_secs()
    );
    Error::new(Kind::Unavailable, sentence)
}

/// The node's refusal as an error.
fn refusal(status: StatusCode, body: &[u8]) -> Error {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        Error::failed(format_args!("the node answered {status} without a reason"))
    })
}

fn ended(node: &Endpoint, error: &hyper::Error) -> Error {
    // That the node refuses this client's certificate, it says only after the connection stands.
    if let Some(error) = tls::cause(error) {
        let why = tls::tls_sentence(tls::Side::Client, error);
        return Error::new(Kind::Unavailable, format_args!("the node at {node}: {why}"));
    }
    Error::new(
        Kind::Unavailable,
        format_args!(
            "the node at {node} ended before it answered ({error}): the request may have been carried out"
        ),
    )
}

fn encode<B: Serialize>(body: &B) -> Result<Vec<u8>> {
    let body = asked(body).and_then(|body| serde_json::to_vec(&body));
    body.map_err(|error| Error::invalid(format_args!("the request: {error}")))
}

fn confused(error: &dyn std::fmt::Display) -> Error {
    Error::failed(format_args!(
        "the node's answer cannot be parsed: {error}: is it of the same version?"
    ))
}

/// Reads a resource, by the segments of its path.
pub(crate) async fn ask<T: DeserializeOwned>(node: &Endpoint, path: &[&str]) -> Result<T> {
    let path: String = path.iter().map(|segment| encoded(segment)).collect();
    let response = send(node, "GET", &format!("/v1{path}"), Vec::new()).await?;
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| ended(node, &error))?.to_bytes();
    if !status.is_success() {
        return Err(refusal(status, &body));
    }
    serde_json::from_slice(&body).map_err(|error| confused(&error))
}

/// Switches a connection to another protocol.
pub(crate) async fn upgrade(node: &Endpoint, path: &str, protocol: &str) -> Result<Upgraded> {
    let upgrade = [("connection", "upgrade"), ("upgrade", protocol)];
    let response = send_with(node, "POST", path, &upgrade, Vec::new()).await?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| ended(node, &error))?.to_bytes();
        return Err(refusal(status, &body));
    }
    let upgraded = hyper::upgrade::on(response).await;
    upgraded.map_err(|error| ended(node, &error))
}

/// Sends a request; the answer's beginning.
async fn send(
    node: &Endpoint,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Response<Incoming>> {
    let json = [("content-type", "application/json")];
    send_with(node, method, path, &json, body).await
}

async fn send_with(
    node: &Endpoint,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Result<Response<Incoming>> {
    let broken = |error: &dyn std::fmt::Display| {
        Error::new(
            Kind::Unavailable,
            format_args!("the node at {node}: {error}"),
        )
    };
    let (stream, half) = node.connect().await?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "node");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| broken(&error))?;
    let response = sender.send_request(request).await;
    let mut response = response.map_err(|error| ended(node, &error))?;
    response.extensions_mut().insert(half);
    Ok(response)
}

/// A path's segment with a slash before it; reserved characters are escaped (RFC 3986).
fn encoded(segment: &str) -> String {
    let mut text = String::from("/");
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-~".contains(&byte) {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_one_segment_of_a_path() {
        assert_eq!(encoded("lan-0"), "/lan-0");
        assert_eq!(encoded("a/b ?ä"), "/a%2Fb%20%3F%C3%A4");
    }

    #[test]
    fn a_node_that_is_not_there_is_told_with_its_remedy() {
        let error = Client::new("/nowhere/node.sock").node();
        assert_eq!(
            error.unwrap_err().error,
            "no node runs at /nowhere/node.sock: `weir node` starts one"
        );
    }
}
