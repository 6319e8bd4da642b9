//! Names of objects: which there may be, and the one that a wire has.

use crate::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Most characters of a name. A wire's name has twice as many and those of its interfaces.
pub const NAME_MAX: usize = 128;

/// Which object: its kind, and its name among that kind. Shown as `function/fw`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectName {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// The object of a kind and name.
    pub fn new(kind: Kind, name: impl Into<String>) -> ObjectName {
        ObjectName { kind, name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Why a name cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty or too long.
    #[error("found a name of {0} characters; allowed: 1 to {NAME_MAX}")]
    Length(usize),
    /// It has a character that it may not have, there.
    #[error(
        "found `{character}` as character {at} of a name; allowed: letters of ASCII, digits, `_`, `-` and `.`, the first a letter, a digit or `_`"
    )]
    Character {
        /// The character, escaped if it cannot be shown.
        character: String,
        /// Which it is, counted from 1.
        at: usize,
    },
    /// There is one object of this kind, with a fixed name.
    #[error("found the name `{0}`; allowed: `workers`, because there is one such object")]
    NotWorkers(String),
    /// Not the number of a service.
    #[error(
        "found `{0}` as a service's number; allowed: 1 to 65535, without leading zeros, or one behind its tenant's name, such as `red:10`"
    )]
    NotService(String),
    /// Not a wire's two ends.
    #[error(
        "found `{0}` as a wire's name; allowed: its two ends with `~` between them, such as `gate:1~lan`"
    )]
    NotWire(String),
}

/// Checks a name that an object of this kind is to have, and gives it its one spelling: of a wire, the ends
/// in order.
///
/// # Errors
/// [`NameError`]: what is wrong with it, and what is allowed.
pub fn check_name(kind: Kind, name: &str) -> Result<Cow<'_, str>, NameError> {
    match kind {
        Kind::Workers if name == "workers" => {}
        Kind::Workers => return Err(NameError::NotWorkers(shown(name))),
        Kind::Service => {
            let digits = match name.split_once(':') {
                Some((tenant, digits)) => {
                    check_word(tenant)?;
                    digits
                }
                None => name,
            };
            let number = digits.parse::<u16>().ok().filter(|number| *number > 0);
            if number.is_none_or(|number| number.to_string() != digits) {
                return Err(NameError::NotService(shown(name)));
            }
        }
        Kind::Wire => {
            let Some((a, b)) = name.split_once('~') else {
                return Err(NameError::NotWire(shown(name)));
            };
            check_end(a)?;
            check_end(b)?;
            if b < a {
                return Ok(Cow::Owned(format!("{b}~{a}")));
            }
        }
        Kind::Tenant
        | Kind::Port
        | Kind::Switch
        | Kind::Group
        | Kind::Device
        | Kind::Function
        | Kind::Chain
        | Kind::Observer => {
            check_word(name)?;
        }
    }
    Ok(Cow::Borrowed(name))
}

/// The name of the wire between two ends, such as `gate:1` and `lan`; the same whichever end is named first.
///
/// # Errors
/// [`NameError`] when an end is none.
pub fn wire_name(a: &str, b: &str) -> Result<String, NameError> {
    check_end(a)?;
    check_end(b)?;
    let (first, second) = if b < a { (b, a) } else { (a, b) };
    Ok(format!("{first}~{second}"))
}

/// The names in a place that an observer is at: `gate`, `gate:1`, `bridge0:nic1`, or a wire, `gate:1~lan`.
pub fn names_at(place: &str) -> impl Iterator<Item = &str> {
    place.split('~').map(|end| end.split_once(':').map_or(end, |(name, _)| name))
}

/// A name, and perhaps an interface of it.
fn check_end(end: &str) -> Result<(), NameError> {
    match end.split_once(':') {
        Some((name, interface)) => check_word(name).and_then(|()| check_word(interface)),
        None => check_word(end),
    }
}

pub(crate) fn check_word(word: &str) -> Result<(), NameError> {
    for (n, c) in word.chars().enumerate() {
        let allowed = c.is_ascii_alphanumeric() || c == '_' || (n > 0 && (c == '-' || c == '.'));
        if !allowed {
            return Err(NameError::Character { character: c.escape_debug().to_string(), at: n + 1 });
        }
    }
    if word.is_empty() || word.len() > NAME_MAX {
        return Err(NameError::Length(word.len()));
    }
    Ok(())
}

/// Enough of what was found to know it again.
fn shown(name: &str) -> String {
    const MOST: usize = 40;
    let mut shown: String = name.chars().take(MOST).flat_map(char::escape_debug).collect();
    if name.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
