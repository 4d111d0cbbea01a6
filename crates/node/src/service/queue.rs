//! The queue of jobs for the node, and the order of clients' turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::node::{Creation, Node, OnEnded, OnStarted};

/// Most jobs that wait; another one waits for room.
const JOBS_MAX: usize = 256;
/// Most guests that are created or destroyed in one turn.
const GROUP: usize = 16;
/// Most jobs in a row while guests wait to be created or destroyed.
const JOBS_AHEAD: usize = 64;

/// A short piece of work for the node.
pub(super) type Job = Box<dyn FnOnce(&mut Node) + Send>;

/// A guest to be created or destroyed.
pub(super) enum Change {
    Create {
        wanted: Box<Creation>,
        tell: OnStarted,
    },
    Destroy {
        name: String,
        tell: OnEnded,
    },
}

/// The client's name, as events have it.
type Actor = Option<String>;

/// Where to ask the node.
#[derive(Clone)]
pub struct Handle {
    jobs: Sender<Job>,
    changes: Sender<(Actor, Change)>,
    actor: Actor,
    /// Whether the client wants no more than the work under way.
    has_enough: Arc<AtomicBool>,
}

impl Handle {
    /// A handle, and where its jobs come.
    pub fn new() -> (Handle, Queue) {
        let (jobs, waiting) = channel(JOBS_MAX);
        let (changes, to_change) = channel(JOBS_MAX);
        let queue = Queue {
            jobs: waiting,
            changes: to_change,
            ahead: None,
            in_a_row: 0,
        };
        let actor = None;
        (
            Handle {
                jobs,
                changes,
                actor,
                has_enough: Arc::default(),
            },
            queue,
        )
    }

    /// The handle of a client, whose name events have.
    pub fn of(self, who: String) -> Handle {
        Handle {
            actor: Some(who),
            ..self
        }
    }

    /// The handle of a client that sets `has_enough` when it wants no more than the work under way.
    pub fn until(self, has_enough: Arc<AtomicBool>) -> Handle {
        Handle { has_enough, ..self }
    }

    /// The items to work on, until the client has enough.
    pub(super) fn wanted<I: IntoIterator>(&self, all: I) -> impl Iterator<Item = I::Item> + use<I> {
        let has_enough = Arc::clone(&self.has_enough);
        let all = all.into_iter();
        all.take_while(move |_| !has_enough.load(Ordering::Relaxed))
    }

    /// `None` if the node is ending.
    pub(super) async fn put_job(&self, job: Job) -> Option<()> {
        let actor = self.actor.clone();
        let job = Box::new(move |node: &mut Node| {
            node.set_actor(actor);
            job(node);
            node.set_actor(None);
        });
        self.jobs.send(job).await.ok()
    }

    /// `None` if the node is ending.
    pub(super) async fn put_change(&self, change: Change) -> Option<()> {
        self.changes.send((self.actor.clone(), change)).await.ok()
    }
}

/// The queue of jobs and changes that wait for the node.
pub struct Queue {
    jobs: Receiver<Job>,
    changes: Receiver<(Actor, Change)>,
    /// The first change of the next group.
    ahead: Option<(Actor, Change)>,
    /// Jobs since the last group.
    in_a_row: usize,
}

/// The node's next work: a job, or a group of changes.
pub struct Work(Actor, Kind);

enum Kind {
    Job(Job),
    Create(Vec<Creation>, Vec<OnStarted>),
    Destroy(Vec<String>, Vec<OnEnded>),
}

impl Queue {
    /// The next turn; `None` if no handle is left.
    pub async fn next(&mut self) -> Option<Work> {
        let waits = self.ahead.is_some() || !self.changes.is_empty();
        if waits && self.in_a_row >= JOBS_AHEAD {
            self.ahead = self.ahead.take().or_else(|| self.changes.try_recv().ok());
        } else if let Ok(job) = self.jobs.try_recv() {
            self.in_a_row += 1;
            return Some(Work(None, Kind::Job(job)));
        }
        if self.ahead.is_none() {
            tokio::select! {
                biased;
                Some(job) = self.jobs.recv() => {
                    self.in_a_row += 1;
                    return Some(Work(None, Kind::Job(job)));
                }
                Some(change) = self.changes.recv() => self.ahead = Some(change),
                else => return None,
            }
        }
        self.in_a_row = 0;
        self.group()
    }

    /// The changes of one kind and one client at the head of the queue.
    fn group(&mut self) -> Option<Work> {
        let (mut wanted, mut told_created) = (Vec::new(), Vec::new());
        let (mut names, mut told_destroyed) = (Vec::new(), Vec::new());
        let mut actor = None;
        while let Some((by, change)) = self.ahead.take().or_else(|| self.changes.try_recv().ok()) {
            let is_first = wanted.is_empty() && names.is_empty();
            if !is_first && by != actor {
                self.ahead = Some((by, change));
                break;
            }
            actor = by;
            match change {
                Change::Create { wanted: one, tell } if names.is_empty() => {
                    wanted.push(*one);
                    told_created.push(tell);
                }
                Change::Destroy { name, tell } if wanted.is_empty() => {
                    names.push(name);
                    told_destroyed.push(tell);
                }
                other => {
                    self.ahead = Some((actor.clone(), other));
                    break;
                }
            }
            if wanted.len() + names.len() == GROUP {
                break;
            }
        }
        let group = if names.is_empty() {
            Kind::Create(wanted, told_created)
        } else {
            Kind::Destroy(names, told_destroyed)
        };
        Some(Work(actor, group))
    }
}

impl Work {
    /// Does it.
    pub fn carry_out(self, node: &mut Node) {
        node.set_actor(self.0);
        match self.1 {
            Kind::Job(job) => job(node),
            Kind::Create(wanted, tells) => node.create_and_tell(wanted, tells),
            Kind::Destroy(names, tells) => node.destroy_and_tell(names, tells),
        }
        node.set_actor(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Guest;

    fn create(name: &str) -> Change {
        Change::Create {
            wanted: Box::new(Creation {
                name: name.into(),
                spec: Guest::default(),
                copy: None,
            }),
            tell: Box::new(drop),
        }
    }

    fn destroy(name: &str) -> Change {
        Change::Destroy {
            name: name.into(),
            tell: Box::new(drop),
        }
    }

    fn text(turn: Work) -> String {
        match turn.1 {
            Kind::Job(_) => "job".into(),
            Kind::Create(wanted, _) => format!("create {}", wanted.len()),
            Kind::Destroy(names, _) => format!("destroy {}", names.len()),
        }
    }

    #[tokio::test]
    async fn changes_of_a_kind_go_together_and_in_their_order() {
        let (handle, mut queue) = Handle::new();
        for i in 0..GROUP + 3 {
            handle.put_change(create(&i.to_string())).await.unwrap();
        }
        handle.put_change(destroy("0")).await.unwrap();
        handle.put_change(create("0")).await.unwrap();
        drop(handle);
        let mut turns = Vec::new();
        while let Some(turn) = queue.next().await {
            turns.push(text(turn));
        }
        let all = [
            &format!("create {GROUP}"),
            "create 3",
            "destroy 1",
            "create 1",
        ];
        assert_eq!(turns, all);
    }

    #[tokio::test]
    async fn jobs_go_before_changes_but_not_for_ever() {
        let (handle, mut queue) = Handle::new();
        handle.put_change(create("a")).await.unwrap();
        for _ in 0..JOBS_AHEAD + 1 {
            handle.put_job(Box::new(|_| ())).await.unwrap();
        }
        let mut turns = Vec::new();
        for _ in 0..JOBS_AHEAD + 2 {
            turns.push(text(queue.next().await.unwrap()));
        }
        assert!(turns[..JOBS_AHEAD].iter().all(|turn| turn == "job"));
        assert_eq!(turns[JOBS_AHEAD..], ["create 1", "job"]);
    }
}
