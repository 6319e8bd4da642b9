//! What a plot shows.

use crate::Reading;
use crate::reading::number;
use crate::style::Role;

/// One plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows; the page numbers it.
    pub title: String,
    /// The data.
    pub plot: Plot,
    /// What is drawn beside the data: the paper's numbers, a promise.
    pub marks: Vec<Mark>,
}

/// The kinds of plots.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Values over numbers: throughput over packet size, over time, a distribution.
    Lines(Lines),
    /// Values over names: goodput for each setup.
    Bars(Bars),
}

/// Values over numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
}

/// Values over names, in groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What the categories are, such as `setup, share`.
    pub x: String,
    /// Upwards.
    pub y: Axis,
    categories: Vec<String>,
    groups: Vec<Group>,
}

/// The bars of one name in the legend: one for each category.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub role: Role,
    readings: Vec<Reading>,
}

impl Group {
    /// As many as there are categories.
    pub fn readings(&self) -> &[Reading] {
        &self.readings
    }
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is counted, such as `throughput`.
    pub label: String,
    /// In what, such as `Mp/s`; empty for plain numbers.
    pub unit: String,
    /// How numbers become places.
    pub scale: Scale,
    /// Where there are labels, if that was said: packet sizes, say. Otherwise round numbers are found.
    pub ticks: Vec<f64>,
}

/// How numbers become places on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By their differences. A scale of bars contains zero; so does one of lines, unless all data are far
    /// from it.
    Linear,
    /// By their ratios. What is not above zero has no place and is named under the plot.
    Log,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str, unit: &str) -> Axis {
        Axis { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear, ticks: Vec::new() }
    }

    /// A logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label, unit) }
    }

    /// Says where there are labels. What is not finite is left out.
    pub fn ticks(self, ticks: impl IntoIterator<Item = f64>) -> Axis {
        Axis { ticks: ticks.into_iter().filter(|tick| tick.is_finite()).collect(), ..self }
    }

    /// Label and unit.
    pub fn name(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, dashes and markers.
    pub role: Role,
    /// How its points are connected.
    pub shape: Shape,
    points: Vec<(f64, Reading)>,
}

/// How the points of a curve are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight lines with a marker at each point.
    Line,
    /// Stairs: a value holds until the next one (seconds of a schedule, a number of functions, a
    /// distribution). The last one holds for no time: repeat it where it ends.
    Steps,
    /// Markers alone.
    Points,
}

impl Series {
    /// A curve without points.
    pub fn new(name: impl Into<String>, role: Role) -> Series {
        Series { name: name.into(), role, shape: Shape::Line, points: Vec::new() }
    }

    /// Says how its points are connected.
    pub fn shape(self, shape: Shape) -> Series {
        Series { shape, ..self }
    }

    /// Adds a point, to the right of the last one.
    pub fn point(mut self, x: f64, y: impl Into<Reading>) -> Series {
        self.push(x, y);
        self
    }

    /// [`Series::point`] in a loop. A point at a place that is not finite is missing at the last place that
    /// is, or 0.
    pub fn push(&mut self, x: f64, y: impl Into<Reading>) {
        if x.is_finite() {
            self.points.push((x, y.into()));
        } else {
            let at = self.points.last().map_or(0.0, |(x, _)| *x);
            self.points.push((at, Reading::missing(format!("its place is {x}"))));
        }
    }

    /// The points: places are finite.
    pub fn points(&self) -> &[(f64, Reading)] {
        &self.points
    }
}

/// Something beside the data that the eye compares them with.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What it says: short, it stands in the plot.
    pub label: String,
    /// Whose it is: this decides how it looks.
    pub source: Source,
    /// Where it is.
    pub place: Place,
}

/// Whose a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A number from the text of the paper.
    Paper,
    /// What was promised.
    Promise,
}

/// Where a mark is. What lies far outside the data does not squeeze them together: it is told at the edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// A level, across the plot.
    Level(f64),
    /// A band, across the plot.
    Band(f64, f64),
    /// A point; in bars, x counts categories from 0.
    Point(f64, f64),
}

impl Mark {
    /// A number of the paper. Numbers in the place that are not finite leave the label without a drawing.
    pub fn paper(label: impl Into<String>, place: Place) -> Mark {
        Mark { label: label.into(), source: Source::Paper, place }
    }

    /// Its place to the right, for a table.
    pub(crate) fn x(&self) -> String {
        match self.place {
            Place::Level(_) | Place::Band(..) => String::new(),
            Place::Point(x, _) => number(x),
        }
    }

    /// Its place upwards, for a table.
    pub(crate) fn y(&self) -> String {
        match self.place {
            Place::Level(y) | Place::Point(_, y) => number(y),
            Place::Band(low, high) => format!("{} to {}", number(low), number(high)),
        }
    }

    /// A promise.
    pub fn promise(label: impl Into<String>, place: Place) -> Mark {
        Mark { label: label.into(), source: Source::Promise, place }
    }
}

impl Figure {
    /// A plot of values over numbers.
    pub fn lines(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        series: impl IntoIterator<Item = Series>,
    ) -> Figure {
        let lines = Lines { x, y, series: series.into_iter().collect() };
        Figure { title: title.into(), plot: Plot::Lines(lines), marks: Vec::new() }
    }

    /// A plot of bars; [`Figure::group`] adds them.
    pub fn bars<C: Into<String>>(
        title: impl Into<String>,
        x: &str,
        categories: impl IntoIterator<Item = C>,
        y: Axis,
    ) -> Figure {
        let categories = categories.into_iter().map(Into::into).collect();
        let bars = Bars { x: x.to_owned(), y, categories, groups: Vec::new() };
        Figure { title: title.into(), plot: Plot::Bars(bars), marks: Vec::new() }
    }

    /// Adds a bar to each category. Bars that are lacking are missing, those beyond the categories are left
    /// out; a plot of lines stays as it is.
    pub fn group<R: Into<Reading>>(
        mut self,
        name: impl Into<String>,
        role: Role,
        readings: impl IntoIterator<Item = R>,
    ) -> Figure {
        if let Plot::Bars(bars) = &mut self.plot {
            bars.push(name, role, readings);
        }
        self
    }

    /// Adds a mark.
    pub fn mark(mut self, mark: Mark) -> Figure {
        self.marks.push(mark);
        self
    }
}

impl Bars {
    /// Adds a bar to each category, as [`Figure::group`].
    pub fn push<R: Into<Reading>>(
        &mut self,
        name: impl Into<String>,
        role: Role,
        readings: impl IntoIterator<Item = R>,
    ) {
        let mut readings: Vec<Reading> =
            readings.into_iter().map(Into::into).take(self.categories.len()).collect();
        readings.resize_with(self.categories.len(), || Reading::missing("it was not measured"));
        self.groups.push(Group { name: name.into(), role, readings });
    }

    /// The names under the bars.
    pub fn categories(&self) -> &[String] {
        &self.categories
    }

    /// The bars, in the order of the legend.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}
