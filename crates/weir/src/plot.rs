//! `weir plot`: a histogram of delays as a drawing.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use node::error::{Error, Result};
use node::files;
use plotters::prelude::*;

use crate::nouns::output::print;

/// Most bytes of a histogram.
const BYTES_MAX: usize = 1 << 20;
/// Bars for each power of two.
const BARS: f64 = 8.0;
const SIZE: (u32, u32) = (760, 420);
const BAR: RGBColor = RGBColor(31, 119, 180);
const MARK: RGBColor = RGBColor(214, 39, 40);

/// Draws a histogram of delays as SVG.
///
/// The histogram is what a TrafficSink's handler `histogram` shows: a line for each bucket, with its least
/// and largest delay in nanoseconds, and the number of packets. The drawing has a bar for each eighth of a
/// power of two, and marks the median, the 99th and the 99.9th percentile.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir read sink sink.histogram | weir plot -o delay.svg\n  weir plot delays.txt >delay.svg"
)]
pub struct PlotArgs {
    /// The file of the histogram; without it, standard input.
    file: Option<PathBuf>,
    /// The file of the drawing; without it, standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What stands above the drawing.
    #[arg(long, default_value = "Delay")]
    title: String,
}

/// A bucket: its least and largest delay in nanoseconds, and how many packets have such a one.
type Bucket = (u64, u64, u64);

/// Runs `weir plot`.
pub fn run(args: &PlotArgs) -> Result<()> {
    let (name, read) = match &args.file {
        Some(file) => (file.display().to_string(), files::read(file, BYTES_MAX)),
        None => {
            let read = files::read_from(std::io::stdin().lock(), BYTES_MAX);
            ("standard input".into(), read)
        }
    };
    let text = read.map_err(|error| Error::failed(format_args!("{name}: {error}")))?;
    let text = String::from_utf8_lossy(&text);
    let buckets =
        parse(&text).map_err(|(line, why)| Error::invalid(format_args!("{name}:{line}: {why}")))?;
    let drawing = draw(&args.title, &buckets)
        .map_err(|error| Error::failed(format_args!("{name}: {error}")))?;
    match &args.output {
        Some(path) => write(path, &drawing),
        None => print(&drawing),
    }
}

fn write(path: &Path, drawing: &str) -> Result<()> {
    let written =
        std::fs::File::create(path).and_then(|mut file| file.write_all(drawing.as_bytes()));
    written.map_err(|error| Error::failed(format_args!("{}: {error}", path.display())))
}

/// The buckets in a text, or the line that is wrong and the reason.
fn parse(text: &str) -> Result<Vec<Bucket>, (usize, &'static str)> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let lines = (1..).zip(text.lines());
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let numbers: Option<Vec<u64>> = text
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        let Some(&[low, high, count]) = numbers.as_deref() else {
            return Err((
                line,
                "expected a bucket’s least and largest delay and its number of packets",
            ));
        };
        let ascends = buckets.last().is_none_or(|(_, before, _)| *before < low);
        if low > high || !ascends {
            return Err((line, "delays must ascend"));
        }
        buckets.push((low, high, count));
    }
    match buckets.iter().any(|(_, _, count)| *count > 0) {
        true => Ok(buckets),
        false => Err((1, "there are no packets")),
    }
}

/// The largest delay of the bucket in which the share of packets is reached.
fn percentile(buckets: &[Bucket], share: f64) -> u64 {
    let total: f64 = buckets.iter().map(|bucket| bucket.2 as f64).sum();
    let mut below = 0.0;
    let found = buckets.iter().find(|(_, _, count)| {
        below += *count as f64;
        below >= total * share && *count > 0
    });
    found.or(buckets.last()).map_or(0, |bucket| bucket.1)
}

/// A delay as people write it.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.3} µs", n / 1e3),
        n if n < 1e9 => format!("{:.3} ms", n / 1e6),
        n => format!("{:.3} s", n / 1e9),
    }
    .replace(".000", "")
}

/// The bars: where each begins and ends, and the percentage of packets.
fn bars(buckets: &[Bucket]) -> Vec<(f64, f64, f64)> {
    let total: f64 = buckets.iter().map(|bucket| bucket.2 as f64).sum();
    let mut bars: Vec<(f64, f64)> = Vec::new();
    for (low, high, count) in buckets {
        let middle = (*low as f64 + *high as f64) / 2.0;
        let at = (middle.max(1.0).log2() * BARS).floor();
        let share = *count as f64 * 100.0 / total;
        match bars.last_mut().filter(|(last, _)| *last == at) {
            Some((_, sum)) => *sum += share,
            None => bars.push((at, share)),
        }
    }
    let edge = |at: f64| (at / BARS).exp2();
    bars.iter()
        .map(|(at, share)| (edge(*at), edge(at + 1.0), *share))
        .collect()
}

fn draw(title: &str, buckets: &[Bucket]) -> Result<String, Box<dyn std::error::Error>> {
    let bars = bars(buckets);
    let left = bars.first().map_or(1.0, |bar| bar.0) / 1.2;
    let right = bars.last().map_or(2.0, |bar| bar.1) * 1.2;
    let top = bars.iter().map(|bar| bar.2).fold(0.0, f64::max) * 1.25;
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((left..right).log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .x_label_formatter(&|delay| time(*delay))
        .x_desc("delay")
        .y_desc("packets (%)")
        .draw()?;
    chart
        .draw_series(bars.iter().map(|(from, to, share)| {
            Rectangle::new([(*from, 0.0), (*to, *share)], BAR.filled())
        }))?;
    for (row, (name, share)) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
        .into_iter()
        .enumerate()
    {
        let delay = percentile(buckets, share) as f64;
        let x = delay.max(1.0);
        let line = vec![(x, 0.0), (x, top)];
        chart.draw_series(std::iter::once(PathElement::new(line, MARK)))?;
        let y = top * (1.0 - 0.05 * row as f64);
        let label = format!(" {name} {}", time(delay));
        let text = Text::new(label, (x, y), ("sans-serif", 13).into_font().color(&MARK));
        chart.draw_series(std::iter::once(text))?;
    }
    root.present()?;
    drop(chart);
    drop(root);
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_drawing_marks_percentiles() {
        let buckets = parse("100 100 50\n5000 5119 49\n2000000 2031615 1\n").unwrap();
        assert_eq!(percentile(&buckets, 0.5), 100);
        assert_eq!(percentile(&buckets, 0.99), 5119);
        let svg = draw("Delay <of> a & b", &buckets).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in [
            "p50 100 ns",
            "p99 5.119 µs",
            "p99.9 2.032 ms",
            "&lt;of&gt; a &amp; b",
        ] {
            assert!(svg.contains(part), "{part}");
        }
    }

    #[test]
    fn wrong_lines_are_told() {
        for (text, line) in [
            ("", 1),
            ("1 2 0\n", 1),
            ("1 2 3\n2 3 1\n", 2),
            ("1 2 3\n\n9 8 1", 3),
            ("1 2 3 4", 1),
            ("1 2 x", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_drawn_or_refused(
            numbers in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..6),
            text: String,
        ) {
            let lines: String = numbers.iter().map(|(a, b, c)| format!("{a} {b} {c}\n")).collect();
            for text in [lines, text] {
                if let Ok(buckets) = parse(&text) {
                    prop_assert!(draw("", &buckets).is_ok());
                }
            }
        }
    }
}
