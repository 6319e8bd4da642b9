//! `If-Match` and `If-None-Match` (RFC 9110, section 13.1): when a change may be carried out.
//!
//! An object's entity tag is its version in quotes, `"17"`.

use api::{Fault, ObjectName};

/// Most tags in one header; no client knows more versions that would do.
const TAGS_MAX: usize = 32;

/// When a change may be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Always.
    #[default]
    Any,
    /// There is no such object: `If-None-Match: *`.
    Absent,
    /// There is such an object: `If-Match: *`.
    Present,
    /// It has one of these versions: `If-Match: "17"`. Tags that cannot be versions match nothing and are
    /// left out.
    Versions(Vec<u64>),
}

impl Precondition {
    /// What to tell where it does not hold of an object, which has this version, or is not there.
    pub fn not_held(&self, id: &ObjectName, version: Option<u64>) -> Fault {
        let found = version.map_or("no such object".to_owned(), |version| format!("version {version}"));
        let (at, allowed) = match self {
            Precondition::Any => ("", "anything".to_owned()),
            Precondition::Absent => ("If-None-Match", "no such object".to_owned()),
            Precondition::Present => ("If-Match", "any version of it".to_owned()),
            // Its tags are weak, or no versions.
            Precondition::Versions(versions) if versions.is_empty() => {
                ("If-Match", "its version in quotes, which no tag of the header is".to_owned())
            }
            Precondition::Versions(versions) => {
                let versions: Vec<_> = versions.iter().map(u64::to_string).collect();
                ("If-Match", format!("version {}", versions.join(", ")))
            }
        };
        Fault::new(at, format!("{id}: found {found}; allowed: {allowed}"))
    }

    /// Reads the values of both headers.
    ///
    /// # Errors
    /// What is wrong with them, and what is allowed.
    pub fn read<'a>(
        if_match: impl IntoIterator<Item = &'a [u8]>,
        if_none_match: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Precondition, Fault> {
        let mut read = Precondition::Any;
        for value in if_none_match {
            if value.trim_ascii() != b"*" {
                let found = shown(value);
                let message =
                    format!("found `{found}`; allowed: `*`, for an object that must not be there yet");
                return Err(Fault::new("If-None-Match", message));
            }
            read = Precondition::Absent;
        }
        for value in if_match {
            let next = tags(value)?;
            read = match (read, next) {
                (Precondition::Any, next) => next,
                (Precondition::Versions(mut versions), Precondition::Versions(more)) => {
                    versions.extend(more);
                    Precondition::Versions(versions)
                }
                _ => {
                    return Err(Fault::new(
                        "If-Match",
                        "found together with what contradicts it; allowed: `If-None-Match: *`, `If-Match: *`, or \
                         `If-Match` with versions",
                    ));
                }
            };
        }
        match &read {
            Precondition::Versions(versions) if versions.len() > TAGS_MAX => {
                let found = versions.len();
                Err(Fault::new("If-Match", format!("found {found} versions; allowed: at most {TAGS_MAX}")))
            }
            _ => Ok(read),
        }
    }

    /// Does it hold for an object of this version, or for none?
    pub fn holds(&self, found: Option<u64>) -> bool {
        match self {
            Precondition::Any => true,
            Precondition::Absent => found.is_none(),
            Precondition::Present => found.is_some(),
            Precondition::Versions(versions) => found.is_some_and(|found| versions.contains(&found)),
        }
    }
}

/// One value of `If-Match`: `*`, or tags with commas between them.
fn tags(value: &[u8]) -> Result<Precondition, Fault> {
    let wrong = || {
        let found = shown(value);
        Fault::new(
            "If-Match",
            format!("found `{found}`; allowed: an object's version in quotes, `\"17\"`, or `*`"),
        )
    };
    let text = std::str::from_utf8(value).map_err(|_| wrong())?.trim_matches([' ', '\t']);
    if text == "*" {
        return Ok(Precondition::Present);
    }
    let mut versions = Vec::new();
    // Versions have no commas; a foreign tag that has some is refused as malformed, which it is for an
    // object.
    for tag in text.split(',') {
        let tag = tag.trim_matches([' ', '\t']);
        let (weak, quoted) = match tag.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, tag),
        };
        let inside = quoted.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).ok_or_else(wrong)?;
        if inside.contains('"') {
            return Err(wrong());
        }
        // Weak tags match nothing here (RFC 9110, section 13.1.1), nor does what is spelled otherwise.
        let version = inside.parse().ok().filter(|version: &u64| !weak && version.to_string() == inside);
        versions.extend(version);
    }
    Ok(Precondition::Versions(versions))
}

/// Enough of a header to know it again.
pub(crate) fn shown(value: &[u8]) -> String {
    const MOST: usize = 60;
    let mut shown: String =
        String::from_utf8_lossy(value).chars().take(MOST).flat_map(char::escape_debug).collect();
    if value.len() > MOST {
        shown.push('…');
    }
    shown
}
