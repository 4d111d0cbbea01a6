//! Other elements and threads, as an element sees them.

use alloc::format;
use core::any::Any;
use core::fmt::Display;

use super::Cx;
use crate::args::{self, NameDatabase};
use crate::engine::element::{DynElement, Llrpcs};
use crate::handler::HandlerError;
use crate::llrpc::Llrpc;
use crate::prelude::*;
use crate::scheduler::task::TaskId;

/// Other elements.
impl Cx<'_> {
    /// The element that `name` refers to from here: in its own compound first, then outwards.
    pub fn find(&self, name: &str) -> Option<ElementId> {
        let context = args::Context {
            names: &self.engine.names,
            elements: &*self.engine.graph,
            element: self.name(),
        };
        context
            .find_element(name)
            .map(|(index, _)| ElementId::new(index))
    }

    /// What names mean where this element stands.
    pub fn names(&self) -> args::Context<'_> {
        args::Context {
            names: &self.engine.names,
            elements: &*self.engine.graph,
            element: self.name(),
        }
    }

    /// The text of a file that an argument names; if it cannot be read, why.
    pub fn file(&mut self, name: &str) -> Result<String, String> {
        self.engine.runtime.embedding.file(name)
    }

    /// The name database itself.
    pub fn name_database(&mut self) -> &mut NameDatabase {
        &mut self.engine.names
    }

    /// Works with another element; `None` if it is the one at work.
    pub(crate) fn with_element<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn DynElement, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        if self.engine.threads.is_elsewhere(id) {
            return self.whole(|cx| cx.with_element(id, work));
        }
        self.engine.with(id, work)
    }

    /// Calls out: while `work` runs, the element, `own`, is in its slot, so that its handlers can be
    /// read and written, and packets can come to it. Its state moves there and back, which
    /// allocates: for calls that a user configured.
    pub fn call_out<E: DynElement + Default, R>(
        &mut self,
        own: &mut E,
        work: impl FnOnce(&mut Cx<'_>) -> R,
    ) -> R {
        let id = self.id;
        let lent = Box::new(core::mem::take(own));
        self.engine.elements.restore(id, lent);
        let result = work(self);
        let back = self.engine.elements.take(id);
        // The call may have moved the element to another thread.
        let back = back.or_else(|| self.engine.whole(|engine| engine.elements.take(id)));
        let back: Option<Box<dyn Any>> = back.map(|element| element as Box<dyn Any>);
        match back.map(<Box<dyn Any>>::downcast) {
            Some(Ok(element)) => *own = *element,
            _ => debug_assert!(false, "an element of type E is in the slot"),
        }
        result
    }

    /// Whether an element of this thread is at work.
    pub(crate) fn is_at_work(&self, id: ElementId) -> bool {
        !self.engine.threads.is_elsewhere(id) && self.engine.elements.get(id).is_none()
    }

    /// Reads a handler of an element, or with `None` of the router.
    pub fn read_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        self.engine.read_handler(element, name, parameter)
    }

    /// Writes a handler of an element, or with `None` of the router. The element's own handlers
    /// cannot be reached this way: it is at work.
    pub fn write_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if element.is_none() && name == "stop" {
            self.stop_counting(value);
            return Ok(());
        }
        self.engine.write_handler(element, name, value)
    }

    /// As [`write_handler`](Self::write_handler), but appends warnings to `warnings` instead of
    /// printing them.
    pub fn write_handler_warned(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), HandlerError> {
        if element.is_none() && name == "stop" {
            self.stop_counting(value);
            return Ok(());
        }
        self.engine
            .write_handler_warned(element, name, value, warnings)
    }

    /// Stops the element's own configuration, not others beside it.
    fn stop_counting(&mut self, value: &str) {
        let count = value.trim().parse::<i32>().unwrap_or(1);
        self.set_run_count(self.run_count().saturating_sub(count));
    }

    /// Warns the writer of this element's handler.
    pub fn warn_writer(&mut self, warning: impl Display) {
        self.engine.warnings.push(format!("warning: {warning}"));
    }

    /// Makes an LLRPC of an element. The element's own cannot be made this way: it is at work.
    pub fn llrpc(
        &mut self,
        element: ElementId,
        call: Llrpc,
        data: &mut [u8],
    ) -> Result<(), HandlerError> {
        let link = self
            .link::<dyn Llrpcs>(element)
            .ok_or(HandlerError::Unknown)?;
        let made = self
            .engine
            .reach(link, |element, cx| element.llrpc(cx, call, data));
        made.unwrap_or_else(|| Err("the element is at work".into()))
    }

    /// Whether an element, or with `None` the router, has a handler, and what it can do.
    pub fn handler(
        &self,
        element: Option<ElementId>,
        name: &str,
    ) -> Option<crate::handler::HandlerFlags> {
        self.engine.handler(element, name)
    }
}

/// Threads.
impl Cx<'_> {
    /// Threads that the router runs on, or is to run on.
    pub fn threads(&self) -> u16 {
        self.engine.threads.count
    }

    /// The thread that the element works on.
    #[inline]
    pub fn thread(&self) -> u16 {
        self.engine.threads.current()
    }

    /// The thread that the packets at hand come from: this one, or another that pushes to an
    /// element of this one.
    #[inline]
    pub fn origin(&self) -> u16 {
        self.engine.threads.origin()
    }

    /// Number of the threads before [this one](Self::thread) whose packets pass this element.
    #[inline]
    pub fn thread_rank(&self) -> usize {
        self.engine.threads.rank(self.id)
    }

    /// Works with the whole router: other threads stand still meanwhile, and other elements can be
    /// reached wherever they are. Handlers that are called one by one need no such thing.
    pub fn whole<R>(&mut self, work: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let id = self.id;
        self.engine.whole(|engine| work(&mut Cx { engine, id }))
    }

    /// Asks for a thread for an element, or with [`NO_THREAD`](crate::NO_THREAD) for none for its task.
    /// To be called from [`configure`](DynElement::configure): it concerns tasks made afterwards.
    pub fn prefer_thread(&mut self, id: ElementId, thread: i32) {
        if let Some(affinity) = self.engine.threads.affinity.get_mut(id.index()) {
            *affinity = Some(thread);
        }
    }

    /// Assigns this element to the thread of another that it uses while it handles packets. Elements
    /// that its arguments name share its thread anyway.
    pub fn share_thread(&mut self, id: ElementId) {
        self.engine.threads.bound.push((self.id, id));
    }

    /// Lets threads that send by a ring to this element, or to one before it, wait while the ring is
    /// full. To be called from
    /// [`configured`](crate::Element::configured).
    pub fn block_senders(&mut self) {
        self.engine.threads.blocking.push(self.id);
    }

    /// Measures the time that tasks take, if the router runs on several threads.
    pub fn measure_tasks(&mut self) {
        self.engine.scheduler.measured = self.engine.threads.count > 1;
    }

    /// Every task that is scheduled, with its thread and the time that a run of it takes on
    /// average, in nanoseconds. All of them are there [as a whole](Cx::whole) only.
    pub fn scheduled_tasks(&self) -> Vec<(TaskId, u16, u32)> {
        let tasks = &self.engine.scheduler.tasks;
        let scheduled = tasks.list().filter(|task| tasks.scheduled(*task));
        scheduled
            .map(|task| {
                let thread = self.engine.threads.thread_of(tasks.element(task));
                (task, thread, tasks.cost(task))
            })
            .collect()
    }

    /// Assigns a task to another thread.
    pub fn move_task(&mut self, task: TaskId, thread: i32) {
        self.engine.whole(|engine| engine.move_task(task, thread));
    }
}
