//! Grouped bars and lines as SVG.

use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

const COLOURS: [RGBColor; 5] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
];

/// Draws, for each row, one bar for each series. `unit` names the axis.
pub fn bars(
    path: &Path,
    title: &str,
    unit: &str,
    series: &[String],
    rows: &[(String, Vec<f64>)],
) -> Result<(), String> {
    draw(path, title, unit, series, rows).map_err(|error| format!("{}: {error}", path.display()))
}

fn draw(
    path: &Path,
    title: &str,
    unit: &str,
    series: &[String],
    rows: &[(String, Vec<f64>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let most = rows
        .iter()
        .flat_map(|(_, values)| values)
        .copied()
        .fold(0.0, f64::max);
    let width = 160 + 130 * rows.len() as u32;
    let root = SVGBackend::new(path, (width, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..rows.len() as f64, 0.0..most * 1.1)?;
    let label = |x: &f64| {
        let row = rows
            .get(*x as usize)
            .filter(|_| (x.fract() - 0.5).abs() < 0.01);
        row.map_or(String::new(), |(name, _)| name.clone())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(rows.len() * 2 + 1)
        .x_label_formatter(&label)
        .y_desc(unit)
        .draw()?;
    let bar = 0.8 / series.len().max(1) as f64;
    for (s, name) in series.iter().enumerate() {
        let colour = COLOURS[s % COLOURS.len()];
        let drawn = rows.iter().enumerate().map(|(r, (_, values))| {
            let left = r as f64 + 0.1 + s as f64 * bar;
            let height = values
                .get(s)
                .copied()
                .filter(|v| v.is_finite())
                .unwrap_or(0.0);
            Rectangle::new([(left, 0.0), (left + bar * 0.9, height)], colour.filled())
        });
        chart
            .draw_series(drawn)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}

/// A line of a diagram.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// The vertical axis of lines.
pub enum Axis {
    /// From 0.
    Linear,
    /// From below the lowest point.
    Logarithmic,
}

/// Draws lines. `axes` names both axes.
pub fn lines(
    path: &Path,
    title: &str,
    axes: (&str, &str),
    vertical: Axis,
    lines: &[Line],
) -> Result<(), String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    let least = points().map(|point| point.1).fold(most, f64::min);
    let drawn = match vertical {
        Axis::Linear => draw_lines(path, title, axes, 0.0..most * 1.1, lines),
        Axis::Logarithmic => {
            let range = (least * 0.7..most * 1.5).log_scale();
            draw_lines(path, title, axes, range, lines)
        }
    };
    drawn.map_err(|error| format!("{}: {error}", path.display()))
}

fn draw_lines<Y>(
    path: &Path,
    title: &str,
    (x, y): (&str, &str),
    range: Y,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let points = lines.iter().flat_map(|line| &line.points);
    let right = points.map(|point| point.0).fold(0.0, f64::max);
    let root = SVGBackend::new(path, (760, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, range)?;
    chart.configure_mesh().x_desc(x).y_desc(y).draw()?;
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let drawn = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(drawn)?
            .label(&line.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
