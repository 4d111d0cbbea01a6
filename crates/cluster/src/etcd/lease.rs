//! A lease: keys that go with it are there as long as it is renewed.

use std::time::{Duration, Instant};

use etcd_client::Client;
use node::error::Result;

use super::{Repeat, Store};

/// A lease that this process renews.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Its number.
    pub id: i64,
    /// How long it lives after each renewal.
    pub life: Duration,
    /// When the last renewal that etcd confirmed was sent. The lease lives at least `life` from then on.
    pub renewed: Instant,
}

/// How a renewal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It lives on.
    Renewed,
    /// It has ended.
    Ended,
}

impl Lease {
    /// Gets one of about so many seconds; etcd may give more.
    pub async fn grant(store: &Store, seconds: u64) -> Result<Lease> {
        let renewed = Instant::now();
        let grant = |client: Client| async move {
            let mut leases = client.lease_client();
            leases.grant(seconds as i64, None).await
        };
        // One that was granted without an answer ends by itself.
        let granted = store.ask(Repeat::Always, grant).await?;
        Ok(Lease {
            id: granted.id(),
            life: Duration::from_secs(granted.ttl().max(1) as u64),
            renewed,
        })
    }

    /// Renews it, by whichever member answers; gives up after a while.
    pub async fn renew(&mut self, store: &Store, within: Duration) -> Result<Renewal> {
        let sent = Instant::now();
        let id = self.id;
        let renewal = move |client: Client| async move {
            match client.lease_client().keep_alive(id).await {
                Ok(_) => Ok(Renewal::Renewed),
                Err(etcd_client::Error::LeaseKeepAliveError(_)) => Ok(Renewal::Ended),
                Err(error) => Err(error),
            }
        };
        let renewal = store.ask_within(within, renewal).await?;
        if renewal == Renewal::Renewed {
            self.renewed = sent;
        }
        Ok(renewal)
    }

    /// Ends it, with its keys.
    pub async fn revoke(&self, store: &Store) -> Result<()> {
        revoke(store, self.id).await
    }
}

/// The seconds that a lease still lives, rounded down, and those that it lives after each renewal. One that has ended has
/// -1.
pub async fn left(store: &Store, id: i64) -> Result<(i64, i64)> {
    let ask = |client: Client| async move { client.lease_client().time_to_live(id, None).await };
    let answer = store.ask(Repeat::Always, ask).await?;
    Ok((answer.ttl(), answer.granted_ttl()))
}

/// Ends a lease by its number. One that has ended is no error.
pub async fn revoke(store: &Store, id: i64) -> Result<()> {
    let revoke = |client: Client| async move {
        match client.lease_client().revoke(id).await {
            Err(error) if error.to_string().contains("not found") => Ok(()),
            revoked => revoked.map(drop),
        }
    };
    store.ask(Repeat::Always, revoke).await
}
