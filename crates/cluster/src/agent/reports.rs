//! How orders ended, as this host says. The leader writes what follows.

use node::error::Result;

use super::Agent;
use crate::etcd::Outcome;
use crate::keys::{self, Kind};
use crate::model::{End, Order, Report};
use crate::transaction::Transaction;
use crate::view::View;

/// An order of this host.
pub struct Ordered {
    /// The guest.
    pub name: String,
    /// Tells it from another guest of that name.
    pub id: String,
    /// The revision of the order.
    pub revision: i64,
}

impl Ordered {
    /// The order for a guest, as a view has it.
    pub fn seen(agent: &Agent, view: &View, name: &str, order: &Order) -> Ordered {
        Ordered {
            name: name.into(),
            id: order.id.clone(),
            revision: view.revision_of(&keys::order(&agent.host.name, name)),
        }
    }

    /// Whether it holds and its end was not reported; and what etcd has of it.
    async fn look(&self, agent: &Agent) -> Result<(bool, View)> {
        let mut view = View::default();
        let (order, key) = self.keys(agent);
        agent.store.read_key(&mut view, &order).await?;
        agent.store.read_key(&mut view, &key).await?;
        let report = view.get::<Report>(&key);
        let is_told = report.is_some_and(|it| it.id == self.id && it.order == self.revision);
        let holds = view.revision_of(&order) == self.revision;
        Ok((holds && !is_told, view))
    }

    fn keys(&self, agent: &Agent) -> (String, String) {
        let host = &agent.host.name;
        let report = keys::of_host(Kind::Report, host, &self.name);
        (keys::order(host, &self.name), report)
    }

    /// Whether something is to be done.
    pub async fn is_open(&self, agent: &Agent) -> Result<bool> {
        Ok(self.look(agent).await?.0)
    }

    /// Reports how it ended, unless that was done, or the order changed meanwhile; whether it was reported now.
    pub async fn report(&self, agent: &Agent, end: End) -> Result<bool> {
        let (is_open, view) = self.look(agent).await?;
        if !is_open {
            return Ok(false);
        }
        let (order, key) = self.keys(agent);
        let report = Report {
            id: self.id.clone(),
            order: self.revision,
            end,
        };
        let told = Transaction::default()
            .as_seen(&view, order)
            .as_seen(&view, key.clone())
            .puts(key, &report);
        Ok(agent.store.commit(&told).await? != Outcome::Changed)
    }
}
