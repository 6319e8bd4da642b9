//! From the lines of a file back to its experiment. Files come from anywhere: nothing in them is believed.

use crate::data::slug;
use crate::line::*;
use crate::style::Role;
use crate::{
    Axis, Bound, Cell, Experiment, Figure, Mark, PaperNumber, Place, Plot, Reading, Scale, Series, Shape,
    Table, Verdict,
};

/// Longest file, in bytes.
pub const LONGEST_FILE: usize = 64 << 20;

/// Why a file is none of ours.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// It is too long.
    #[error("the file has {0} bytes, at most {LONGEST_FILE} are read")]
    TooLong(usize),
    /// A line is not one of the format.
    #[error("line {line}: {why}")]
    Line {
        /// Which one, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// It was cut off.
    #[error("the file has no line of kind \"end\" after line {0}: it was cut off")]
    CutOff(usize),
}

/// Reads an experiment's file.
///
/// # Errors
/// The first line that does not belong where it stands, or the lack of an end.
pub fn read(text: &str) -> Result<Experiment, ReadError> {
    if text.len() > LONGEST_FILE {
        return Err(ReadError::TooLong(text.len()));
    }
    let mut reader: Option<Reader> = None;
    let mut read = 0;
    for (before, line) in text.lines().enumerate() {
        let wrong = |why: String| ReadError::Line { line: before + 1, why };
        let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        match &mut reader {
            None => reader = Some(Reader::begin(line).map_err(wrong)?),
            Some(reader) if reader.ended => return Err(wrong("it stands behind the end".to_owned())),
            Some(reader) => reader.take(line, before).map_err(wrong)?,
        }
        read = before + 1;
    }
    match reader {
        Some(reader) if reader.ended => Ok(reader.experiment),
        _ => Err(ReadError::CutOff(read)),
    }
}

struct Reader {
    experiment: Experiment,
    /// Bars of the group above, until the group ends: category and reading.
    bars: Option<(String, Role, Vec<Reading>)>,
    ended: bool,
}

impl Reader {
    fn begin(line: Line) -> Result<Reader, String> {
        let Line::Experiment(head) = line else {
            return Err("a file begins with a line of kind \"experiment\"".to_owned());
        };
        if head.superfluid_experiment != VERSION {
            let found = head.superfluid_experiment;
            return Err(format!("superfluid_experiment is {found}, this program reads {VERSION}"));
        }
        if slug(&head.experiment) != head.experiment {
            return Err(format!(
                "experiment is {:?}, allowed are 1 to 64 of a-z, 0-9 and -",
                shown(&head.experiment)
            ));
        }
        let mut experiment = Experiment::new(&head.experiment, head.title, head.question);
        experiment.setup = head.setup;
        experiment.notes = head.notes;
        Ok(Reader { experiment, bars: None, ended: false })
    }

    fn take(&mut self, line: Line, before: usize) -> Result<(), String> {
        if !matches!(line, Line::Bar(_)) {
            self.end_of_group()?;
        }
        match line {
            Line::Experiment(_) => return Err("a second line of kind \"experiment\"".to_owned()),
            Line::Paper(number) => {
                self.belongs(&number.experiment)?;
                self.experiment.paper.push(PaperNumber {
                    place: number.place,
                    says: number.says,
                    value: number.value,
                    unit: number.unit,
                });
            }
            Line::Figure(figure) => self.figure(figure)?,
            Line::Series(series) => self.series(series)?,
            Line::Point(point) => self.point(point)?,
            Line::Bar(bar) => self.bar(bar)?,
            Line::Mark(mark) => self.mark(mark)?,
            Line::Table(table) => {
                self.belongs(&table.experiment)?;
                in_order("table", table.table, self.experiment.tables.len() + 1)?;
                self.experiment.tables.push(Table::new(table.title, table.columns));
            }
            Line::Row(row) => self.row(row)?,
            Line::Verdict(verdict) => self.verdict(verdict)?,
            Line::End(end) => {
                self.belongs(&end.experiment)?;
                if end.lines != before {
                    return Err(format!("lines is {}, but {before} stand before it", end.lines));
                }
                self.ended = true;
            }
        }
        Ok(())
    }

    fn belongs(&self, experiment: &str) -> Result<(), String> {
        if experiment == self.experiment.id() {
            return Ok(());
        }
        let own = self.experiment.id();
        Err(format!("experiment is {:?}, the file is about {own:?}", shown(experiment)))
    }

    /// The plot that a line says it belongs to, if that is the last one.
    fn last_figure(&mut self, experiment: &str, number: usize) -> Result<&mut Figure, String> {
        self.belongs(experiment)?;
        in_order("figure", number, self.experiment.figures.len())?;
        self.experiment.figures.last_mut().ok_or_else(|| "no line of kind \"figure\" stands above".to_owned())
    }

    fn figure(&mut self, line: FigureLine) -> Result<(), String> {
        self.belongs(&line.experiment)?;
        in_order("figure", line.figure, self.experiment.figures.len() + 1)?;
        let y = axis(line.y)?;
        let figure = match line.categories {
            None => Figure::lines(line.title, axis(line.x)?, y, []),
            Some(categories) => {
                if line.x.scale != "names" {
                    return Err(format!("scale is {:?}, that of categories is names", shown(&line.x.scale)));
                }
                Figure::bars(line.title, &line.x.label, categories, y)
            }
        };
        self.experiment.figures.push(figure);
        Ok(())
    }

    fn series(&mut self, line: SeriesLine) -> Result<(), String> {
        let role =
            Role::from_name(&line.role).ok_or_else(|| format!("unknown role {:?}", shown(&line.role)))?;
        let figure = self.last_figure(&line.experiment, line.figure)?;
        match (&mut figure.plot, line.shape.as_str()) {
            (Plot::Bars(_), "bars") => self.bars = Some((line.series, role, Vec::new())),
            (Plot::Lines(plot), shape) => {
                let shape = match shape {
                    "line" => Shape::Line,
                    "steps" => Shape::Steps,
                    "points" => Shape::Points,
                    _ => return Err(format!("shape is {:?}, allowed are line, steps, points", shown(shape))),
                };
                plot.series.push(Series::new(line.series, role).shape(shape));
            }
            (Plot::Bars(_), shape) => {
                return Err(format!("shape is {:?}, that of bars is bars", shown(shape)));
            }
        }
        Ok(())
    }

    fn point(&mut self, line: PointLine) -> Result<(), String> {
        let y = reading((line.y, line.low, line.high, line.missing))?;
        let figure = self.last_figure(&line.experiment, line.figure)?;
        let Plot::Lines(plot) = &mut figure.plot else {
            return Err("a point in a plot of bars".to_owned());
        };
        let series = plot.series.last_mut().filter(|series| series.name == line.series);
        let series = series.ok_or_else(|| format!("no series {:?} stands above", shown(&line.series)))?;
        series.push(line.x, y);
        Ok(())
    }

    fn bar(&mut self, line: BarLine) -> Result<(), String> {
        let y = reading((line.y, line.low, line.high, line.missing))?;
        self.last_figure(&line.experiment, line.figure)?;
        let Some(Figure { plot: Plot::Bars(plot), .. }) = self.experiment.figures.last() else {
            return Err("a bar in a plot of lines".to_owned());
        };
        let (_, _, readings) = (self.bars.as_mut())
            .filter(|(name, ..)| *name == line.series)
            .ok_or_else(|| format!("no series {:?} stands above", shown(&line.series)))?;
        match plot.categories().get(readings.len()) {
            Some(category) if *category == line.category => readings.push(y),
            Some(category) => {
                let (found, expected) = (shown(&line.category), shown(category));
                return Err(format!("category is {found:?}, expected {expected:?}"));
            }
            None => {
                return Err(format!("bar {} of {} categories", readings.len() + 1, plot.categories().len()));
            }
        }
        Ok(())
    }

    /// A group has a bar for each category: lines that do not stand there take no memory.
    fn end_of_group(&mut self) -> Result<(), String> {
        let Some((name, role, readings)) = self.bars.take() else { return Ok(()) };
        if let Some(Figure { plot: Plot::Bars(plot), .. }) = self.experiment.figures.last_mut() {
            let (found, expected) = (readings.len(), plot.categories().len());
            if found != expected {
                return Err(format!("{:?} has {found} bars above, expected {expected}", shown(&name)));
            }
            plot.push(name, role, readings);
        }
        Ok(())
    }

    fn mark(&mut self, line: MarkLine) -> Result<(), String> {
        let number = |number: &Option<f64>| number.unwrap_or(f64::NAN);
        let place = match (line.place.as_str(), line.at.as_slice()) {
            ("level", [y]) => Place::Level(number(y)),
            ("band", [low, high]) => Place::Band(number(low), number(high)),
            ("point", [x, y]) => Place::Point(number(x), number(y)),
            (place, at) => {
                return Err(format!(
                    "place is {:?} with {} numbers, allowed are level with 1, band with 2, point with 2",
                    shown(place),
                    at.len()
                ));
            }
        };
        let label = line.label;
        let mark = match line.source.as_str() {
            "paper" => Mark::paper(label, place),
            "promise" => Mark::promise(label, place),
            other => return Err(format!("source is {:?}, allowed are paper, promise", shown(other))),
        };
        self.last_figure(&line.experiment, line.figure)?.marks.push(mark);
        Ok(())
    }

    fn row(&mut self, line: RowLine) -> Result<(), String> {
        self.belongs(&line.experiment)?;
        in_order("table", line.table, self.experiment.tables.len())?;
        let table = self.experiment.tables.last_mut();
        let table = table.ok_or_else(|| "no line of kind \"table\" stands above".to_owned())?;
        if line.cells.len() != table.columns().len() {
            return Err(format!("{} cells under {} columns", line.cells.len(), table.columns().len()));
        }
        let cells: Result<Vec<Cell>, String> = line
            .cells
            .into_iter()
            .map(|cell| match cell {
                CellLine::Text(text) => Ok(Cell::Text(text)),
                CellLine::Number(number) => {
                    reading((number.value, number.low, number.high, number.missing)).map(Cell::Number)
                }
            })
            .collect();
        table.push(cells?);
        Ok(())
    }

    fn verdict(&mut self, line: VerdictLine) -> Result<(), String> {
        self.belongs(&line.experiment)?;
        let reading = reading((line.value, line.low, line.high, line.missing))?;
        let bound = match (line.at_most, line.at_least) {
            (None, None) => None,
            (Some(most), None) => Some(Bound::AtMost(most)),
            (None, Some(least)) => Some(Bound::AtLeast(least)),
            (Some(_), Some(_)) => return Err("both at_most and at_least, allowed is one of them".to_owned()),
        };
        let verdict = Verdict { result: line.result, reading, unit: line.unit, bound, note: line.note };
        if verdict.holds() != line.holds {
            return Err(format!("holds is {:?}, but the bound says {:?}", line.holds, verdict.holds()));
        }
        self.experiment.verdicts.push(verdict);
        Ok(())
    }
}

fn in_order(what: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found}, expected {expected}")) }
}

fn axis(line: AxisLine) -> Result<Axis, String> {
    let scale = match line.scale.as_str() {
        "linear" => Scale::Linear,
        "log" => Scale::Log,
        other => return Err(format!("scale is {:?}, allowed are linear, log", shown(other))),
    };
    Ok(Axis { label: line.label, unit: line.unit, scale, ticks: line.ticks })
}

fn reading(
    (value, low, high, missing): (Option<f64>, Option<f64>, Option<f64>, Option<String>),
) -> Result<Reading, String> {
    match (value, low, high, missing) {
        (Some(value), Some(low), Some(high), None) if low <= value && value <= high => {
            Ok(Reading::spread(value, low, high))
        }
        (None, None, None, Some(why)) => Ok(Reading::missing(why)),
        (Some(value), Some(low), Some(high), None) => {
            Err(format!("value {value} does not lie between {low} and {high}"))
        }
        _ => Err("allowed are value, low and high, or missing alone".to_owned()),
    }
}

/// As much of a text as an error shows.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
