//! `weir sock trace`: prints what the sockets of an application do.

use std::time::Duration;

use node::model::SocketCall;

use super::SockError;
use crate::nouns::client;
use crate::nouns::output::is_read;

/// The pause between two requests for records.
const ASK: Duration = Duration::from_millis(100);

/// Prints what the sockets of an application do.
pub fn run(application: &str, mut lines: u64, json: bool) -> Result<(), SockError> {
    let client = client();
    let mut after = 0;
    loop {
        let trace = client.trace(application, after)?;
        if trace.lost > 0 && after > 0 {
            eprintln!(
                "weir: {} lines are missing: the application does more than is printed",
                trace.lost
            );
        }
        let more = !trace.records.is_empty();
        let taken = trace
            .records
            .iter()
            .take(lines.try_into().unwrap_or(usize::MAX));
        let text: String = taken.map(|call| line(call, json)).collect();
        lines = lines.saturating_sub(trace.records.len() as u64);
        if !is_read(&text)? || lines == 0 {
            return Ok(());
        }
        after = trace.next;
        if !more {
            std::thread::sleep(ASK);
        }
    }
}

fn line(call: &SocketCall, json: bool) -> String {
    if json {
        // All keys are text, so that nothing can go wrong.
        return serde_json::to_string(call).unwrap_or_default() + "\n";
    }
    let sign = if call.answer { '<' } else { '>' };
    let mut line = format!("{} {:>5} {sign} {}", call.time, call.socket, call.operation);
    let mut add = |text: String| line.extend([" ", text.as_str()]);
    if let Some(address) = call.address {
        add(address.to_string());
    }
    if let Some(bytes) = call.bytes {
        add(format!("{bytes} bytes"));
    }
    if let Some((level, name)) = call.option {
        add(format!("level {level} name {name}"));
    }
    if let Some(error) = &call.error {
        add(error.clone());
    }
    if let Some(time) = call.took_us {
        add(format!("({time:.0} us)"));
    }
    line + "\n"
}
