//! What is stored, and what can be asked of the store.

use std::fmt;
use std::sync::Arc;

/// The number of a commit. It only ever grows, over the whole store and over restarts, and no number is given
/// out twice. Zero is the revision of a store in which nothing was ever written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An object as it was when it was read. To clone one copies no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What sort of object it is, `function` say.
    pub kind: Arc<str>,
    /// Its name, one of a kind.
    pub name: Arc<str>,
    /// The revision at which it was last written.
    pub version: Revision,
    /// What the caller wrote, which the store never looks into.
    pub value: Arc<[u8]>,
}

/// A part of the objects of one kind, in the order of their names' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The objects.
    pub objects: Vec<Object>,
    /// The first name that no longer fitted: where the next page begins.
    pub next: Option<Arc<str>>,
    /// The revision of the store that the page shows; a follower of the changes from here misses nothing.
    pub revision: Revision,
}

/// What must be true of an object for a change of it to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    Any,
    /// There is no such object.
    Absent,
    /// There is such an object, whatever its version.
    Present,
    /// The object was last written at this revision.
    Version(Revision),
}

impl Precondition {
    /// Whether it holds for an object of the version `found`.
    pub(crate) fn holds(self, found: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Present => found.is_some(),
            Self::Version(version) => found == Some(version),
        }
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => write!(f, "anything"),
            Self::Absent => write!(f, "no such object"),
            Self::Present => write!(f, "such an object"),
            Self::Version(version) => write!(f, "version {version}"),
        }
    }
}

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is made, or replaced, with these bytes.
    Put(Arc<[u8]>),
    /// It is removed. To remove what is not there is no change, unless the precondition says otherwise.
    Delete,
}

/// One change of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object's kind.
    pub kind: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// When it may be carried out.
    pub precondition: Precondition,
    /// What is done.
    pub write: Write,
}

impl Change {
    /// Makes or replaces an object, whatever there is.
    pub fn put(kind: impl Into<Arc<str>>, name: impl Into<Arc<str>>, value: impl Into<Arc<[u8]>>) -> Self {
        Self {
            kind: kind.into(),
            name: name.into(),
            precondition: Precondition::Any,
            write: Write::Put(value.into()),
        }
    }

    /// Removes an object, if it is there.
    pub fn delete(kind: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind: kind.into(), name: name.into(), precondition: Precondition::Any, write: Write::Delete }
    }

    /// The same change, to be carried out only if `precondition` holds.
    #[must_use]
    pub fn only_if(mut self, precondition: Precondition) -> Self {
        self.precondition = precondition;
        self
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was made or replaced.
    Put,
    /// It was removed.
    Deleted,
}

/// One change that was committed, as followers of the store see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The commit; all changes of one commit bear its number.
    pub revision: Revision,
    /// The object's kind.
    pub kind: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// What happened.
    pub happened: Happened,
}
