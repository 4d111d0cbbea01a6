//! Guests under load: pings as fast as they are answered.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use bench::median;
use serde::Serialize;

use super::machine::cpu_time;
use super::ping::Prober;

/// How long a round is.
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

/// What guests do under load: medians of rounds.
#[derive(Serialize)]
pub struct Load {
    guests: usize,
    /// Pings under way to each at a time.
    window: usize,
    /// Answers a second, of all.
    answers: f64,
    /// CPU time of guests, switch and node for an answer, in nanoseconds.
    time: f64,
    /// The least and the most that a guest answered, over the mean.
    least: f64,
    most: f64,
    /// Jain's index of fairness: 1 if all answer as much.
    fairness: f64,
}

impl Load {
    /// Of the guests with these addresses, which belong to a node, with so many pings under way to each.
    pub fn measure(
        prober: &mut Prober,
        node: u32,
        all: &[Ipv4Addr],
        window: usize,
    ) -> Result<Load, String> {
        let mut rounds: [Vec<f64>; 5] = Default::default();
        for _ in 0..ROUNDS {
            let before = cpu_time(node)?;
            let answers = prober.flood(all, window, ROUND)?;
            let time = cpu_time(node)?.saturating_sub(before);
            let sum: u64 = answers.iter().sum();
            let (sum, count) = (sum as f64, all.len() as f64);
            let squares: f64 = answers.iter().map(|it| (*it as f64).powi(2)).sum();
            let of_mean = |some: Option<&u64>| *some.unwrap_or(&0) as f64 * count / sum;
            let figures = [
                sum / ROUND.as_secs_f64(),
                time.as_nanos() as f64 / sum,
                of_mean(answers.iter().min()),
                of_mean(answers.iter().max()),
                sum * sum / (count * squares),
            ];
            for (figures, figure) in rounds.iter_mut().zip(figures) {
                figures.push(figure);
            }
        }
        let [answers, time, least, most, fairness] = rounds.map(|figures| median(&figures));
        Ok(Load {
            guests: all.len(),
            window,
            answers,
            time,
            least,
            most,
            fairness,
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} guests, {} pings each: {:.0} answers/s, {:.0} ns each, least {:.2} and most {:.2} of the mean, fairness {:.3}",
            self.guests, self.window, self.answers, self.time, self.least, self.most, self.fairness
        )
    }
}
