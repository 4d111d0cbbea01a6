//! Reports of guests that crashed, kept over restarts of the node and after the guests.

use std::collections::VecDeque;
use std::time::SystemTime;

use glob::Pattern;
use vmm::{Exit, REGISTERS};

use super::Node;
use crate::check;
use crate::error::{Fault, Result};
use crate::model::{
    CrashRecord, CrashReport, CrashesQuery, GuestRecord, Run, Selection, is_pattern, pattern,
    rfc3339,
};
use crate::store::{Change, Store, StoreError};

/// Most reports that are kept.
pub const KEPT: usize = 256;
/// Most that are kept of one guest: one that crashes again and again leaves the others' reports alone.
pub const KEPT_OF_ONE: usize = 8;

/// The kept reports, and new ones to be kept.
#[derive(Default)]
pub(super) struct Crashes {
    /// Number and guest of each that is kept, oldest first.
    kept: VecDeque<(u64, String)>,
    /// Reports not yet kept. They get their numbers when they are.
    new: Vec<CrashReport>,
}

impl Crashes {
    /// Loads the reports from the store.
    pub fn load(store: &Store) -> Result<Crashes> {
        let records = store.all::<CrashRecord>()?.into_iter();
        Ok(Crashes {
            kept: records
                .map(|it| (it.report.number, it.report.guest))
                .collect(),
            new: Vec::new(),
        })
    }

    /// Whether there are reports that are not kept.
    pub fn are_new(&self) -> bool {
        !self.new.is_empty()
    }

    fn add(&mut self, report: CrashReport) {
        // With a full disk they wait, and only so many.
        if self.new.len() == KEPT {
            self.new.remove(0);
        }
        self.new.push(report);
    }

    /// Puts the new reports into a change, and removes the oldest ones beyond the bounds. [`committed`](Self::committed)
    /// tells the result once the change is made.
    pub fn keep(&self, change: &Change) -> Result<VecDeque<(u64, String)>, StoreError> {
        let mut kept = self.kept.clone();
        for report in &self.new {
            let number = change.next("crashes")?;
            let report = CrashReport {
                number,
                ..report.clone()
            };
            kept.push_back((number, report.guest.clone()));
            change.put(&CrashRecord::from(report))?;
        }
        for number in beyond(&kept) {
            change.remove::<CrashRecord>(&CrashRecord::key_of(number))?;
            kept.retain(|(other, _)| *other != number);
        }
        Ok(kept)
    }

    /// The change that kept the new reports is made.
    pub fn committed(&mut self, kept: VecDeque<(u64, String)>) {
        self.kept = kept;
        self.new.clear();
    }

    /// The numbers of the reports that a text selects, oldest first: a report's number, or a guest's name.
    fn numbers(&self, meant: &str) -> Result<Vec<u64>> {
        let by_number = meant.parse().ok();
        let kept = self.kept.iter();
        let is = |(number, guest): &&(u64, String)| Some(*number) == by_number || guest == meant;
        let numbers: Vec<u64> = kept.filter(is).map(|(number, _)| *number).collect();
        if numbers.is_empty() {
            return Err(Fault::NoCrash { name: meant.into() }.into());
        }
        Ok(numbers)
    }

    /// The numbers of the reports of all guests that a pattern matches.
    fn matching(&self, text: &str) -> Result<Vec<u64>> {
        let pattern = pattern(text)?;
        let kept = self.kept.iter().filter(|(_, guest)| pattern.matches(guest));
        let numbers: Vec<u64> = kept.map(|(number, _)| *number).collect();
        if numbers.is_empty() {
            return Err(Fault::NoCrash { name: text.into() }.into());
        }
        Ok(numbers)
    }
}

/// The reports beyond the bounds, oldest first.
fn beyond(kept: &VecDeque<(u64, String)>) -> Vec<u64> {
    let mut count = std::collections::HashMap::new();
    let mut found = Vec::new();
    let mut left = 0;
    for (number, guest) in kept.iter().rev() {
        let of_one: &mut usize = count.entry(guest.as_str()).or_default();
        if left == KEPT || *of_one == KEPT_OF_ONE {
            found.push(*number);
        } else {
            *of_one += 1;
            left += 1;
        }
    }
    found.reverse();
    found
}

impl Node {
    /// Notes that a guest crashed, to be kept.
    pub(super) fn note_crash(&mut self, guest: &GuestRecord, exit: Option<&Exit>, reason: &str) {
        let booted = guest.booted.as_ref().and_then(|it| it.config.clone());
        let text = booted.unwrap_or_else(|| guest.spec.text());
        let mut report = CrashReport {
            guest: guest.name.clone(),
            time: rfc3339(SystemTime::now()),
            reason: reason.into(),
            uptime: uptime(&guest.run),
            config_hash: format!("{:08x}", crc32fast::hash(text.as_bytes())),
            version: env!("CARGO_PKG_VERSION").into(),
            console: self.host.last_printed(guest.id),
            ..CrashReport::default()
        };
        if let Some(Exit::Crashed(crash) | Exit::Stopped(crash)) = exit {
            let place = |element| check::place(text.as_bytes(), element);
            report.element = crash.element.and_then(place);
            report.cpu = crash.cpu;
            report.symbol = crash.symbol.clone();
            let registers = REGISTERS.iter().zip(crash.registers.0);
            report.registers = registers
                .map(|(name, value)| ((*name).to_string(), format!("{value:016x}")))
                .collect();
        }
        self.crashes.add(report);
    }

    /// The crash reports of guests, oldest first, without registers and guests' output.
    pub fn crashes(&self, query: &CrashesQuery) -> Result<Vec<CrashReport>> {
        let name = query.name.clone();
        let names = Selection { name }.patterns()?;
        let is = |report: &CrashReport| {
            names.is_empty() || names.iter().any(|it: &Pattern| it.matches(&report.guest))
        };
        let reports = self.store.all::<CrashRecord>()?.into_iter();
        let reports = reports.map(|record| record.report).filter(is);
        Ok(reports.map(CrashReport::listed).collect())
    }

    /// A crash report by its number, or the last one of a guest.
    pub fn crash(&self, meant: &str) -> Result<CrashReport> {
        let missing = || Fault::NoCrash { name: meant.into() };
        let numbers = self.crashes.numbers(meant)?;
        let last = numbers.last().copied().ok_or_else(missing)?;
        let record = self.store.get::<CrashRecord>(&CrashRecord::key_of(last))?;
        Ok(record.ok_or_else(missing)?.report)
    }

    /// Removes a crash report by its number, or all of guests, by a name or a pattern.
    pub fn remove_crashes(&mut self, meant: &str) -> Result<()> {
        let numbers = match is_pattern(meant) {
            true => self.crashes.matching(meant)?,
            false => self.crashes.numbers(meant)?,
        };
        self.store.with_spare(|| {
            let change = self.store.change()?;
            for number in &numbers {
                change.remove::<CrashRecord>(&CrashRecord::key_of(*number))?;
            }
            change.commit()
        })?;
        let kept = &mut self.crashes.kept;
        kept.retain(|(number, _)| !numbers.contains(number));
        Ok(())
    }
}

/// How long the process that a guest was started as has been there.
fn uptime(run: &Run) -> Option<f64> {
    match run {
        Run::Started { started, boot, .. } if *boot == crate::host::boot() => {
            crate::host::age(*started).map(|age| age.as_secs_f64())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_reports_go_and_no_guest_displaces_the_others() {
        let mut kept: VecDeque<_> = (0..KEPT as u64)
            .map(|number| (number, format!("g{number}")))
            .collect();
        assert!(beyond(&kept).is_empty());
        kept.extend((1000..1020).map(|number| (number, "loops".to_string())));
        let gone = beyond(&kept);
        let oldest: Vec<u64> = (0..KEPT_OF_ONE as u64).collect();
        assert_eq!(gone[..KEPT_OF_ONE], oldest);
        assert_eq!(gone[KEPT_OF_ONE..], (1000..1012).collect::<Vec<_>>());
    }
}
