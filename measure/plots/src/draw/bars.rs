//! Bars in groups.

use super::legend::{Entry, Legend, Sample};
use super::marks::{Marks, heights};
use super::pen::{Pen, Side, Spot, wrapped};
use super::{Failure, TEXT, WIDTH, frame};
use crate::ruler::{Ruler, Use};
use crate::style::{GROUND, INK, Look, Pattern};
use crate::{Axis, Bars, Mark, Scale};
use plotters::prelude::*;

/// Part of a category's width that its bars have.
const FILLED: f64 = 0.78;
/// Distance of the lines of a pattern.
const HATCH: i32 = 14;

pub(super) fn draw(
    plot: &Bars,
    marks: &[Mark],
    svg: &mut String,
    left_out: &mut Vec<String>,
) -> Result<(), Failure> {
    let upwards: Vec<f64> = plot
        .groups()
        .iter()
        .flat_map(|group| group.readings())
        .filter_map(|reading| reading.measured())
        .flat_map(|(value, low, high)| [value, low, high])
        .collect();
    let categories = plot.categories().len().max(1);
    let mut x = Ruler::new(&Axis::linear(&plot.x, ""), &[0.0, categories as f64], &[], Use::Across);
    (x.from, x.to) = (0.0, categories as f64);
    x.ticks.clear();
    let y = Ruler::new(&plot.y, &upwards, &heights(marks), Use::Bars);
    for group in plot.groups() {
        for (category, reading) in plot.categories().iter().zip(group.readings()) {
            match (reading.value(), reading.why_missing()) {
                (_, Some(why)) => left_out.push(format!("{}, {category}: {why}", group.name)),
                (Some(value), _) if y.place(value).is_none() => {
                    left_out.push(format!("{}, {category}: {value} has no place on the axis", group.name));
                }
                _ => {}
            }
        }
    }
    let marks = Marks::new(marks, &x, &y, 0.5, left_out);
    let entries = plot.groups().iter().map(|group| Entry {
        name: group.name.clone(),
        look: group.role.look(),
        sample: Sample::Bar(group.role.pattern()),
    });
    let legend = Legend::new(entries, &marks);
    let room = (WIDTH as i32 - 260) / categories as i32 - 10;
    let names: Vec<Vec<String>> = plot.categories().iter().map(|name| wrapped(name, TEXT, room, 3)).collect();
    let deepest = names.iter().map(Vec::len).max().unwrap_or(0).max(1) as u32;
    frame(svg, &legend, (&x, &plot.x, deepest), (&y, &plot.y.name()), |pen, at| {
        marks.under(pen, &x, at)?;
        let zero = match plot.y.scale {
            Scale::Linear => 0f64.clamp(y.from, y.to),
            Scale::Log => y.from,
        };
        pen.line(&[at(x.from, zero), at(x.to, zero)], INK, 2, &[])?;
        let wide = FILLED / plot.groups().len().max(1) as f64;
        for (number, group) in plot.groups().iter().enumerate() {
            let look = group.role.look();
            for (category, reading) in group.readings().iter().enumerate() {
                let left = category as f64 + (1.0 - FILLED) / 2.0 + number as f64 * wide;
                let middle = at(left + wide / 2.0, zero).0;
                let Some((height, low, high)) = reading
                    .measured()
                    .and_then(|(value, low, high)| Some((y.place(value)?, y.place(low), y.place(high)?)))
                else {
                    pen.cross((middle, at(left, zero).1 - 16), look.colour)?;
                    continue;
                };
                let gap = wide * 0.06;
                let (a, b) = (at(left + gap, height.max(zero)), at(left + wide - gap, height.min(zero)));
                fill(pen, [a, b], &look, group.role.pattern())?;
                let low_at = at(left, low.unwrap_or(y.from).max(y.from)).1;
                pen.whisker(middle, (low_at, at(left, high).1), low.is_some(), INK)?;
            }
        }
        for (category, lines) in names.iter().enumerate() {
            let below = at(category as f64 + 0.5, y.from);
            for (row, line) in lines.iter().enumerate() {
                pen.ink((below.0, below.1 + 30 + 36 * row as i32), line, Side::Middle, TEXT)?;
            }
        }
        marks.over(pen, (&x, &y), at)
    })
}

/// A bar: its colour, its pattern, its outline.
pub(super) fn fill(
    pen: &Pen<'_, '_>,
    [a, b]: [Spot; 2],
    look: &Look,
    pattern: Pattern,
) -> Result<(), Failure> {
    let (left, right) = (a.0.min(b.0), a.0.max(b.0));
    let (top, bottom) = (a.1.min(b.1), a.1.max(b.1));
    let inside = if pattern == Pattern::Hollow { GROUND } else { look.colour };
    pen.rectangle([(left, top), (right, bottom)], inside.filled())?;
    // A slanted line x + y = c (rising) or x - y = c (falling), as far as it lies inside.
    let slanted = |rising: bool| -> Vec<[Spot; 2]> {
        let (first, last) = if rising { (left + top, right + bottom) } else { (left - bottom, right - top) };
        (first.div_euclid(HATCH)..=last.div_euclid(HATCH))
            .map(|count| count * HATCH)
            .filter_map(|c| {
                let y_at = |x: i32| if rising { c - x } else { x - c };
                let x_at = |y: i32| if rising { c - y } else { c + y };
                let (at_top, at_bottom) = (x_at(top), x_at(bottom));
                let (from, to) = (at_top.min(at_bottom).max(left), at_top.max(at_bottom).min(right));
                (from < to).then(|| [(from, y_at(from)), (to, y_at(to))])
            })
            .collect()
    };
    let strokes = match pattern {
        Pattern::Full | Pattern::Hollow => Vec::new(),
        Pattern::Rising => slanted(true),
        Pattern::Falling => slanted(false),
        Pattern::Level => (0..(bottom - top) / HATCH)
            .map(|count| bottom - (count + 1) * HATCH)
            .map(|y| [(left, y), (right, y)])
            .collect(),
    };
    for stroke in strokes {
        pen.line(&stroke, GROUND, 3, &[])?;
    }
    pen.line(&[(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], look.colour, 3, &[])
}
