//! The queues that an element manages.

use core::fmt::Write;

use crate::prelude::*;

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
