//! Where a script's errors go.

use crate::prelude::*;

/// Where a script's errors go.
pub(super) enum Errors {
    /// To the caller of a handler, a line each.
    Caller(Vec<String>),
    /// To the messages of the initialization. The script runs nevertheless.
    Initialization,
    /// To the log, after a heading, if there is still one to be printed.
    Watcher {
        heading: Option<String>,
        indent: bool,
    },
}

impl Errors {
    /// For what a script does of itself.
    pub fn while_executing(cx: &Cx<'_>) -> Errors {
        Errors::Watcher {
            heading: Some(format!("While executing ‘{}’:", cx.declaration())),
            indent: true,
        }
    }

    /// For what the driver asks a script to do.
    pub fn of_driver() -> Errors {
        Errors::Watcher {
            heading: None,
            indent: false,
        }
    }

    pub fn error(&mut self, cx: &mut Cx<'_>, text: &str) {
        match self {
            Errors::Caller(lines) => lines.extend(text.lines().map(String::from)),
            Errors::Initialization => cx.message(text),
            Errors::Watcher { heading, indent } => {
                if let Some(heading) = heading.take() {
                    cx.report(&heading);
                }
                let indent = if *indent { "  " } else { "" };
                for line in text.lines() {
                    cx.report(&format!("{indent}{line}"));
                }
            }
        }
    }
}
