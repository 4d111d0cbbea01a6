//! Jobs for a node: everybody who asks something has a [`Handle`], whose jobs are done in turn.
//!
//! All of it is one thread. Waiting, for a guest to boot or to answer, is done by looking again, so
//! the node itself never waits.

mod resources;
mod wires;

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Kind, Result};
use crate::model::{Guest, GuestState, Object};
use crate::node::resource::Resource;
use crate::node::{Asked, Node};

pub use resources::Served;

/// How long a guest may take to start: it does in milliseconds, but the machine may be busy.
const START: Duration = Duration::from_secs(10);
/// How long a guest may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Looks without a pause between, before there are pauses: most answers come within microseconds.
const QUICK_LOOKS: u32 = 100;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Most jobs that wait; another one waits for room.
const JOBS_MAX: usize = 256;

/// A piece of work for the node.
pub type Job = Box<dyn FnOnce(&mut Node) + Send>;

/// Where to ask the node.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

impl Handle {
    /// A handle, and where its jobs come.
    pub fn new() -> (Handle, mpsc::Receiver<Job>) {
        let (jobs, queue) = mpsc::channel(JOBS_MAX);
        (Handle { jobs }, queue)
    }

    /// Has the node do something; what came of it.
    pub async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (tell, told) = oneshot::channel();
        // The asker may have gone meanwhile.
        let job: Job = Box::new(move |node| drop(tell.send(work(node))));
        let over = || Error::new(Kind::Unavailable, "the node is ending");
        self.jobs.send(job).await.map_err(|_| over())?;
        told.await.map_err(|_| over())?
    }

    /// Creates a guest and waits until it runs, or has ended in good order. One that does not come
    /// to run is removed.
    pub async fn create_guest(&self, name: String, spec: Guest) -> Result<Object<Guest>> {
        let wanted = name.clone();
        let created = self.run(move |node| node.create_guest(&wanted, spec));
        let created = created.await?;
        let start = Instant::now();
        for look in 0.. {
            let (wanted, id) = (name.clone(), created.status.id);
            let mut view = self.run(move |node| Guest::one(node, &wanted)).await?;
            let another = view.status.id != id;
            let failed = match view.status.state {
                _ if another => return Ok(view),
                GuestState::Running | GuestState::Halted => {
                    view.status.messages = created.status.messages;
                    return Ok(view);
                }
                GuestState::Crashed => true,
                GuestState::Starting => view.status.restarts > 0 || start.elapsed() > START,
            };
            if failed {
                let name = name.clone();
                self.run(move |node| node.destroy_guest(&name)).await?;
                let silent = format!("the guest did not start within {} s", START.as_secs());
                return Err(Error::refused(view.status.reason.unwrap_or(silent)));
            }
            pause(look).await;
        }
        unreachable!("a look comes after every other")
    }

    /// Asks a guest something and waits for its answer. What it refuses is an error.
    pub async fn ask(
        &self,
        ask: impl FnOnce(&mut Node) -> Result<Asked> + Send + 'static,
    ) -> Result<String> {
        let asked = self.run(ask).await?;
        let start = Instant::now();
        for look in 0.. {
            let answer = self.run(move |node| node.answer(asked)).await?;
            if let Some(answer) = answer {
                let text = String::from_utf8_lossy(&answer.contents).into_owned();
                return if answer.ok() {
                    Ok(text)
                } else {
                    Err(Error::refused(text))
                };
            }
            if start.elapsed() > ANSWER {
                break;
            }
            pause(look).await;
        }
        self.run(move |node| {
            node.forget(asked);
            Ok(())
        })
        .await?;
        Err(Error::new(
            Kind::Unavailable,
            format_args!("the guest did not answer within {} s", ANSWER.as_secs()),
        ))
    }
}

async fn pause(look: u32) {
    if look < QUICK_LOOKS {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(PAUSE).await;
    }
}
