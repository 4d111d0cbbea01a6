//! The line that a ProgressBar draws.

use super::SECOND;
use crate::prelude::*;

/// Most columns of the bar itself.
const BAR_MAX: usize = 240;

/// What is drawn.
pub struct Picture<'b> {
    pub banner: &'b str,
    pub position: Option<f64>,
    pub size: Option<f64>,
    /// Whether the size is known by handlers or in itself: then the position is not shown beside.
    pub relative: bool,
    pub done: bool,
    /// Nanoseconds since the start, stalls left out.
    pub elapsed: u64,
    pub stalls: bool,
    pub columns: usize,
}

/// A share of 100 for the bar; `None` if the position is not known.
fn share(position: Option<f64>, size: Option<f64>) -> Option<usize> {
    let position = position?;
    Some(match size {
        // Back and forth.
        None => match (position / 100_000.0) as u64 % 200 {
            forth @ 0..=100 => forth as usize,
            back => 200 - back as usize,
        },
        Some(size) if size > 0.0 => ((100.0 * position / size) as i64).clamp(0, 100) as usize,
        Some(_) => 100,
    })
}

impl Picture<'_> {
    fn bar(&self, width: usize) -> String {
        let Some(share) = share(self.position, self.size) else {
            return "-".repeat(width);
        };
        if self.size.is_some() {
            let full = width * share / 100;
            return "*".repeat(full) + &" ".repeat(width - full);
        }
        if self.done {
            return "-".repeat(width);
        }
        let mark = if width > 3 { 3 } else { 1 };
        let before = (width - mark) * share / 100;
        let after = width - before - mark;
        " ".repeat(before) + &"*".repeat(mark) + &" ".repeat(after)
    }

    /// The position in a unit that keeps it short.
    fn amount(&self) -> String {
        let Some(mut position) = self.position else {
            return " -----   ".to_string();
        };
        let mut units = [' ', 'K', 'M', 'G', 'T', 'P'].into_iter().peekable();
        let mut unit = units.next().unwrap_or(' ');
        while position >= 100_000.0 && units.peek().is_some() {
            unit = units.next().unwrap_or(unit);
            position /= 1024.0;
        }
        let byte = if unit == ' ' { ' ' } else { 'B' };
        format!(" {:5}{unit}{byte} ", position as u64)
    }

    fn time(&self) -> String {
        let known = self.position.zip(self.size);
        let in_range = known.is_some_and(|(position, size)| self.elapsed > 0 && position <= size);
        if !self.done && !in_range {
            return "   --:-- ETA".to_string();
        }
        if self.stalls {
            return " - stalled -".to_string();
        }
        let elapsed = self.elapsed as f64 / SECOND as f64;
        let (seconds, word) = match known {
            Some((position, size)) if !self.done && position >= 1e-6 => {
                (size / (position / elapsed) - elapsed, " ETA")
            }
            _ => (elapsed, "    "),
        };
        let seconds = seconds as u64;
        let (hours, seconds) = (seconds / 3600, seconds % 3600);
        let hours = match hours {
            0 => "   ".to_string(),
            hours => format!("{hours:2}:"),
        };
        format!("{hours}{:02}:{:02}{word}", seconds / 60, seconds % 60)
    }

    /// The line.
    pub fn draw(&self) -> String {
        let mut line = "\r".to_string();
        if !self.banner.is_empty() {
            line += &format!("{} ", self.banner);
        }
        match (share(self.position, self.size), self.size) {
            (Some(share), Some(_)) => line += &format!("{share:3}% "),
            (None, Some(_)) => line += "  -% ",
            _ => {}
        }
        let alone = self.size.is_some() && self.relative;
        let room = (self.columns + if alone { 8 } else { 0 }).checked_sub(line.len() + 25);
        if let Some(width) = room.filter(|room| *room > 0) {
            line += &format!("|{}|", self.bar(width.min(BAR_MAX)));
        }
        line += &if alone {
            " ".to_string()
        } else {
            self.amount()
        };
        line += &self.time();
        if self.done {
            line.push('\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(position: f64, size: Option<f64>, seconds: u64) -> Picture<'static> {
        Picture {
            banner: "",
            position: Some(position),
            size,
            relative: false,
            done: false,
            elapsed: seconds * SECOND,
            stalls: false,
            columns: 60,
        }
    }

    #[test]
    fn a_bar_of_known_size_fills() {
        let half = picture(500_000.0, Some(1_000_000.0), 65);
        let bar = "*".repeat(14) + &" ".repeat(15);
        assert_eq!(half.draw(), format!("\r 50% |{bar}|   488KB    01:05 ETA"));
        let done = Picture {
            done: true,
            ..picture(1e6, Some(1e6), 3700)
        };
        let bar = "*".repeat(29);
        assert_eq!(
            done.draw(),
            format!("\r100% |{bar}|   976KB  1:01:40    \n")
        );
        let stalled = Picture {
            stalls: true,
            ..picture(1.0, Some(2.0), 9)
        };
        assert!(stalled.draw().ends_with(" - stalled -"));
        let unknown = Picture {
            position: None,
            banner: "x",
            ..picture(1.0, Some(2.0), 9)
        };
        let bar = "-".repeat(27);
        assert_eq!(
            unknown.draw(),
            format!("\rx   -% |{bar}| -----      --:-- ETA")
        );
    }

    #[test]
    fn a_bar_without_size_moves() {
        let here = picture(5_000_000.0, None, 3);
        let bar = " ".repeat(15) + "***" + &" ".repeat(16);
        assert_eq!(here.draw(), format!("\r|{bar}|  4882KB    --:-- ETA"));
        assert_eq!(share(Some(15_000_000.0), None), Some(50));
        for columns in 0..40 {
            let narrow = Picture {
                columns,
                ..picture(7e9, None, 3)
            };
            assert!(narrow.draw().starts_with('\r'));
        }
    }
}
