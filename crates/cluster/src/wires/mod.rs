//! What commands do with wires. A wire over hosts is networks and guests of the cluster: a stub is a network, and a
//! guest with its VNICs is placed like any other. Guests of a wire are near each other if the policy weighs that.

mod parts;
mod plan;

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::Wire;
use serde::Serialize;

use crate::etcd::{Outcome, Store};
use crate::guests::{self, GuestRow};
use crate::keys::Kind;
use crate::leader;
use crate::model::{Demand, Network, WireRecord};
use crate::view::View;

use plan::Plan;

/// The steps that applying a wire would take, a line each.
pub fn compare(view: &View, wire: &Wire, demand: Option<&Demand>) -> Result<Vec<String>> {
    Ok(Plan::apply(view, wire, demand)?.steps)
}

/// Makes a wire as its file says. Without a demand, its guests have that of the last time. Returns the steps, and the guests that were created.
pub async fn apply(
    store: &Store,
    wire: &Wire,
    demand: Option<&Demand>,
) -> Result<(Vec<String>, Vec<String>)> {
    let mut steps = None;
    loop {
        let view = store.view().await?;
        view.settings().ok_or_else(leader::no_cluster)?;
        let plan = Plan::apply(&view, wire, demand)?;
        let steps = steps.get_or_insert_with(|| plan.steps.clone());
        if plan.carry_out(store).await? {
            return Ok((std::mem::take(steps), plan.made));
        }
    }
}

/// Removes a wire with its guests and networks.
pub async fn delete(store: &Store, name: &str) -> Result<()> {
    loop {
        let view = store.view().await?;
        find(&view, name)?;
        if Plan::delete(&view, name)?.carry_out(store).await? {
            return Ok(());
        }
    }
}

impl Plan {
    /// Carries the plan out, if no guest has to go before; false: it has to be made again.
    async fn carry_out(&self, store: &Store) -> Result<bool> {
        if !self.gone.is_empty() {
            guests::destroy(store, &self.gone).await?;
            return Ok(false);
        }
        if self.transaction.writes.is_empty() {
            return Ok(true);
        }
        Ok(matches!(
            store.commit(&self.transaction).await?,
            Outcome::Done(_)
        ))
    }
}

/// A wire, as it was applied.
pub fn find(view: &View, name: &str) -> Result<WireRecord> {
    view.get(&Kind::Wire.of(name)).ok_or_else(|| {
        let known: Vec<_> = view.names(Kind::Wire).take(20).collect();
        Error::new(
            ErrorKind::NotFound,
            match known.as_slice() {
                [] => format!(
                    "there is no wire {name} in the cluster: `weir wire apply --cluster` makes one"
                ),
                known => format!(
                    "there is no wire {name} in the cluster: there are {}",
                    known.join(", ")
                ),
            },
        )
    })
}

/// A wire as it is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WireRow {
    /// Its name.
    pub wire: String,
    /// Its networks.
    pub networks: Vec<String>,
    /// Its guests, with their hosts and states.
    pub guests: Vec<GuestRow>,
    /// A description for people.
    pub description: String,
}

/// All wires.
pub fn list(view: &View) -> Vec<WireRow> {
    let wires = view.names(Kind::Wire);
    wires.filter_map(|name| show(view, name).ok()).collect()
}

/// A wire.
pub fn show(view: &View, name: &str) -> Result<WireRow> {
    let record = find(view, name)?;
    let guests = guests_of(view, name).filter_map(|guest| {
        let mut row = guests::row(view, guest)?;
        row.record = None;
        row.reason = row.reason.or_else(|| guests::why_waits(view, guest));
        Some(row)
    });
    Ok(WireRow {
        wire: name.into(),
        networks: networks_of(view, name).map(String::from).collect(),
        guests: guests.collect(),
        description: record.wire.description,
    })
}

/// The VNICs of the guests of a wire, or of all wires, with the hosts that run these.
pub fn vnics(view: &View, wire: Option<&str>) -> Result<Vec<(String, Vec<String>)>> {
    let wires: Vec<&str> = match wire {
        Some(wire) => find(view, wire).map(|_| vec![wire])?,
        None => view.names(Kind::Wire).collect(),
    };
    let guests = wires.into_iter().flat_map(|wire| guests_of(view, wire));
    let vnics = guests.filter_map(|guest| {
        let (record, placement) = (view.guest(guest)?, view.placement(guest)?);
        Some((placement.host, record.vnics.into_keys().collect()))
    });
    Ok(vnics.collect())
}

/// The guests of a wire.
fn guests_of<'a>(view: &'a View, wire: &'a str) -> impl Iterator<Item = &'a str> {
    let guests = view.names(Kind::Guest);
    guests.filter(move |name| {
        let record = view.guest(name);
        record.is_some_and(|it| it.wire.as_deref() == Some(wire))
    })
}

/// The networks of a wire.
fn networks_of<'a>(view: &'a View, wire: &'a str) -> impl Iterator<Item = &'a str> {
    let networks = view.names(Kind::Network);
    networks.filter(move |name| {
        let record = view.get::<Network>(&Kind::Network.of(name));
        record.is_some_and(|it| it.wire.as_deref() == Some(wire))
    })
}
