//! What an experiment is: what was asked, how, and what came out.

use crate::{Figure, Reading};

/// One experiment of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    id: String,
    /// Its name for people.
    pub title: String,
    /// What it is to show, in one paragraph.
    pub question: String,
    /// How it was set up: one sentence each.
    pub setup: Vec<String>,
    /// What the paper says of it; [`crate::paper`] has the numbers of HyperNF.
    pub paper: Vec<PaperNumber>,
    /// What was seen that a reader should know: one sentence each.
    pub notes: Vec<String>,
    /// The plots.
    pub figures: Vec<Figure>,
    /// What is better read than seen. The data of the figures need no table, the page adds those.
    pub tables: Vec<Table>,
    /// The results, with what was promised of them.
    pub verdicts: Vec<Verdict>,
}

impl Experiment {
    /// An experiment without data. The id names its file and its place in the page: lower case letters,
    /// digits and `-`, 1 to 64 of them; every other character becomes `-`.
    pub fn new(id: &str, title: impl Into<String>, question: impl Into<String>) -> Experiment {
        Experiment {
            id: slug(id),
            title: title.into(),
            question: question.into(),
            setup: Vec::new(),
            paper: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// What names its file and its place in the page, such as `fig-6b`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Adds a sentence on how it was set up.
    pub fn setup(mut self, sentence: impl Into<String>) -> Experiment {
        self.setup.push(sentence.into());
        self
    }

    /// Adds what the paper says.
    pub fn paper(mut self, numbers: impl IntoIterator<Item = PaperNumber>) -> Experiment {
        self.paper.extend(numbers);
        self
    }

    /// Adds a sentence on what was seen.
    pub fn note(mut self, sentence: impl Into<String>) -> Experiment {
        self.notes.push(sentence.into());
        self
    }

    /// Adds a figure.
    pub fn figure(mut self, figure: Figure) -> Experiment {
        self.figures.push(figure);
        self
    }

    /// Adds a table.
    pub fn table(mut self, table: Table) -> Experiment {
        self.tables.push(table);
        self
    }

    /// Adds a result.
    pub fn verdict(mut self, verdict: Verdict) -> Experiment {
        self.verdicts.push(verdict);
        self
    }
}

/// Text as a part of file names and anchors.
pub(crate) fn slug(text: &str) -> String {
    let slug: String = text
        .chars()
        .take(64)
        .map(|letter| match letter.to_ascii_lowercase() {
            plain @ ('a'..='z' | '0'..='9') => plain,
            _ => '-',
        })
        .collect();
    if slug.is_empty() { "-".to_owned() } else { slug }
}

/// A number that the text of the paper gives.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperNumber {
    /// Where it stands, such as `4.2, Fig. 7`.
    pub place: String,
    /// What the paper says, in a sentence of our own.
    pub says: String,
    /// The number itself, for a caller that draws it with a [`crate::Mark`].
    pub value: Option<f64>,
    /// Its unit; empty if there is no number.
    pub unit: String,
}

impl PaperNumber {
    /// A sentence with a number.
    pub fn new(place: &str, says: &str, value: f64, unit: &str) -> PaperNumber {
        PaperNumber { unit: unit.to_owned(), value: Some(value), ..PaperNumber::sentence(place, says) }
    }

    /// A sentence alone, such as one about the order of the models.
    pub fn sentence(place: &str, says: &str) -> PaperNumber {
        PaperNumber { place: place.to_owned(), says: says.to_owned(), value: None, unit: String::new() }
    }
}

/// A result and what was promised of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Its name, such as `consolidation/6-per-core`.
    pub result: String,
    /// What came out.
    pub reading: Reading,
    /// In what.
    pub unit: String,
    /// What was promised, if anything.
    pub bound: Option<Bound>,
    /// What there is to say of it; may be empty.
    pub note: String,
}

impl Verdict {
    /// A result. Use [`Verdict::at_most`] and [`Verdict::at_least`] to promise something of it.
    pub fn new(result: impl Into<String>, reading: impl Into<Reading>, unit: &str) -> Verdict {
        Verdict {
            result: result.into(),
            reading: reading.into(),
            unit: unit.to_owned(),
            bound: None,
            note: String::new(),
        }
    }

    /// Promises that it is this or less.
    pub fn at_most(self, most: f64) -> Verdict {
        Verdict { bound: Some(Bound::AtMost(most)), ..self }
    }

    /// Promises that it is this or more.
    pub fn at_least(self, least: f64) -> Verdict {
        Verdict { bound: Some(Bound::AtLeast(least)), ..self }
    }

    /// Says something of it.
    pub fn note(self, note: impl Into<String>) -> Verdict {
        Verdict { note: note.into(), ..self }
    }

    /// Whether the promise is kept; `None` if nothing was promised. A missing result keeps no promise.
    pub fn holds(&self) -> Option<bool> {
        let bound = self.bound?;
        Some(self.reading.value().is_some_and(|value| match bound {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        }))
    }
}

/// What was promised of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// It is this or less.
    AtMost(f64),
    /// It is this or more.
    AtLeast(f64),
}

/// Rows under named columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One place of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number with its spread, or why there is none.
    Number(Reading),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(Reading::exact(value))
    }
}

impl From<Reading> for Cell {
    fn from(reading: Reading) -> Cell {
        Cell::Number(reading)
    }
}

impl Table {
    /// A table without rows. Columns carry their units: `throughput (Mp/s)`.
    pub fn new<C: Into<String>>(title: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Table {
        Table {
            title: title.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, such as `["bridge".into(), 64.0.into()]`: what it lacks is left empty, what it has too
    /// many is left out.
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Table {
        self.push(cells);
        self
    }

    /// [`Table::row`] in a loop.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize_with(self.columns.len(), || Cell::Text(String::new()));
        self.rows.push(row);
    }

    /// The columns' names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows, each as long as there are columns.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }
}
