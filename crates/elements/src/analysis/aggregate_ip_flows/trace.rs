//! The file in which AggregateIPFlows says what flows there were.

use core::fmt::Write;

use super::PER_SECOND;
use super::flows::{Flow, Key};
use crate::prelude::*;

/// A file of flows, in XML.
pub struct Trace {
    #[cfg(feature = "host")]
    output: crate::analysis::dumps::output::Output,
}

impl Trace {
    /// Makes the file, and writes its head. `source` is the name of the file that packets come
    /// from.
    ///
    /// # Errors
    /// The reason, with the file's name in front.
    pub fn create(cx: &mut Cx<'_>, name: &str, source: &str) -> Result<Trace, String> {
        let mut trace = Trace::open(name)?;
        let file = match source {
            "" => String::new(),
            source => alloc::format!(" file='{}'", escaped(source)),
        };
        let head = alloc::format!("<?xml version='1.0' standalone='yes'?>\n<trace{file}>\n");
        trace.write(cx, &head);
        Ok(trace)
    }

    #[cfg(feature = "host")]
    fn open(name: &str) -> Result<Trace, String> {
        let output = crate::analysis::dumps::output::Output::create(name)?;
        Ok(Trace { output })
    }

    #[cfg(not(feature = "host"))]
    fn open(name: &str) -> Result<Trace, String> {
        Err(alloc::format!(
            "{name}: a guest has no files; leave TRACEINFO out"
        ))
    }

    #[cfg(feature = "host")]
    fn write(&mut self, cx: &mut Cx<'_>, text: &str) {
        self.output.buffer().extend(text.bytes());
        self.output.written(cx);
    }

    #[cfg(not(feature = "host"))]
    fn write(&mut self, _cx: &mut Cx<'_>, _text: &str) {}

    /// Says what there was of a flow.
    pub fn add(&mut self, cx: &mut Cx<'_>, key: &Key, flow: &Flow) {
        let ends = if flow.reverse { key.1.reverse() } else { key.1 };
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = write!(
            text,
            "<flow aggregate='{}' src='{}' sport='{}' dst='{}' dport='{}' begin='{}' duration='{}'",
            flow.aggregate,
            ends.source(),
            ends.source_port(),
            ends.destination(),
            ends.destination_port(),
            seconds(flow.first),
            seconds(flow.last.saturating_sub(flow.first)),
        );
        if flow.filepos != 0 {
            let _ = write!(text, " filepos='{}'", flow.filepos);
        }
        let [there, back] = flow.packets;
        let _ = write!(
            text,
            ">\n  <stream dir='0' packets='{there}' /><stream dir='1' packets='{back}' />\n</flow>\n"
        );
        self.write(cx, &text);
    }

    /// Ends the file. The standard output stays open, as in Click.
    pub fn end(&mut self, cx: &mut Cx<'_>) {
        #[cfg(feature = "host")]
        {
            if !self.output.is_stdout() {
                self.write(cx, "</trace>\n");
            }
            self.output.flush(cx);
        }
        #[cfg(not(feature = "host"))]
        let _ = cx;
    }
}

/// Seconds and nanoseconds. Those of a negative time are counted up from the second before.
fn seconds(time: i64) -> String {
    let (seconds, rest) = (time.div_euclid(PER_SECOND), time.rem_euclid(PER_SECOND));
    alloc::format!("{seconds}.{rest:09}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\'', "&apos;")
}
