//! A name that has been checked: what a request may use to look something up, or to name a file.

use crate::{Kind, NameError, check_name, name::check_word};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::{Borrow, Cow};
use std::fmt;

/// What a [`Name`] looks like, as a regular expression: one word.
pub const NAME_PATTERN: &str = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$";

/// The name of an object, a snapshot, a token or an operation. Every constructor checks it, so that code
/// which has a `Name` needs no check of its own:
///
/// - its characters are ASCII letters, digits, `_`, `-`, `.`, and in wires' names `:` and `~`; the first is a
///   letter, a digit or `_`;
/// - it is neither empty nor longer than the longest wire's name.
///
/// Hence it is one component of a path: it has no `/` and no NUL, and is neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// A name of one word: of snapshots, tokens, operations, functions, tenants.
    ///
    /// # Errors
    /// [`NameError`]: what was found, and what is allowed.
    pub fn new(text: impl Into<String>) -> Result<Name, NameError> {
        let text = text.into();
        check_word(&text)?;
        Ok(Name(text))
    }

    /// The name of an object of a kind, in its one spelling.
    ///
    /// # Errors
    /// [`NameError`]: what was found, and what is allowed.
    pub fn of(kind: Kind, text: &str) -> Result<Name, NameError> {
        check_name(kind, text).map(|name| Name(name.into_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Name, NameError> {
        Name::new(text)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": NAME_PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that would leave a folder, or name something else in it.
    const HOSTILE: [&str; 14] = [
        "",
        ".",
        "..",
        "../key",
        "/etc/passwd",
        "a/b",
        "a\0b",
        "a\nb",
        "-a",
        ".a",
        "a b",
        "ä",
        "a\u{202e}b",
        "a%2Fb",
    ];

    #[test]
    fn no_constructor_makes_a_name_that_leaves_a_folder() {
        let longest = "n".repeat(128);
        for good in ["a", "mon.day-1_", "0", "_", "19a2b3c-7", longest.as_str()] {
            assert_eq!(Name::new(good).expect(good).as_str(), good);
            let read: Name = serde_json::from_value(good.into()).expect(good);
            assert_eq!(read.as_str(), good);
        }
        let long = "n".repeat(129);
        for wrong in HOSTILE.into_iter().chain([long.as_str()]) {
            assert!(Name::new(wrong).is_err(), "{wrong:?}");
            assert!(serde_json::from_value::<Name>(wrong.into()).is_err(), "{wrong:?}");
            for kind in Kind::ALL {
                assert!(Name::of(kind, wrong).is_err(), "{kind} {wrong:?}");
            }
        }
        assert_eq!(Name::of(Kind::Wire, "lan~gate:1").expect("a wire").as_str(), "gate:1~lan");
        assert!(Name::of(Kind::Wire, "a~../b").is_err());
        assert!(Name::new("a~b").is_err(), "one word");
    }
}
