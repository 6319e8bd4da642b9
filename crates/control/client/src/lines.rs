//! Streams: JSON, an object a line, as long as the daemon goes on.

use crate::exchange::{Ask, TimeLimit};
use crate::{Client, ClientError};
use api::{Capture, Event, FunctionEvent, JSON_LINES, LogLine, PCAPNG, TAR, Trace, TraceLine, paths};
use http_client::BodyReader;
use http_client::http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::time::Duration;

/// Longest line, in bytes.
const LONGEST: u64 = 1 << 20;

/// A stream of events says that it is alive each 15 s. One that does not for this long is not.
const ALIVE: Duration = Duration::from_secs(60);

/// Which events this version knows.
const EVENTS: [&str; 5] = ["changed", "notice", "alive", "lost", "gone"];

/// The lines of a stream, as they come. The iterator ends when the daemon ends the stream, and after an
/// error.
pub struct Lines<'a, T> {
    client: &'a Client,
    reader: BufReader<BodyReader<'static>>,
    over: bool,
    of: PhantomData<T>,
}

impl Client {
    /// What happened after a revision, or happens from now on; with `follow` it goes on with what happens
    /// next.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn events(&self, after: Option<u64>, follow: bool) -> Result<Lines<'_, Event>, ClientError> {
        let mut ask = Ask::get(paths::EVENTS).with_flag("follow", follow);
        if let Some(after) = after {
            ask = ask.with("after", &after.to_string());
        }
        self.lines(ask, Some(ALIVE))
    }

    /// What a function said after a line; with `follow` it goes on with what it says next.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn logs(
        &self,
        function: &str,
        after: u64,
        limit: Option<u64>,
        follow: bool,
    ) -> Result<Lines<'_, LogLine>, ClientError> {
        let mut ask = Ask::get(paths::of_function(function, "logs")).with_flag("follow", follow);
        if after > 0 {
            ask = ask.with("after", &after.to_string());
        }
        if let Some(limit) = limit {
            ask = ask.with("limit", &limit.to_string());
        }
        // A function may be silent for as long as it likes.
        self.lines(ask, (!follow).then_some(ALIVE))
    }

    /// What a function found and what happened to it after an event; with `follow` it goes on with what comes
    /// next.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn function_events(
        &self,
        function: &str,
        after: u64,
        limit: Option<u64>,
        follow: bool,
    ) -> Result<Lines<'_, FunctionEvent>, ClientError> {
        let mut ask = Ask::get(paths::of_function(function, "events")).with_flag("follow", follow);
        if after > 0 {
            ask = ask.with("after", &after.to_string());
        }
        if let Some(limit) = limit {
            ask = ask.with("limit", &limit.to_string());
        }
        // It may find nothing for as long as it likes.
        self.lines(ask, (!follow).then_some(ALIVE))
    }

    /// Follows packets on their way: a line for each that has come to its end.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn trace(&self, wanted: &Trace) -> Result<Lines<'_, TraceLine>, ClientError> {
        self.lines(Ask::new(Method::POST, paths::TRACES).with_json(wanted), Some(ALIVE))
    }

    /// Captures packets where they pass: pcapng, as long as it goes on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn capture(&self, wanted: &Capture) -> Result<Packets<'_>, ClientError> {
        let ask = Ask::new(Method::POST, paths::CAPTURES).with_json(wanted).accepting(PCAPNG);
        // Nothing may pass for as long as it likes.
        let response = self.send(ask, TimeLimit::Stream(None))?;
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Packets { client: self, reader })
    }

    /// A backup of all that the daemon keeps, as it comes; what is read is not believed before it was
    /// checked.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn back_up(&self) -> Result<Packets<'_>, ClientError> {
        let ask = Ask::new(Method::POST, paths::BACKUPS).accepting(TAR);
        // A large store takes its time to be put aside.
        let response = self.send(ask, TimeLimit::Stream(Some(self.settings.total)))?;
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Packets { client: self, reader })
    }

    fn lines<T>(&self, ask: Ask, idle: Option<Duration>) -> Result<Lines<'_, T>, ClientError> {
        let response = self.send(ask.accepting(JSON_LINES), TimeLimit::Stream(idle))?;
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Lines { client: self, reader: BufReader::new(body), over: false, of: PhantomData })
    }
}

/// The bytes of a capture or a backup, as they come.
pub struct Packets<'a> {
    client: &'a Client,
    reader: BodyReader<'static>,
}

impl Packets<'_> {
    /// Reads what has come; how many bytes that were. None: it has ended.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ClientError> {
        self.reader.read(bytes).map_err(|error| self.client.fault(error))
    }
}

impl<T> Lines<'_, T> {
    /// The next line that is not empty.
    fn line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.reader).take(LONGEST + 1).read_until(b'\n', &mut line);
            read.map_err(|error| self.client.fault(error))?;
            let daemon = || self.client.daemon();
            if line.len() as u64 > LONGEST {
                return Err(ClientError::Large { daemon: daemon(), what: "in a line", limit: LONGEST });
            }
            if line.is_empty() {
                return Ok(None);
            }
            if line.pop() != Some(b'\n') {
                let reason = "in the middle of a line".to_owned();
                return Err(ClientError::Died { daemon: daemon(), reason });
            }
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

impl<T: DeserializeOwned> Iterator for Lines<'_, T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            let line = match self.line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            };
            match serde_json::from_slice(&line) {
                Ok(value) => return Some(Ok(value)),
                Err(_) if of_another_version(&line) => {}
                Err(error) => {
                    self.over = true;
                    return Some(Err(self.client.unreadable(&error)));
                }
            }
        }
        self.over = true;
        None
    }
}

/// Is this an event that this version does not know? It is passed over.
fn of_another_version(line: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(line).ok();
    let event = value.as_ref().and_then(|value| value.get("event")).and_then(Value::as_str);
    event.is_some_and(|event| !EVENTS.contains(&event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Happened, Kind};

    #[test]
    fn all_events_are_known_and_no_others() {
        let text = String::new;
        let all = [
            Event::Changed { revision: 1, kind: Kind::Port, name: text(), happened: Happened::Put },
            Event::Notice { time: text(), kind: Kind::Port, name: text(), what: text(), text: text() },
            Event::Alive { revision: 1 },
            Event::Lost { notices: 1 },
            Event::Gone { oldest: 1, newest: 2 },
        ];
        for event in &all {
            // A new one does not compile here, and belongs into the list above.
            match event {
                Event::Changed { .. } | Event::Notice { .. } | Event::Alive { .. } => {}
                Event::Lost { .. } | Event::Gone { .. } => {}
            }
            assert!(!of_another_version(&serde_json::to_vec(event).expect("JSON")), "{event:?}");
        }
        assert!(of_another_version(br#"{"event":"eclipse"}"#));
        assert!(!of_another_version(b"[1]") && !of_another_version(b"{"));
    }
}
