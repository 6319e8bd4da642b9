//! Checking a whole document: steps 0 to 3 of a [change](crate::change), as far as they do nothing.
//!
//! What a tenant may not change is wrong with its document, and nothing of the host is read for it then.
//! Images are not pinned: what is named as it was when it was applied means what it meant then. An image that
//! would have to be fetched is told as a warning, with what is not checked because of it.

use crate::answer::faulty;
use crate::compare::Compared;
use crate::document;
use crate::precondition::Precondition;
use crate::rights::Rights;
use crate::sizes;
use crate::state::State;
use crate::stored::Stored;
use crate::timing::Timing;
use crate::wanted::{Wanted, WantedObject};
use api::{CheckReport, Fault, FaultKind, Kind, PlacedFault, Problem, ProblemType};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use yaml_document::Document;

/// What is wrong with the document itself, and not with the request.
const OF_THE_DOCUMENT: [ProblemType; 3] =
    [ProblemType::Invalid, ProblemType::Conflict, ProblemType::Forbidden];

impl State {
    /// What a document comes to that a client with these rights sends as `text`.
    ///
    /// # Errors
    /// What is wrong with the request, or the host.
    pub fn check(
        &self,
        rights: Rights,
        body: Value,
        prune: bool,
        timing: Timing,
        text: &[u8],
    ) -> Result<CheckReport, Problem> {
        let mut report = CheckReport::default();
        let found = self.found(rights, body, prune, timing, &mut report);
        let (faults, warnings) = match found {
            Ok(warnings) => (Vec::new(), warnings),
            Err(problem) if OF_THE_DOCUMENT.iter().any(|of| of.uri() == problem.kind) => {
                (problem.faults, Vec::new())
            }
            Err(problem) => return Err(problem),
        };
        // What is not here is not known to be wrong.
        let (absent, faults): (Vec<Fault>, Vec<Fault>) =
            faults.into_iter().partition(|fault| fault.kind == FaultKind::ImageElsewhere);
        let document = std::str::from_utf8(text).ok().and_then(|text| Document::parse("", text).ok());
        let placed = |fault: Fault| {
            let at_key = fault.kind == FaultKind::UnknownKey;
            let place = document.as_ref().and_then(|document| document.root().position_of(&fault.at, at_key));
            PlacedFault::new(fault, place.map(|place| (place.line, place.column)))
        };
        if !faults.is_empty() {
            report.difference = None;
        }
        report.faults = faults.into_iter().map(placed).collect();
        report.warnings = warnings.into_iter().chain(absent).map(placed).collect();
        Ok(report)
    }

    /// Finds all that is wrong; the warnings, where nothing is.
    fn found(
        &self,
        rights: Rights,
        body: Value,
        prune: bool,
        timing: Timing,
        report: &mut CheckReport,
    ) -> Result<Vec<Fault>, Problem> {
        let invalid = |faults| faulty(ProblemType::Invalid, faults);
        let objects = document::objects(body).map_err(invalid)?;
        let faults = sizes::too_large(&objects);
        if !faults.is_empty() {
            return Err(invalid(faults));
        }
        let objects = objects.into_iter().map(|(id, spec)| WantedObject {
            id,
            spec: Some(spec),
            precondition: Precondition::Any,
            snapshot: None,
        });
        let mut wanted = Wanted {
            objects: objects.collect(),
            prune,
            dry_run: true,
            resolve: false,
            rights,
            others: BTreeSet::new(),
            allow_restart: true,
            timing,
            large: false,
            _room: None,
        };
        wanted.objects.iter_mut().for_each(|object| self.as_applied(object));
        self.read_again(&mut wanted);
        let Compared { difference, changes, .. } = self.compared(&wanted, &BTreeMap::new())?;
        report.difference = Some(difference);
        let asker = self.logins.asker(&wanted.rights);
        self.control.check(&changes, &asker).map_err(|refusal| self.refusal(&wanted, refusal))
    }

    /// An image that is named as it was when it was applied is the one that was pinned then.
    fn as_applied(&self, object: &mut WantedObject) {
        let Some(Value::String(image)) = object.spec.as_mut().and_then(|spec| spec.get_mut("image")) else {
            return;
        };
        if object.id.kind != Kind::Function {
            return;
        }
        let there = self.store.read(object.id.kind.as_str(), &object.id.name);
        let pinned = there.and_then(|there| {
            let pinned = Stored::of(&there).spec.get("image")?.as_str()?.to_owned();
            let digest = pinned.strip_prefix(image.as_str())?;
            digest.starts_with("@sha256:").then_some(pinned)
        });
        if let Some(pinned) = pinned {
            *image = pinned;
        }
    }
}
