//! Clients of the API: so many at a time, none of which keeps its place by doing nothing.
//!
//! A client that does not say what it wants, or does not read what it is told, is let go after a
//! few seconds; while all places are taken, others wait to be let in. So clients of whatever kind
//! cost the node a bounded number of descriptors and a bounded amount of memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};

/// Most clients at a time.
pub const CLIENTS_MAX: usize = 64;
/// How long a client may take to say what it wants, from the moment when it could, and to read a
/// part of its answer.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes that are kept for a client, each way.
const BUFFER: usize = 64 << 10;
/// The pause after a client could not be let in: this process is out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves clients for good.
pub async fn serve(listener: UnixListener, api: Router) {
    let permits = Arc::new(Semaphore::new(CLIENTS_MAX));
    let mut settings = http1::Builder::new();
    settings
        .timer(TokioTimer::new())
        // Who has said all it wants to say may still wait for the answer.
        .half_close(true)
        .header_read_timeout(WAIT)
        .max_buf_size(BUFFER);
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let stream = Reader {
            stream,
            waits: None,
        };
        let service = TowerToHyperService::new(api.clone());
        let client = settings.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // Whatever a client does wrong is its own affair.
            let _ = client.await;
            drop(permit);
        });
    }
}

/// A client that has to read what is written to it.
struct Reader {
    stream: UnixStream,
    /// Since when it has not.
    waits: Option<Pin<Box<Sleep>>>,
}

impl Reader {
    /// What became of a write, or that it waited for too long.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let wait = self.waits.get_or_insert_with(|| Box::pin(sleep(WAIT)));
        ready!(wait.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Reader {
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

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
