//! Plots as SVG.
//!
//! [`plotters`] draws the axes, maps numbers to places and writes SVG; this module decides what is drawn, and
//! how it looks. Coordinates are half pixels, because the library knows whole numbers only.

mod bars;
mod legend;
mod lines;
mod marks;
mod pen;

use crate::ruler::Ruler;
use crate::style::{GRID, INK};
use crate::{Figure, Plot};
use legend::Legend;
use pen::Pen;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Width of a plot.
const WIDTH: u32 = 1760;
/// Height of what is below the legend.
const HEIGHT: u32 = 860;
/// Size of text, as plotters counts it: 1.24 times that of SVG.
const TEXT: u32 = 32;

/// What a plot could not show, for the page to say.
pub(crate) struct Drawing {
    /// The plot; nothing if it could not be drawn.
    pub(crate) svg: String,
    /// What has no place in it, and why: plain text.
    pub(crate) left_out: Vec<String>,
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure = Box<dyn std::error::Error>;

/// Draws a figure.
pub(crate) fn draw(figure: &Figure) -> Drawing {
    let mut left_out = Vec::new();
    let mut svg = String::new();
    let drawn = match &figure.plot {
        Plot::Lines(plot) => lines::draw(plot, &figure.marks, &mut svg, &mut left_out),
        Plot::Bars(plot) => bars::draw(plot, &figure.marks, &mut svg, &mut left_out),
    };
    if let Err(error) = drawn {
        svg.clear();
        left_out.push(format!("the plot could not be drawn: {error}"));
    }
    Drawing { svg, left_out }
}

/// What every plot has: a legend above, axes below it. Calls back with what draws inside, in places of the
/// rulers.
fn frame(
    svg: &mut String,
    legend: &Legend,
    (x, x_name, x_labels): (&Ruler, &str, u32),
    (y, y_name): (&Ruler, &str),
    inside: impl FnOnce(&Pen<'_, '_>, &dyn Fn(f64, f64) -> (i32, i32)) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let above = legend.height();
    let canvas = SVGBackend::with_string(svg, (WIDTH, above + HEIGHT)).into_drawing_area();
    let (top, below) = canvas.split_vertically(above);
    legend.draw(&Pen::new(&top))?;
    let widest = y.ticks.iter().map(|(_, label)| pen::width(label, TEXT)).max().unwrap_or(0);
    let mut chart = ChartBuilder::on(&below)
        .margin_top(12)
        .margin_right(70)
        .margin_bottom(6)
        .x_label_area_size(if x_labels > 0 { 70 + 36 * x_labels } else { 96 })
        .y_label_area_size(widest as u32 + 80)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(INK.stroke_width(2))
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", TEXT).into_font().color(&INK))
        .axis_desc_style(("sans-serif", TEXT).into_font().color(&INK))
        .x_labels(if x_labels > 0 { 0 } else { x.ticks.len() })
        .y_labels(y.ticks.len())
        .x_desc(pen::clean(x_name))
        .y_desc(pen::clean(y_name))
        .draw()?;
    {
        let place = |x: f64, y: f64| chart.backend_coord(&(x, y));
        inside(&Pen::new(&canvas), &place)?;
    }
    drop((chart, top, below));
    canvas.present()?;
    Ok(())
}
