//! Output of the figures: `switch.json`, plots, and the tables of `docs/performance.md`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bench::{bars, document, machine, results, save};
use serde_json::{Map, Value, json};

use super::{Failure, tables};

/// Becomes true when the user asks for the end.
pub fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// All parts' results, those of earlier runs included.
pub struct Report {
    parts: Map<String, Value>,
    figures: Map<String, Value>,
}

impl Report {
    /// The results of earlier runs.
    pub fn open() -> Result<Report, Failure> {
        let mut report = Report {
            parts: Map::new(),
            figures: Map::new(),
        };
        let Ok(text) = std::fs::read_to_string(results().join("switch.json")) else {
            return Ok(report);
        };
        let old: Value = serde_json::from_str(&text)?;
        for (name, into) in [
            ("runs", &mut report.parts),
            ("figures", &mut report.figures),
        ] {
            if let Some(Value::Object(old)) = old.get(name) {
                *into = old.clone();
            }
        }
        Ok(report)
    }

    /// A part's new results.
    pub fn set(&mut self, part: &str, figures: Value, rounds: usize) {
        let run = json!({ "machine": machine(), "rounds": rounds });
        self.parts.insert(part.into(), run);
        self.figures.insert(part.into(), figures);
    }

    /// Writes everything.
    pub fn save(&self) -> Result<PathBuf, Failure> {
        let report = json!({
            "benchmark": "switch",
            "runs": self.parts,
            "figures": self.figures,
        });
        let path = save("switch", &report)?;
        self.plot()?;
        self.document()?;
        Ok(path)
    }

    fn plot(&self) -> Result<(), Failure> {
        let Some(rows) = self
            .figures
            .get("firewall")
            .and_then(|part| part["rows"].as_array())
        else {
            return Ok(());
        };
        let value = |row: &Value, field: &str| row[field].as_f64().unwrap_or(0.0);
        for (file, title, unit, fields) in [
            (
                "switch.svg",
                "Namespace, firewall of 10 rules, namespace: 60-byte frames",
                "Mpps",
                [
                    ("mpps", "as fast as all arrives"),
                    ("flooded_mpps", "flooded"),
                ],
            ),
            (
                "switch-tcp.svg",
                "Namespace, firewall of 10 rules, namespace: TCP",
                "Gb/s",
                [
                    ("tcp_gbps", "segments as the interfaces have them"),
                    ("tcp_whole_gbps", "packets of 1500 bytes"),
                ],
            ),
        ] {
            let series = fields.map(|(_, name)| name.to_string());
            let rows = rows.iter().map(|row| {
                let name = row["short"].as_str().unwrap_or_default().to_string();
                (
                    name,
                    fields.iter().map(|(field, _)| value(row, field)).collect(),
                )
            });
            bars(
                &results().join(file),
                title,
                unit,
                &series,
                &rows.collect::<Vec<_>>(),
            )?;
        }
        Ok(())
    }

    /// Writes each part's table into the page, between its marks.
    fn document(&self) -> Result<(), Failure> {
        for (part, figures) in &self.figures {
            document(&format!("switch {part}"), &tables::table(part, figures))?;
        }
        Ok(())
    }
}
