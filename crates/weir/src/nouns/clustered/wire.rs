//! `weir wire` with `--cluster`.

use cluster::context::Context;
use cluster::etcd::Store;
use cluster::wires::{self, WireRow};
use node::model::{Wire, WireChange};

use super::super::Result;
use super::super::cluster::{view, with};
use super::super::output::{Column, Output};
use super::super::verb::Waiting;
use super::super::wire::tell;
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
