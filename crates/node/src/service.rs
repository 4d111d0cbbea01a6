//! Jobs for a node: each client has a [`Handle`], whose jobs are done in turn.
//!
//! The node has one thread, and never waits: a job that waits for a guest to boot or to answer
//! polls it between other jobs. Guests are created and destroyed in groups, each with one write of
//! the state; other jobs, which are short, go between two groups.

mod applications;
mod configurations;
mod copies;
mod events;
mod logs;
mod nsms;
mod queue;
mod resources;
mod routers;
mod verbs;
mod wires;

use abi::message::status;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::error::{Error, Kind, Result};
use crate::model::{Guest, Object};
use crate::node::{ANSWER, Asked, Creation, Node, Origin};

pub(crate) use copies::finish;
use queue::Change;
pub use queue::{Handle, Queue, Work};
pub use resources::Served;

/// Looks without a pause between, before there are pauses: most answers come within microseconds.
const QUICK_LOOKS: u32 = 100;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(1);

impl Handle {
    /// Runs a closure on the node. Returns its result.
    pub async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (tell, told) = oneshot::channel();
        // The asker may have gone meanwhile.
        self.put_job(Box::new(move |node| drop(tell.send(work(node)))))
            .await
            .ok_or_else(over)?;
        told.await.map_err(|_| over())?
    }

    /// Creates a guest and waits until it runs, or has ended normally. A guest that does not come
    /// to run is removed.
    pub async fn create_guest(&self, name: String, spec: Guest) -> Result<Object<Guest>> {
        self.create_guest_from(name, spec, None).await
    }

    /// As [`create_guest`](Self::create_guest), for a guest that continues from a copy.
    async fn create_guest_from(
        &self,
        name: String,
        spec: Guest,
        copy: Origin,
    ) -> Result<Object<Guest>> {
        let (tell, told) = oneshot::channel();
        let tell = Box::new(move |created| drop(tell.send(created)));
        let wanted = Box::new(Creation { name, spec, copy });
        self.put_change(Change::Create { wanted, tell })
            .await
            .ok_or_else(over)?;
        told.await.map_err(|_| over())?
    }

    /// Ends a guest and removes it.
    pub async fn destroy_guest(&self, name: String) -> Result<()> {
        let (tell, told) = oneshot::channel();
        let tell = Box::new(move |destroyed| drop(tell.send(destroyed)));
        self.put_change(Change::Destroy { name, tell })
            .await
            .ok_or_else(over)?;
        told.await.map_err(|_| over())?
    }

    /// Sends a guest a request and waits for its answer. A refusal is an error.
    pub async fn ask(
        &self,
        ask: impl FnOnce(&mut Node) -> Result<Asked> + Send + 'static,
    ) -> Result<String> {
        let asked = self.run(ask).await?;
        self.answered(asked).await
    }

    /// Waits for a guest's answer to a request.
    async fn answered(&self, asked: Asked) -> Result<String> {
        let start = Instant::now();
        for look in 0.. {
            let answer = self.run(move |node| node.answer(asked)).await?;
            if let Some(answer) = answer {
                let text = String::from_utf8_lossy(&answer.contents).into_owned();
                let refused = Error::refused(text.trim_end());
                return match answer.status {
                    status::OK => Ok(text),
                    status::NO_ELEMENT | status::NO_HANDLER | status::NOT_PERMITTED => {
                        Err(refused.of_field("handler"))
                    }
                    _ => Err(refused),
                };
            }
            if start.elapsed() > ANSWER {
                break;
            }
            pause(look).await;
        }
        self.run(move |node| {
            node.give_up(asked, start);
            Ok(())
        })
        .await?;
        Err(Error::new(
            Kind::Unavailable,
            format_args!("the guest did not answer within {} s", ANSWER.as_secs()),
        ))
    }
}

fn over() -> Error {
    Error::new(Kind::Unavailable, "the node is ending")
}

/// Waits before the next look, the `look`-th.
pub(crate) async fn pause(look: u32) {
    if look < QUICK_LOOKS {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(PAUSE).await;
    }
}
