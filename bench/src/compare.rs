//! A configuration's speed in several programs: CPU time of the work alone, turn about.

use serde::Serialize;

use crate::median;
use crate::program::Program;

/// How long each program runs.
pub struct Length {
    /// Packets after which a program is warm: it has read its configuration and captures, and
    /// touched their memory. The time until then is not counted.
    pub first: u64,
    /// Seconds of CPU time of a run beyond that.
    pub seconds: f64,
    /// Packets of a run, at most.
    pub most: u64,
    /// Runs of each program.
    pub rounds: usize,
}

/// A program's speed with a configuration.
#[derive(Clone, Serialize)]
pub struct Figure {
    pub configuration: String,
    pub program: String,
    /// Million packets a second, median.
    pub mpps: f64,
    pub least: f64,
    pub most: f64,
    /// The first program's rate over this program's, median of the rounds.
    pub weir_over_it: f64,
}

/// Packets for `length.seconds` of CPU time beyond the `ready` seconds for the first ones.
fn calibrate(
    length: &Length,
    ready: f64,
    seconds: impl Fn(u64) -> Result<f64, String>,
) -> Result<u64, String> {
    let mut packets = length.first.min(length.most);
    loop {
        let seconds = seconds(length.first + packets)? - ready;
        if seconds > length.seconds / 2.0 || packets >= length.most {
            let enough = packets as f64 * length.seconds / seconds.max(0.01);
            return Ok((enough as u64).clamp(1, length.most));
        }
        packets = (packets * 4).min(length.most);
    }
}

/// Measures the programs, the first of which is Weir. `seconds` is the CPU time of a program's run
/// with so many packets.
///
/// # Errors
/// Those of `seconds`; and if a run took no longer than the start alone, as one beside other work may.
pub fn measure(
    configuration: &str,
    programs: &[&Program],
    length: &Length,
    seconds: impl Fn(&Program, u64) -> Result<f64, String>,
) -> Result<Vec<Figure>, String> {
    let mut counts = Vec::new();
    for program in programs {
        let ready = seconds(program, length.first)?;
        let count = calibrate(length, ready, |packets| seconds(program, packets))?;
        counts.push(count);
    }
    let mut readies = vec![Vec::new(); programs.len()];
    let mut times = vec![Vec::new(); programs.len()];
    for _ in 0..length.rounds {
        for (p, program) in programs.iter().enumerate() {
            readies[p].push(seconds(program, length.first)?);
            times[p].push(seconds(program, length.first + counts[p])?);
        }
    }
    let rates = |p: usize| -> Vec<f64> {
        let ready = median(&readies[p]);
        let rate = |seconds: &f64| counts[p] as f64 / (seconds - ready) / 1e6;
        times[p].iter().map(rate).collect()
    };
    let rates: Vec<_> = (0..programs.len()).map(rates).collect();
    if rates.iter().flatten().any(|rate| *rate <= 0.0) {
        return Err("a run took no longer than the start alone".into());
    }
    let figure = |(program, its): (&&Program, &Vec<f64>)| {
        let ratios: Vec<_> = rates[0].iter().zip(its).map(|(a, b)| a / b).collect();
        Figure {
            configuration: configuration.into(),
            program: program.name.clone(),
            mpps: median(its),
            least: its.iter().copied().fold(f64::INFINITY, f64::min),
            most: its.iter().copied().fold(0.0, f64::max),
            weir_over_it: median(&ratios),
        }
    };
    Ok(programs.iter().zip(&rates).map(figure).collect())
}

/// A packet's time in each program.
#[derive(Serialize)]
pub struct PerPacket {
    /// Nanoseconds of CPU time. A program that was not measured has none.
    pub weir: f64,
    pub click: Option<f64>,
    pub fastclick: Option<f64>,
    /// Weir's rate over the better peer's, median of the rounds.
    pub over_better_peer: Option<f64>,
}

impl PerPacket {
    /// From the programs' figures, of which Weir's is the first.
    pub fn of(figures: &[Figure]) -> PerPacket {
        let ns = |name: &str| {
            let figure = figures.iter().find(|figure| figure.program == name);
            figure.map(|figure| 1000.0 / figure.mpps)
        };
        PerPacket {
            weir: ns("Weir").unwrap_or(f64::NAN),
            click: ns("Click"),
            fastclick: ns("FastClick"),
            over_better_peer: better_peer(figures).map(|best| best.weir_over_it),
        }
    }

    /// The ratio to the better peer, by which rows are sorted: those without a peer come last.
    pub fn ratio(&self) -> f64 {
        self.over_better_peer.unwrap_or(f64::INFINITY)
    }
}

/// A row of a table: what was measured, and a packet's time.
#[derive(Serialize)]
pub struct Timed {
    pub row: String,
    #[serde(flatten)]
    pub times: PerPacket,
}

impl Timed {
    /// Its line of a table of `docs/performance.md`.
    pub fn line(&self) -> String {
        let times = &self.times;
        format!(
            "| {} | {:.1} | {} | {} | {} |",
            self.row,
            times.weir,
            cell(times.click),
            cell(times.fastclick),
            cell(times.over_better_peer)
        )
    }
}

/// A figure of a table, which may lack.
pub fn cell(figure: Option<f64>) -> String {
    figure.map_or("–".into(), |figure| format!("{figure:.1}"))
}

/// Whether sinks counted the same packets in two programs, but for so many on the way when they stopped, and for what
/// random choices make.
pub fn same_counts(a: &[u64], b: &[u64], on_the_way: u64) -> bool {
    let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= on_the_way + a.max(b) / 50;
    a.len() == b.len() && a.iter().zip(b).all(near)
}

/// The fastest of Weir's peers: the figures after the first.
pub fn better_peer(figures: &[Figure]) -> Option<&Figure> {
    let peers = figures.iter().skip(1);
    peers.max_by(|a, b| a.mpps.total_cmp(&b.mpps))
}
