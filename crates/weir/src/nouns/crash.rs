//! `weir crash`: reports of guests that crashed.

use std::time::Duration;

use clap::Subcommand;
use node::model::{CrashReport, CrashesQuery, Selection};
use vmm::printable;

use super::output::{Column, Output, made, maybe, print};
use super::{Result, client};

/// Shows and removes reports of guests that crashed
#[derive(Debug, Subcommand)]
#[command(
    after_help = "The node keeps the last 256 reports, 8 of each guest, also when it restarts, and after the guest is destroyed.

Examples:
  weir crash ls
  weir crash show fw
  weir crash rm fw"
)]
pub enum CrashCommand {
    /// Lists crash reports, oldest first
    #[command(after_help = "Examples:
  weir crash ls
  weir crash ls 'fw-*' -p -o number,reason
  weir crash ls --json")]
    Ls {
        /// Names and patterns of guests, as in 'fw-*'; default: all
        guests: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows a crash report: registers, the element, the last lines that the guest printed
    #[command(after_help = "Examples:\n  weir crash show fw\n  weir crash show 17 --json")]
    Show {
        /// The report's number, or a guest, whose last report is shown
        #[arg(value_name = "NUMBER|GUEST")]
        report: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes crash reports
    #[command(
        after_help = "Examples:\n  weir crash rm 17\n  weir crash rm fw nat\n  weir crash rm 'fw-*'"
    )]
    Rm {
        /// Numbers of reports, and names and patterns of guests, whose reports are all removed
        #[arg(required = true, value_name = "NUMBER|GUEST")]
        reports: Vec<String>,
    },
}

const COLUMNS: &[Column<CrashReport>] = &[
    Column::new("number", |it| it.number.to_string()),
    Column::new("time", |it| it.time.clone()),
    Column::new("guest", |it| it.guest.clone()),
    Column::new("uptime", |it| it.uptime.map_or_else(String::new, uptime)),
    Column::new("reason", first_line),
    Column::extra("element", |it| maybe(it.element.as_ref())),
    Column::extra("symbol", |it| maybe(it.symbol.as_ref())),
    Column::extra("config-hash", |it| it.config_hash.clone()),
    Column::extra("version", |it| it.version.clone()),
];

fn uptime(seconds: f64) -> String {
    let millis = Duration::from_millis((seconds * 1e3) as u64);
    humantime::format_duration(millis).to_string()
}

/// The reason may have lines that the guest printed behind it.
fn first_line(report: &CrashReport) -> String {
    let line = report.reason.lines().next();
    line.unwrap_or_default().to_string()
}

/// A report as text: its facts, one a line; registers; the guest's last output.
fn text(report: &CrashReport) -> String {
    let number = |number: u32| number.to_string();
    let known = [
        ("number", Some(report.number.to_string())),
        ("guest", Some(report.guest.clone())),
        ("time", Some(report.time.clone())),
        ("reason", Some(first_line(report))),
        ("element", report.element.clone()),
        ("vCPU", report.cpu.map(number)),
        ("symbol", report.symbol.clone()),
        ("uptime", report.uptime.map(uptime)),
        ("configuration", Some(report.config_hash.clone())),
        ("version", Some(report.version.clone())),
    ];
    let known = known
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut text: String = known
        .map(|(name, value)| format!("{name:<14} {}\n", printable(&value)))
        .collect();
    if !report.registers.is_empty() {
        text += "registers:\n";
        let registers: Vec<_> = report.registers.iter().collect();
        for line in registers.chunks(4) {
            for (name, value) in line {
                text += &format!(" {:>6} {}", printable(name), printable(value));
            }
            text += "\n";
        }
    }
    if !report.console.is_empty() {
        text += "printed last:\n";
        let lines = report.console.iter();
        text.extend(lines.map(|line| format!("  {}\n", printable(line))));
    }
    text
}

/// Runs `weir crash`.
pub fn run(command: &CrashCommand) -> Result {
    match command {
        CrashCommand::Ls { guests, output } => {
            let name = Selection::of(guests).name;
            let reports = client().crashes(&CrashesQuery { name })?;
            output.show(&reports, COLUMNS)
        }
        CrashCommand::Show { report, json } => {
            let report = client().crash(report)?;
            if *json {
                return made(true, &report);
            }
            print(&text(&report))
        }
        CrashCommand::Rm { reports } => {
            let client = client();
            reports.iter().try_for_each(|it| client.remove_crashes(it))
        }
    }
}
