//! An element class's manual page, from the class's declaration.

use crate::handler::HandlerFlags;
use crate::prelude::*;

/// An argument.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentDoc {
    /// Its keyword.
    pub keyword: &'static str,
    /// What it is: `integer`, `IP address`.
    pub kind: &'static str,
    /// The value that it has if it is not given.
    pub default: Option<&'static str>,
    /// Whether it must be given.
    pub mandatory: bool,
    /// Whether it can be given without its keyword.
    pub positional: bool,
    /// What it means.
    pub text: &'static str,
}

/// A handler.
#[derive(Clone, Copy, Debug)]
pub struct HandlerDoc {
    /// Its name.
    pub name: &'static str,
    /// What it can do.
    pub flags: HandlerFlags,
    /// When the element has it, if not always.
    pub when: Option<&'static str>,
    /// What it means.
    pub text: &'static str,
}

/// A manual page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The class.
    pub name: &'static str,
    /// The module that declares it: `elements::standard::strip`.
    pub module: &'static str,
    /// The struct's doc comment: a sentence, paragraphs, an example, other classes.
    pub text: &'static str,
    /// Port counts in Click's notation.
    pub ports: &'static str,
    /// Processing codes in Click's notation.
    pub processing: &'static str,
    /// What each input is for, as far as that is said.
    pub inputs: &'static [&'static str],
    /// What each output is for.
    pub outputs: &'static [&'static str],
    /// Whether the class takes packets that stand for several segments.
    pub segments: bool,
    /// Whether it can be reconfigured while packets flow.
    pub live: bool,
    /// Its arguments.
    pub arguments: Vec<ArgumentDoc>,
    /// Its own handlers.
    pub handlers: Vec<HandlerDoc>,
}

impl Page {
    /// The page that `document` fills.
    pub fn of(document: fn(&mut Page)) -> Page {
        let mut page = Page::default();
        document(&mut page);
        page
    }

    /// The class's group: `standard`, `ip`, …
    pub fn group(&self) -> &'static str {
        let mut path = self.module.split("::");
        let of = path.next().unwrap_or("");
        if of == "elements" {
            path.next().unwrap_or(of)
        } else {
            of
        }
    }

    /// Adds the handlers of the element's first task, which it has `when`.
    pub fn task(&mut self, when: Option<&'static str>) {
        let both = HandlerFlags::READ.with(HandlerFlags::WRITE);
        for (name, flags, text) in [
            (
                "scheduled",
                HandlerFlags::READ,
                "whether the task is scheduled.",
            ),
            ("tickets", both, "the task's share, 1 to 32768."),
            ("home_thread", both, "the thread that runs the task."),
        ] {
            self.handlers.push(HandlerDoc {
                name,
                flags,
                when,
                text,
            });
        }
    }
}
