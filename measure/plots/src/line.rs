//! The lines of a data file. Each is one JSON object that says by itself what it is; see the crate's page.

use serde::{Deserialize, Serialize};

/// The version of the format, in the first line of each file. It changes whenever a line changes.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// The first one: what was asked.
    Experiment(ExperimentLine),
    /// A number of the paper.
    Paper(PaperLine),
    /// A plot; its series, points, bars and marks follow.
    Figure(FigureLine),
    /// A curve or a group of bars of the plot above.
    Series(SeriesLine),
    /// A point of the curve above.
    Point(PointLine),
    /// A bar of the group above.
    Bar(BarLine),
    /// A mark in the plot above.
    Mark(MarkLine),
    /// A table; its rows follow.
    Table(TableLine),
    /// A row of the table above.
    Row(RowLine),
    /// A result.
    Verdict(VerdictLine),
    /// The last one.
    End(EndLine),
}

/// What was asked, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentLine {
    /// [`VERSION`].
    pub superfluid_experiment: u32,
    /// Its id, which is the file's name too.
    pub experiment: String,
    /// Its name for people.
    pub title: String,
    /// What it is to show.
    pub question: String,
    /// How it was set up.
    pub setup: Vec<String>,
    /// What was seen.
    pub notes: Vec<String>,
}

/// A number of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperLine {
    /// The experiment's id.
    pub experiment: String,
    /// Where it stands.
    pub place: String,
    /// What the paper says.
    pub says: String,
    /// The number.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureLine {
    /// The experiment's id.
    pub experiment: String,
    /// Its number in the experiment, from 1.
    pub figure: usize,
    /// What it shows.
    pub title: String,
    /// The axis to the right, or what the categories are.
    pub x: AxisLine,
    /// The axis upwards.
    pub y: AxisLine,
    /// The names under the bars; lines have none.
    pub categories: Option<Vec<String>>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisLine {
    /// What is counted.
    pub label: String,
    /// In what.
    pub unit: String,
    /// `linear`, `log`, or `names`.
    pub scale: String,
    /// Where there are labels, if that was said.
    pub ticks: Vec<f64>,
}

/// A curve or a group of bars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesLine {
    /// The experiment's id.
    pub experiment: String,
    /// The plot's number.
    pub figure: usize,
    /// The name in the legend.
    pub series: String,
    /// What it stands for: `hyper`, `split`, `merge`, `mix`, `offered`, `second-` and a model, `other-` and a
    /// number to 255.
    pub role: String,
    /// `line`, `steps`, `points` or `bars`.
    pub shape: String,
}

/// A point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointLine {
    /// The experiment's id.
    pub experiment: String,
    /// The plot's number.
    pub figure: usize,
    /// The curve's name.
    pub series: String,
    /// Its place to the right.
    pub x: f64,
    /// The unit of that.
    pub x_unit: String,
    /// Its value; `null` if it is missing.
    pub y: Option<f64>,
    /// The lowest value seen.
    pub low: Option<f64>,
    /// The highest value seen.
    pub high: Option<f64>,
    /// The unit of these three.
    pub y_unit: String,
    /// Why it is missing.
    pub missing: Option<String>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarLine {
    /// The experiment's id.
    pub experiment: String,
    /// The plot's number.
    pub figure: usize,
    /// The group's name.
    pub series: String,
    /// The name under it.
    pub category: String,
    /// Its value; `null` if it is missing.
    pub y: Option<f64>,
    /// The lowest value seen.
    pub low: Option<f64>,
    /// The highest value seen.
    pub high: Option<f64>,
    /// The unit of these three.
    pub y_unit: String,
    /// Why it is missing.
    pub missing: Option<String>,
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkLine {
    /// The experiment's id.
    pub experiment: String,
    /// The plot's number.
    pub figure: usize,
    /// What it says.
    pub label: String,
    /// `paper` or `promise`.
    pub source: String,
    /// `level` (one number), `band` (two) or `point` (x and y).
    pub place: String,
    /// The numbers; those that were not finite are `null`.
    pub at: Vec<Option<f64>>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableLine {
    /// The experiment's id.
    pub experiment: String,
    /// Its number in the experiment, from 1.
    pub table: usize,
    /// What it shows.
    pub title: String,
    /// The columns' names.
    pub columns: Vec<String>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowLine {
    /// The experiment's id.
    pub experiment: String,
    /// The table's number.
    pub table: usize,
    /// One for each column.
    pub cells: Vec<CellLine>,
}

/// A place of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CellLine {
    /// Words.
    Text(String),
    /// A number.
    Number(NumberLine),
}

/// A number of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberLine {
    /// Its value; `null` if it is missing.
    pub value: Option<f64>,
    /// The lowest value seen.
    pub low: Option<f64>,
    /// The highest value seen.
    pub high: Option<f64>,
    /// Why it is missing.
    pub missing: Option<String>,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictLine {
    /// The experiment's id.
    pub experiment: String,
    /// Its name.
    pub result: String,
    /// Its value; `null` if it is missing.
    pub value: Option<f64>,
    /// The lowest value seen.
    pub low: Option<f64>,
    /// The highest value seen.
    pub high: Option<f64>,
    /// In what.
    pub unit: String,
    /// Why it is missing.
    pub missing: Option<String>,
    /// What was promised: it is this or less.
    pub at_most: Option<f64>,
    /// What was promised: it is this or more.
    pub at_least: Option<f64>,
    /// Whether that holds; written for readers of the file, `null` if nothing was promised.
    pub holds: Option<bool>,
    /// What there is to say of it.
    pub note: String,
}

/// The end: a file without it was cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndLine {
    /// The experiment's id.
    pub experiment: String,
    /// How many lines stand before this one.
    pub lines: usize,
}
