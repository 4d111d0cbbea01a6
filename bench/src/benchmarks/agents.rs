//! The load of many hosts on etcd: agents without nodes and guests, each with a connection of its own, a lease that it
//! renews as an agent does, its host's keys and an agent's four watches. etcd is one member on this machine, and its
//! processors are shared with the agents.
//!
//! Measured for ten seconds, after all agents have joined: renewals, etcd's processor time and memory, and the delay
//! from the transaction of an order to the watch of its host, for 100 orders a second. `ROWS` (`100:5 1000:5 2000:5
//! 1000:30 5000:30 10000:60`) are numbers of hosts with the seconds of their leases.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::report;
use cluster::context::Context;
use cluster::etcd::lease::{Lease, Renewal};
use cluster::etcd::{Store, Watch};
use cluster::keys::{self, Kind};
use cluster::model::{Alive, HostRecord, Order, Role};
use cluster::own_etcd::Own;
use cluster::transaction::Transaction;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long is measured.
const TIME: Duration = Duration::from_secs(10);
/// The pause between two orders.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause after all have joined.
const SETTLE: Duration = Duration::from_secs(10);
/// Agents that join at once.
const AT_ONCE: usize = 32;
/// The pause before an agent that could not join tries again.
const RETRY: Duration = Duration::from_secs(1);
/// How long all may take to join.
const JOIN: Duration = Duration::from_secs(600);

#[derive(Serialize)]
struct Figure {
    hosts: usize,
    /// Seconds of a lease.
    lease: u64,
    renewals_per_second: f64,
    /// Leases that ended although they were to be renewed.
    lost: u64,
    /// Watches that broke, and were made again, also while the agents joined.
    broken: u64,
    /// Processors that etcd used, and this program for all agents.
    etcd_processors: f64,
    agents_processors: f64,
    etcd_mib: u64,
    /// Milliseconds from an order's transaction to its host.
    p50_ms: f64,
    p99_ms: f64,
}

/// What all agents share.
struct Shared {
    joined: AtomicUsize,
    renewals: AtomicU64,
    lost: AtomicU64,
    broken: AtomicU64,
    start: Instant,
    delays: Mutex<Histogram<u64>>,
}

pub(super) fn run() -> Result<(), String> {
    let text = std::env::var("ROWS")
        .unwrap_or_else(|_| "100:5 1000:5 2000:5 1000:30 5000:30 10000:60".into());
    let row = |text: &str| {
        let (hosts, lease) = text.split_once(':')?;
        Some((hosts.parse().ok()?, lease.parse().ok()?))
    };
    let rows = text.split_whitespace().map(|text| {
        row(text).ok_or_else(|| format!("ROWS: ‘{text}’ is no row: write HOSTS:SECONDS"))
    });
    let rows: Vec<(usize, u64)> = rows.collect::<Result<_, _>>()?;
    let mut figures = Vec::new();
    println!(
        "hosts  lease  renewals/s  lost  broken  etcd CPUs  agents CPUs  etcd MiB  order ms p50  p99"
    );
    for (hosts, lease) in rows {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let figure = runtime.block_on(measure(hosts, lease));
        runtime.shutdown_background();
        let figure = figure?;
        println!(
            "{:5}  {:5}  {:10.0}  {:4}  {:6}  {:9.2}  {:11.2}  {:8}  {:12.1}  {:.1}",
            figure.hosts,
            figure.lease,
            figure.renewals_per_second,
            figure.lost,
            figure.broken,
            figure.etcd_processors,
            figure.agents_processors,
            figure.etcd_mib,
            figure.p50_ms,
            figure.p99_ms
        );
        figures.push(figure);
    }
    report("agents", 1, &figures)
}

fn host(number: usize) -> String {
    format!("h{number}")
}

async fn measure(hosts: usize, seconds: u64) -> Result<Figure, String> {
    let folder = std::env::temp_dir().join(format!("weir-agents-{}", std::process::id()));
    let etcd = Etcd::start(&folder)?;
    let context = Context {
        etcd: vec![etcd.own.endpoint()],
        prefix: keys::PREFIX.into(),
        tls: Some(etcd.own.files()),
        lease_s: Some(seconds),
        ..Context::default()
    };
    let delays = Histogram::new_with_bounds(1, 60_000_000_000, 3);
    let shared = Arc::new(Shared {
        joined: AtomicUsize::new(0),
        renewals: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        broken: AtomicU64::new(0),
        start: Instant::now(),
        delays: Mutex::new(delays.map_err(|error| error.to_string())?),
    });
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut agents = JoinSet::new();
    for number in 0..hosts {
        let (context, shared, turns) = (context.clone(), Arc::clone(&shared), Arc::clone(&turns));
        agents.spawn(agent(context, shared, turns, number, seconds));
    }
    let joined = async {
        while shared.joined.load(Ordering::Relaxed) < hosts {
            if let Ok(Some(ended)) = timeout(Duration::from_millis(50), agents.join_next()).await {
                ended.map_err(|error| error.to_string())??;
            }
        }
        Ok::<_, String>(())
    };
    let joined = timeout(JOIN, joined).await;
    joined.map_err(|_| format!("{hosts} agents did not join in {} s", JOIN.as_secs()))??;
    sleep(SETTLE).await;

    let store = Store::connect(&context)
        .await
        .map_err(|error| error.to_string())?;
    let pid = etcd.pid()?;
    let (start, etcd_before, own_before) = (Instant::now(), used(pid)?, used(std::process::id())?);
    let renewals = shared.renewals.load(Ordering::Relaxed);
    let mut turn = tokio::time::interval(PAUSE);
    while start.elapsed() < TIME {
        turn.tick().await;
        let name = host(fastrand::usize(..hosts));
        let at = shared.start.elapsed().as_nanos().to_string();
        let order = Order::new(&at, Role::Run);
        let told = Transaction::default().puts(keys::order(&name, "g"), &order);
        // One that is late counts as such.
        while store.commit(&told).await.is_err() {}
    }
    let time = start.elapsed().as_secs_f64();
    let delays = shared.delays.lock().map_err(|error| error.to_string())?;
    let delay = |quantile| delays.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Figure {
        hosts,
        lease: seconds,
        renewals_per_second: (shared.renewals.load(Ordering::Relaxed) - renewals) as f64 / time,
        lost: shared.lost.load(Ordering::Relaxed),
        broken: shared.broken.load(Ordering::Relaxed),
        etcd_processors: (used(pid)? - etcd_before) / time,
        agents_processors: (used(std::process::id())? - own_before) / time,
        etcd_mib: resident(pid)? >> 20,
        p50_ms: delay(0.5),
        p99_ms: delay(0.99),
    })
}

/// A host's watches: of its orders, and the others.
type Watches = (Watch, Vec<Watch>);

/// Takes a host into the cluster.
async fn try_join(
    context: &Context,
    name: &str,
    seconds: u64,
) -> node::error::Result<(Store, Lease)> {
    let store = Store::connect(context).await?;
    let lease = Lease::grant(&store, seconds).await?;
    let alive = Alive {
        id: name.into(),
        since_ms: 0,
    };
    let says = Transaction::default()
        .puts(Kind::Host.of(name), &HostRecord::default())
        .puts(Kind::Facts.of(name), &scheduler::facts::Host::default());
    store.commit(&says).await?;
    let sign = Transaction::default()
        .puts(Kind::Alive.of(name), &alive)
        .under(lease.id);
    store.commit(&sign).await?;
    Ok((store, lease))
}

async fn try_watch(store: &Store, name: &str) -> node::error::Result<Watches> {
    let orders = store.watch(&keys::orders(name), 0).await?;
    let mut others = Vec::new();
    for folder in [
        Kind::Host.of(name),
        Kind::Network.folder().into(),
        Kind::Member.folder().into(),
    ] {
        others.push(store.watch(&folder, 0).await?);
    }
    Ok((orders, others))
}

/// The same, until it is done.
async fn join(context: &Context, name: &str, seconds: u64) -> (Store, Lease) {
    loop {
        match try_join(context, name, seconds).await {
            Ok(joined) => return joined,
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Watches what a host's agent does.
async fn watch(store: &Store, name: &str) -> Watches {
    loop {
        match try_watch(store, name).await {
            Ok(watches) => return watches,
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// A host's agent, as far as etcd sees it.
async fn agent(
    context: Context,
    shared: Arc<Shared>,
    turns: Arc<Semaphore>,
    number: usize,
    seconds: u64,
) -> Result<(), String> {
    let name = host(number);
    let turn = turns.acquire().await;
    // As an agent does, it tries again.
    let (store, mut lease) = join(&context, &name, seconds).await;
    let mut watches = watch(&store, &name).await;
    drop(turn);
    shared.joined.fetch_add(1, Ordering::Relaxed);
    let mut renewal = tokio::time::interval(lease.life / 6);
    renewal.reset();
    loop {
        tokio::select! {
            changes = watches.0.next() => {
                let Ok((changes, _)) = changes else {
                    shared.broken.fetch_add(1, Ordering::Relaxed);
                    watches = watch(&store, &name).await;
                    continue;
                };
                for change in changes {
                    let order = change.value.and_then(|it| serde_json::from_slice::<Order>(&it).ok());
                    let sent = order.and_then(|order| order.id.parse::<u64>().ok());
                    let now = shared.start.elapsed().as_nanos() as u64;
                    if let (Some(sent), Ok(mut delays)) = (sent, shared.delays.lock()) {
                        delays.saturating_record(now.saturating_sub(sent));
                    }
                }
            }
            _ = renewal.tick() => match lease.renew(&store, lease.life / 4).await {
                Ok(Renewal::Renewed) => _ = shared.renewals.fetch_add(1, Ordering::Relaxed),
                Ok(Renewal::Ended) => {
                    shared.lost.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                // The next one is soon.
                Err(_) => {}
            }
        }
    }
}

/// An etcd of this benchmark.
struct Etcd<'a> {
    own: Own,
    folder: &'a Path,
}

impl<'a> Etcd<'a> {
    fn start(folder: &'a Path) -> Result<Etcd<'a>, String> {
        let own = Own::new(folder).map_err(|error| error.to_string())?;
        own.start().map_err(|error| error.to_string())?;
        Ok(Etcd { own, folder })
    }

    fn pid(&self) -> Result<u32, String> {
        let text = std::fs::read_to_string(self.folder.join("pid"));
        let text = text.map_err(|error| error.to_string())?;
        text.trim()
            .parse()
            .map_err(|_| format!("‘{text}’ is no process"))
    }
}

impl Drop for Etcd<'_> {
    fn drop(&mut self) {
        self.own.stop();
        let _ = std::fs::remove_dir_all(self.folder);
    }
}

/// Seconds of processor time that a process used.
fn used(pid: u32) -> Result<f64, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let text = text.map_err(|error| format!("process {pid}: {error}"))?;
    let fields = text.rsplit(')').next().unwrap_or_default();
    // The 12th and 13th after the name, in hundredths of a second.
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}

/// Bytes of memory that a process has.
fn resident(pid: u32) -> Result<u64, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm"));
    let text = text.map_err(|error| format!("process {pid}: {error}"))?;
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|it| it.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * 4096)
}
