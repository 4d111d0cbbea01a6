//! What an agent tells Prometheus: whether it leads, what it decided, and, if it leads, how many hosts and guests there
//! are.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use node::error::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longest request, in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// Longest that a client may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Whether this agent leads.
    pub leads: bool,
    /// Hosts that are up and take guests.
    pub up: u64,
    /// Hosts in maintenance.
    pub maintenance: u64,
    /// Hosts that do not answer.
    pub down: u64,
    /// Guests that hosts run.
    pub placed: u64,
    /// Guests that no host runs.
    pub waiting: u64,
    /// Guests that move.
    pub moving: u64,
    /// Decisions where a new guest runs.
    pub placements: u64,
    /// Decisions where a guest runs whose host is lost.
    pub recoveries: u64,
    /// Moves away from a host in maintenance.
    pub evacuations: u64,
    /// Other moves.
    pub moves: u64,
}

impl Figures {
    /// As Prometheus reads them.
    fn text(&self) -> String {
        let counters = [
            (
                "placements",
                "Decisions where a new guest runs.",
                self.placements,
            ),
            (
                "recoveries",
                "Decisions where a guest runs whose host is lost.",
                self.recoveries,
            ),
            (
                "evacuations",
                "Moves away from a host in maintenance.",
                self.evacuations,
            ),
            ("moves", "Moves for another reason.", self.moves),
        ];
        let states = [
            (
                "hosts",
                "Hosts by their state; told by the leader.",
                [
                    ("up", self.up),
                    ("maintenance", self.maintenance),
                    ("down", self.down),
                ],
            ),
            (
                "guests",
                "Guests by their state; told by the leader.",
                [
                    ("placed", self.placed),
                    ("waiting", self.waiting),
                    ("moving", self.moving),
                ],
            ),
        ];
        let mut text = format!(
            "# HELP weir_cluster_leader Whether this host leads.\n# TYPE weir_cluster_leader gauge\nweir_cluster_leader {}\n",
            u8::from(self.leads)
        );
        // Writing to text does not fail.
        for (name, help, value) in counters {
            let name = format!("weir_cluster_{name}_total");
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n"
            );
        }
        for (name, help, values) in states.into_iter().filter(|_| self.leads) {
            let name = format!("weir_cluster_{name}");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
            for (state, value) in values {
                let _ = writeln!(text, "{name}{{state=\"{state}\"}} {value}");
            }
        }
        text
    }
}

/// The figures of an agent, which its tasks share.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Figures>>);

impl Metrics {
    /// Changes the figures.
    pub fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Answers `GET /metrics` at an address, one client after the other, until this future is dropped.
    pub async fn serve(&self, at: SocketAddr) -> Result<()> {
        let listener = TcpListener::bind(at)
            .await
            .map_err(|error| Error::invalid(format_args!("--metrics {at}: {error}")))?;
        loop {
            if let Ok((mut client, _)) = listener.accept().await {
                let _ = timeout(PATIENCE, self.answer(&mut client)).await;
            }
        }
    }

    async fn answer(&self, client: &mut TcpStream) -> std::io::Result<()> {
        let mut request = Vec::new();
        while !request.windows(4).any(|it| it == b"\r\n\r\n") && request.len() < REQUEST_MAX {
            if client.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let (status, body) = match request.starts_with(b"GET /metrics ") {
            true => ("200 OK", self.text()),
            false => ("404 Not Found", "ask for /metrics\n".into()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leader_tells_of_hosts_and_guests() {
        let mut figures = Figures {
            up: 2,
            placements: 7,
            ..Figures::default()
        };
        let text = figures.text();
        assert!(text.contains("\nweir_cluster_leader 0\n"), "{text}");
        assert!(
            text.contains("\nweir_cluster_placements_total 7\n"),
            "{text}"
        );
        assert!(!text.contains("weir_cluster_hosts"), "{text}");
        figures.leads = true;
        let text = figures.text();
        assert!(
            text.contains("\nweir_cluster_hosts{state=\"up\"} 2\n"),
            "{text}"
        );
    }
}
