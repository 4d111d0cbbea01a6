//! What elements that number aggregates tell others: when there will be no more packets of one.

use crate::prelude::*;

/// An element that tells others when aggregates end.
pub trait AggregateNotifier {
    /// Whom it tells.
    fn listeners(&mut self) -> &mut Listeners;
}

impl Interface for dyn AggregateNotifier {
    const NAME: &'static str = "AggregateNotifier";
}

/// An element that is told when aggregates end.
pub trait AggregateListener {
    /// There will be no more packets of `aggregate`.
    fn aggregate_ended(&mut self, cx: &mut Cx<'_>, aggregate: u32);
}

impl Interface for dyn AggregateListener {
    const NAME: &'static str = "AggregateListener";
}

/// The argument that names a notifier.
#[derive(Component)]
pub struct NotifierArgument {
    /// An element that reports the end of aggregates, such as AggregateIPFlows.
    #[arg]
    notifier: Option<ElementRef>,
}

impl NotifierArgument {
    fn link(&self, cx: &Cx<'_>) -> Option<Link<dyn AggregateNotifier>> {
        cx.link(ElementId::new(self.notifier.as_ref()?.index))
    }

    /// Looks whether the element, if one is given, is a notifier.
    pub fn check(&self, cx: &Cx<'_>, args: &Args<'_>) -> Result<(), Failed> {
        match &self.notifier {
            Some(ElementRef { name, .. }) if self.link(cx).is_none() => {
                Err(args.fail(format_args!("{name} is not an AggregateNotifier")))
            }
            _ => Ok(()),
        }
    }

    /// Has the notifier, if one is given, tell the element at work.
    pub fn listen(&self, cx: &mut Cx<'_>) {
        if let Some(notifier) = self.link(cx) {
            listen(cx, notifier);
        }
    }
}

/// Has `notifier` tell the element at work.
pub fn listen(cx: &mut Cx<'_>, notifier: Link<dyn AggregateNotifier>) {
    if let Some(own) = cx.link(cx.id()) {
        cx.reach(notifier, |notifier, _| notifier.listeners().add(own));
    }
}

/// The elements that a notifier tells.
#[derive(Default)]
pub struct Listeners {
    elements: Vec<Link<dyn AggregateListener>>,
    /// Aggregates that they are yet to be told of: packets of theirs may be on the way.
    ended: Vec<u32>,
    task: Option<TaskId>,
}

impl Listeners {
    fn add(&mut self, element: Link<dyn AggregateListener>) {
        if !self.elements.contains(&element) {
            self.elements.push(element);
        }
    }

    /// Makes the task that tells them. To be called when the element is initialized.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) {
        self.task = Some(cx.task());
    }

    /// An aggregate has ended. They are told at once if no packets before are on the way, else when
    /// those have been delivered: [`tell`](Self::tell) is to be called from the element's task.
    pub fn ended(&mut self, cx: &mut Cx<'_>, aggregate: u32, at_once: bool) {
        if self.elements.is_empty() {
            return;
        }
        self.ended.push(aggregate);
        match self.task {
            Some(task) if !at_once => cx.schedule(task),
            _ => self.tell(cx),
        }
    }

    /// Tells them of all that ended.
    pub fn tell(&mut self, cx: &mut Cx<'_>) {
        for aggregate in self.ended.drain(..) {
            for &element in &self.elements {
                cx.reach(element, |element, cx| {
                    element.aggregate_ended(cx, aggregate)
                });
            }
        }
    }
}
