//! What stands beside the data: the paper's numbers and promises. Each has a letter in the plot and a row
//! above it.

use super::pen::{Pen, Side, Spot, clean};
use super::{Failure, TEXT};
use crate::ruler::Ruler;
use crate::style::{PAPER, PROMISE};
use crate::{Mark, Place, Source};
use plotters::prelude::*;

/// Dashes of lines that are not data.
const DASHES: &[i32] = &[16, 7];

/// Most marks in a plot: there are as many letters.
const MOST: usize = 26;

pub(super) struct Marks(Vec<Placed>);

struct Placed {
    letter: String,
    label: String,
    colour: RGBColor,
    drawn: Drawn,
}

/// Places of the rulers.
enum Drawn {
    Level(f64),
    Band(f64, f64),
    Point(f64, f64),
    /// Above or below the plot, at its right end or at a place.
    Beyond {
        up: bool,
        x: Option<f64>,
    },
    Nowhere,
}

/// The numbers upwards that marks have: an axis may make room for them.
pub(super) fn heights(marks: &[Mark]) -> Vec<f64> {
    marks
        .iter()
        .flat_map(|mark| match mark.place {
            Place::Level(y) | Place::Point(_, y) => vec![y],
            Place::Band(low, high) => vec![low, high],
        })
        .collect()
}

impl Marks {
    /// Places them; names those that have no place.
    pub(super) fn new(marks: &[Mark], x: &Ruler, y: &Ruler, aside: f64, left_out: &mut Vec<String>) -> Marks {
        let mut place = |number: usize, mark: &Mark| {
            let drawn = drawn(mark.place, x, y, aside);
            let label = match drawn {
                Drawn::Nowhere => {
                    left_out.push(format!("{}: its place is not on the axes", mark.label));
                    mark.label.clone()
                }
                Drawn::Beyond { up: true, .. } => format!("{} (above the plot)", mark.label),
                Drawn::Beyond { up: false, .. } => format!("{} (below the plot)", mark.label),
                _ => mark.label.clone(),
            };
            let colour = match mark.source {
                Source::Paper => PAPER,
                Source::Promise => PROMISE,
            };
            Placed { letter: letter(number), label, colour, drawn }
        };
        let placed = marks.iter().enumerate().take(MOST).map(|(number, mark)| place(number, mark)).collect();
        left_out
            .extend(marks.iter().skip(MOST).map(|mark| format!("{}: more than {MOST} marks", mark.label)));
        Marks(placed)
    }

    pub(super) fn rows(&self) -> usize {
        self.0.len()
    }

    /// The rows above the plot: sample, letter, label.
    pub(super) fn explain(
        &self,
        pen: &Pen<'_, '_>,
        (x, sample): Spot,
        mut y: i32,
        row: i32,
    ) -> Result<(), Failure> {
        for mark in &self.0 {
            match mark.drawn {
                Drawn::Level(_) => pen.line(&[(x, y), (x + sample, y)], mark.colour, 3, DASHES)?,
                Drawn::Band(..) => {
                    pen.rectangle([(x, y - 14), (x + sample, y + 14)], mark.colour.mix(0.2).filled())?;
                }
                Drawn::Point(..) => pen.star((x + sample / 2, y), mark.colour)?,
                Drawn::Beyond { up, .. } => arrow(pen, (x + sample / 2, y), up, mark.colour)?,
                Drawn::Nowhere => {}
            }
            pen.text((x + sample + 14, y), &mark.letter, Side::Right, TEXT, mark.colour)?;
            pen.text((x + sample + 44, y), &clean(&mark.label), Side::Right, TEXT, mark.colour)?;
            y += row;
        }
        Ok(())
    }

    /// What lies under the data.
    pub(super) fn under(
        &self,
        pen: &Pen<'_, '_>,
        x: &Ruler,
        at: &dyn Fn(f64, f64) -> Spot,
    ) -> Result<(), Failure> {
        for mark in &self.0 {
            if let Drawn::Band(low, high) = mark.drawn {
                let corners = [at(x.from, high), at(x.to, low)];
                pen.rectangle(corners, mark.colour.mix(0.2).filled())?;
            }
        }
        Ok(())
    }

    /// What lies over the data.
    pub(super) fn over(
        &self,
        pen: &Pen<'_, '_>,
        (x, y): (&Ruler, &Ruler),
        at: &dyn Fn(f64, f64) -> Spot,
    ) -> Result<(), Failure> {
        // Letters beside the plot that would lie over one another move on.
        let mut beside: Vec<i32> = Vec::new();
        let mut free = |mut height: i32| {
            beside.sort_unstable();
            for taken in &beside {
                if (height - taken).abs() < 30 {
                    height = taken + 30;
                }
            }
            beside.push(height);
            height
        };
        for mark in &self.0 {
            match mark.drawn {
                Drawn::Level(level) => {
                    let (left, right) = (at(x.from, level), at(x.to, level));
                    pen.line(&[left, right], mark.colour, 3, DASHES)?;
                    let height = free(right.1);
                    pen.text((right.0 + 12, height), &mark.letter, Side::Right, TEXT, mark.colour)?;
                }
                Drawn::Band(low, high) => {
                    let height = free((at(x.to, low).1 + at(x.to, high).1) / 2);
                    pen.text((at(x.to, low).0 + 12, height), &mark.letter, Side::Right, TEXT, mark.colour)?;
                }
                Drawn::Point(right, up) => {
                    let spot = at(right, up);
                    pen.star(spot, mark.colour)?;
                    let (side, way) = toward_middle(right, x);
                    pen.text((spot.0 + 24 * way, spot.1 - 16), &mark.letter, side, TEXT, mark.colour)?;
                }
                Drawn::Beyond { up, x: Some(right) } => {
                    let (edge, into) = if up { (y.to, 20) } else { (y.from, -20) };
                    let spot = at(right, edge);
                    // Aside of what is at the same place, towards the middle.
                    let (side, way) = toward_middle(right, x);
                    let arrow_at = (spot.0 + 30 * way, spot.1 + into);
                    arrow(pen, arrow_at, up, mark.colour)?;
                    pen.text((arrow_at.0 + 16 * way, arrow_at.1), &mark.letter, side, TEXT, mark.colour)?;
                }
                Drawn::Beyond { up, x: None } => {
                    let (edge, into) = if up { (y.to, 18) } else { (y.from, -18) };
                    let spot = at(x.to, edge);
                    let height = free(spot.1 + into);
                    arrow(pen, (spot.0 + 20, height), up, mark.colour)?;
                    pen.text((spot.0 + 36, height), &mark.letter, Side::Right, TEXT, mark.colour)?;
                }
                Drawn::Nowhere => {}
            }
        }
        Ok(())
    }
}

fn drawn(place: Place, x: &Ruler, y: &Ruler, aside: f64) -> Drawn {
    let level = |level: f64, right: Option<f64>| match y.place(level) {
        Some(level) if level > y.to => Err(Drawn::Beyond { up: true, x: right }),
        Some(level) if level < y.from => Err(Drawn::Beyond { up: false, x: right }),
        Some(level) => Ok(level),
        None => Err(Drawn::Nowhere),
    };
    match place {
        Place::Level(height) => level(height, None).map_or_else(|beyond| beyond, Drawn::Level),
        Place::Band(low, high) => match (y.place(low.min(high)), y.place(low.max(high))) {
            (Some(low), Some(_)) if low > y.to => Drawn::Beyond { up: true, x: None },
            (Some(_), Some(high)) if high < y.from => Drawn::Beyond { up: false, x: None },
            (Some(low), Some(high)) => Drawn::Band(low.max(y.from), high.min(y.to)),
            _ => Drawn::Nowhere,
        },
        Place::Point(right, up) => match x.place(right).map(|right| right + aside) {
            Some(right) if x.contains(right) => {
                level(up, Some(right)).map_or_else(|beyond| beyond, |up| Drawn::Point(right, up))
            }
            _ => Drawn::Nowhere,
        },
    }
}

/// On which side of a place there is more room.
fn toward_middle(place: f64, x: &Ruler) -> (Side, i32) {
    if place > f64::midpoint(x.from, x.to) { (Side::Left, -1) } else { (Side::Right, 1) }
}

fn arrow(pen: &Pen<'_, '_>, (x, y): Spot, up: bool, colour: RGBColor) -> Result<(), Failure> {
    let tip = if up { -16 } else { 16 };
    pen.line(&[(x, y - tip), (x, y + tip)], colour, 4, &[])?;
    pen.line(&[(x - 10, y + tip / 3), (x, y + tip), (x + 10, y + tip / 3)], colour, 4, &[])
}

/// a to z.
fn letter(number: usize) -> String {
    ('a'..='z').nth(number).map_or(String::new(), String::from)
}
