//! Cuts an image down, step by step: what D5.2 (section 2.3.2) calls Tinyx, for functions.
//!
//! 1. [`sections`] accounts for what the rewriting pass has left out of the compiler's output: names,
//!    debugging sections, others.
//! 2. A [`Pass`] makes a smaller module that does the same. Its outcome is loaded as any image is, so that
//!    nothing that is not valid goes on.
//! 3. The builder decides with a [`Trial`] whether the cut stays: the function's own test has to pass, and
//!    packets may not cost more.
//! 4. Each [`Step`] says what was before, what is after, and why.
//!
//! Limits: passes take what the rewriting pass lets through; anything else is left as it is.

mod data;
mod error;
mod identical;
mod manifest_text;
mod parts;
mod sections;
mod unreachable;

pub use error::CutError;
pub(crate) use sections::sections;

use crate::Image;
use manifest::Manifest;
use nf_abi::MANIFEST_SECTION;
use parts::Parts;

/// A way to make an image smaller without changing what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Comments and empty lines of the manifest.
    ManifestComments,
    /// Exports that the contract does not have.
    ForeignExports,
    /// What no export leads to.
    Unreachable,
    /// Functions that are the same.
    Identical,
    /// Zeros in data segments.
    Data,
}

impl Pass {
    /// All, in the order in which they help each other.
    pub const ALL: [Pass; 5] =
        [Pass::ManifestComments, Pass::ForeignExports, Pass::Unreachable, Pass::Identical, Pass::Data];

    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::ManifestComments => "manifest comments",
            Pass::ForeignExports => "foreign exports",
            Pass::Unreachable => "unreachable code",
            Pass::Identical => "identical functions",
            Pass::Data => "zeros in data",
        }
    }

    /// What it cuts, in a few words.
    pub const fn what(self) -> &'static str {
        match self {
            Pass::ManifestComments => "comments and empty lines; what it says is the same",
            Pass::ForeignExports => "exports that the contract does not have",
            Pass::Unreachable => "functions, globals, imports, table slots and types that no export leads to",
            Pass::Identical => "functions of one type with the same body, and equal types, are one",
            Pass::Data => "memory is zero anyway; segments joined or split where that is shorter",
        }
    }

    /// Whether it leaves code and data as they are, byte for byte, so that it needs no test.
    pub const fn is_harmless(self) -> bool {
        matches!(self, Pass::ManifestComments)
    }

    /// Applies it.
    ///
    /// # Errors
    /// [`CutError`]; the image is as good as before.
    pub fn apply(self, image: &Image) -> Result<Image, CutError> {
        let wasm = match self {
            Pass::ManifestComments => manifest_text::without_comments(image)?,
            _ => self.rebuild(image.wasm())?,
        };
        let cut = Image::load(&wasm).map_err(|error| CutError::Outcome(error.to_string()))?;
        let said = Manifest { source: image.manifest().source.clone(), ..cut.manifest().clone() };
        if said != *image.manifest() {
            return Err(CutError::Outcome("the manifest says something else".into()));
        }
        Ok(cut)
    }

    fn rebuild(self, wasm: &[u8]) -> Result<Vec<u8>, CutError> {
        let mut parts = Parts::read(wasm)?;
        let plan = match self {
            Pass::ForeignExports => unreachable::without_foreign_exports(&parts),
            Pass::Unreachable => unreachable::plan(&parts)?,
            Pass::Identical => identical::plan(&parts)?,
            Pass::Data => {
                data::trim(&mut parts)?;
                parts.everything()
            }
            Pass::ManifestComments => parts.everything(),
        };
        parts.write(&plan)
    }
}

/// Judges cuts: it has the function's own test, and runs it.
pub trait Trial {
    /// Whether this image passes the function's own test.
    ///
    /// # Errors
    /// What did not hold.
    fn passes(&mut self, image: &Image) -> Result<(), String>;

    /// Whether a cut image passes the function's own test, and does with its packets what the image as it was
    /// built does.
    ///
    /// # Errors
    /// What did not hold, or what is different.
    fn same(&mut self, built: &Image, cut: &Image) -> Result<(), String>;

    /// Cycles that a packet costs in a cut image, over those in the image as it was built.
    ///
    /// # Errors
    /// Why that could not be measured.
    fn cost(&mut self, built: &Image, cut: &Image) -> Result<f64, String>;
}

/// What a cut may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// The smallest image whose packets cost no more than 2% more than those of the image as it was built.
    #[default]
    Speed,
    /// The smallest image.
    Size,
}

/// Most that packets of a cut image may cost, over what they cost in the image as it was built, for
/// [`Goal::Speed`].
pub const MOST_COST: f64 = 1.02;

/// What became of a cut.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It stays; with what packets cost over what they did, where that was measured.
    Kept {
        /// See [`Trial::cost`].
        cost: Option<f64>,
    },
    /// It was made and taken back.
    Refused {
        /// Why.
        why: String,
        /// See [`Trial::cost`].
        cost: Option<f64>,
    },
    /// There was nothing to cut, or the outcome was no smaller.
    Nothing,
    /// It was not made.
    NotTried {
        /// Why.
        why: String,
    },
}

/// A line of the table: one cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What was cut.
    pub name: &'static str,
    /// The same in a few words.
    pub what: &'static str,
    /// Bytes of the image before.
    pub before: usize,
    /// Bytes of it with the cut, whether it stayed or not; as before when it was not made.
    pub after: usize,
    /// What became of it.
    pub decision: Decision,
}

impl Step {
    /// Bytes that the cut took off; negative where it added some; 0 when it did not stay.
    pub fn saved(&self) -> i64 {
        match self.decision {
            Decision::Kept { .. } => self.before as i64 - self.after as i64,
            _ => 0,
        }
    }
}

/// Gives an image another manifest text, which says the same.
fn with_manifest(image: &Image, text: &str) -> Result<Vec<u8>, CutError> {
    let mut parts = Parts::read(image.wasm())?;
    for (name, data) in &mut parts.custom {
        if *name == MANIFEST_SECTION {
            *data = text.as_bytes();
        }
    }
    parts.write(&parts.everything())
}
