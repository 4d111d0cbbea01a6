//! Asking a node: the API's client, for programs that do one thing after the other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::error::{Error, Kind, Result};

/// Longest that an answer may take: creating a guest on a busy machine takes longest.
const PATIENCE: Duration = Duration::from_secs(30);

/// The API at a socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// The API at `socket`; nothing is asked yet.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client {
            socket: socket.into(),
        }
    }

    /// The API of the node that the environment names.
    pub fn from_environment() -> Client {
        Client::new(crate::places::Places::from_environment().api())
    }

    /// Whether a node listens there.
    pub fn is_there(&self) -> bool {
        std::os::unix::net::UnixStream::connect(&self.socket).is_ok()
    }

    /// Reads what is at `path`: segments, each as it is.
    pub fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T> {
        self.ask(Method::GET, path, None)
    }

    /// Makes something new.
    pub fn post<B: Serialize, T: DeserializeOwned>(&self, path: &[&str], body: &B) -> Result<T> {
        self.ask(Method::POST, path, Some(encode(body)?))
    }

    /// Makes something what `body` says, whether it is there or not.
    pub fn put<B: Serialize, T: DeserializeOwned>(&self, path: &[&str], body: &B) -> Result<T> {
        self.ask(Method::PUT, path, Some(encode(body)?))
    }

    /// Changes something.
    pub fn patch<B: Serialize, T: DeserializeOwned>(&self, path: &[&str], body: &B) -> Result<T> {
        self.ask(Method::PATCH, path, Some(encode(body)?))
    }

    /// Removes something.
    pub fn delete(&self, path: &[&str]) -> Result<()> {
        self.ask(Method::DELETE, path, None)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<Vec<u8>>,
    ) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::failed(format_args!("the event loop: {error}")))?;
        let exchange = exchange(&self.socket, method, path, body);
        let late = || {
            Error::new(
                Kind::Unavailable,
                format_args!("the node did not answer within {} s", PATIENCE.as_secs()),
            )
        };
        let (status, body) = runtime
            .block_on(async { tokio::time::timeout(PATIENCE, exchange).await })
            .map_err(|_| late())??;
        if status.is_success() {
            // Nothing is written where there is nothing to say.
            let body: &[u8] = if body.is_empty() { b"null" } else { &body };
            return serde_json::from_slice(body).map_err(|error| confused(&error));
        }
        Err(serde_json::from_slice(&body).unwrap_or_else(|_| {
            Error::failed(format_args!("the node answered {status} without a reason"))
        }))
    }
}

fn encode<B: Serialize>(body: &B) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|error| Error::invalid(format_args!("the request: {error}")))
}

fn confused(error: &dyn std::fmt::Display) -> Error {
    Error::failed(format_args!(
        "the node's answer cannot be understood: {error}: is it of the same version?"
    ))
}

async fn exchange(
    socket: &Path,
    method: Method,
    path: &[&str],
    body: Option<Vec<u8>>,
) -> Result<(StatusCode, Bytes)> {
    let broken = |error: &dyn std::fmt::Display| {
        Error::new(
            Kind::Unavailable,
            format_args!("the node's socket {}: {error}", socket.display()),
        )
    };
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => Error::new(
            Kind::Unavailable,
            format_args!(
                "no node runs at {}: `weir node` starts one",
                socket.display()
            ),
        ),
        _ => broken(&error),
    })?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let path: String = path.iter().map(|segment| encoded(segment)).collect();
    let request = Request::builder()
        .method(method)
        .uri(format!("/v1{path}"))
        .header("host", "node")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| broken(&error))?;
    let ended = |error: hyper::Error| {
        Error::new(
            Kind::Unavailable,
            format_args!(
                "the node at {} ended before it answered ({error}): what was asked of it may be done or not",
                socket.display()
            ),
        )
    };
    let response = sender.send_request(request).await.map_err(ended)?;
    let status = response.status();
    let body = response.into_body().collect().await;
    Ok((status, body.map_err(ended)?.to_bytes()))
}

/// A path's segment with a slash before it; whatever is no plain letter is escaped (RFC 3986).
fn encoded(segment: &str) -> String {
    let mut text = String::from("/");
    for byte in segment.bytes() {
        match byte.is_ascii_alphanumeric() || b"._-~".contains(&byte) {
            true => text.push(byte.into()),
            false => text.push_str(&format!("%{byte:02X}")),
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
        let error = Client::new("/nowhere/node.sock").get::<()>(&["node"]);
        assert_eq!(
            error.unwrap_err().error,
            "no node runs at /nowhere/node.sock: `weir node` starts one"
        );
    }
}
