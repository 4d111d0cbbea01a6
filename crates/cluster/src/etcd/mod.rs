//! etcd: a connection, transactions, and errors as sentences.

pub mod lease;
pub mod members;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, KeyValue,
    PutOptions, TlsOptions, Txn, TxnOp, WatchOptions, WatchStream,
};
use node::error::{Error, Kind, Result};
use node::tls::{self, Files, Side};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::context::Context;
use crate::model::{LEASE_MAX_S, LEASE_S};
use crate::transaction::Transaction;
use crate::view::View;

/// Longest that etcd may take to answer.
pub const TIMEOUT: Duration = Duration::from_secs(4);
/// How often a connection is tried for signs of life at least, and how long these may take: a fifth of a host's lease.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How often a member that knows no leader is asked again, and the time between. Members of etcd choose a new leader 1 to 2 s
/// after they miss the last one, unless they are told otherwise.
const ELECTION_TRIES: usize = 10;
const ELECTION_PAUSE: Duration = Duration::from_millis(300);
/// Longest value, in bytes: etcd refuses requests of 1.5 MiB.
pub const VALUE_MAX: usize = 1 << 20;
/// Keys of the first answer of a range: few enough for the largest values that etcd takes.
const FIRST_PAGE: i64 = 16;
/// Most keys of one answer of a range.
const PAGE: i64 = 1000;
/// Bytes of keys and values that an answer of a range should have.
const PAGE_BYTES: usize = 1 << 20;
/// Most bytes of an answer of etcd.
const ANSWER_MAX: usize = 64 << 20;

/// A cluster's keys in etcd. One member is asked; if it does not answer, the next one is from then on.
#[derive(Clone)]
pub struct Store {
    /// A client of each member, with its address.
    members: Arc<Vec<(String, Client)>>,
    /// The member that is asked.
    current: Arc<AtomicUsize>,
    prefix: String,
}

/// What may be asked again, if a member does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing: always.
    Always,
    /// It was not sent: only then.
    Unsent,
    /// It asks how the member is.
    Never,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out at this revision.
    Done(i64),
    /// A key has another revision than was expected. Nothing was written.
    Changed,
}

impl Store {
    /// Connects to the etcd of a context.
    pub async fn connect(context: &Context) -> Result<Store> {
        Store::to(&context.etcd, context).await
    }

    /// Connects to some members of the etcd of a context.
    pub async fn to(endpoints: &[String], context: &Context) -> Result<Store> {
        let lease = Duration::from_secs(context.lease_s.unwrap_or(LEASE_S).min(LEASE_MAX_S));
        let keep_alive = KEEP_ALIVE.max(lease / 5);
        let mut options = ConnectOptions::new()
            .with_connect_timeout(TIMEOUT / 4)
            .with_timeout(TIMEOUT)
            .with_keep_alive(keep_alive, keep_alive)
            .with_keep_alive_while_idle(true)
            // One that is apart from the others does not keep watchers waiting.
            .with_require_leader(true);
        if let Some(files) = &context.tls {
            options = options.with_tls(tls_options(files)?);
        }
        let mut members = Vec::new();
        for endpoint in endpoints {
            let client = Client::connect([endpoint], Some(options.clone())).await;
            let client = client.map_err(|error| sentence(endpoint, &error))?;
            members.push((endpoint.clone(), client));
        }
        if members.is_empty() {
            return Err(Error::invalid("no address of etcd: name one by --etcd"));
        }
        Ok(Store {
            members: Arc::new(members),
            current: Arc::default(),
            prefix: context.prefix.clone(),
        })
    }

    /// Asks this member first from now on.
    pub fn prefer(&self, member: usize) {
        self.current.store(member, Ordering::Relaxed);
    }

    /// Asks a member; if it does not answer, the next one, as far as that is right. A member that knows no leader is asked
    /// again after all others, until they should have chosen one.
    async fn ask<T, Asked>(&self, repeat: Repeat, ask: impl Fn(Client) -> Asked) -> Result<T>
    where
        Asked: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut tries = self.members.len();
        let mut leaderless = None;
        let mut elections = ELECTION_TRIES;
        loop {
            let current = self.current.load(Ordering::Relaxed) % self.members.len();
            let (endpoint, client) = &self.members[current];
            // A connection that is not made has no limit of its own.
            let asked = tokio::time::timeout(TIMEOUT, ask(client.clone())).await;
            let (told, unsent) = match asked {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if is_leaderless(&error) => {
                    leaderless = Some(current);
                    (sentence(endpoint, &error), true)
                }
                Ok(Err(error)) => (sentence(endpoint, &error), is_unsent(&error)),
                Err(_) => (silent(endpoint), false),
            };
            if told.kind == Kind::Unavailable {
                self.give_up(current);
            }
            tries -= 1;
            let may = told.kind == Kind::Unavailable
                && match repeat {
                    Repeat::Always => true,
                    Repeat::Unsent => unsent,
                    Repeat::Never => false,
                };
            match leaderless {
                _ if !may => return Err(told),
                _ if tries > 0 => {}
                Some(member) if elections > 0 => {
                    elections -= 1;
                    tries = 1;
                    tokio::time::sleep(ELECTION_PAUSE).await;
                    self.prefer(member);
                }
                _ => return Err(told),
            }
        }
    }

    /// Has the next member be asked from now on.
    fn give_up(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let (now, then) = (Ordering::Relaxed, Ordering::Relaxed);
        // Another may have given it up already.
        let _ = self.current.compare_exchange(member, next, now, then);
    }

    /// Asks the member that is asked now for something that must be done within a time; if it fails, or is silent for a
    /// quarter of the time, all others as well. The first answer counts.
    async fn ask_within<T, Asked>(&self, time: Duration, ask: impl Fn(Client) -> Asked) -> Result<T>
    where
        T: Send + 'static,
        Asked: Future<Output = Result<T, etcd_client::Error>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        let start = |member: usize, asked: &mut JoinSet<_>| {
            let answer = ask(self.members[member].1.clone());
            asked.spawn(async move { (member, answer.await) });
        };
        let first = self.current.load(Ordering::Relaxed) % self.members.len();
        start(first, &mut asked);
        let mut others = (0..self.members.len()).filter(|member| *member != first);
        let end = Instant::now() + time;
        let mut pause = time / 4;
        let mut failed = silent(&self.members[first].0);
        loop {
            let until = end.min(Instant::now() + pause);
            match tokio::time::timeout_at(until, asked.join_next()).await {
                Ok(Some(Ok((member, Ok(answer))))) => {
                    self.current.store(member, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Some(Ok((member, Err(error))))) => {
                    failed = sentence(&self.members[member].0, &error);
                }
                Ok(Some(Err(_))) => {}
                Ok(None) => return Err(failed),
                Err(_) if until == end => return Err(failed),
                Err(_) => {}
            }
            others.by_ref().for_each(|member| start(member, &mut asked));
            pause = time;
        }
    }

    /// The number of the leader that the member that is asked knows; 0: none.
    async fn leader(&self) -> Result<u64> {
        let ask = |client: Client| async move { client.maintenance_client().status().await };
        Ok(self.ask(Repeat::Never, ask).await?.leader())
    }

    fn key(&self, key: &str) -> Vec<u8> {
        format!("{}{key}", self.prefix).into_bytes()
    }

    /// Carries out a transaction.
    pub async fn commit(&self, transaction: &Transaction) -> Result<Outcome> {
        let expected = transaction.expected.iter().map(|(key, revision)| {
            Compare::mod_revision(self.key(key), CompareOp::Equal, *revision)
        });
        let options = || {
            let lease = transaction.lease?;
            Some(PutOptions::new().with_lease(lease))
        };
        let writes = transaction.writes.iter().map(|(key, value)| match value {
            Some(value) => TxnOp::put(self.key(key), value.clone(), options()),
            None => TxnOp::delete(self.key(key), None),
        });
        let long = transaction
            .writes
            .iter()
            .find(|(_, value)| value.as_ref().is_some_and(|value| value.len() > VALUE_MAX));
        if let Some((key, _)) = long {
            return Err(Error::new(
                Kind::TooLarge,
                format_args!(
                    "{key} has more than {} MiB, which etcd does not take: shorten its configuration",
                    VALUE_MAX >> 20
                ),
            ));
        }
        let txn = Txn::new()
            .when(expected.collect::<Vec<_>>())
            .and_then(writes.collect::<Vec<_>>());
        let ask = |client: Client| {
            let txn = txn.clone();
            async move { client.kv_client().txn(txn).await }
        };
        let answer = self.ask(Repeat::Unsent, ask).await?;
        let revision = answer.header().map_or(0, |header| header.revision());
        Ok(match answer.succeeded() {
            true => Outcome::Done(revision),
            false => Outcome::Changed,
        })
    }

    /// Carries out a transaction, and takes it into a view.
    pub async fn commit_to(&self, view: &mut View, transaction: &Transaction) -> Result<Outcome> {
        let outcome = self.commit(transaction).await?;
        if let Outcome::Done(revision) = outcome {
            for (key, value) in &transaction.writes {
                view.apply(key, value.as_deref(), revision);
            }
        }
        Ok(outcome)
    }

    /// All keys below a folder, as of one revision, which is returned. They come in pages: of more keys, the shorter the
    /// values are.
    pub async fn read(&self, view: &mut View, folder: &str) -> Result<i64> {
        let prefix = self.key(folder);
        let mut end = prefix.clone();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let (mut from, mut revision, mut limit) = (prefix, 0, FIRST_PAGE);
        loop {
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_limit(limit)
                .with_revision(revision);
            let ask = |client: Client| {
                let (from, options) = (from.clone(), options.clone());
                let mut client = client.kv_client().max_decoding_message_size(ANSWER_MAX);
                async move { client.get(from, Some(options)).await }
            };
            let answer = match self.ask(Repeat::Always, ask).await {
                Ok(answer) => answer,
                // Values that are much longer than those before.
                Err(error) if error.kind == Kind::TooLarge && limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if revision == 0 {
                revision = answer.header().map_or(0, |header| header.revision());
            }
            for pair in answer.kvs() {
                if let Some(key) = self.own(pair.key()) {
                    view.apply(key, Some(pair.value()), pair.mod_revision());
                }
            }
            match answer.kvs().last() {
                Some(last) if answer.more() => {
                    from = [last.key(), &[0]].concat();
                    limit = next_limit(answer.kvs());
                }
                _ => return Ok(revision),
            }
        }
    }

    /// All keys.
    pub async fn view(&self) -> Result<View> {
        let mut view = View::default();
        self.read(&mut view, "").await?;
        Ok(view)
    }

    /// One key into a view.
    pub async fn read_key(&self, view: &mut View, key: &str) -> Result<()> {
        let ask = |client: Client| {
            let key = self.key(key);
            async move { client.kv_client().get(key, None).await }
        };
        let answer = self.ask(Repeat::Always, ask).await?;
        let revision = answer.header().map_or(0, |header| header.revision());
        match answer.kvs().first() {
            Some(pair) => view.apply(key, Some(pair.value()), pair.mod_revision()),
            None => view.apply(key, None, revision),
        };
        Ok(())
    }

    /// The lease that a key goes with, if there are both.
    pub async fn lease_of(&self, key: &str) -> Result<Option<i64>> {
        let ask = |client: Client| {
            let key = self.key(key);
            async move { client.kv_client().get(key, None).await }
        };
        let answer = self.ask(Repeat::Always, ask).await?;
        Ok(answer.kvs().first().map(|pair| pair.lease()))
    }

    /// How many keys there are below a folder.
    pub async fn count(&self, folder: &str) -> Result<u64> {
        let options = GetOptions::new().with_prefix().with_count_only();
        let ask = |client: Client| {
            let (key, options) = (self.key(folder), options.clone());
            async move { client.kv_client().get(key, Some(options)).await }
        };
        let answer = self.ask(Repeat::Always, ask).await?;
        Ok(answer.count().max(0) as u64)
    }

    /// Watches a folder, or one key, from a revision on.
    pub async fn watch(&self, folder: &str, from: i64) -> Result<Watch> {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(from)
            .with_progress_notify()
            // Many changes come in several messages, each no longer than a request may be.
            .with_fragment();
        let ask = |client: Client| {
            let (key, options) = (self.key(folder), options.clone());
            let mut client = client.watch_client().max_decoding_message_size(ANSWER_MAX);
            async move { client.watch(key, Some(options)).await }
        };
        let stream = self.ask(Repeat::Always, ask).await?;
        Ok(Watch {
            stream,
            store: self.clone(),
        })
    }

    /// A key without the cluster's prefix.
    fn own<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)
    }
}

/// How many keys the next page should have, after this one.
fn next_limit(page: &[KeyValue]) -> i64 {
    let bytes = page.iter().map(|it| it.key().len() + it.value().len());
    let each = bytes.sum::<usize>() / page.len().max(1);
    let (limit, most) = (PAGE_BYTES / each.max(1), 4 * page.len() as i64);
    (limit as i64).clamp(1, PAGE).min(most.max(FIRST_PAGE))
}

/// A change of a key.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Its value; none: it was removed.
    pub value: Option<Vec<u8>>,
    /// The revision of the change.
    pub revision: i64,
}

/// Changes of keys, as they come.
pub struct Watch {
    stream: WatchStream,
    store: Store,
}

impl Watch {
    /// The next changes, and the revision up to which all were seen.
    pub async fn next(&mut self) -> Result<(Vec<Change>, i64)> {
        let message = self.stream.message().await;
        let ended = || Error::new(Kind::Unavailable, "etcd ended a watch");
        let message = message.map_err(|error| sentence("its members", &error))?;
        let message = message.filter(|message| !message.canceled());
        let message = message.ok_or_else(ended)?;
        let last = message.events().last().and_then(|event| event.kv());
        let header = || message.header().map_or(0, |header| header.revision());
        // More of the header's revision may follow.
        let seen = last.map_or_else(header, |pair| pair.mod_revision());
        let changes = message.events().iter().filter_map(|event| {
            let pair = event.kv()?;
            let removed = event.event_type() == etcd_client::EventType::Delete;
            Some(Change {
                key: self.store.own(pair.key())?.into(),
                value: (!removed).then(|| pair.value().to_vec()),
                revision: pair.mod_revision(),
            })
        });
        Ok((changes.collect(), seen))
    }
}

fn tls_options(files: &Files) -> Result<TlsOptions> {
    let read = |path: &std::path::Path| {
        std::fs::read(path)
            .map_err(|error| Error::invalid(format_args!("{}: {error}", path.display())))
    };
    let identity = Identity::from_pem(read(&files.cert)?, read(&files.key)?);
    let authority = Certificate::from_pem(read(&files.ca)?);
    Ok(TlsOptions::new()
        .ca_certificate(authority)
        .identity(identity))
}

/// What is said of a member that knows no leader.
const NO_QUORUM: &str = "it has no quorum";
/// What is said of a member that does not answer.
const SILENT: &str = "it does not answer: look whether it runs there";

/// That a member does not answer.
fn silent(endpoint: &str) -> Error {
    Error::new(
        Kind::Unavailable,
        format_args!("etcd at {endpoint}: {SILENT}"),
    )
}

/// What went wrong, in a sentence.
fn sentence(endpoints: &str, error: &etcd_client::Error) -> Error {
    use etcd_client::Error as Etcd;
    if let Some(cause) = tls::cause(error) {
        let why = tls::tls_sentence(Side::Etcd, cause);
        return Error::new(
            Kind::Unavailable,
            format_args!("etcd at {endpoints}: {why}"),
        );
    }
    if let Etcd::GRpcStatus(status) = error
        && status.message().contains("message length too large")
    {
        return Error::new(
            Kind::TooLarge,
            format_args!(
                "etcd at {endpoints}: its answer has more than {} MiB",
                ANSWER_MAX >> 20
            ),
        );
    }
    let why = match error {
        Etcd::GRpcStatus(status) => match status.message() {
            message if is_leaderless(error) || message.contains("request timed out") => {
                format!("{NO_QUORUM}: most of its members do not run, or do not reach each other")
            }
            message if message.contains("permission denied") => {
                "this certificate's user may not do this: its common name is that of a user, whose roles in etcd say what it may"
                    .into()
            }
            message if is_silence(&format!("{message} {status:?}")) => SILENT.into(),
            message => message.to_string(),
        },
        Etcd::InvalidUri(_) => {
            "this is no address: write http://HOST:PORT or https://HOST:PORT".into()
        }
        Etcd::TransportError(_) | Etcd::IoError(_) => SILENT.into(),
        other => other.to_string(),
    };
    Error::new(
        Kind::Unavailable,
        format_args!("etcd at {endpoints}: {why}"),
    )
}

/// Whether a member knows no leader. It refuses before it does anything.
fn is_leaderless(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status) if status.message().contains("no leader"))
}

/// Whether a question was not sent.
fn is_unsent(error: &etcd_client::Error) -> bool {
    let text = format!("{error} {error:?}").to_lowercase();
    text.contains("tcp connect") || text.contains("connection refused")
}

/// Whether no answer came.
fn is_silence(text: &str) -> bool {
    let text = text.to_lowercase();
    [
        "transport error",
        "tcp connect",
        "timeout expired",
        "deadline",
        "connection",
        "broken pipe",
    ]
    .iter()
    .any(|part| text.contains(part))
}
