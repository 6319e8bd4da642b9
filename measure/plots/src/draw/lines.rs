//! Curves.

use super::legend::{Entry, Legend, Sample};
use super::marks::{Marks, heights};
use super::pen::{Pen, Spot, width};
use super::{Failure, TEXT, WIDTH, frame};
use crate::ruler::{Ruler, Use};
use crate::style::Look;
use crate::{Lines, Mark, Series, Shape};
use plotters::prelude::*;

/// More points than these have their spread as a band, and markers here and there.
const MANY: usize = 24;

pub(super) fn draw(
    plot: &Lines,
    marks: &[Mark],
    svg: &mut String,
    left_out: &mut Vec<String>,
) -> Result<(), Failure> {
    let points = || plot.series.iter().flat_map(Series::points);
    let across: Vec<f64> = points().map(|(x, _)| *x).collect();
    let upwards: Vec<f64> = points()
        .filter_map(|(_, reading)| reading.measured())
        .flat_map(|(value, low, high)| [value, low, high])
        .collect();
    let beside: Vec<f64> = marks
        .iter()
        .filter_map(|mark| match mark.place {
            crate::Place::Point(x, _) => Some(x),
            _ => None,
        })
        .collect();
    let mut x = Ruler::new(&plot.x, &across, &beside, Use::Across);
    let y = Ruler::new(&plot.y, &upwards, &heights(marks), Use::Upwards);
    thin(&mut x);
    for series in &plot.series {
        name_missing(series, plot, (&x, &y), left_out);
    }
    let marks = Marks::new(marks, &x, &y, 0.0, left_out);
    let entries = plot.series.iter().map(|series| Entry {
        name: series.name.clone(),
        look: series.role.look(),
        sample: Sample::Curve { line: series.shape != Shape::Points },
    });
    let legend = Legend::new(entries, &marks);
    frame(svg, &legend, (&x, &plot.x.name(), 0), (&y, &plot.y.name()), |pen, at| {
        marks.under(pen, &x, at)?;
        for (number, series) in plot.series.iter().enumerate() {
            curve(pen, number, series, (&x, &y), at)?;
        }
        marks.over(pen, (&x, &y), at)
    })
}

/// Leaves out labels that would run into the one before them.
fn thin(x: &mut Ruler) {
    let scale = f64::from(WIDTH - 260) / (x.to - x.from);
    let mut end = f64::NEG_INFINITY;
    x.ticks.retain(|(place, label)| {
        let half = f64::from(width(label, TEXT)) / 2.0;
        let fits = place * scale - half > end + 14.0;
        if fits {
            end = place * scale + half;
        }
        fits
    });
}

fn name_missing(series: &Series, plot: &Lines, (x, y): (&Ruler, &Ruler), left_out: &mut Vec<String>) {
    for (across, reading) in series.points() {
        let name = format!("{} at {} {}", series.name, crate::reading::number(*across), plot.x.unit);
        let name = name.trim_end();
        match (reading.value(), reading.why_missing()) {
            (_, Some(why)) => left_out.push(format!("{name}: {why}")),
            (Some(value), _) if x.place(*across).is_none() || y.place(value).is_none() => {
                left_out.push(format!("{name}: {value} has no place on the axes"));
            }
            _ => {}
        }
    }
}

/// A point that has a place: its own, and those of its spread.
struct Dot {
    x: f64,
    y: f64,
    low: Option<f64>,
    high: f64,
}

fn curve(
    pen: &Pen<'_, '_>,
    number: usize,
    series: &Series,
    (x, y): (&Ruler, &Ruler),
    at: &dyn Fn(f64, f64) -> Spot,
) -> Result<(), Failure> {
    let look = series.role.look();
    // What is missing ends a run: no line leads across it.
    let mut runs: Vec<Vec<Dot>> = vec![Vec::new()];
    for (across, reading) in series.points() {
        let Some(across) = x.place(*across) else { continue };
        let dot = reading.measured().and_then(|(value, low, high)| {
            let place = y.place(value)?;
            Some(Dot { x: across, y: place, low: y.place(low), high: y.place(high).unwrap_or(place) })
        });
        match (dot, runs.last_mut()) {
            (Some(dot), Some(run)) => run.push(dot),
            _ => {
                let spot = at(across, y.from);
                pen.cross((spot.0, spot.1 - 14), look.colour)?;
                runs.push(Vec::new());
            }
        }
    }
    let many = series.points().len() > MANY;
    for run in runs.iter().filter(|run| !run.is_empty()) {
        spread(pen, run, series.shape, (many, &look), y, at)?;
        let path: Vec<Spot> = match series.shape {
            Shape::Points => Vec::new(),
            Shape::Line => run.iter().map(|dot| at(dot.x, dot.y)).collect(),
            Shape::Steps => {
                let dots: Vec<(f64, f64)> = run.iter().map(|dot| (dot.x, dot.y)).collect();
                stairs(&dots).into_iter().map(|(x, y)| at(x, y)).collect()
            }
        };
        if path.len() > 1 {
            pen.line(&path, look.colour, 4, look.dashes)?;
        }
        let every =
            if many && series.shape != Shape::Points { (series.points().len() / 10).max(1) } else { 1 };
        // Curves with many points have their markers at different places.
        let first = if every > 1 { (2 * number + 1) % every } else { 0 };
        for dot in run.iter().skip(first).step_by(every) {
            pen.marker(at(dot.x, dot.y), &look)?;
        }
    }
    Ok(())
}

/// A way on which each height holds until the next place.
fn stairs(dots: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut path: Vec<(f64, f64)> = Vec::with_capacity(2 * dots.len());
    for (x, y) in dots {
        if let Some((_, before)) = path.last().copied() {
            path.push((*x, before));
        }
        path.push((*x, *y));
    }
    path
}

fn spread(
    pen: &Pen<'_, '_>,
    run: &[Dot],
    shape: Shape,
    (many, look): (bool, &Look),
    y: &Ruler,
    at: &dyn Fn(f64, f64) -> Spot,
) -> Result<(), Failure> {
    let low = |dot: &Dot| dot.low.unwrap_or(y.from).max(y.from);
    if many {
        if run.iter().all(|dot| dot.high - low(dot) < (y.to - y.from) * 1e-3) {
            return Ok(());
        }
        let edge = |height: &dyn Fn(&Dot) -> f64| -> Vec<Spot> {
            let edge: Vec<(f64, f64)> = run.iter().map(|dot| (dot.x, height(dot))).collect();
            let edge = if shape == Shape::Steps { stairs(&edge) } else { edge };
            edge.into_iter().map(|(x, y)| at(x, y)).collect()
        };
        let mut outline = edge(&|dot| dot.high);
        outline.extend(edge(&low).into_iter().rev());
        return pen.polygon(outline, look.colour.mix(0.18).filled());
    }
    for dot in run {
        let (spot, ends) = (at(dot.x, dot.y), (at(dot.x, low(dot)).1, at(dot.x, dot.high).1));
        pen.whisker(spot.0, ends, dot.low.is_some(), look.colour)?;
    }
    Ok(())
}
