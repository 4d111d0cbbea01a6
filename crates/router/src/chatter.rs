//! Who listens to what elements say, besides the program around the router.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::context::ElementId;
use crate::task::TaskId;

/// The channel that everything is said on unless an element says otherwise.
pub const DEFAULT_CHANNEL: &str = "default";
/// Most bytes that wait for one listener; what is said beyond them it does not hear.
const WAITING_MAX: usize = 1 << 20;

struct Listener {
    element: ElementId,
    channel: String,
    /// What is said on the channel is not for the console.
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

    /// The task to be scheduled when there is something to hear.
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

    /// Hands the listeners over that `here` says true to.
    pub fn hand_over(&mut self, here: impl Fn(ElementId) -> bool, to: &mut Listeners) {
        let going = self.0.extract_if(.., |listener| here(listener.element));
        to.0.extend(going);
    }

    /// Whether the console is to have what is said on a channel.
    pub fn is_loud(&self, channel: &str) -> bool {
        channel == DEFAULT_CHANNEL
            || self
                .0
                .iter()
                .any(|listener| listener.channel == channel && !listener.quiet)
    }

    /// Lets the listeners of a channel hear a line; `wake` is given their tasks.
    pub fn hear(&mut self, channel: &str, line: &str, mut wake: impl FnMut(TaskId)) {
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
