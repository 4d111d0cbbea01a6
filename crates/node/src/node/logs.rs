//! Guests' output: shown, followed, and taken from their rings in time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use glob::Pattern;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Node;
use crate::error::{Error, InField, Kind, Result};
use crate::host::{Line, Position};
use crate::model::{LogLine, LogQuery, is_pattern, rfc3339};

/// How often rings are read while there is a follower.
const LOOK: Duration = Duration::from_millis(100);
/// How often followers check whether their guests are gone.
const GONE: Duration = Duration::from_secs(1);
/// Most followers at a time. Each one reads new lines ten times a second.
pub(super) const FOLLOWERS_MAX: usize = 64;

/// A follower of guests' output, and its position.
pub struct Follower {
    names: HashSet<String>,
    patterns: Vec<Pattern>,
    /// Whether the guests are all that there are.
    all: bool,
    /// Whether it ends with its guests: they have names, and some were there.
    ends: bool,
    position: Position,
    grown: watch::Receiver<u64>,
}

impl Follower {
    fn selects(&self, name: &str) -> bool {
        let matches = |pattern: &Pattern| pattern.matches(name);
        self.all || self.names.contains(name) || self.patterns.iter().any(matches)
    }

    /// Waits until there may be lines to read, or its guests may be gone; an error if the node ends.
    pub async fn wait(&mut self) -> Result<()> {
        match timeout(GONE, self.grown.changed()).await {
            Ok(Err(_)) => Err(Error::new(Kind::Unavailable, "the node is ending")),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

impl Node {
    /// What those guests printed that names and patterns select, or all if there are none. `after` is the
    /// number of a line that was read already, with all before it.
    pub fn log(&mut self, names: &[String], query: &LogQuery, after: u64) -> Result<Vec<LogLine>> {
        let mut guests = Vec::new();
        let selected = match names {
            [] => self.select_guests(&["*".into()]),
            names => self.select_guests(names),
        };
        for name in selected {
            match name {
                Ok(name) => guests.push((self.find_guest(&name).in_field("name")?.id, name)),
                // Guests that match may come yet, or there are none at all.
                Err(_) if query.follow || names.is_empty() => {}
                Err((_, error)) => return Err(error.of_field("name")),
            }
        }
        let ids: Vec<_> = guests.iter().map(|(id, _)| *id).collect();
        self.host.look_at_consoles(Some(&ids));
        let since = query.since.map(|since| since.time());
        let mut lines = Vec::new();
        for (id, name) in &guests {
            let first = if query.run {
                self.host.first_line(*id)
            } else {
                0
            };
            let is_wanted = |line: &&Line| {
                line.number >= first
                    && line.number > after
                    && since.is_none_or(|since| line.time >= since)
            };
            let wanted = self.host.logs().lines(*id).rev().take_while(is_wanted);
            let tail = query.tail.unwrap_or(usize::MAX);
            lines.extend(wanted.take(tail).map(|line| log_line(name, line)));
        }
        lines.sort_by_key(|line| line.number);
        Ok(lines)
    }

    /// What guests printed so far, and a follower for what they print from now on.
    pub fn follow_log(
        &mut self,
        names: Vec<String>,
        query: &LogQuery,
        after: u64,
    ) -> Result<(Vec<LogLine>, Follower)> {
        if self.host.logs().followers() >= FOLLOWERS_MAX {
            return Err(Error::new(
                Kind::Unavailable,
                format_args!(
                    "{FOLLOWERS_MAX} clients follow guests already: end one of them first"
                ),
            ));
        }
        let lines = self.log(&names, query, after)?;
        let all = names.is_empty();
        let (patterns, names): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| is_pattern(name));
        let ends = patterns.is_empty() && names.iter().any(|name| self.find_guest(name).is_ok());
        let patterns = patterns.iter().map(|pattern| Pattern::new(pattern));
        let follower = Follower {
            all,
            ends,
            names: names.into_iter().collect(),
            patterns: patterns.collect::<Result<_, _>>().map_err(Error::invalid)?,
            position: self.host.logs().position(),
            grown: self.host.logs().follow(),
        };
        Ok((lines, follower))
    }

    /// The lines that are new to a follower; not all of them, if there are many. None if all its guests are gone.
    pub fn read_log(&self, follower: &mut Follower) -> Option<Vec<LogLine>> {
        let mut position = std::mem::take(&mut follower.position);
        let read = self
            .host
            .logs()
            .read(&mut position, |_, name| follower.selects(name));
        follower.position = position;
        let is_gone = |name: &String| self.find_guest(name).is_err();
        if read.is_empty() && follower.ends && follower.names.iter().all(is_gone) {
            return None;
        }
        let lines = read.iter().map(|(name, line)| log_line(name, line));
        Some(lines.collect())
    }

    /// When rings are due to be read for followers.
    pub fn next_look(&self) -> Option<Instant> {
        (self.host.logs().followers() > 0).then_some(self.looked + LOOK)
    }

    /// Takes what guests printed from their rings.
    pub fn look_at_consoles(&mut self) {
        self.host.look_at_consoles(None);
        self.looked = Instant::now();
    }
}

fn log_line(guest: &str, line: &Line) -> LogLine {
    LogLine {
        number: line.number,
        time: rfc3339(line.time),
        guest: guest.into(),
        line: line.text.clone(),
        lost: (line.lost > 0).then_some(line.lost),
    }
}
