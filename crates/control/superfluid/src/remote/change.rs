//! Changes, until they are made: what takes long is waited for, and what came of it is shown.

use super::failure::{Done, print};
use super::options::Waiting;
use crate::Outcome;
use crate::output::{Format, Listing, one};
use crate::progress::Progress;
use api::{Difference, ObjectName, Operation};
use client::{Answer, Change, Client, ClientError, harmless};
use serde_json::json;

/// What came of a change.
pub(crate) enum Made<T> {
    /// It was answered with this.
    Now(T),
    /// It took longer.
    InTime(Difference),
    /// It goes on.
    Left(Box<Operation>),
}

impl Waiting {
    /// As the client has it.
    pub(crate) fn change(&self) -> Change {
        Change { durable: self.durable, at_once: self.no_wait, ..Change::default() }
    }

    /// Waits for what takes longer, unless that is not wanted, and shows what is being done.
    pub(crate) fn until_made<T>(
        &self,
        client: &Client,
        progress: &Progress,
        answer: Answer<T>,
    ) -> Result<Made<T>, ClientError> {
        let operation = match answer {
            Answer::Done(done) => return Ok(Made::Now(done)),
            Answer::Later(operation) if self.no_wait => return Ok(Made::Left(operation)),
            Answer::Later(operation) => operation,
        };
        let look = |operation: &Operation| progress.now(&operation.what);
        Ok(Made::InTime(client.wait_for(*operation, self.timeout, look)?))
    }
}

/// Shows a difference, or the operation that will make one.
pub(crate) fn show(made: Made<Difference>, format: Format) -> Done {
    match made {
        Made::Now(difference) | Made::InTime(difference) => print(&difference_shown(&difference, format)),
        Made::Left(operation) => show_operation(&operation, format),
    }
}

/// Says that something goes on.
pub(crate) fn show_operation(operation: &Operation, format: Format) -> Done {
    let text = match format {
        Format::Table | Format::Wide => {
            let (id, what) = (harmless(&operation.id, 80), harmless(&operation.what, 160));
            format!("operation/{id} goes on: {what}\n")
        }
        Format::Json | Format::Yaml => one(&json!(operation), format),
    };
    print(&text)
}

/// A difference in words, one line for each object, those last that are as they should be.
fn difference_shown(difference: &Difference, format: Format) -> String {
    let Difference { created, changed, unchanged, deleted, restarted, images, .. } = difference;
    if matches!(format, Format::Json | Format::Yaml) {
        return one(&json!(difference), format);
    }
    let would = if difference.dry_run { "would be " } else { "" };
    let mut text = String::new();
    let mut tell = |objects: &[ObjectName], what: &str| {
        for object in objects {
            let anew = object.kind == api::Kind::Function && restarted.contains(&object.name);
            let anew = if anew { ", begins anew" } else { "" };
            text.push_str(&format!("{} {what}{anew}\n", harmless(&object.to_string(), 300)));
        }
    };
    tell(created, &format!("{would}created"));
    tell(changed, &format!("{would}changed"));
    tell(deleted, &format!("{would}deleted"));
    if format == Format::Wide {
        tell(unchanged, "unchanged");
    }
    for (function, image) in images {
        let (function, image) = (harmless(function, 100), harmless(image, 700));
        text.push_str(&format!("function/{function} image {image}\n"));
    }
    let counts = [(created, "created"), (changed, "changed"), (deleted, "deleted"), (unchanged, "unchanged")];
    let counts: Vec<_> = counts
        .iter()
        .filter(|(objects, _)| !objects.is_empty())
        .map(|(objects, what)| format!("{} {what}", objects.len()))
        .collect();
    let counts = if counts.is_empty() { "nothing to do".to_owned() } else { counts.join(", ") };
    text.push_str(&format!("{counts}; revision {}\n", difference.revision));
    text
}

/// A table of what was done with names, for commands that take several.
pub(crate) struct Acts(Listing);

impl Acts {
    pub(crate) fn new() -> Acts {
        Acts(Listing::new(&["OBJECT", "OUTCOME"], &[]))
    }

    pub(crate) fn add(&mut self, object: &ObjectName, outcome: &str) {
        let shown = harmless(&object.to_string(), 300);
        let value = json!({"kind": object.kind, "name": object.name, "outcome": outcome});
        self.0.add(vec![shown, outcome.to_owned()], value);
    }

    /// What was done, a line each without a head, because it is read while it happens.
    pub(crate) fn print(&self, format: Format) -> Outcome {
        match format {
            Format::Table | Format::Wide => Outcome::Done,
            Format::Json | Format::Yaml => print(&self.0.shown(format)).unwrap_or(Outcome::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Kind;

    #[test]
    fn a_difference_is_told_in_words() {
        let name = |name: &str| ObjectName::new(Kind::Function, name);
        let difference = Difference {
            dry_run: true,
            revision: 7,
            created: vec![name("a")],
            changed: vec![name("b"), name("c")],
            unchanged: vec![name("d")],
            deleted: vec![],
            restarted: vec!["c".to_owned()],
            images: [("a".to_owned(), "./a.wasm@sha256:12".to_owned())].into(),
        };
        let told = "function/a would be created\nfunction/b would be changed\nfunction/c would be changed, begins anew\nfunction/a image ./a.wasm@sha256:12\n1 created, 2 changed, 1 unchanged; revision 7\n";
        assert_eq!(difference_shown(&difference, Format::Table), told);
        assert!(difference_shown(&difference, Format::Wide).contains("function/d unchanged\n"));
        assert!(difference_shown(&difference, Format::Json).starts_with("{\n  \"dry_run\": true"));
        let nothing = Difference { revision: 7, ..Difference::default() };
        assert_eq!(difference_shown(&nothing, Format::Table), "nothing to do; revision 7\n");
    }
}
