//! What guests print: text that is taken out of their console rings, and kept as a bounded log of each.
//!
//! A guest drops text that does not fit its ring, so each ring is read in time: when a client asks
//! or follows, when its guest ends, and every few seconds. Reading a ring without new text costs
//! one word.

use std::collections::{HashMap, VecDeque};
use std::time::SystemTime;

use tokio::sync::watch;
use vmm::{Control, printable};

/// Most bytes of text that are kept of one guest: eight full console rings.
const BYTES_MAX: usize = 64 << 10;
/// Most lines that are kept of one guest: some 20 screens, and a bound for lines of no text.
const LINES_MAX: usize = 1000;
/// Bytes that the logs of all guests may have together. With more than 1024 logs, each has its share.
const ALL_BYTES: usize = 64 << 20;
/// A guest's log is at least as long.
const BYTES_LEAST: usize = 4 << 10;
/// Longest line in bytes as the guest prints it; a longer one is split.
const LINE_MAX: usize = 1024;
/// Lines that a follower is given at a time, after which other guests' text may wait.
const PART: usize = 2000;

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number among the lines of all guests.
    pub number: u64,
    /// When it was taken from the ring.
    pub time: SystemTime,
    /// The line, with control characters escaped.
    pub text: String,
    /// Bytes of text that were lost here. The text says so, too.
    pub lost: u64,
}

/// The reading end of one guest's console.
pub(super) struct Console {
    /// A line without its end.
    partial: Vec<u8>,
    /// Lost bytes that the log has reported.
    lost: u64,
    /// Whether the guest wrote an impossible cursor into the ring, which makes it unreadable.
    broken: bool,
    /// The number that the first line of this run has, or a later one.
    pub first: u64,
}

impl Console {
    /// The console of a guest that starts or was adopted. Earlier lost bytes are not reported.
    pub fn new(control: &Control, logs: &Logs) -> Console {
        Console {
            partial: Vec::new(),
            lost: control.console_lost(),
            broken: false,
            first: logs.next,
        }
    }

    /// Moves new text from the ring to the guest's log; at the guest's end, also an unfinished
    /// line.
    pub fn take(&mut self, guest: (u64, &str), control: &mut Control, logs: &mut Logs, end: bool) {
        let is_cut = end && !self.partial.is_empty();
        if !self.broken && (is_cut || control.has_console()) {
            self.take_text(guest, control, logs, end);
        }
        if end && let Some(log) = logs.logs.get_mut(&guest.0) {
            log.run = self.first;
        }
    }

    fn take_text(&mut self, guest: (u64, &str), control: &mut Control, logs: &mut Logs, end: bool) {
        let read = control.read_console(&mut self.partial);
        let mut lines = Vec::new();
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n');
        // One that goes on and on is split where it is, and so is one behind which text is lost.
        let lost = control.console_lost().wrapping_sub(self.lost);
        let all = end || lost > 0 || self.partial.len() > LINE_MAX;
        let taken = match (all, whole) {
            (true, _) => self.partial.len(),
            (false, Some(at)) => at + 1,
            (false, None) => 0,
        };
        split(&self.partial[..taken], &mut lines);
        self.partial.drain(..taken);
        logs.add(guest, lines.into_iter().map(|line| (line, 0)));
        if lost > 0 {
            self.lost = self.lost.wrapping_add(lost);
            let text =
                format!("… {lost} bytes lost: the guest printed more than its console holds");
            logs.add(guest, [(text, lost)]);
        }
        if let Err(error) = read {
            self.broken = true;
            let text = format!("… the console is not read any more: {error}");
            logs.add(guest, [(text, 0)]);
        }
    }
}

/// The lines of a text, each of at most [`LINE_MAX`] bytes, with control characters escaped.
fn split(text: &[u8], lines: &mut Vec<String>) {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            lines.push(String::new());
        }
        let parts = line.chunks(LINE_MAX);
        lines.extend(parts.map(|part| printable(&String::from_utf8_lossy(part))));
    }
}

/// The log of one guest.
struct Log {
    name: String,
    lines: VecDeque<Line>,
    bytes: usize,
    /// Lines that it ever had.
    count: u64,
    /// The number of the first line of the run that ended last.
    run: u64,
}

/// A reader's position in the logs.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// Lines below this number are read.
    number: u64,
    /// Lines of each guest that are read.
    counts: HashMap<u64, u64>,
}

/// The logs of all guests that have printed anything.
pub struct Logs {
    logs: HashMap<u64, Log>,
    /// The number of the next line.
    next: u64,
    /// Tells followers the number of the next line.
    grown: watch::Sender<u64>,
}

impl Default for Logs {
    fn default() -> Logs {
        let next = first_number();
        Logs {
            logs: HashMap::new(),
            next,
            grown: watch::Sender::new(next),
        }
    }
}

/// A number that is higher than all that earlier nodes gave, so that numbers grow over nodes: the
/// microseconds since 1970. Nothing is numbered a million times a second for long.
pub fn first_number() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| now.as_micros() as u64)
}

impl Logs {
    fn add(&mut self, (id, name): (u64, &str), lines: impl IntoIterator<Item = (String, u64)>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            return;
        }
        let time = SystemTime::now();
        let count = self.logs.len().max(1);
        let log = self.logs.entry(id).or_insert_with(|| Log {
            name: name.into(),
            lines: VecDeque::new(),
            bytes: 0,
            count: 0,
            run: 0,
        });
        for (text, lost) in lines {
            log.bytes += text.len();
            log.count += 1;
            log.lines.push_back(Line {
                number: self.next,
                time,
                text,
                lost,
            });
            self.next += 1;
        }
        let most = (ALL_BYTES / count).clamp(BYTES_LEAST, BYTES_MAX);
        while log.bytes > most || log.lines.len() > most * LINES_MAX / BYTES_MAX {
            let Some(first) = log.lines.pop_front() else {
                break;
            };
            log.bytes -= first.text.len();
        }
        self.grown.send_replace(self.next);
    }

    /// The lines of a guest, oldest first.
    pub fn lines(&self, id: u64) -> impl DoubleEndedIterator<Item = &Line> {
        self.logs.get(&id).into_iter().flat_map(|log| &log.lines)
    }

    /// The number that the first line of a guest's last run has, or a later one, if that has ended.
    pub(super) fn last_run(&self, id: u64) -> u64 {
        self.logs.get(&id).map_or(0, |log| log.run)
    }

    /// The position behind all that there is.
    pub fn position(&self) -> Position {
        let counts = self.logs.iter().map(|(id, log)| (*id, log.count));
        Position {
            number: self.next,
            counts: counts.collect(),
        }
    }

    /// The next lines of those guests that `selects` names, each with its guest's number and name,
    /// in their order; `position` is behind them then. Where lines have been dropped meanwhile, a
    /// line says so.
    pub fn read(
        &self,
        position: &mut Position,
        selects: impl Fn(u64, &str) -> bool,
    ) -> Vec<(&str, Line)> {
        let mut read = Vec::new();
        for (id, log) in &self.logs {
            let Some(last) = log
                .lines
                .back()
                .filter(|line| line.number >= position.number)
            else {
                continue;
            };
            let seen = position.counts.get(id).copied().unwrap_or(0);
            if seen == log.count || !selects(*id, &log.name) {
                continue;
            }
            if read.len() >= PART {
                // The rest, which may be older, comes next.
                read.sort_by_key(|(_, line): &(&str, Line)| line.number);
                return read;
            }
            let dropped = log.count - log.lines.len() as u64;
            if seen < dropped {
                let text = format!(
                    "… {} lines lost: they came faster than they were read",
                    dropped - seen
                );
                let first = log.lines.front().unwrap_or(last);
                let (number, time) = (first.number, first.time);
                let lost = 0;
                read.push((
                    log.name.as_str(),
                    Line {
                        number,
                        time,
                        text,
                        lost,
                    },
                ));
            }
            let skip = seen.saturating_sub(dropped) as usize;
            let new = log.lines.iter().skip(skip).cloned();
            read.extend(new.map(|line| (log.name.as_str(), line)));
            position.counts.insert(*id, log.count);
        }
        position.number = self.next;
        // A guest's lines are in order already.
        read.sort_by_key(|(_, line)| line.number);
        read
    }

    /// Becomes ready when there are new lines. As long as there is a follower, rings are read
    /// often.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Number of followers.
    pub fn followers(&self) -> usize {
        self.grown.receiver_count()
    }

    /// Notes a guest's new name.
    pub fn rename(&mut self, id: u64, name: &str) {
        if let Some(log) = self.logs.get_mut(&id) {
            log.name = name.into();
        }
    }

    /// Drops a guest's log.
    pub fn forget(&mut self, id: u64) {
        self.logs.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(logs: &mut Logs, id: u64, lines: impl IntoIterator<Item = String>) {
        logs.add(
            (id, &format!("g{id}")),
            lines.into_iter().map(|line| (line, 0)),
        );
    }

    fn texts(logs: &Logs, position: &mut Position) -> Vec<String> {
        let read = logs.read(position, |_, name| name != "g9");
        read.into_iter()
            .map(|(name, line)| format!("{name} {}", line.text))
            .collect()
    }

    #[test]
    fn lines_are_split_and_cannot_drive_a_terminal() {
        let mut lines = Vec::new();
        split(b"a\r\n\nb\x1b[2J\xff\nrest", &mut lines);
        assert_eq!(lines, ["a", "", "b\\u{1b}[2J\u{fffd}", "rest"]);
        lines.clear();
        split(&[b'x'; 2 * LINE_MAX + 1], &mut lines);
        let lengths: Vec<_> = lines.iter().map(String::len).collect();
        assert_eq!(lengths, [LINE_MAX, LINE_MAX, 1]);
    }

    #[test]
    fn a_log_is_bounded_in_lines_and_bytes_and_all_together_too() {
        let mut logs = Logs::default();
        print(&mut logs, 1, (0..2 * LINES_MAX).map(|i| i.to_string()));
        let kept: Vec<_> = logs.lines(1).map(|line| line.text.clone()).collect();
        assert_eq!(kept.len(), LINES_MAX);
        assert_eq!(kept[0], LINES_MAX.to_string());
        let long = "x".repeat(LINE_MAX);
        print(&mut logs, 2, vec![long.clone(); 100]);
        assert_eq!(logs.lines(2).count() * LINE_MAX, BYTES_MAX);
        for id in 0..40_000 {
            print(&mut logs, id, ["one".into()]);
        }
        print(&mut logs, 3, vec![long; 100]);
        assert_eq!(logs.lines(3).count() * LINE_MAX, BYTES_LEAST);
        logs.forget(3);
        assert_eq!(logs.lines(3).count(), 0);
    }

    #[test]
    fn a_follower_reads_each_line_once_and_is_told_what_it_missed() {
        let mut logs = Logs::default();
        print(&mut logs, 1, ["before".into()]);
        let mut position = logs.position();
        assert!(texts(&logs, &mut position).is_empty());
        print(&mut logs, 2, ["a".into()]);
        print(&mut logs, 1, ["b".into()]);
        print(&mut logs, 9, ["not selected".into()]);
        print(&mut logs, 2, ["c".into()]);
        assert_eq!(texts(&logs, &mut position), ["g2 a", "g1 b", "g2 c"]);
        assert!(texts(&logs, &mut position).is_empty());
        print(&mut logs, 1, (0..LINES_MAX + 5).map(|i| i.to_string()));
        let read = texts(&logs, &mut position);
        assert_eq!(
            read[0],
            "g1 … 5 lines lost: they came faster than they were read"
        );
        assert_eq!(read[1], "g1 5");
        assert_eq!(read.len(), LINES_MAX + 1);
    }

    #[test]
    fn many_lines_come_in_parts_and_none_is_left_out() {
        let mut logs = Logs::default();
        let mut position = logs.position();
        for id in 10..30 {
            print(&mut logs, id, (0..500).map(|i| i.to_string()));
        }
        let mut parts = Vec::new();
        while let read @ 1.. = texts(&logs, &mut position).len() {
            parts.push(read);
        }
        assert_eq!(parts.iter().sum::<usize>(), 20 * 500);
        assert!(
            parts.iter().all(|read| *read <= PART + LINES_MAX),
            "{parts:?}"
        );
    }
}
