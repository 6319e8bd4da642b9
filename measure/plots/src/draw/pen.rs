//! Strokes, markers and words at places of the picture.

use super::{Canvas, Failure};
use crate::style::{GROUND, INK, Look, Marker};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A place of the picture.
pub(super) type Spot = (i32, i32);

pub(super) struct Pen<'a, 'b> {
    canvas: &'b Canvas<'a>,
}

/// On which side of its place a text stands.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Right,
    Middle,
    Left,
}

impl<'a, 'b> Pen<'a, 'b> {
    pub(super) fn new(canvas: &'b Canvas<'a>) -> Pen<'a, 'b> {
        Pen { canvas }
    }

    /// A line through these places; dashes are lengths of strokes and gaps in turn.
    pub(super) fn line(
        &self,
        path: &[Spot],
        colour: RGBColor,
        width: u32,
        dashes: &[i32],
    ) -> Result<(), Failure> {
        for stroke in strokes(path, dashes) {
            self.canvas.draw(&PathElement::new(stroke, colour.stroke_width(width)))?;
        }
        Ok(())
    }

    pub(super) fn rectangle(&self, corners: [Spot; 2], style: ShapeStyle) -> Result<(), Failure> {
        Ok(self.canvas.draw(&Rectangle::new(corners, style))?)
    }

    pub(super) fn polygon(&self, path: Vec<Spot>, style: ShapeStyle) -> Result<(), Failure> {
        Ok(self.canvas.draw(&Polygon::new(path, style))?)
    }

    /// The marker of a curve.
    pub(super) fn marker(&self, (x, y): Spot, look: &Look) -> Result<(), Failure> {
        let size = 11;
        let shape = match look.marker {
            Marker::None => return Ok(()),
            Marker::Circle => {
                let inside = if look.hollow { GROUND } else { look.colour };
                self.canvas.draw(&Circle::new((x, y), size, inside.filled()))?;
                return Ok(self.canvas.draw(&Circle::new((x, y), size, look.colour.stroke_width(4)))?);
            }
            Marker::Square => vec![(-9, -9), (9, -9), (9, 9), (-9, 9)],
            Marker::Triangle => vec![(0, -12), (12, 9), (-12, 9)],
            Marker::Diamond => vec![(0, -14), (12, 0), (0, 14), (-12, 0)],
        };
        let mut outline: Vec<Spot> = shape.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        let inside = if look.hollow { GROUND } else { look.colour };
        self.polygon(outline.clone(), inside.filled())?;
        outline.extend(outline.first().copied());
        self.line(&outline, look.colour, 4, &[])
    }

    /// A star, for a number that is not ours.
    pub(super) fn star(&self, (x, y): Spot, colour: RGBColor) -> Result<(), Failure> {
        let corner = |turn: i32| {
            let radius = if turn % 2 == 0 { 20.0 } else { 8.0 };
            let angle = f64::from(turn) * std::f64::consts::PI / 5.0;
            (x + (radius * angle.sin()).round() as i32, y - (radius * angle.cos()).round() as i32)
        };
        let outline: Vec<Spot> = (0..=10).map(corner).collect();
        self.polygon(outline.clone(), GROUND.filled())?;
        self.line(&outline, colour, 4, &[])
    }

    /// A cross, where something is missing.
    pub(super) fn cross(&self, (x, y): Spot, colour: RGBColor) -> Result<(), Failure> {
        self.line(&[(x - 10, y - 10), (x + 10, y + 10)], colour, 4, &[])?;
        self.line(&[(x - 10, y + 10), (x + 10, y - 10)], colour, 4, &[])
    }

    /// A whisker from the lowest to the highest place; an end outside of the plot has no cap.
    pub(super) fn whisker(
        &self,
        x: i32,
        (low, high): (i32, i32),
        capped: bool,
        colour: RGBColor,
    ) -> Result<(), Failure> {
        if low - high < 3 {
            return Ok(());
        }
        self.line(&[(x, low), (x, high)], colour, 3, &[])?;
        self.line(&[(x - 9, high), (x + 9, high)], colour, 3, &[])?;
        if capped { self.line(&[(x - 9, low), (x + 9, low)], colour, 3, &[]) } else { Ok(()) }
    }

    /// Words; their middle is as high as their place.
    pub(super) fn text(
        &self,
        place: Spot,
        text: &str,
        side: Side,
        size: u32,
        colour: RGBColor,
    ) -> Result<(), Failure> {
        let anchor = match side {
            Side::Right => HPos::Left,
            Side::Middle => HPos::Center,
            Side::Left => HPos::Right,
        };
        let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(anchor, VPos::Center));
        Ok(self.canvas.draw(&Text::new(clean(text), place, style))?)
    }

    /// Words in the colour of text.
    pub(super) fn ink(&self, place: Spot, text: &str, side: Side, size: u32) -> Result<(), Failure> {
        self.text(place, text, side, size, INK)
    }
}

/// What a line of text may hold: no control characters, which no document may contain, and no more than fits.
pub(super) fn clean(text: &str) -> String {
    let mut clean: String =
        text.chars().take(160).map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    if text.chars().nth(160).is_some() {
        clean.push('…');
    }
    clean
}

/// How wide a text is, about: the font is the viewer's.
pub(super) fn width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) / 1.24 * 0.56).ceil() as i32
}

/// A text in lines that are at most so wide, broken at spaces, and at most so many.
pub(super) fn wrapped(text: &str, size: u32, room: i32, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in clean(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            last.push('…');
        }
    }
    for line in &mut lines {
        while width(line, size) > room && line.chars().count() > 2 {
            line.pop();
            line.pop();
            line.push('…');
        }
    }
    lines
}

/// The strokes of a dashed line. Lengths are in points, of two half pixels each.
fn strokes(path: &[Spot], dashes: &[i32]) -> Vec<Vec<Spot>> {
    if dashes.iter().sum::<i32>() <= 0 {
        return vec![path.to_vec()];
    }
    let lengths = |at: usize| f64::from(2 * dashes.get(at % dashes.len()).copied().unwrap_or(1).max(1));
    let mut strokes = Vec::new();
    let mut current: Vec<Spot> = path.first().copied().into_iter().collect();
    let (mut dash, mut left) = (0, lengths(0));
    for pair in path.windows(2) {
        let &[(x0, y0), (x1, y1)] = pair else { continue };
        let (dx, dy) = (f64::from(x1 - x0), f64::from(y1 - y0));
        let length = dx.hypot(dy);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let spot = (x0 + (dx * done / length).round() as i32, y0 + (dy * done / length).round() as i32);
            if dash % 2 == 0 {
                current.push(spot);
                strokes.push(std::mem::take(&mut current));
            } else {
                current = vec![spot];
            }
            dash += 1;
            left = lengths(dash);
        }
        left -= length - done;
        if dash % 2 == 0 {
            current.push((x1, y1));
        }
    }
    if dash % 2 == 0 && current.len() > 1 {
        strokes.push(current);
    }
    strokes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_go_round_corners() {
        let path = [(0, 0), (15, 0), (15, 100)];
        assert_eq!(strokes(&path, &[]), [path]);
        let dashed = strokes(&path, &[10, 5]);
        assert_eq!(dashed.first().map(Vec::as_slice), Some(&[(0, 0), (15, 0), (15, 5)][..]));
        assert_eq!(dashed.get(1).map(Vec::as_slice), Some(&[(15, 15), (15, 35)][..]));
        assert_eq!(strokes(&[(3, 3), (3, 3)], &[2, 2]).len(), 1, "no length, no endless loop");
    }

    #[test]
    fn text_is_broken_at_spaces_and_cut() {
        let lines = wrapped("one two three four five six", 32, width("one two", 32), 2);
        assert_eq!(lines, ["one two", "three…"]);
        assert!(width(&wrapped(&"x".repeat(50), 32, 100, 1)[0], 32) <= 100);
        assert!(wrapped("", 32, 100, 2).is_empty());
    }
}
