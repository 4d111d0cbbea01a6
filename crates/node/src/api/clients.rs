//! Clients of the API: their identities, and limits on their use of the node.
//!
//! A connection costs a descriptor and up to 64 KiB, so there may be many; at the limit, an idle connection is closed.
//! Expensive resources are limited for each user: requests under way, and memory for long bodies. So no user keeps
//! another one waiting, and a share of each resource is reserved for root.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use crate::audit::Audit;
use crate::config::Role;
use crate::error::{Error, Kind, Result};
use crate::operation::{LONG_BODY, Method};

/// Most connections, unless the process may have few descriptors.
const CONNECTIONS_MAX: usize = 2048;
/// Requests that change something, of one user at a time. They may wait for guests.
const CHANGES: usize = 64;
/// Requests that only read, of one user at a time. The first requests of connections have turns of their own, so that
/// commands, which ask once, do not wait for clients that ask again and again.
const READS: usize = 16;
/// Bodies of up to so many bytes need no turn.
const SHORT_BODY: usize = 16 << 10;
/// What bodies are counted in, in bytes.
const UNIT: usize = 1 << 10;
/// How long a long body may wait for its turn.
const ROOM_WAIT: Duration = Duration::from_secs(20);
/// A connection that has waited this long may be dropped in favour of a new one.
const IDLE: Duration = Duration::from_millis(100);

/// A client's identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientIdentity {
    /// Root, or the user of the node.
    Root,
    /// Another user of this host, by number.
    User(u32),
    /// A client of the network, by the name in its certificate.
    Name(String),
}

impl fmt::Display for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientIdentity::Root => f.write_str("root"),
            ClientIdentity::User(number) => write!(f, "user {number}"),
            ClientIdentity::Name(name) => f.write_str(name),
        }
    }
}

/// The state that the clients of one user share.
#[derive(Debug)]
struct User {
    connections: AtomicUsize,
    changes: Arc<Semaphore>,
    first_reads: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Default for User {
    fn default() -> User {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        User {
            connections: AtomicUsize::new(0),
            changes: semaphore(CHANGES),
            first_reads: semaphore(READS),
            reads: semaphore(READS),
            bodies: semaphore(units(LONG_BODY)),
        }
    }
}

/// A client, as its requests know it.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its identity.
    pub who: ClientIdentity,
    /// Its role; `None` permits nothing.
    role: Option<Role>,
    audit: Arc<Audit>,
    user: Arc<User>,
    /// Memory for long bodies: root's is its own, the others share.
    bodies: Arc<Semaphore>,
    state: Arc<State>,
    has_asked: Arc<AtomicBool>,
    /// Whether it wants no more than the work under way.
    has_enough: Arc<AtomicBool>,
}

/// Since when a connection waits for a whole request; none while one is answered.
#[derive(Debug)]
struct State(Mutex<Option<Instant>>);

impl Default for State {
    fn default() -> State {
        State(Mutex::new(Some(Instant::now())))
    }
}

impl State {
    fn idle_since(&self) -> Option<Instant> {
        *locked(&self.0)
    }
}

/// A request's permits for a slot and for memory, released when it is dropped.
#[derive(Debug, Default)]
pub struct Permits {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Client {
    /// Whether it wants no more than the work under way: it has closed its half of the connection, or disconnected.
    pub fn has_enough(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_enough)
    }

    /// Notes that a whole request has come, or that it was answered.
    pub fn set_busy(&self, busy: bool) {
        *locked(&self.state.0) = (!busy).then(Instant::now);
    }

    /// Refuses what needs a higher role than the client has.
    pub fn check(&self, needed: Role) -> Result<()> {
        let who = &self.who;
        let sentence = match self.role {
            Some(role) if role >= needed => return Ok(()),
            Some(role) => format!("‘{who}’ has the role {role}, and this needs the role {needed}"),
            None => {
                format!("‘{who}’ has no role at this node: its `--config` lists them in [roles]")
            }
        };
        Err(Error::new(Kind::Forbidden, sentence))
    }

    /// Records the outcome of a change that the client asked for.
    pub fn note(&self, what: &str, outcome: std::result::Result<(), &Error>) {
        self.audit.note(&self.who.to_string(), what, outcome);
    }

    /// Waits for the turn of a request.
    pub async fn turn(&self, method: Method) -> Permits {
        let has_asked = self.has_asked.swap(true, Ordering::Relaxed);
        let requests = match method {
            Method::Get if has_asked => &self.user.reads,
            Method::Get => &self.user.first_reads,
            _ => &self.user.changes,
        };
        Permits {
            _permits: permit(requests, 1).await.into_iter().collect(),
        }
    }

    /// Waits until there is room for a body of `length` bytes.
    pub async fn room(&self, length: usize) -> Result<Permits> {
        if length <= SHORT_BODY {
            return Ok(Permits::default());
        }
        let units = units(length) as u32;
        let room = async {
            let own = permit(&self.user.bodies, units).await;
            let shared = permit(&self.bodies, units).await;
            own.into_iter().chain(shared).collect()
        };
        match tokio::time::timeout(ROOM_WAIT, room).await {
            Ok(permits) => Ok(Permits { _permits: permits }),
            Err(_) => Err(Error::new(
                Kind::Unavailable,
                format_args!(
                    "other long requests kept this one waiting for {} s: try again",
                    ROOM_WAIT.as_secs()
                ),
            )),
        }
    }
}

fn units(length: usize) -> usize {
    length.div_ceil(UNIT)
}

/// None of these semaphores is ever closed, which is the only error.
async fn permit(semaphore: &Arc<Semaphore>, permits: u32) -> Option<OwnedSemaphorePermit> {
    let semaphore = Arc::clone(semaphore);
    semaphore.acquire_many_owned(permits).await.ok()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All connections.
pub struct Clients {
    table: Mutex<Table>,
    /// Memory for long bodies: root's, and that of all others.
    bodies: [Arc<Semaphore>; 2],
    /// Most connections.
    most: usize,
    audit: Arc<Audit>,
}

#[derive(Default)]
struct Table {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    /// Number of connections that are not root's.
    others: usize,
    users: HashMap<ClientIdentity, Arc<User>>,
}

struct Connection {
    who: ClientIdentity,
    state: Arc<State>,
    task: AbortHandle,
}

/// A connection's place among the others, until it is dropped.
struct Place {
    clients: Arc<Clients>,
    number: u64,
}

impl Clients {
    /// None yet, of a process that may have this many descriptors. Guests and interfaces need most of those.
    pub fn new(descriptors: u64, audit: Audit) -> Arc<Clients> {
        let most = (descriptors / 4).clamp(16, CONNECTIONS_MAX as u64) as usize;
        Clients::of(most, audit)
    }

    fn of(most: usize, audit: Audit) -> Arc<Clients> {
        let bodies = || Arc::new(Semaphore::new(units(LONG_BODY)));
        Arc::new(Clients {
            table: Mutex::default(),
            bodies: [bodies(), bodies()],
            most,
            audit: Arc::new(audit),
        })
    }

    /// Where changes are recorded.
    pub fn audit(&self) -> Arc<Audit> {
        Arc::clone(&self.audit)
    }

    /// Serves a client by the task that `serve` makes. If there are too many clients, the same user's longest idle
    /// connection is closed; if none is idle, this client is refused.
    pub fn serve<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Clients>,
        who: ClientIdentity,
        role: Option<Role>,
        serve: impl FnOnce(Client) -> F,
    ) -> bool {
        let mut table = locked(&self.table);
        if !self.has_room(&table, &who) && !self.make_room(&mut table, &who) {
            return false;
        }
        let user = table.users.entry(who.clone()).or_default();
        user.connections.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(State::default());
        let client = Client {
            user: Arc::clone(user),
            bodies: Arc::clone(&self.bodies[usize::from(who != ClientIdentity::Root)]),
            state: Arc::clone(&state),
            has_asked: Arc::default(),
            has_enough: Arc::default(),
            role,
            audit: Arc::clone(&self.audit),
            who: who.clone(),
        };
        table.others += usize::from(who != ClientIdentity::Root);
        let number = table.next;
        table.next += 1;
        let clients = Arc::clone(self);
        let place = Place { clients, number };
        let served = serve(client);
        let task = tokio::spawn(async move {
            served.await;
            drop(place);
        });
        let task = task.abort_handle();
        table
            .connections
            .insert(number, Connection { who, state, task });
        true
    }

    /// Whether one more connection of a user has room. A quarter of all is root's alone, and no other user has more
    /// than half.
    fn has_room(&self, table: &Table, who: &ClientIdentity) -> bool {
        let own = table.users.get(who);
        let own = own.map_or(0, |user| user.connections.load(Ordering::Relaxed));
        let is_full = table.connections.len() >= self.most;
        match who {
            ClientIdentity::Root => !is_full,
            _ => !is_full && table.others < self.most * 3 / 4 && own < self.most / 2,
        }
    }

    /// Ends an idle connection to make room for a user, if there is one that it may replace.
    fn make_room(&self, table: &mut Table, who: &ClientIdentity) -> bool {
        let own = table.longest_idle(|other| other == who);
        let longest = own.or_else(|| match who {
            ClientIdentity::Root => table.longest_idle(|_| true),
            _ => None,
        });
        let gone = longest.and_then(|number| table.remove(number));
        gone.inspect(|gone| gone.task.abort()).is_some()
    }
}

impl Table {
    /// The connection that has been idle for the longest time, among the users that `may`.
    fn longest_idle(&self, may: impl Fn(&ClientIdentity) -> bool) -> Option<u64> {
        let idle = |(number, it): (&u64, &Connection)| {
            let since = it.state.idle_since().filter(|_| may(&it.who))?;
            (since.elapsed() >= IDLE).then_some((since, *number))
        };
        let longest = self.connections.iter().filter_map(idle).min()?;
        Some(longest.1)
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let gone = self.connections.remove(&number)?;
        self.others -= usize::from(gone.who != ClientIdentity::Root);
        if let Some(user) = self.users.get(&gone.who)
            && user.connections.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.users.remove(&gone.who);
        }
        Some(gone)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.clients.table).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that stays in its state, idle or served.
    fn stays(clients: &Arc<Clients>, who: &ClientIdentity, busy: bool) -> bool {
        clients.serve(who.clone(), Some(Role::Admin), |client| async move {
            client.set_busy(busy);
            std::future::pending().await
        })
    }

    fn count(clients: &Clients, who: &ClientIdentity) -> usize {
        let table = locked(&clients.table);
        let all = table.connections.values();
        all.filter(|it| it.who == *who).count()
    }

    async fn settle() {
        tokio::time::sleep(2 * IDLE).await;
    }

    #[tokio::test]
    async fn a_user_with_too_many_connections_loses_the_idle_ones_and_no_other_user_does() {
        let clients = Clients::of(16, Audit::default());
        let (one, other) = (ClientIdentity::User(1), ClientIdentity::User(2));
        assert!((0..4).all(|_| stays(&clients, &other, false)));
        assert!((0..6).all(|_| stays(&clients, &one, true)));
        assert!((0..2).all(|_| stays(&clients, &one, false)));
        settle().await;
        // Half of all; then the two idle ones go, and then there is none to go.
        assert!((0..2).all(|_| stays(&clients, &one, true)));
        assert!(!stays(&clients, &one, true));
        assert_eq!((count(&clients, &one), count(&clients, &other)), (8, 4));
        // The last quarter is root's, which may have the places of idle clients besides.
        assert!(!stays(&clients, &ClientIdentity::User(3), true));
        assert!((0..8).all(|_| stays(&clients, &ClientIdentity::Root, true)));
        assert!(!stays(&clients, &ClientIdentity::Root, true));
        assert_eq!((count(&clients, &one), count(&clients, &other)), (8, 0));
    }

    #[tokio::test]
    async fn a_client_that_ends_gives_back_its_place_and_its_turn() {
        let clients = Clients::of(16, Audit::default());
        let who = ClientIdentity::User(1);
        for _ in 0..100 {
            assert!(clients.serve(who.clone(), None, |client| async move {
                let _turn = client.turn(Method::Post).await;
                let _room = client.room(LONG_BODY).await;
            }));
            tokio::task::yield_now().await;
        }
        settle().await;
        let table = locked(&clients.table);
        assert!(table.connections.is_empty() && table.users.is_empty());
        assert_eq!(table.others, 0);
        assert_eq!(clients.bodies[1].available_permits(), units(LONG_BODY));
    }
}
