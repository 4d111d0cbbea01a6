//! Connections of clients, with timeouts for idle ones.
//!
//! The node disconnects a client that sends no request, or does not read its answer, after a few seconds, or earlier to
//! make room for another one ([`super::clients`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONNECTION, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use super::clients::{Client, ClientIdentity, Clients};
use crate::config::{Config, Role};
use crate::tls;

/// Time that a client has to send a request, and to read its answer. For an answer, each [`RATE`] bytes add a second.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of an answer that a client must read in each further second.
const RATE: u32 = 64 << 10;
/// Bytes that are kept for a client, each way.
const BUFFER: usize = 64 << 10;
/// How much of a body that nothing reads is read before the answer, in bytes, and for how long.
const DISCARDED: usize = 64 << 20;
const DISCARD: Duration = Duration::from_secs(1);
/// The pause after a client could not be let in: this process is out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The answer to a client when there are too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    content-length: 79\r\nconnection: close\r\n\r\n\
    {\"kind\":\"unavailable\",\"error\":\"the node has too many clients: try again later\"}";

/// Serves clients, without end.
pub async fn serve(listener: UnixListener, api: Router, clients: Arc<Clients>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let Ok(peer) = stream.peer_cred() else {
            continue;
        };
        let own = rustix::process::geteuid().as_raw();
        let who = match peer.uid() {
            user if user == 0 || user == own => ClientIdentity::Root,
            user => ClientIdentity::User(user),
        };
        let mut waiting = Some(stream);
        let api = api.clone();
        let served = clients.serve(who, Some(Role::Admin), |client| {
            let stream = waiting.take();
            async move {
                if let Some(stream) = stream {
                    connection(stream, api, client).await;
                }
            }
        });
        if !served && let Some(stream) = waiting {
            // Should it not take this at once, it is told nothing.
            let _ = stream.try_write(FULL);
        }
    }
}

/// Clients of the network that have not shown their certificates yet.
const HANDSHAKES_MAX: usize = 256;

/// Serves clients of the network, without end. Each shows a certificate, whose name has a role by `config`.
pub async fn serve_tls(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    config: Arc<Config>,
    api: Router,
    clients: Arc<Clients>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let acceptor = TlsAcceptor::from(tls);
    while let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await {
        let Ok((stream, address)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        // Send without waiting for acknowledgements (TCP_NODELAY). An error costs speed only.
        let _ = stream.set_nodelay(true);
        let (acceptor, config) = (acceptor.clone(), Arc::clone(&config));
        let (api, clients) = (api.clone(), Arc::clone(&clients));
        tokio::spawn(async move {
            let handshake = acceptor.accept(stream).into_fallible();
            let handshake = timeout(WAIT, handshake).await;
            let stream = match handshake {
                Ok(Ok(stream)) => stream,
                Ok(Err((error, stream))) => {
                    let why = tls::sentence(tls::Side::Node, &error);
                    tracing::debug!(%address, why, "a client at {address} is refused: {why}");
                    linger(stream).await;
                    return;
                }
                Err(_) => return,
            };
            drop(permit);
            let certificates = stream.get_ref().1.peer_certificates();
            let names = certificates.and_then(|all| all.first());
            let names = names.map_or(Vec::new(), |certificate| tls::names(certificate));
            let (name, role) = match config.role(&names) {
                Some((name, role)) => (name.to_string(), Some(role)),
                None => (names.into_iter().next().unwrap_or_default(), None),
            };
            clients.serve(ClientIdentity::Name(name), role, |client| {
                connection(stream, api, client)
            });
        });
    }
}

/// Ends a connection after a refusal was sent. A client may have sent its request already: the kernel would reset the
/// connection for what is not read, and the client might lose the refusal.
async fn linger(mut stream: TcpStream) {
    // The client may be gone.
    let _ = stream.shutdown().await;
    let mut read = (&mut stream).take(DISCARDED as u64);
    let _ = timeout(DISCARD, tokio::io::copy(&mut read, &mut tokio::io::sink())).await;
}

/// A client's socket, with any protocol.
trait Socket {
    /// The socket itself.
    fn socket(&self) -> BorrowedFd<'_>;
}

impl Socket for UnixStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for TlsStream<TcpStream> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.get_ref().0.as_fd()
    }
}

/// Serves one client until one of both closes the connection.
async fn connection<S>(stream: S, api: Router, client: Client)
where
    S: AsyncRead + AsyncWrite + Socket + Send + Unpin + 'static,
{
    let stream = Reader {
        stream,
        limit: None,
        has_enough: client.has_enough(),
    };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (mut api, client) = (api.clone(), client.clone());
        client.set_busy(request.body().is_end_stream());
        let (head, body) = request.into_parts();
        let body = LentBody(Arc::new(Mutex::new(body)));
        let mut request = hyper::Request::from_parts(head, Body::new(body.clone()));
        request.extensions_mut().insert(client.clone());
        async move {
            let mut answer = api.call(request).await;
            if !body.discard().await
                && let Ok(answer) = &mut answer
            {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            client.set_busy(false);
            answer
        }
    });
    let mut settings = http1::Builder::new();
    settings
        .timer(TokioTimer::new())
        // A client that has closed its half of the connection may still wait for the answer.
        .half_close(true)
        .header_read_timeout(WAIT)
        .max_buf_size(BUFFER);
    // A client's errors end its own connection only.
    let _ = settings
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// A request's body, lent to the API. What the API has not read is read before the answer is sent: many clients read
/// an answer only after they have sent the whole body, and a connection goes on after a whole request only.
#[derive(Clone)]
struct LentBody(Arc<Mutex<Incoming>>);

impl LentBody {
    fn locked(&self) -> MutexGuard<'_, Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and drops the rest, up to the limits of length and time. Returns whether it reached the end.
    async fn discard(mut self) -> bool {
        if self.is_end_stream() {
            return true;
        }
        let mut left = DISCARDED;
        let read = async {
            while let Some(frame) = self.frame().await {
                let length = frame.ok()?.data_ref().map_or(0, Bytes::len);
                left = left.checked_sub(length)?;
            }
            Some(())
        };
        matches!(timeout(DISCARD, read).await, Ok(Some(())))
    }
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        Pin::new(&mut *self.locked()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.locked().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.locked().size_hint()
    }
}

/// A client's stream, with a time limit for reading its answers.
struct Reader<S> {
    stream: S,
    /// When it has to have read all that was written to it since it first kept the node waiting.
    limit: Option<Pin<Box<Sleep>>>,
    /// Whether the client has closed its half of the connection, which is not read while its answer is written.
    has_enough: Arc<AtomicBool>,
}

impl<S> Reader<S> {
    /// The result of a write, or an error if it waited for too long.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match (&written, &mut self.limit) {
            (Poll::Ready(Ok(length)), Some(limit)) => {
                let more = Duration::from_secs(1) * (*length as u32) / RATE;
                let later = limit.deadline() + more;
                limit.as_mut().reset(later);
            }
            (Poll::Ready(_), _) => {}
            (Poll::Pending, limit) => {
                let limit = limit.get_or_insert_with(|| Box::pin(sleep(WAIT)));
                ready!(limit.as_mut().poll(context));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Reader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Socket + Unpin> AsyncWrite for Reader<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when all that is kept for the client was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.limit = None;
        let mut end = [PollFd::from_borrowed_fd(
            self.stream.socket(),
            PollFlags::RDHUP,
        )];
        if poll(&mut end, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            self.has_enough.store(true, Ordering::Relaxed);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_client_without_a_place_is_told_is_an_answer() {
        let text = std::str::from_utf8(super::FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let error: crate::error::Error = serde_json::from_str(body).unwrap();
        assert_eq!(error.kind, crate::error::Kind::Unavailable);
    }
}
