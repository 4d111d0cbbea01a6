//! Transactions on placements. Each compares the revisions of the keys that it was decided on, so that of any number of
//! schedulers and agents that act at once, one is right and the others decide again.
//!
//! A host's revision is that of its key `booked/HOST`. All that changes what is placed on a host writes this key in the
//! same transaction, after what it changes. So a scheduler that saw the key at this revision has seen every placement on
//! the host, even one that has taken in only the first changes of a transaction, and a placement that compares the key
//! cannot book more than fits.

use scheduler::facts;
use serde::Serialize;

use crate::keys::{self, Kind};
use crate::model::{GuestRecord, Order, Placement, Role, now_ms};
use crate::view::View;

/// Keys and the revisions that they must have, and what is written then: all or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    /// Keys and the revisions of their last change; 0: the key is absent.
    pub expected: Vec<(String, i64)>,
    /// Keys and their new values; none: the key is removed.
    pub writes: Vec<(String, Option<Vec<u8>>)>,
    /// The lease that the written keys go with.
    pub lease: Option<i64>,
}

impl Transaction {
    /// Expects a key as a view has it.
    #[must_use]
    pub fn as_seen(self, view: &View, key: String) -> Transaction {
        let revision = view.revision_of(&key);
        self.expects(key, revision)
    }

    /// Expects a key's last change at this revision; 0: that it is absent.
    #[must_use]
    pub fn expects(mut self, key: String, revision: i64) -> Transaction {
        self.expected.push((key, revision));
        self
    }

    /// Writes a key.
    #[must_use]
    pub fn puts(mut self, key: String, value: &impl Serialize) -> Transaction {
        let value = serde_json::to_vec(value).unwrap_or_default();
        self.writes.push((key, Some(value)));
        self
    }

    /// Removes a key.
    #[must_use]
    pub fn removes(mut self, key: String) -> Transaction {
        self.writes.push((key, None));
        self
    }

    /// Lets the written keys go with a lease.
    #[must_use]
    pub fn under(mut self, lease: i64) -> Transaction {
        self.lease = Some(lease);
        self
    }

    /// Books a guest on a host: everything that the host's place in the decision was made on.
    fn books(self, view: &View, host: &str, guest: &str, facts: &facts::Guest) -> Transaction {
        let hard = facts.affinity.iter().filter(|member| member.hard);
        let groups = hard.map(|member| Kind::Group.of(&member.group));
        let kinds = [Kind::Host, Kind::Alive, Kind::Facts].map(|kind| kind.of(host));
        let mut this = kinds
            .into_iter()
            .fold(self, |this, key| this.as_seen(view, key));
        for key in groups.chain([Kind::Booked.of(host)]) {
            this = this.as_seen(view, key.clone()).puts(key, &guest);
        }
        this
    }
}

/// A guest and where it is, as a view has them.
pub struct Seen<'a> {
    /// Its name.
    pub name: &'a str,
    /// The guest.
    pub record: &'a GuestRecord,
    /// Where it is.
    pub placement: Option<&'a Placement>,
    /// What the scheduler knows of it.
    pub facts: &'a facts::Guest,
}

/// Places a guest on a host. If it was placed before, that host must be gone.
pub fn place(view: &View, seen: &Seen<'_>, host: &str) -> Transaction {
    let Seen { name, record, .. } = *seen;
    let id = record.id.clone();
    let mut this = Transaction::default()
        .as_seen(view, Kind::Guest.of(name))
        .as_seen(view, Kind::Placement.of(name))
        .puts(
            Kind::Placement.of(name),
            &Placement {
                id: id.clone(),
                host: host.into(),
                target: None,
                home: None,
                since_ms: now_ms(),
            },
        )
        .puts(
            keys::order(host, name),
            &Order {
                id,
                role: Role::Run,
            },
        )
        .books(view, host, name, seen.facts);
    if let Some(before) = seen.placement {
        this = [Some(&before.host), before.target.as_ref()]
            .into_iter()
            .flatten()
            .filter(|gone| *gone != host)
            .fold(this, |this, gone| {
                this.expects(Kind::Alive.of(gone), 0)
                    .removes(keys::order(gone, name))
                    .puts(Kind::Booked.of(gone), &name)
            });
    }
    this
}

/// Begins a guest's move: it is booked on both hosts until it has moved.
pub fn begin_move(view: &View, seen: &Seen<'_>, from: &Placement, to: &str) -> Transaction {
    let Seen { name, record, .. } = *seen;
    let order = |role| Order {
        id: record.id.clone(),
        role,
    };
    let is_left = view.host(&from.host).is_some_and(|host| host.maintenance);
    let home = from
        .home
        .clone()
        .or_else(|| is_left.then(|| from.host.clone()));
    Transaction::default()
        .as_seen(view, Kind::Guest.of(name))
        .as_seen(view, Kind::Placement.of(name))
        .as_seen(view, Kind::Alive.of(&from.host))
        .puts(
            Kind::Placement.of(name),
            &Placement {
                target: Some(to.into()),
                home: home.filter(|home| home != to),
                since_ms: now_ms(),
                ..from.clone()
            },
        )
        .puts(keys::order(&from.host, name), &order(Role::Send(to.into())))
        .puts(keys::order(to, name), &order(Role::Receive(false)))
        .books(view, to, name, seen.facts)
}

/// Ends a guest's move, at the host that it went to, or where it was.
pub fn end_move(name: &str, revision: i64, placement: &Placement, moved: bool) -> Transaction {
    let Some(target) = &placement.target else {
        return Transaction::default();
    };
    let (at, left) = match moved {
        true => (target, &placement.host),
        false => (&placement.host, target),
    };
    let order = Order {
        id: placement.id.clone(),
        role: Role::Run,
    };
    // A move that failed leaves no home to return to.
    let home = placement.home.clone().filter(|_| moved);
    Transaction::default()
        .expects(Kind::Placement.of(name), revision)
        .puts(
            Kind::Placement.of(name),
            &Placement {
                host: at.clone(),
                target: None,
                home,
                since_ms: now_ms(),
                id: placement.id.clone(),
            },
        )
        .puts(keys::order(at, name), &order)
        .removes(keys::order(left, name))
        .puts(Kind::Booked.of(at), &name)
        .puts(Kind::Booked.of(left), &name)
}

/// Removes everything of a guest that is placed on a host.
pub fn remove(name: &str, placement: &Placement) -> Transaction {
    let hosts = [Some(&placement.host), placement.target.as_ref()];
    let kinds = [Kind::Guest, Kind::Placement, Kind::Status, Kind::Checkpoint];
    let this = kinds
        .into_iter()
        .fold(Transaction::default(), |this, kind| {
            this.removes(kind.of(name))
        });
    hosts.into_iter().flatten().fold(this, |this, host| {
        this.removes(keys::order(host, name))
            .puts(Kind::Booked.of(host), &name)
    })
}
