//! Guests as domains of the store: their entries, as Xen's toolstack makes them.

use std::collections::{HashMap, HashSet};

use ::store::server::Shared;
use ::store::{ConnectionId, DomainId};

use super::message::{Change, FromStore, Introduction};
use super::routers::Routers;
use super::writer::Writer;

/// The domains that the node introduced.
pub struct Domains {
    store: Shared,
    /// The node's connection to the store.
    connection: ConnectionId,
    introduced: HashMap<u16, Introduction>,
    /// The domains reported since the node connected.
    told: HashSet<u16>,
    /// Domains whose guests have ended, until they are taken.
    released: Vec<u16>,
    routers: Routers,
}

fn path_of(domain: u16) -> String {
    format!("/local/domain/{domain}")
}

fn vm_of(uuid: &str) -> String {
    format!("/vm/{uuid}")
}

impl Domains {
    /// None but the control domain's.
    pub fn new(store: Shared) -> Domains {
        let connection = store.with(|store| store.connect(DomainId::CONTROL));
        let domains = Domains {
            routers: Routers::new(store.clone(), connection),
            store,
            connection,
            introduced: HashMap::new(),
            told: HashSet::new(),
            released: Vec::new(),
        };
        domains.with(|writer| {
            writer.write("/local/domain/0/domid", "0");
            writer.write("/local/domain/0/name", "Domain-0");
        });
        domains
    }

    fn with(&self, work: impl FnOnce(&mut Writer<'_>)) {
        let connection = self.connection;
        self.store
            .with(|store| work(&mut Writer { store, connection }));
    }

    /// A node has connected, and will report all guests.
    pub fn begin(&mut self) {
        self.told.clear();
        self.routers.begin();
    }

    /// Looks at what programs have changed of routers.
    pub fn look(&mut self) {
        self.routers.look();
    }

    /// The next messages for the node.
    pub fn next_request(&mut self) -> Option<Vec<FromStore>> {
        self.routers.next_request()
    }

    /// The domains whose guests have ended since the last call.
    pub fn take_released(&mut self) -> std::vec::Drain<'_, u16> {
        self.released.drain(..)
    }

    /// Carries out a message; returns whether the store goes on.
    pub fn change(&mut self, changes: Vec<Change>) -> bool {
        for change in changes {
            match change {
                Change::Introduce(guest) => self.introduce(guest),
                Change::Rename { domain, name } => self.rename(domain, name),
                Change::Release { domain } => self.release(domain),
                Change::Complete => {
                    let told = std::mem::take(&mut self.told);
                    let rest = self.introduced.keys().filter(|id| !told.contains(id));
                    let rest: Vec<u16> = rest.copied().collect();
                    rest.into_iter().for_each(|id| self.release(id));
                }
                Change::Part(text) => self.routers.add_part(&text),
                Change::Router {
                    domain,
                    router,
                    name,
                } => self.routers.runs(domain, router, &name),
                Change::Halted { domain, router } => self.routers.halted(domain, router),
                Change::Answer {
                    domain,
                    number,
                    outcome,
                } => self.routers.answer(domain, number, outcome),
                // The holder of the files connects it.
                Change::Connect { .. } => {}
                Change::End => return false,
            }
        }
        true
    }

    fn introduce(&mut self, guest: Introduction) {
        let domain = guest.domain;
        self.told.insert(domain);
        if let Some(there) = self.introduced.get(&domain) {
            if (there.pid, &there.uuid) == (guest.pid, &guest.uuid) {
                return self.rename(domain, guest.name);
            }
            self.release(domain);
        }
        let (path, vm) = (path_of(domain), vm_of(&guest.uuid));
        self.with(|writer| {
            writer.make_readable(&vm, domain);
            writer.write(&format!("{vm}/uuid"), &guest.uuid);
            writer.write(&format!("{vm}/name"), &guest.name);
            writer.make_readable(&path, domain);
            writer.write(&format!("{path}/domid"), &domain.to_string());
            writer.write(&format!("{path}/vm"), &vm);
            writer.write(&format!("{path}/name"), &guest.name);
            let memory = guest.memory.to_string();
            for limit in ["static-max", "target"] {
                writer.write(&format!("{path}/memory/{limit}"), &memory);
            }
            // The guest's own.
            let data = format!("{path}/data");
            writer.write(&data, "");
            writer.permit(&data, &format!("n{domain}\0"));
        });
        self.routers.introduce(&guest);
        self.with(|writer| writer.store.introduce(DomainId(domain)));
        self.introduced.insert(domain, guest);
    }

    fn rename(&mut self, domain: u16, name: String) {
        let Some(guest) = self
            .introduced
            .get_mut(&domain)
            .filter(|it| it.name != name)
        else {
            return;
        };
        guest.name = name.clone();
        let vm = vm_of(&guest.uuid);
        self.with(|writer| {
            writer.write(&format!("{}/name", path_of(domain)), &name);
            writer.write(&format!("{vm}/name"), &name);
        });
    }

    fn release(&mut self, domain: u16) {
        let Some(guest) = self.introduced.remove(&domain) else {
            return;
        };
        self.released.push(domain);
        self.routers.release(domain);
        self.with(|writer| {
            writer.store.release(DomainId(domain));
            // Nodes of the control domain are removed here.
            writer.remove(&path_of(domain));
            writer.remove(&vm_of(&guest.uuid));
        });
    }
}
