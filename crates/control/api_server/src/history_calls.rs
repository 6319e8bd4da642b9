//! The history, as clients ask for it: all objects at a step, or one over time.

use crate::answer::{Answer, one_fault};
use crate::calls::missing;
use crate::control::{HistoryAsked, NoHistory};
use crate::request::Asked;
use crate::state::State;
use api::{Fault, Problem, ProblemType};
use bytes::Bytes;
use std::sync::Arc;
use yaml_document::spelling;

/// The largest number of a step or a layout.
const MOST: u64 = (1 << 53) - 1;
/// Seconds of a line: without a word about it, and at most.
const SECONDS: (u64, u64) = (600, 3600);
/// Bytes of an object's name: an edge has two, with a part each.
const NAME: usize = 640;

/// Answers with what was asked for.
pub(crate) async fn history(state: &Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let malformed =
        |at: &str, message: String| one_fault(ProblemType::Malformed, Fault::of_request(at, message));
    let (at, layout) = (asked.number("at", 0, MOST)?, asked.number("layout", 0, MOST)?);
    let seconds = asked.number("seconds", 1, SECONDS.1)?;
    let wanted = match asked.query.text("of") {
        None if seconds.is_some() => {
            return Err(malformed("seconds", "found without `of`; allowed: with it".to_owned()));
        }
        None => HistoryAsked::Moment { at, layout },
        Some(of) if at.is_none() && layout.is_none() => {
            let named = of.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
            let (kind, name) = named.filter(|_| of.len() <= NAME).ok_or_else(|| {
                let found = spelling::shown(of);
                malformed("of", format!("found `{found}`; allowed: a kind and a name, such as `function/fw`"))
            })?;
            let seconds = seconds.unwrap_or(SECONDS.0);
            HistoryAsked::Line { kind: kind.to_owned(), name: name.to_owned(), seconds }
        }
        Some(_) => {
            return Err(malformed("of", "found beside `at` or `layout`; allowed: without them".to_owned()));
        }
    };
    let rights = asked.rights.clone();
    state
        .work_on(&rights, true, move |state| match state.control.history(&wanted, asked.rights.tenant()) {
            Ok(text) => Ok(Answer::bytes(200, "application/json", Bytes::from_owner(text))),
            Err(NoHistory::Gone { first, last }) => {
                let detail = format!("the step is not known; allowed: {first} to {last}");
                Err(Problem::new(ProblemType::Gone, detail))
            }
            Err(NoHistory::NotFound) => Err(missing("history of this object")),
            Err(NoHistory::Nothing) => {
                Err(Problem::new(ProblemType::Busy, "nothing has been counted yet, or the daemon ends"))
            }
        })
        .await?
}
