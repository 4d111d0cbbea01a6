//! Whether the programs do the same in each row: the counts of its sinks.

use std::process::Command;

use bench::program::Program;

use super::Subject;

/// Packets of a run.
const PACKETS: u64 = 20_000;

/// A run that takes longer has failed: it does not stop.
const SECONDS: &str = "20";

/// Difference between the counts of two programs: what is under way when they stop, and what
/// random choices make.
fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= 512 + a.max(b) / 50
}

/// The counts of the row's sinks.
fn counts(subject: &Subject, program: &Program) -> Result<Vec<u64>, String> {
    let run = program.command(&subject.config(PACKETS)?);
    let mut command = Command::new("timeout");
    command
        .arg(SECONDS)
        .arg(run.get_program())
        .args(run.get_args());
    for handler in subject.row.counts() {
        command.args(["-h", handler]);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{} failed ({}): {said}",
            program.name, output.status
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Prints the counts of each subject, and fails if those of a peer differ from Weir's.
pub fn check(subjects: &[Subject], programs: &[Program]) -> Result<(), String> {
    let mut wrong = 0;
    for subject in subjects {
        let mut weir: Option<Vec<u64>> = None;
        for program in programs {
            let ran = subject.runs_in(program).and_then(|able| {
                if able {
                    counts(subject, program).map(Some)
                } else {
                    Ok(None)
                }
            });
            match ran {
                Ok(None) => {}
                Ok(Some(counts)) => {
                    let expected = weir.get_or_insert_with(|| counts.clone());
                    let same = counts.len() == subject.row.counts().len()
                        && counts.len() == expected.len()
                        && counts.iter().zip(expected).all(|(a, b)| near(*a, *b));
                    wrong += u32::from(!same);
                    let mark = if same { "" } else { " DIFFERS" };
                    println!("{:<44} {:<10} {counts:?}{mark}", subject.name, program.name);
                }
                Err(error) => {
                    wrong += 1;
                    println!("{:<44} {error}", subject.name);
                }
            }
        }
    }
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} runs differ or failed."))
    }
}
