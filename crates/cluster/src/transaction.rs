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
use crate::model::{Checkpoint, End, GuestRecord, Order, Placement, Report, Role, now_ms};
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

    /// Removes what a host has to do with a guest, and what it says of it, but for its checkpoint.
    fn removes_at(self, host: &str, guest: &str) -> Transaction {
        self.removes(keys::order(host, guest))
            .removes(keys::of_host(Kind::Status, host, guest))
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
                checkpoint: last_checkpoint(view, name, record),
                ..Order::new(&id, Role::Run)
            },
        )
        .removes(Kind::Waiting.of(name))
        .books(view, host, name, seen.facts);
    if let Some(before) = seen.placement {
        this = before
            .hosts()
            .filter(|gone| *gone != host)
            .fold(this, |this, gone| {
                this.expects(Kind::Alive.of(gone), 0)
                    .removes_at(gone, name)
                    .puts(Kind::Booked.of(gone), &name)
            });
    }
    this
}

/// Begins a guest's move: it is booked on both hosts until it has moved.
pub fn begin_move(view: &View, seen: &Seen<'_>, from: &Placement, to: &str) -> Transaction {
    let Seen { name, record, .. } = *seen;
    let order = |role| Order::new(&record.id, role);
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

/// The state that a guest goes on with where it is made.
fn last_checkpoint(view: &View, name: &str, record: &GuestRecord) -> Option<Checkpoint> {
    record.demand.checkpoint_s?;
    view.checkpoint(name, &record.id)
}

/// Ends a guest's move, at the host that it went to, or where it was.
pub fn end_move(view: &View, name: &str, moved: bool) -> Transaction {
    let Some(placement) = view.placement(name) else {
        return Transaction::default();
    };
    let Some(target) = &placement.target else {
        return Transaction::default();
    };
    let (at, left) = match moved {
        true => (target, &placement.host),
        false => (&placement.host, target),
    };
    let record = view.guest(name);
    let order = Order {
        checkpoint: record.and_then(|record| last_checkpoint(view, name, &record)),
        ..Order::new(&placement.id, Role::Run)
    };
    // A move that failed leaves no home to return to.
    let home = placement.home.clone().filter(|_| moved);
    Transaction::default()
        .as_seen(view, Kind::Placement.of(name))
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
        .removes_at(left, name)
        .puts(Kind::Booked.of(at), &name)
        .puts(Kind::Booked.of(left), &name)
}

/// The transaction that removes a guest, or orders its host to.
pub fn begin_removal(view: &View, name: &str) -> Option<Transaction> {
    let mut record = view.guest(name)?;
    record.removing = true;
    let (guest, place) = (Kind::Guest.of(name), Kind::Placement.of(name));
    let this = Transaction::default()
        .as_seen(view, guest.clone())
        .as_seen(view, place.clone());
    Some(match view.placement(name) {
        None => checkpoints(view, name)
            .fold(this, Transaction::removes)
            .removes(guest)
            .removes(Kind::Waiting.of(name)),
        Some(placement) => this
            .puts(guest, &record)
            .puts(
                keys::order(&placement.host, name),
                &Order::new(&record.id, Role::Remove),
            )
            // A move that ends at this moment is refused.
            .puts(place, &placement),
    })
}

/// Removes everything of a guest that is placed on a host.
pub fn remove(view: &View, name: &str) -> Transaction {
    let kinds = [Kind::Guest, Kind::Placement, Kind::Waiting];
    let this = kinds.into_iter().fold(
        Transaction::default().as_seen(view, Kind::Placement.of(name)),
        |this, kind| this.removes(kind.of(name)),
    );
    let this = checkpoints(view, name).fold(this, Transaction::removes);
    let placement = view.placement(name);
    let hosts = placement.iter().flat_map(Placement::hosts);
    hosts.fold(this, |this, host| {
        this.removes_at(host, name)
            .puts(Kind::Booked.of(host), &name)
    })
}

/// The keys of the checkpoints of a guest.
pub fn checkpoints<'a>(view: &'a View, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let hosts = view.names(Kind::Host);
    let keys = hosts.map(move |host| keys::of_host(Kind::Checkpoint, host, name));
    keys.filter(|key| view.revision_of(key) != 0)
}

/// Removes a key that a host wrote of what it has nothing to do with: of a guest that is not placed there, of a network
/// that is not there, or a report that is not of its order; or the revision of a host that is gone.
pub fn stray(view: &View, key: &str) -> Option<Transaction> {
    let revision = view.revision_of(key);
    let (kind, name) = match keys::parse_order(key) {
        Some((host, guest)) => (None, (host, guest)),
        None => {
            let (kind, name) = keys::parse(key)?;
            let of_host = keys::parse_of_host(name);
            (Some(kind), of_host.unwrap_or((name, name)))
        }
    };
    let (host, of) = name;
    let cause = match kind {
        Some(Kind::Member) => Kind::Network.of(of),
        Some(Kind::Booked) => Kind::Host.of(of),
        _ => Kind::Placement.of(of),
    };
    let placement = view.placement(of);
    let is_there = placement.is_some_and(|it| it.hosts().any(|at| at == host));
    let is_right = match kind {
        Some(Kind::Report) => ended(view, host, of).is_some(),
        None | Some(Kind::Status) => is_there,
        // It may have been taken before the guest went elsewhere.
        Some(Kind::Checkpoint) => is_there || revision < view.revision_of(&cause),
        Some(Kind::Member | Kind::Booked) => view.revision_of(&cause) != 0,
        _ => true,
    };
    (revision != 0 && !is_right).then(|| {
        Transaction::default()
            .as_seen(view, cause)
            .as_seen(view, key.into())
            .removes(key.into())
    })
}

/// How a host's order for a guest ended, if its report is of the order that there is.
fn ended(view: &View, host: &str, name: &str) -> Option<End> {
    let report: Report = view.get(&keys::of_host(Kind::Report, host, name))?;
    let (placement, order) = (view.placement(name)?, keys::order(host, name));
    let role = view.get::<Order>(&order)?.role;
    let is_its = placement.id == report.id
        && placement.host == host
        && view.revision_of(&order) == report.order;
    let fits = matches!(
        (report.end, role),
        (End::Moved | End::Stayed, Role::Send(_)) | (End::Removed, Role::Remove)
    );
    (is_its && fits).then_some(report.end)
}

/// What follows from how a host's order for a guest ended.
pub fn follow(view: &View, host: &str, name: &str) -> Option<Transaction> {
    let key = keys::of_host(Kind::Report, host, name);
    let follows = match ended(view, host, name)? {
        End::Removed => remove(view, name),
        end => end_move(view, name, end == End::Moved),
    };
    Some(
        follows
            .as_seen(view, keys::order(host, name))
            .as_seen(view, key.clone())
            .removes(key),
    )
}
