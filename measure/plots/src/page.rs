//! The report: one page for people, one file of lines for each experiment.

use crate::draw::draw;
use crate::html::{Html, escaped};
use crate::reading::number;
use crate::style::DARK;
use crate::{Bound, Cell, Experiment, Figure, Plot, Reading, Table, Verdict, write};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A report of some experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// What it was measured on: name and value, such as `processor` and its model.
    pub machine: Vec<(String, String)>,
    /// The command that measured it.
    pub command: String,
    /// How long that took.
    pub took: Duration,
    /// What was measured, in the order of the page.
    pub experiments: Vec<Experiment>,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk, or its owner, did not want to.
    #[error("{}: {error}", path.display())]
    File {
        /// What was written.
        path: PathBuf,
        /// What came of it.
        error: io::Error,
    },
    /// Two experiments would have the same file.
    #[error("two experiments have the id {0:?}, each needs its own")]
    Twice(String),
}

/// Writes an experiment's data to `DIR/data/ID.jsonl`, whole or not at all, and says where that is. For
/// callers that want the data of each experiment as soon as there are any; [`Page::write_to`] writes the
/// same.
///
/// # Errors
/// The file that could not be written.
pub fn write_data(dir: &Path, experiment: &Experiment) -> Result<PathBuf, WriteError> {
    let path = dir.join("data").join(format!("{}.jsonl", experiment.id()));
    replace(&path, &write::text(experiment))?;
    Ok(path)
}

/// A reader sees the old file or the new one.
fn replace(path: &Path, text: &str) -> Result<(), WriteError> {
    let unfinished = path.with_extension("unfinished");
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(&unfinished, text))
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| WriteError::File { path: path.to_owned(), error })
}

impl Page {
    /// Writes `DIR/index.html` and `DIR/data/ID.jsonl` for each experiment, and says where the page is. What
    /// else is in the folder stays.
    ///
    /// # Errors
    /// Two experiments with one id, before anything is written; a file that could not be written.
    pub fn write_to(&self, dir: &Path) -> Result<PathBuf, WriteError> {
        let mut ids = BTreeSet::new();
        for experiment in &self.experiments {
            if !ids.insert(experiment.id()) {
                return Err(WriteError::Twice(experiment.id().to_owned()));
            }
        }
        for experiment in &self.experiments {
            write_data(dir, experiment)?;
        }
        let path = dir.join("index.html");
        replace(&path, &self.html())?;
        Ok(path)
    }

    /// The page: one document that refers to nothing but the data files beside it.
    pub fn html(&self) -> String {
        let mut html = Html::new(&self.title, &styles());
        html.element("h1", &self.title);
        html.raw("<dl class=\"about\">");
        for (name, value) in &self.machine {
            html.element("dt", name).element("dd", value);
        }
        html.element("dt", "command").raw("<dd><code>").text(&self.command).raw("</code></dd>");
        html.element("dt", "took").element("dd", &duration(self.took));
        html.raw("</dl>");
        self.summary(&mut html);
        for experiment in &self.experiments {
            section(&mut html, experiment);
        }
        html.finish()
    }

    fn summary(&self, html: &mut Html) {
        let verdicts = || self.experiments.iter().flat_map(|experiment| &experiment.verdicts);
        let promised = verdicts().filter(|verdict| verdict.bound.is_some()).count();
        let kept = verdicts().filter(|verdict| verdict.holds() == Some(true)).count();
        html.element("h2", "Results");
        if promised > 0 {
            html.element("p", &format!("{kept} of {promised} bounds are met."));
        }
        html.raw("<table class=\"results\"><thead><tr>");
        for name in ["", "result", "value", "lowest", "highest", "unit", "bound", "note"] {
            html.element("th", name);
        }
        html.raw("</tr></thead><tbody>");
        for experiment in &self.experiments {
            for verdict in &experiment.verdicts {
                verdict_row(html, verdict, Some(experiment.id()));
            }
        }
        html.raw("</tbody></table>");
        html.element("h2", "Experiments").raw("<ul class=\"contents\">");
        for experiment in &self.experiments {
            html.raw("<li>").link(experiment.id(), &experiment.title).raw("</li>");
        }
        html.raw("</ul>");
    }
}

fn section(html: &mut Html, experiment: &Experiment) {
    let id = experiment.id();
    html.raw(&format!("<section id=\"{}\">", escaped(id)));
    html.element("h2", &experiment.title).element("p", &experiment.question);
    if !experiment.setup.is_empty() {
        html.element("h3", "Setup");
        list(html, &experiment.setup);
    }
    for (number, figure) in experiment.figures.iter().enumerate() {
        figure_part(html, &format!("{id}, plot {}", number + 1), figure);
    }
    for table in &experiment.tables {
        table_part(html, table);
    }
    if !experiment.notes.is_empty() {
        html.element("h3", "What was seen");
        list(html, &experiment.notes);
    }
    if !experiment.paper.is_empty() {
        html.element("h3", "What the paper says").raw("<table class=\"paper\"><tbody>");
        for number in &experiment.paper {
            html.raw("<tr>").element("td", &number.place).element("td", &number.says).raw("</tr>");
        }
        html.raw("</tbody></table>");
    }
    if !experiment.verdicts.is_empty() {
        html.element("h3", "Results").raw("<table class=\"results\"><tbody>");
        for verdict in &experiment.verdicts {
            verdict_row(html, verdict, None);
        }
        html.raw("</tbody></table>");
    }
    let file = format!("data/{id}.jsonl");
    html.raw(&format!("<p class=\"data\">Data: <a href=\"{0}\">{0}</a></p></section>", escaped(&file)));
}

fn list(html: &mut Html, sentences: &[String]) {
    html.raw("<ul>");
    for sentence in sentences {
        html.element("li", sentence);
    }
    html.raw("</ul>");
}

fn figure_part(html: &mut Html, name: &str, figure: &Figure) {
    let drawing = draw(figure);
    let label = escaped(&figure.title);
    html.raw(&format!("<figure><div role=\"img\" aria-label=\"{label}\">")).raw(&drawing.svg).raw("</div>");
    html.raw("<figcaption><b>").text(name).raw(".</b> ").text(&figure.title).raw("</figcaption>");
    if !drawing.left_out.is_empty() {
        html.raw("<div class=\"missing\">Not in the plot (values have a cross on the axis):");
        list(html, &drawing.left_out);
        html.raw("</div>");
    }
    html.raw("<details><summary>Data</summary>");
    data(html, figure);
    html.raw("</details></figure>");
}

/// The numbers of a plot, and its marks.
fn data(html: &mut Html, figure: &Figure) {
    let (x, y) = match &figure.plot {
        Plot::Lines(plot) => (plot.x.name(), plot.y.name()),
        Plot::Bars(plot) => (plot.x.clone(), plot.y.name()),
    };
    html.raw("<table><thead><tr>");
    for name in ["curve", &x, &y, "lowest", "highest"] {
        html.element("th", name);
    }
    html.raw("</tr></thead><tbody>");
    let mut row = |name: &str, x: &str, reading: &Reading| {
        html.raw("<tr>").element("td", name).number("td", x);
        numbers(html, reading);
        html.raw("</tr>");
    };
    match &figure.plot {
        Plot::Lines(plot) => {
            for series in &plot.series {
                for (x, reading) in series.points() {
                    row(&series.name, &number(*x), reading);
                }
            }
        }
        Plot::Bars(plot) => {
            for group in plot.groups() {
                for (category, reading) in plot.categories().iter().zip(group.readings()) {
                    row(&group.name, category, reading);
                }
            }
        }
    }
    for mark in &figure.marks {
        html.raw("<tr>").element("td", &mark.label).number("td", &mark.x()).number("td", &mark.y());
        html.raw("<td></td><td></td></tr>");
    }
    html.raw("</tbody></table>");
}

/// Three cells: value, lowest, highest.
fn numbers(html: &mut Html, reading: &Reading) {
    match reading.measured() {
        Some((value, low, high)) if low == value && high == value => {
            html.number("td", &number(value)).raw("<td></td><td></td>");
        }
        Some((value, low, high)) => {
            html.number("td", &number(value)).number("td", &number(low)).number("td", &number(high));
        }
        None => {
            html.raw("<td colspan=\"3\" class=\"missing\">missing: ");
            html.text(reading.why_missing().unwrap_or_default()).raw("</td>");
        }
    }
}

fn table_part(html: &mut Html, table: &Table) {
    html.raw("<table><caption>").text(&table.title).raw("</caption><thead><tr>");
    for column in table.columns() {
        html.element("th", column);
    }
    html.raw("</tr></thead><tbody>");
    for row in table.rows() {
        html.raw("<tr>");
        for cell in row {
            match cell {
                Cell::Text(text) => html.element("td", text),
                Cell::Number(reading) => match (reading.measured(), reading.why_missing()) {
                    (Some((value, low, high)), _) if low < high => {
                        html.number("td", &format!("{} ({} to {})", number(value), number(low), number(high)))
                    }
                    (Some((value, ..)), _) => html.number("td", &number(value)),
                    (None, why) => {
                        html.raw("<td class=\"missing\">missing: ").text(why.unwrap_or_default()).raw("</td>")
                    }
                },
            };
        }
        html.raw("</tr>");
    }
    html.raw("</tbody></table>");
}

fn verdict_row(html: &mut Html, verdict: &Verdict, section: Option<&str>) {
    let (class, sign) = match verdict.holds() {
        None => ("", ""),
        Some(true) => ("kept", "✓ met"),
        Some(false) => ("missed", "✗ missed"),
    };
    html.raw(&format!("<tr class=\"{class}\"><td class=\"sign\">{sign}</td><td>"));
    match section {
        Some(id) => html.link(id, &verdict.result),
        None => html.text(&verdict.result),
    };
    html.raw("</td>");
    numbers(html, &verdict.reading);
    html.element("td", &verdict.unit);
    let bound = match verdict.bound {
        None => String::new(),
        Some(Bound::AtMost(most)) => format!("at most {}", number(most)),
        Some(Bound::AtLeast(least)) => format!("at least {}", number(least)),
    };
    html.element("td", &bound).element("td", &verdict.note).raw("</tr>");
}

fn duration(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The styles of the page, with what its plots' colours become on a dark ground.
fn styles() -> String {
    let mut styles = include_str!("page.css").to_owned();
    styles.push_str("@media screen and (prefers-color-scheme: dark) {\n");
    for (light, dark) in DARK {
        let hex =
            |colour: plotters::style::RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        let (light, dark) = (hex(light), hex(dark));
        styles.push_str(&format!("  svg [fill=\"{light}\"] {{ fill: {dark}; }}\n"));
        styles.push_str(&format!("  svg [stroke=\"{light}\"] {{ stroke: {dark}; }}\n"));
    }
    styles.push_str("}\n");
    styles
}
