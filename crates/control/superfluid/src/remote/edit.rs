//! `superfluid edit`: one object in an editor.
//!
//! 1. The object is written into a file as a document that names it alone, with a comment above.
//! 2. The editor runs. A text that is left as it is, or emptied, ends the command, and changes nothing.
//! 3. What was saved is sent with the version that was read, so that a change made meanwhile is not
//!    overwritten unseen.
//! 4. What is wrong with it, and what was changed meanwhile, stands in the comment when the editor opens
//!    again. The version is then the newer one.
//!
//! When the command fails, what was typed stays in its file, and the command says where.

use super::change::Made;
use super::columns::cell;
use super::compare::compare;
use super::document::{File, document_of};
use super::failure::{Done, Failure, outcome, print};
use super::get::not_found;
use super::kinds;
use super::options::EditOptions;
use crate::Outcome;
use crate::output::{Format, one};
use crate::progress::Progress;
use api::{Fault, Kind, ObjectName, ProblemType};
use client::{Change, Client, ClientError, Only, harmless};
use serde_json::Value;
use std::fs::DirBuilder;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use yaml_document::MAX_TEXT;

/// Longest line of a comment, in characters.
const LINE: usize = 500;

pub(crate) fn edit(options: &EditOptions) -> Done {
    let named = kinds::objects(&options.what).map_err(|wrong| Failure::new(wrong, Outcome::BadInput))?;
    let [(kind, name)] = named.as_slice() else {
        let wrong = "several objects are named; allowed: one, since one is edited at a time";
        return Err(Failure::new(wrong, Outcome::BadInput));
    };
    let client = options.connection.client()?;
    let id = ObjectName::new(*kind, name.clone());
    let object = client.object(*kind, name).map_err(|error| not_found(&client, *kind, name, error))?;
    let draft = Draft::new(&id)?;
    let mut edit = Edit { client, options, id, version: object.version, spec: object.spec, draft };
    edit.until_done()
}

struct Edit<'a> {
    client: Client,
    options: &'a EditOptions,
    id: ObjectName,
    /// What was read last.
    version: u64,
    spec: Value,
    draft: Draft,
}

impl Edit<'_> {
    fn until_done(&mut self) -> Done {
        let (mut wrong, mut body) = (Wrong::Nothing, document(&self.id, &self.spec));
        loop {
            self.draft.write(&self.headed(&wrong, &body))?;
            self.draft.open()?;
            let saved = without_comment(&self.draft.read()?).to_owned();
            let as_it_was = saved == body || saved.trim().is_empty();
            if as_it_was && matches!(wrong, Wrong::Nothing) {
                return self.nothing_changed();
            }
            if as_it_was {
                let text = format!("{} is as it was", cell(&self.id.to_string()));
                return Err(self.draft.kept(Failure::new(text, Outcome::Failed)));
            }
            body = saved;
            wrong = match self.apply(&body)? {
                Applied::Done => return self.applied(),
                Applied::Same => return self.nothing_changed(),
                Applied::Wrong(wrong) => wrong,
            };
        }
    }

    fn nothing_changed(&mut self) -> Done {
        self.draft.remove();
        print(&format!("{} is as it was\n", cell(&self.id.to_string())))
    }

    fn applied(&mut self) -> Done {
        self.draft.remove();
        print(&format!("{} changed\n", cell(&self.id.to_string())))
    }

    /// The spec in a text.
    fn spec_of(&self, text: &str) -> Result<(File, Value), Failure> {
        let file = File::parse(self.draft.name.clone(), text.as_bytes())?;
        if file.objects() != std::slice::from_ref(&self.id) {
            let found: Vec<_> = file.objects().iter().map(|id| cell(&id.to_string())).collect();
            let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
            let text = format!("found {found}; allowed: {} alone", cell(&self.id.to_string()));
            return Err(Failure::new(text, Outcome::BadInput));
        }
        let spec = file.spec(&file.as_json(&self.options.connection), &self.id);
        Ok((file, spec))
    }

    fn apply(&mut self, body: &str) -> Result<Applied, Failure> {
        let Ok((_, spec)) = self.spec_of(body) else { return Ok(Applied::Wrong(Wrong::Form)) };
        if spec == self.spec {
            return Ok(Applied::Same);
        }
        let only = Only::IfVersion(self.version);
        let change =
            Change { only, allow_restart: self.options.allow_restart, ..self.options.waiting.change() };
        let progress = Progress::begin(&format!("changing {}", self.id), Format::Table);
        let answer = self.client.put(self.id.kind, &self.id.name, &spec, &change);
        let made = answer.and_then(|answer| self.options.waiting.until_made(&self.client, &progress, answer));
        drop(progress);
        match made {
            Ok(Made::Left(operation)) => {
                self.draft.remove();
                super::change::show_operation(&operation, Format::Table).map(|_| Applied::Done)
            }
            Ok(_) => Ok(Applied::Done),
            Err(error) => self.refused(error).map(Applied::Wrong).map_err(|failure| self.draft.kept(failure)),
        }
    }

    /// What can be done about it in the editor.
    fn refused(&mut self, error: ClientError) -> Result<Wrong, Failure> {
        match error.problem().and_then(api::Problem::problem_type) {
            Some(ProblemType::PreconditionFailed) => {
                let now = self.client.object(self.id.kind, &self.id.name)?;
                let lines = compare(&self.spec, &now.spec);
                (self.version, self.spec) = (now.version, now.spec);
                Ok(Wrong::Changed(lines))
            }
            Some(
                ProblemType::Invalid | ProblemType::Malformed | ProblemType::TooLarge | ProblemType::Conflict,
            ) => Ok(Wrong::Refused(error)),
            _ => Err(Failure::new(Failure::from_client(&error), outcome(&error))),
        }
    }

    /// The text that is edited: a comment above the body.
    fn headed(&self, wrong: &Wrong, body: &str) -> String {
        let first = format!(
            "# {}, version {}. What is saved is applied; left as it is or emptied, it changes nothing.\n",
            harmless(&self.id.to_string(), LINE),
            self.version
        );
        // Places are told as they are below the comment, which is as long as there are lines to tell.
        let lines = self.told(wrong, body).len();
        let below = format!("{}{body}", "#\n".repeat(1 + lines));
        let lines = self.told(wrong, &below);
        let comment: String = lines.iter().map(|line| format!("# {}\n", harmless(line, LINE))).collect();
        format!("{first}{comment}{body}")
    }

    /// A fault of the object's spec as one of the document.
    fn whole(&self, fault: &Fault) -> Fault {
        let section = self.id.kind.plural();
        if fault.at.starts_with(section) {
            return fault.clone();
        }
        let dot = if fault.at.is_empty() { "" } else { "." };
        let object = match self.id.kind {
            Kind::Workers => String::new(),
            Kind::Wire => "[0]".to_owned(),
            _ => format!(".{}", self.id.name),
        };
        Fault::new(format!("{section}{object}{dot}{}", fault.at), fault.message.clone())
    }

    /// What is wrong with a text, in lines.
    fn told(&self, wrong: &Wrong, text: &str) -> Vec<String> {
        let told = match wrong {
            Wrong::Nothing => return Vec::new(),
            Wrong::Form => {
                self.spec_of(text).err().map(|failure| failure.text().to_owned()).unwrap_or_default()
            }
            Wrong::Refused(error) => match (error.problem(), self.spec_of(text)) {
                (Some(problem), Ok((file, _))) if !problem.faults.is_empty() => {
                    let faults: Vec<_> =
                        problem.faults.iter().map(|fault| file.place(&self.whole(fault))).collect();
                    faults.join("\n")
                }
                _ => error.to_string(),
            },
            Wrong::Changed(lines) => {
                let first =
                    "It has been changed meanwhile, as below. What is saved now is applied over that.";
                [&[first.to_owned()], lines.as_slice()].concat().join("\n")
            }
        };
        told.lines().map(str::to_owned).collect()
    }
}

enum Applied {
    Done,
    Same,
    Wrong(Wrong),
}

/// Why the editor opens again.
enum Wrong {
    /// It does not: this is the first time.
    Nothing,
    /// It is no document, or one of other objects.
    Form,
    /// The daemon does not take it.
    Refused(ClientError),
    /// Another change was faster: what it changed.
    Changed(Vec<String>),
}

/// A document of one object.
fn document(id: &ObjectName, spec: &Value) -> String {
    one(&document_of([(id, spec)]), Format::Yaml)
}

/// A text without the lines of comment that it begins with.
fn without_comment(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest
}

/// The file that is edited, in a folder for this user alone.
struct Draft {
    folder: PathBuf,
    /// Of the file, as messages name it.
    name: String,
}

impl Draft {
    fn new(id: &ObjectName) -> Result<Draft, Failure> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name = format!("{}-{}.yaml", id.kind, id.name.chars().map(plain).collect::<String>());
        for attempt in 0..100 {
            let name_of_folder = format!("superfluid-edit-{}-{attempt}", std::process::id());
            let folder = std::env::temp_dir().join(name_of_folder);
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Draft { folder, name }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(broken(&folder, &error)),
            }
        }
        let folder = std::env::temp_dir();
        let text = format!("{}: has many folders of this command; remove some", folder.display());
        Err(Failure::new(text, Outcome::Failed))
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let path = self.path();
        let open =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| broken(&path, &error))
    }

    fn read(&self) -> Result<String, Failure> {
        let (path, mut bytes) = (self.path(), Vec::new());
        let most = MAX_TEXT as u64 + 1;
        let read = local_file::open(&path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|error| broken(&path, &error))?;
        String::from_utf8(bytes).map_err(|_| {
            let text = format!("{}: is no text in UTF-8", path.display());
            Failure::new(text, Outcome::BadInput)
        })
    }

    /// Lets the user edit it.
    fn open(&self) -> Result<(), Failure> {
        let set = |name: &str| std::env::var(name).ok().filter(|command| !command.trim().is_empty());
        let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
        // A command with arguments is one, too; the file is none of its words.
        let script = format!("{editor} \"$1\"");
        let ended = Command::new("sh").args(["-c", &script, "sh"]).arg(self.path()).status();
        let text = match ended {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("the editor `{}` ended with {status}", harmless(&editor, 100)),
            Err(error) => format!("sh: {error}"),
        };
        Err(self.kept(Failure::new(text, Outcome::Failed)))
    }

    /// The same failure, with the place of what was typed.
    fn kept(&self, failure: Failure) -> Failure {
        failure.with(&format!("; what was edited is in {}", self.path().display()))
    }

    fn remove(&self) {
        // What is left over is the user's own, in a folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn broken(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format_args!("{}: {error}", path.display()), Outcome::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_of_one_object_is_read_as_it_was_written() {
        for (kind, name, spec) in [
            (Kind::Workers, "workers", json!(3)),
            (
                Kind::Function,
                "fw",
                json!({"image": "firewall", "config": {"rules": [{"a": "no: \"x\"", "n": 1}], "e": {}}}),
            ),
            (Kind::Wire, "a:1~b", json!(["a:1", "b"])),
            (Kind::Chain, "edge", json!(["lan", "fw", "wan"])),
            (Kind::Service, "red:7", json!({"to": "fw:0", "for": ["red"]})),
            (Kind::Switch, "hall", json!({})),
        ] {
            let id = ObjectName::new(kind, name);
            let text = format!("# a comment\n#\n{}", document(&id, &spec));
            assert_eq!(without_comment(&text), document(&id, &spec));
            let file = File::parse("f.yaml".to_owned(), text.as_bytes()).expect("a document");
            assert_eq!(file.objects(), std::slice::from_ref(&id), "{text}");
            let connection = crate::remote::Connection::local();
            assert_eq!(file.spec(&file.as_json(&connection), &id), spec, "{text}");
        }
        assert_eq!(without_comment("# all"), "");
    }
}
