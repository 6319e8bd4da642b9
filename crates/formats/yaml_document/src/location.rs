//! Where something stands in a file, and what is wrong there.

use crate::{MAX_FAULTS, spelling};
use std::fmt::{self, Write};

/// A place in a text; both numbers count from 1, the column in characters. In what was no text there are no
/// lines, and all is in line 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl Position {
    /// The first character of a text.
    pub const START: Position = Position { line: 1, column: 1 };

    /// `in line 12` for a message, after `before`; nothing where there are no lines.
    pub fn in_line(self, before: &str) -> String {
        if self.line == 0 { String::new() } else { format!("{before}in line {}", self.line) }
    }
}

/// One thing that is wrong in a file. Shown as one line, `file:line:column: key: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, as the user named it.
    pub file: String,
    /// Where in the file.
    pub position: Position,
    /// The way down to it, `ports.lan.mtu` or `rules[3].action`; empty for the text as a whole.
    pub key: String,
    /// What was found, and what is allowed.
    pub message: String,
    /// What it is about.
    pub kind: FaultKind,
}

/// What a [`Fault`] is about, for programs: its message is for people alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// What stands there, or lacks.
    #[default]
    Value,
    /// A key that is none: the key stands where the fault is, and not its value.
    UnknownKey,
    /// A name that no entry of these sections of the document has.
    NotFound {
        /// Where it was looked for: `["ports", "switches"]`.
        sections: &'static [&'static str],
        /// The name.
        name: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.position.line, self.position.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// Where a reader of a document stands: file, position and the way down from the root.
///
/// Each step borrows the one before it, so that walking costs nothing and only a fault spells the way out.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    file: &'a str,
    position: Position,
    step: Step<'a>,
    parent: Option<&'a Location<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// A way spelled by the caller already; may be empty.
    Path(&'a str),
    Key(&'a str),
    Item(usize),
}

impl<'a> Location<'a> {
    /// A place to start from; `path` is the dotted way to it, empty for a document's root.
    pub fn new(file: &'a str, path: &'a str, position: Position) -> Location<'a> {
        Location { file, position, step: Step::Path(path), parent: None }
    }

    /// The value of a key of the map that stands here.
    pub fn key(&'a self, name: &'a str, position: Position) -> Location<'a> {
        Location { file: self.file, position, step: Step::Key(name), parent: Some(self) }
    }

    /// An item of the list that stands here; `index` counts from 0.
    pub fn item(&'a self, index: usize, position: Position) -> Location<'a> {
        Location { file: self.file, position, step: Step::Item(index), parent: Some(self) }
    }

    /// The same way down, another position.
    pub fn at(&self, position: Position) -> Location<'a> {
        Location { position, ..*self }
    }

    /// The file, as the user named it.
    pub fn file(&self) -> &'a str {
        self.file
    }

    /// Line and column.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The way down, `rules[3].action`.
    pub fn path(&self) -> String {
        let mut steps = vec![self];
        while let Some(parent) = steps.last().and_then(|place| place.parent) {
            steps.push(parent);
        }
        let mut path = String::new();
        for place in steps.into_iter().rev() {
            match place.step {
                Step::Path(way) => path.push_str(way),
                Step::Item(index) => {
                    let _ = write!(path, "[{index}]");
                }
                Step::Key(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&spelling::shown(name));
                }
            }
        }
        path
    }

    /// A fault that stands here. `message` must be one line: pass what the user wrote through
    /// [`spelling::shown`].
    pub fn fault(&self, message: String) -> Fault {
        Fault {
            file: self.file.to_owned(),
            position: self.position,
            key: self.path(),
            message,
            kind: FaultKind::Value,
        }
    }

    /// The fault that the key that stands here is none. `message` as for [`fault`](Location::fault).
    pub fn unknown_key(&self, message: String) -> Fault {
        Fault { kind: FaultKind::UnknownKey, ..self.fault(message) }
    }

    /// Adds a fault that stands here, as long as there are fewer than [`MAX_FAULTS`]; the message is made
    /// only then.
    pub fn report(&self, faults: &mut Vec<Fault>, message: impl FnOnce() -> String) {
        self.report_one(faults, || self.fault(message()));
    }

    /// The same of a key that is none.
    pub fn report_unknown_key(&self, faults: &mut Vec<Fault>, message: impl FnOnce() -> String) {
        self.report_one(faults, || self.unknown_key(message()));
    }

    /// The same of a name that no entry of these sections has.
    pub fn report_not_found(
        &self,
        faults: &mut Vec<Fault>,
        sections: &'static [&'static str],
        name: &str,
        message: impl FnOnce() -> String,
    ) {
        let kind = || FaultKind::NotFound { sections, name: name.to_owned() };
        self.report_one(faults, || Fault { kind: kind(), ..self.fault(message()) });
    }

    fn report_one(&self, faults: &mut Vec<Fault>, fault: impl FnOnce() -> Fault) {
        if faults.len() + 1 < MAX_FAULTS {
            faults.push(fault());
        } else if faults.len() + 1 == MAX_FAULTS {
            faults.push(self.fault(format!("there are more faults; only the first {MAX_FAULTS} are told")));
        }
    }
}
