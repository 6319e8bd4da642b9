//! Experiments: what was asked, how, what came out, and how that is shown. Data and drawing, nothing that
//! measures.
//!
//! The life of an experiment:
//! 1. [`Experiment::new`] names it and says what it is to show; [`Experiment::setup`] says how,
//!    [`Experiment::paper`] what the paper's text says ([`paper`] has those numbers for HyperNF).
//! 2. The measuring program makes [`Reading`]s of it: a median with its spread, or the reason why there is
//!    none.
//! 3. [`Figure::lines`] and [`Figure::bars`] take the readings, with [`Mark`]s for the paper's numbers;
//!    [`Table`] what is better read than seen; [`Verdict`] compares a result with its bound.
//! 4. [`write_data`] writes its file as soon as it is whole.
//! 5. [`Page::write_to`] makes one page of all of them, beside the files.
//!
//! ```
//! use plots::{Axis, Experiment, Figure, Mark, Model, Page, Place, Reading, Series, Verdict, paper};
//!
//! let mut hyper = Series::new("hyper", Model::Hyper.role());
//! for (size, runs) in [(64.0, [4.1, 4.0, 4.3]), (1500.0, [2.1, 2.2, 2.0])] {
//!     hyper.push(size, Reading::median(&runs));
//! }
//! let figure = Figure::lines(
//!     "Throughput of a bridge",
//!     Axis::log("packet size", "B").ticks([64.0, 256.0, 1024.0, 1500.0]),
//!     Axis::linear("throughput", "Mp/s"),
//!     [hyper],
//! )
//! .mark(Mark::paper("paper: its router, 64 B", Place::Point(64.0, 4.2)));
//! let bridge = Experiment::new("fig-6b", "Fig. 6b: a bridge", "Which model forwards most?")
//!     .setup("One core for the function and its I/O.")
//!     .paper(paper::fig_6b())
//!     .figure(figure)
//!     .verdict(Verdict::new("models/worst-ratio", 1.2, "ratio").at_least(1.0));
//! let page = Page {
//!     title: "HyperNF's experiments".to_owned(),
//!     machine: vec![("processor".to_owned(), "one".to_owned())],
//!     command: "superfluid bench hypernf --report out".to_owned(),
//!     took: std::time::Duration::from_secs(1),
//!     experiments: vec![bridge],
//! };
//! assert!(page.html().contains("4.2"));
//! ```
//!
//! # The page
//!
//! One HTML document without scripts that loads nothing: plots are SVG within it. It follows the reader's
//! choice of a light or a dark ground and prints on a light one. A model has one colour, one way of dashes
//! and one marker in all plots ([`Role`]); the paper's numbers are grey, with letters that the legend
//! explains, and never lines through points, because the paper's text gives no curves. The legend is above
//! the plot. What has no place in a plot (a missing value, zero on a logarithmic axis) is named under it with
//! the reason. A folded table under each plot has all its numbers.
//!
//! # The data files
//!
//! `DIR/data/ID.jsonl` is UTF-8, one JSON object to a line, each with its `kind` and its `experiment`.
//! [`line::Line`] has all fields. In this order:
//!
//! | kind | what | how many |
//! |---|---|---|
//! | `experiment` | version of the format (`superfluid_experiment`), title, question, setup, notes | 1, first |
//! | `paper` | a number that the paper's text gives | any |
//! | `figure` | a plot: its number, axes with units and scales, categories if it has bars | any, each with what follows |
//! | `series` | a curve or a group of bars: `role`, `shape` | any, each with its points or bars |
//! | `point`, `bar` | `x` or `category`, `y` between `low` and `high`, units; or `y: null` and `missing`, the reason | any |
//! | `mark` | something drawn beside the data | any |
//! | `table`, `row` | a table and its rows | any |
//! | `verdict` | a result, its bound, whether that holds | any |
//! | `end` | the number of lines before it: a file without it was cut off | 1, last |
//!
//! Points, bars and verdicts say all that is needed to use them alone: `jq 'select(.kind == "point")'` is a
//! table. The version changes whenever a line changes; [`read`] takes this version alone and refuses what it
//! does not know.
//!
//! # Limits
//!
//! A file of at most [`LONGEST_FILE`] bytes is read. A plot shows at most 26 marks. Lines of text in a plot
//! end after 160 characters. Widths of text are estimated, because the font is that of the program which
//! shows the page.

#![forbid(unsafe_code)]

/// The name that the example, which is a part of the tests, knows this crate by.
#[cfg(test)]
extern crate self as plots;

mod data;
mod draw;
mod figure;
mod html;
pub mod line;
mod page;
pub mod paper;
mod read;
mod reading;
mod ruler;
mod style;
#[cfg(test)]
mod tests;
mod write;

pub use data::{Bound, Cell, Experiment, PaperNumber, Table, Verdict};
pub use figure::{Axis, Bars, Figure, Group, Lines, Mark, Place, Plot, Scale, Series, Shape, Source};
pub use page::{Page, WriteError, write_data};
pub use read::{LONGEST_FILE, ReadError, read};
pub use reading::Reading;
pub use style::{Model, Role};
pub use write::{lines, text};
