//! VNICs of guests of wires. They are made before the guest, come and go with it when it moves, and are removed after
//! it.

use node::client::Client;
use node::error::{Error, Kind, Result};
use node::model::{Object, Vnic};

use super::Agent;
use super::ledger::Ledger;
use super::networks::unless_gone;
use crate::model::GuestRecord;

/// The cluster's VNICs of a host.
pub struct Vnics {
    agent: Agent,
    ledger: Ledger,
}

impl Vnics {
    pub fn new(agent: Agent) -> Result<Vnics> {
        Ok(Vnics {
            ledger: Ledger::vnics(&agent.paths)?,
            agent,
        })
    }

    /// Notes that the VNICs of a guest are the cluster's.
    pub fn note(&mut self, record: &GuestRecord) -> Result<()> {
        let names = record.vnics.keys().cloned();
        let noted = names.map(|name| (name, record.id.clone()));
        self.ledger.change(noted.collect::<Vec<_>>(), &[])
    }

    /// Makes the VNICs of a guest. One of the host's own stays, and is an error.
    pub async fn create(&mut self, record: &GuestRecord) -> Result<()> {
        let is_own = |name: &String| self.ledger.id(name) == Some(&record.id);
        let new: Vec<_> = record
            .vnics
            .iter()
            .filter(|(name, _)| !is_own(name))
            .collect();
        let names: Vec<_> = new.iter().map(|(name, _)| name.to_string()).collect();
        let taken = self.agent.ask(move |node| {
            let all = node.list::<Vnic>()?.into_iter().map(|vnic| vnic.name);
            Ok(all.into_iter().find(|name| names.contains(name)))
        });
        if let Some(name) = taken.await? {
            return Err(Error::refused(format_args!(
                "the host has a VNIC {name} that is not the cluster's: delete it there"
            )));
        }
        self.note(record)?;
        let vnics = record.vnics.clone();
        let made = move |node: &Client| {
            vnics.into_iter().try_for_each(|(name, vnic)| {
                match node.create(&Object::new(name, vnic)) {
                    // An earlier agent made it.
                    Err(error) if error.kind == Kind::Exists => Ok(()),
                    made => made.map(drop),
                }
            })
        };
        self.agent.ask(made).await
    }

    /// Removes the VNICs of guests that are not in this ledger.
    pub async fn keep_only_of(&mut self, guests: &Ledger) -> Result<()> {
        let is_left = |id: &String| guests.entries().all(|(_, guest)| guest != id);
        let left = self.ledger.entries().filter(|(_, id)| is_left(id));
        let left: Vec<_> = left.map(|(name, _)| name.clone()).collect();
        let mut removed = Vec::new();
        for name in left {
            let one = [name.clone()];
            match self.agent.ask(move |node| remove(node, &one)).await {
                Ok(()) => removed.push(name),
                Err(error) if error.kind == Kind::Unavailable => return Err(error),
                // As long as it has flows.
                Err(error) => tracing::debug!("VNIC {name} stays: {error}"),
            }
        }
        self.ledger.change([], &removed)
    }
}

/// Has a node remove all VNICs of the cluster.
pub fn clear(ledger: &mut Ledger, node: &Client) -> Result<()> {
    let names: Vec<_> = ledger.entries().map(|(name, _)| name.clone()).collect();
    remove(node, &names)?;
    ledger.change([], &names)
}

fn remove(node: &Client, names: &[String]) -> Result<()> {
    let mut names = names.iter();
    names.try_for_each(|name| node.delete::<Vnic>(name).or_else(unless_gone))
}
