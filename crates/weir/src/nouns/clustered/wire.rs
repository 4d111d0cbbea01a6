//! `weir wire` with `--cluster`.

use std::collections::{BTreeMap, BTreeSet};

use cluster::context::Context;
use cluster::etcd::Store;
use cluster::guests::Whereabouts;
use cluster::wires::{self, WireRow};
use node::model::{PortStats, Wire, WireChange};

use super::super::cluster::{remote, view, with};
use super::super::output::{Column, Output};
use super::super::verb::Waiting;
use super::super::wire::tell;
use super::super::{Result, client};
use super::{DemandArgs, wait};

const COLUMNS: &[Column<WireRow>] = &[
    Column::new("wire", |it| it.wire.clone()),
    Column::new("networks", |it| it.networks.join(",")),
    Column::new("guests", |it| it.guests.len().to_string()),
    Column::new("states", |it| {
        let state = |guest: &cluster::guests::GuestRow| {
            let host = guest
                .host
                .as_ref()
                .map_or(String::new(), |it| format!("@{it}"));
            format!("{}={}{host}", guest.guest, guest.state)
        };
        it.guests.iter().map(state).collect::<Vec<_>>().join(",")
    }),
    Column::new("description", |it| it.description.clone()),
];

/// Makes a wire over the hosts, and waits until its new guests run.
pub fn apply(context: &Context, wire: &Wire, demand: &DemandArgs, json: bool) -> Result {
    let name = &wire.wire;
    let waiting = Waiting::new(
        &format!("wire ‘{name}’ is being applied"),
        format!(
            "interrupted: apply wire ‘{name}’ again; `weir wire show --cluster {name}` shows it"
        ),
    );
    let (steps, made) = with(context, async |store: Store| {
        wires::apply(&store, wire, demand.given().as_ref()).await
    })?;
    drop(waiting);
    tell(&change(steps), json)?;
    with(context, async |store: Store| wait(&store, &made).await).map(drop)
}

/// The steps that [`apply`] would take.
pub fn compare(context: &Context, wire: &Wire, demand: &DemandArgs) -> Result<WireChange> {
    let steps = wires::compare(&view(context)?, wire, demand.given().as_ref())?;
    Ok(change(steps))
}

fn change(steps: Vec<String>) -> WireChange {
    WireChange {
        steps,
        ..WireChange::default()
    }
}

/// Shows a wire, or all.
pub fn show(context: &Context, wire: Option<&str>, output: &Output) -> Result {
    let view = view(context)?;
    let rows = match wire {
        Some(wire) => vec![wires::show(&view, wire)?],
        None => wires::list(&view),
    };
    output.show(&rows, COLUMNS)
}

/// Counters of the VNICs of a wire, or of all, from the hosts that have them.
pub fn stats(context: &Context, wire: Option<&str>) -> Result<Vec<PortStats>> {
    let view = view(context)?;
    let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (host, vnics) in wires::vnics(&view, wire)? {
        hosts.entry(host).or_default().extend(vnics);
    }
    let mut all = Vec::new();
    for (host, vnics) in hosts {
        let is_own = context.host.as_ref().is_some_and(|it| it.name == host);
        let address = view.host(&host).and_then(|it| it.address);
        let node = match is_own {
            true => client(),
            false => remote(
                context,
                "the cluster's wires have VNICs on",
                Whereabouts { host, address },
            )?,
        };
        let stats = node.stats()?.into_iter();
        all.extend(stats.filter(|it| vnics.contains(&it.name)));
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// A wire, as it was applied.
pub fn spec(context: &Context, wire: &str) -> Result<Wire> {
    Ok(wires::find(&view(context)?, wire)?.wire)
}

/// Removes a wire with its guests and networks.
pub fn delete(context: &Context, wire: &str) -> Result {
    let _waiting = Waiting::new(
        &format!("wire ‘{wire}’ is being removed"),
        format!("interrupted: `weir wire delete --cluster {wire}` removes what is left"),
    );
    with(context, async |store: Store| {
        wires::delete(&store, wire).await
    })
}
