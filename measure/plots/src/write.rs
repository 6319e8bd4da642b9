//! From an experiment to the lines of its file.

use crate::line::*;
use crate::{
    Axis, Bound, Cell, Experiment, Figure, Place, Plot, Reading, Scale, Shape, Source, Table, Verdict,
};

/// The lines of an experiment's file.
pub fn lines(experiment: &Experiment) -> Vec<Line> {
    let id = experiment.id();
    let mut lines = vec![Line::Experiment(ExperimentLine {
        superfluid_experiment: VERSION,
        experiment: id.to_owned(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        setup: experiment.setup.clone(),
        notes: experiment.notes.clone(),
    })];
    lines.extend(experiment.paper.iter().map(|number| {
        Line::Paper(PaperLine {
            experiment: id.to_owned(),
            place: number.place.clone(),
            says: number.says.clone(),
            value: finite(number.value),
            unit: number.unit.clone(),
        })
    }));
    for (at, figure) in experiment.figures.iter().enumerate() {
        figure_lines(id, at + 1, figure, &mut lines);
    }
    for (at, table) in experiment.tables.iter().enumerate() {
        table_lines(id, at + 1, table, &mut lines);
    }
    lines.extend(experiment.verdicts.iter().map(|verdict| verdict_line(id, verdict)));
    lines.push(Line::End(EndLine { experiment: id.to_owned(), lines: lines.len() }));
    lines
}

/// An experiment's file: one JSON object to a line.
pub fn text(experiment: &Experiment) -> String {
    let mut text = String::new();
    for line in lines(experiment) {
        // Lines have string keys and finite numbers only: serialising them does not fail.
        text.push_str(&serde_json::to_string(&line).unwrap_or_default());
        text.push('\n');
    }
    text
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Value, lowest, highest, and why they are missing.
type Parts = (Option<f64>, Option<f64>, Option<f64>, Option<String>);

fn parts(reading: &Reading) -> Parts {
    match reading.measured() {
        Some((value, low, high)) => (Some(value), Some(low), Some(high), None),
        None => (None, None, None, Some(reading.why_missing().unwrap_or_default().to_owned())),
    }
}

fn axis_line(axis: &Axis) -> AxisLine {
    let scale = match axis.scale {
        Scale::Linear => "linear",
        Scale::Log => "log",
    };
    let ticks = axis.ticks.iter().copied().filter(|tick| tick.is_finite()).collect();
    AxisLine { label: axis.label.clone(), unit: axis.unit.clone(), scale: scale.to_owned(), ticks }
}

fn figure_lines(id: &str, number: usize, figure: &Figure, lines: &mut Vec<Line>) {
    let series_line = |series: &str, role: String, shape: &str| {
        Line::Series(SeriesLine {
            experiment: id.to_owned(),
            figure: number,
            series: series.to_owned(),
            role,
            shape: shape.to_owned(),
        })
    };
    let figure_line = |x, y, categories| {
        let title = figure.title.clone();
        Line::Figure(FigureLine { experiment: id.to_owned(), figure: number, title, x, y, categories })
    };
    match &figure.plot {
        Plot::Lines(plot) => {
            lines.push(figure_line(axis_line(&plot.x), axis_line(&plot.y), None));
            for series in &plot.series {
                let shape = match series.shape {
                    Shape::Line => "line",
                    Shape::Steps => "steps",
                    Shape::Points => "points",
                };
                lines.push(series_line(&series.name, series.role.name(), shape));
                for (x, reading) in series.points() {
                    let (y, low, high, missing) = parts(reading);
                    lines.push(Line::Point(PointLine {
                        experiment: id.to_owned(),
                        figure: number,
                        series: series.name.clone(),
                        x: *x,
                        x_unit: plot.x.unit.clone(),
                        y,
                        low,
                        high,
                        y_unit: plot.y.unit.clone(),
                        missing,
                    }));
                }
            }
        }
        Plot::Bars(plot) => {
            let x = AxisLine {
                label: plot.x.clone(),
                unit: String::new(),
                scale: "names".to_owned(),
                ticks: Vec::new(),
            };
            lines.push(figure_line(x, axis_line(&plot.y), Some(plot.categories().to_vec())));
            for group in plot.groups() {
                lines.push(series_line(&group.name, group.role.name(), "bars"));
                for (category, reading) in plot.categories().iter().zip(group.readings()) {
                    let (y, low, high, missing) = parts(reading);
                    lines.push(Line::Bar(BarLine {
                        experiment: id.to_owned(),
                        figure: number,
                        series: group.name.clone(),
                        category: category.clone(),
                        y,
                        low,
                        high,
                        y_unit: plot.y.unit.clone(),
                        missing,
                    }));
                }
            }
        }
    }
    lines.extend(figure.marks.iter().map(|mark| {
        let (place, at) = match mark.place {
            Place::Level(y) => ("level", vec![y]),
            Place::Band(low, high) => ("band", vec![low, high]),
            Place::Point(x, y) => ("point", vec![x, y]),
        };
        let source = match mark.source {
            Source::Paper => "paper",
            Source::Promise => "promise",
        };
        Line::Mark(MarkLine {
            experiment: id.to_owned(),
            figure: number,
            label: mark.label.clone(),
            source: source.to_owned(),
            place: place.to_owned(),
            at: at.into_iter().map(|number| finite(Some(number))).collect(),
        })
    }));
}

fn table_lines(id: &str, number: usize, table: &Table, lines: &mut Vec<Line>) {
    lines.push(Line::Table(TableLine {
        experiment: id.to_owned(),
        table: number,
        title: table.title.clone(),
        columns: table.columns().to_vec(),
    }));
    for row in table.rows() {
        let cells = row
            .iter()
            .map(|cell| match cell {
                Cell::Text(text) => CellLine::Text(text.clone()),
                Cell::Number(reading) => {
                    let (value, low, high, missing) = parts(reading);
                    CellLine::Number(NumberLine { value, low, high, missing })
                }
            })
            .collect();
        lines.push(Line::Row(RowLine { experiment: id.to_owned(), table: number, cells }));
    }
}

fn verdict_line(id: &str, verdict: &Verdict) -> Line {
    let (value, low, high, missing) = parts(&verdict.reading);
    let (at_most, at_least) = match verdict.bound {
        None => (None, None),
        Some(Bound::AtMost(most)) => (Some(most), None),
        Some(Bound::AtLeast(least)) => (None, Some(least)),
    };
    Line::Verdict(VerdictLine {
        experiment: id.to_owned(),
        result: verdict.result.clone(),
        value,
        low,
        high,
        unit: verdict.unit.clone(),
        missing,
        at_most: finite(at_most),
        at_least: finite(at_least),
        holds: verdict.holds(),
        note: verdict.note.clone(),
    })
}
