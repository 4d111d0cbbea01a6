//! Whether the programs do the same in each row: the counts of its sinks.

use bench::compare::same_counts;
use bench::program::Program;

use super::Subject;

/// Packets of a run.
const PACKETS: u64 = 20_000;

/// Packets on the way when the programs stop.
const ON_THE_WAY: u64 = 512;

/// Prints the counts of each subject, and fails if those of a peer differ from Weir's.
pub fn check(subjects: &[Subject], programs: &[Program]) -> Result<(), String> {
    let mut wrong = 0;
    for subject in subjects {
        let mut weir: Option<Vec<u64>> = None;
        for program in programs {
            let ran = subject.runs_in(program).and_then(|able| {
                if able {
                    let config = subject.config(PACKETS)?;
                    program.counts(&config, subject.row.counts()).map(Some)
                } else {
                    Ok(None)
                }
            });
            match ran {
                Ok(None) => {}
                Ok(Some(counts)) => {
                    let expected = weir.get_or_insert_with(|| counts.clone());
                    let same = counts.len() == subject.row.counts().len()
                        && same_counts(&counts, expected, ON_THE_WAY);
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
