//! Handlers whose value is a list of arguments.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use router::args::{Args, Failed, NoElements};
use router::{Cx, HandlerError};

/// Reads the words of `value` as arguments.
pub fn words(
    cx: &mut Cx<'_>,
    value: &str,
    read: impl FnOnce(&mut Args<'_>) -> Result<(), Failed>,
) -> Result<(), HandlerError> {
    let element = cx.name().to_string();
    let mut args = Args::from_words(value, cx.name_database(), &NoElements, &element);
    read(&mut args).map_err(|Failed| {
        let errors = args.take_errors();
        let lines: Vec<String> = errors.into_iter().map(|error| error.text).collect();
        HandlerError::Failed(lines.join("\n"))
    })
}
