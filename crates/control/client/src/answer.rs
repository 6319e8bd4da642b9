//! What a change is answered with.

use crate::{Client, ClientError};
use api::{Object, Operation};
use http_client::Body;
use http_client::http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// An answer, or the promise of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// It is done.
    Done(T),
    /// It takes longer; [`Client::wait_for`] waits for it.
    Later(Box<Operation>),
}

/// An object that was put there.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The object as it is now.
    pub object: Object,
    /// Whether there was none before.
    pub created: bool,
    /// What the daemon told of its own time.
    pub steps: Vec<Step>,
}

/// How long the daemon took for a part of its work, as `Server-Timing` has it (W3C).
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which part.
    pub name: String,
    /// How long it took.
    pub time: Duration,
}

impl Client {
    pub(crate) fn answered<T: DeserializeOwned>(
        &self,
        response: Response<Body>,
    ) -> Result<Answer<T>, ClientError> {
        if response.status() == StatusCode::ACCEPTED {
            return self.json(response).map(|operation| Answer::Later(Box::new(operation)));
        }
        self.json(response).map(Answer::Done)
    }

    pub(crate) fn written(&self, response: Response<Body>) -> Result<Answer<Written>, ClientError> {
        let created = response.status() == StatusCode::CREATED;
        let headers = response.headers().get_all("server-timing");
        let steps = headers.iter().filter_map(|value| value.to_str().ok()).flat_map(steps).collect();
        Ok(match self.answered(response)? {
            Answer::Done(object) => Answer::Done(Written { object, created, steps }),
            Answer::Later(operation) => Answer::Later(operation),
        })
    }
}

/// The steps of one header, `check;dur=0.25, commit;dur=0.1`: in milliseconds. What is not of this form is
/// passed over.
fn steps(header: &str) -> Vec<Step> {
    let step = |metric: &str| {
        let (name, parameters) = metric.split_once(';')?;
        let milliseconds = parameters
            .split(';')
            .find_map(|parameter| parameter.trim().strip_prefix("dur=")?.trim().parse::<f64>().ok())?;
        let time = Duration::try_from_secs_f64(milliseconds / 1e3).ok()?;
        Some(Step { name: crate::harmless(name.trim(), 40), time })
    };
    header.split(',').filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::steps;
    use std::time::Duration;

    #[test]
    fn times_are_read_and_what_is_none_is_passed_over() {
        let read = |header| steps(header).into_iter().map(|step| (step.name, step.time)).collect::<Vec<_>>();
        let (check, commit) = (Duration::from_micros(250), Duration::from_micros(1500));
        assert_eq!(
            read("check;dur=0.25, commit;desc=\"x\"; dur=1.5"),
            [("check".to_owned(), check), ("commit".to_owned(), commit)]
        );
        assert!(read("").is_empty());
        assert!(read("a;dur=-1, b;dur=nan, c;dur=1e300, d, ;;;, e;dur=").is_empty());
    }
}
