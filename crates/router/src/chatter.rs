//! Listeners: elements that get other elements' messages, as the program around the router does.

use crate::prelude::*;
use crate::scheduler::task::TaskId;

/// The channel of messages whose element names no other.
pub const DEFAULT_CHANNEL: &str = "default";
/// Most bytes that wait for one listener; further messages are lost to it.
const WAITING_MAX: usize = 1 << 20;

struct Listener {
    element: ElementId,
    channel: String,
    /// Messages on the channel do not go to the console.
    quiet: bool,
    task: Option<TaskId>,
    lines: Vec<String>,
    bytes: usize,
}

/// Every listener of a router.
#[derive(Default)]
pub(crate) struct Listeners(Vec<Listener>);

impl Listeners {
    pub fn add(&mut self, element: ElementId, channel: &str, quiet: bool) {
        self.0.retain(|listener| listener.element != element);
        self.0.push(Listener {
            element,
            channel: channel.to_string(),
            quiet,
            task: None,
            lines: Vec::new(),
            bytes: 0,
        });
    }

    /// Sets the task that is scheduled when a message arrives.
    pub fn wake(&mut self, element: ElementId, task: TaskId) {
        for listener in self.0.iter_mut().filter(|l| l.element == element) {
            listener.task = Some(task);
        }
    }

    pub fn take(&mut self, element: ElementId) -> Vec<String> {
        let mut own = self.0.iter_mut().filter(|l| l.element == element);
        own.next().map_or(Vec::new(), |listener| {
            listener.bytes = 0;
            core::mem::take(&mut listener.lines)
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves the listeners of the elements that `moves` selects to another thread.
    pub fn transfer(&mut self, moves: impl Fn(ElementId) -> bool, to: &mut Listeners) {
        let moving = self.0.extract_if(.., |listener| moves(listener.element));
        to.0.extend(moving);
    }

    /// Whether messages on a channel go to the console.
    pub fn is_loud(&self, channel: &str) -> bool {
        channel == DEFAULT_CHANNEL
            || self
                .0
                .iter()
                .any(|listener| listener.channel == channel && !listener.quiet)
    }

    /// Delivers a line to the listeners of a channel; `wake` gets their tasks.
    pub fn deliver(&mut self, channel: &str, line: &str, mut wake: impl FnMut(TaskId)) {
        for listener in self.0.iter_mut().filter(|l| l.channel == channel) {
            if listener.bytes + line.len() <= WAITING_MAX {
                listener.bytes += line.len() + 1;
                listener.lines.push(line.to_string());
            }
            if let Some(task) = listener.task {
                wake(task);
            }
        }
    }
}
