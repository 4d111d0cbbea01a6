//! The queues that an element manages, and what it observes of them.

use core::fmt::Write;

use super::average::Average;
use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// The queues whose lengths count, found in the graph or named by `QUEUES`.
#[derive(Component)]
#[component(handlers)]
pub(super) struct Managed {
    queues: Vec<ElementId>,
    links: Vec<Link<dyn Storage>>,
}

#[handlers]
impl Managed {
    /// The names of the observed queues, one a line.
    #[read]
    fn queues(&self, cx: &mut Cx<'_>) -> String {
        self.names(cx).fold(String::new(), |mut text, name| {
            let _ = writeln!(text, "{name}");
            text
        })
    }
}

impl Managed {
    /// Takes the names in `QUEUES`, unless the queues are known already.
    pub fn configured(&mut self, args: &Args<'_>, names: &str) -> Result<(), Failed> {
        if !self.queues.is_empty() {
            return Ok(());
        }
        let mut queues = Vec::new();
        for name in click::config::split_space(names) {
            match args.context().parse::<ElementRef>(&name) {
                Ok(element) => queues.push(ElementId::new(element.index)),
                Err(_) => args.error(format_args!("no element named ‘{name}’")),
            }
        }
        args.finish()?;
        self.queues = queues;
        Ok(())
    }

    /// Finds the queues that are nearest: behind a push output 0, before a pull input 0.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if self.queues.is_empty() {
            let graph = cx.graph();
            self.queues = if cx.output_is_push(0) {
                graph.nearest_downstream(cx.id(), 0, "Storage")
            } else {
                graph.nearest_upstream(cx.id(), 0, "Storage")
            };
        }
        if self.queues.is_empty() {
            return Err(cx.error("no nearby Queues"));
        }
        let mut result = Ok(());
        for id in &self.queues {
            match cx.link(*id) {
                Some(link) => self.links.push(link),
                None => {
                    let name = &cx.graph().info(*id).name;
                    let text = format!("‘{name}’ is not a Storage element");
                    result = Err(cx.error(text));
                }
            }
            cx.share_thread(*id);
        }
        cx.may_interrupt();
        result
    }

    /// Packets in the queues.
    #[inline]
    pub fn length(&self, cx: &Cx<'_>) -> usize {
        match self.links[..] {
            [queue] => cx.view(queue).map_or(0, Storage::stored),
            _ => self.sum(cx),
        }
    }

    fn sum(&self, cx: &Cx<'_>) -> usize {
        let queues = self.links.iter().filter_map(|link| cx.view(*link));
        queues.map(Storage::stored).sum()
    }

    /// The `QUEUES` argument that names them.
    pub fn argument(&self, cx: &Cx<'_>) -> String {
        self.names(cx)
            .fold(String::from("QUEUES"), |text, name| text + " " + name)
    }

    fn names<'s>(&'s self, cx: &'s Cx<'_>) -> impl Iterator<Item = &'s str> {
        self.queues
            .iter()
            .map(|id| cx.graph().info(*id).name.as_str())
    }
}

/// What is observed of the queues, and how many packets were marked for it.
#[derive(Component)]
#[component(handlers)]
pub(super) struct Observed {
    /// Packets marked.
    #[handler(read)]
    pub drops: u64,
    #[flatten]
    pub queues: Managed,
    pub average: Average,
}

#[handlers]
impl Observed {
    /// The average length of the queues.
    #[read]
    fn avg_queue_size(&self) -> String {
        self.average.unparse()
    }

    /// Length, average length and packets marked, in words.
    #[read]
    fn stats(&self, cx: &mut Cx<'_>) -> String {
        let (length, average) = (self.queues.length(cx), self.average.unparse());
        let drops = self.drops;
        format!("{length} current queue\n{average} avg queue\n{drops} drops\n")
    }
}

impl Observed {
    /// Counts a marked packet, which leaves by output 1.
    pub fn mark(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.drops += packet.stands_for() as u64;
        cx.emit(1, packet);
    }
}

/// Pulls of packets of which some are marked: others come in their place.
#[derive(Default)]
pub(super) struct Unmarked(Gathered);

impl Unmarked {
    /// Begins a pull of at most `most` packets.
    #[inline]
    pub fn pull(&mut self, cx: &mut Cx<'_>, most: usize) {
        self.0.begin(most);
        self.go_on(cx);
    }

    /// Takes what was left of `found` packets that were pulled. Asks for more, if there may be, or
    /// gives what came.
    #[inline]
    pub fn pulled(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, found: usize) {
        self.0.take(batch, packet::BATCH);
        if found == 0 || self.0.left() == 0 {
            self.0.give(batch);
        } else {
            self.go_on(cx);
        }
    }

    fn go_on(&self, cx: &mut Cx<'_>) {
        cx.pull_through(0, self.0.left());
    }
}
