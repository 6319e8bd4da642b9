//! The legend, above the plot where it covers no data.

use super::marks::Marks;
use super::pen::{Pen, Side, clean, width};
use super::{Failure, TEXT, WIDTH};
use crate::style::{Look, Pattern};

/// Height of a row.
const ROW: i32 = 46;
/// Width of the sample beside a name.
const SAMPLE: i32 = 100;

pub(super) struct Legend<'a> {
    rows: Vec<Vec<(i32, Entry)>>,
    marks: &'a Marks,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) sample: Sample,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sample {
    /// With or without its line.
    Curve {
        line: bool,
    },
    Bar(Pattern),
}

impl<'a> Legend<'a> {
    pub(super) fn new(entries: impl IntoIterator<Item = Entry>, marks: &'a Marks) -> Legend<'a> {
        let mut rows: Vec<Vec<(i32, Entry)>> = Vec::new();
        let mut x = WIDTH as i32;
        for mut entry in entries {
            entry.name = clean(&entry.name);
            let wide = SAMPLE + 14 + width(&entry.name, TEXT) + 44;
            if x + wide > WIDTH as i32 - 20 {
                rows.push(Vec::new());
                x = 20;
            }
            if let Some(row) = rows.last_mut() {
                row.push((x, entry));
            }
            x += wide;
        }
        Legend { rows, marks }
    }

    pub(super) fn height(&self) -> u32 {
        (ROW * (self.rows.len() + self.marks.rows()) as i32 + 16) as u32
    }

    pub(super) fn draw(&self, pen: &Pen<'_, '_>) -> Result<(), Failure> {
        let mut y = 8 + ROW / 2;
        for row in &self.rows {
            for (x, entry) in row {
                sample(pen, (*x, y), entry)?;
                pen.ink((x + SAMPLE + 14, y), &entry.name, Side::Right, TEXT)?;
            }
            y += ROW;
        }
        self.marks.explain(pen, (20, SAMPLE), y, ROW)
    }
}

fn sample(pen: &Pen<'_, '_>, (x, y): (i32, i32), entry: &Entry) -> Result<(), Failure> {
    let look = &entry.look;
    match entry.sample {
        Sample::Curve { line } => {
            if line {
                pen.line(&[(x, y), (x + SAMPLE, y)], look.colour, 4, look.dashes)?;
            }
            pen.marker((x + SAMPLE / 2, y), look)
        }
        Sample::Bar(pattern) => {
            super::bars::fill(pen, [(x + 30, y - 16), (x + SAMPLE, y + 16)], look, pattern)
        }
    }
}
