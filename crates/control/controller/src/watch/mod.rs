//! Looking at packets on their way, for clients: traces and captures.
//!
//! 1. [`tap_points`] finds what is meant: ports, functions, interfaces, wires, and what can be reached from
//!    there.
//! 2. Taps are put there at one quiet point of the workers. Where there are none, packets pass as ever:
//!    nothing asks whether there is a trace.
//! 3. A thread for each trace and each capture writes what it is handed to the client. What it does not take
//!    in time is lost, counted, and told at the end; no worker on the packets' way waits for it.
//! 4. When there are enough, the time is over, or the client stops reading, the taps are over, and are taken
//!    out.
//!
//! Limits: [`MOST`] traces and captures at a time; a trace looks at [`tap_points::MOST`] places. What is created
//! meanwhile is not looked at.

mod capture;
mod tap_points;
mod tell;
mod trace;
mod way;

use super::controller::Controller;
use api::Fault;
use api_server::Refusal;
use deployment::Host;
use engine::Tap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Traces and captures at a time.
const MOST: usize = 8;

/// How often a thread looks whether the client still reads.
const LOOK: Duration = Duration::from_millis(100);

/// One of the traces and captures that there may be.
struct WatchPermit(#[expect(dead_code, reason = "it is counted by how often it is held")] Arc<()>);

impl Controller {
    /// One of the traces and captures that may run at a time.
    fn watch_permit(&self) -> Result<WatchPermit, Refusal> {
        let permit = self.watching.clone();
        // The controller holds it, too.
        if Arc::strong_count(&permit) > MOST + 1 {
            return Err(Refusal::Busy(format!(
                "there are {MOST} traces and captures, which is as many as may be"
            )));
        }
        Ok(WatchPermit(permit))
    }

    /// Takes those taps out that are over.
    fn end_taps(&self) {
        let fleet = self.host.fleet().clone();
        // Workers that have stopped see nothing any more.
        let _ = fleet.change(|change| change.flush_taps());
    }
}

/// Puts taps to ports and functions, by their names, at one quiet point. Those that have gone meanwhile have
/// none.
fn put(host: &Host, taps: Vec<(tap_points::TapPoint, Box<dyn Tap>)>) -> Result<(), Refusal> {
    let ports = |name: &str| host.port(name);
    let mut known = Vec::new();
    for (place, tap) in taps {
        match &place {
            tap_points::TapPoint::Port(name) => {
                known.extend(ports(name).map(|id| (engine::End::Port(id), tap)))
            }
            tap_points::TapPoint::Function(name) => {
                known.extend(host.function(name).map(|id| (engine::End::Instance(id, 0), tap)));
            }
        }
    }
    let put = host.fleet().change(move |change| {
        for (end, tap) in known {
            match end {
                engine::End::Port(id) => change.tap_port(id, tap),
                engine::End::Instance(id, _) => change.tap_instance(id, tap),
                engine::End::Switch(..) => {}
            }
        }
    });
    put.map_err(|error| Refusal::Busy(error.to_string()))
}

fn invalid(at: &str, message: impl Into<String>) -> Refusal {
    Refusal::Invalid(vec![Fault::of_request(at, message.into())])
}

fn filter(text: Option<&str>) -> Result<Option<::capture::Filter>, Refusal> {
    let parsed = text.map(::capture::Filter::parse).transpose();
    parsed.map_err(|error| invalid("filter", error.to_string()))
}

/// When a time from now on is over.
fn until(time: Option<&str>) -> Result<Option<Instant>, Refusal> {
    let Some(text) = time else { return Ok(None) };
    let nanos = schema::duration(text).filter(|nanos| *nanos > 0);
    let wrong = || {
        let shown = yaml_document::spelling::shown(text);
        invalid(
            "for",
            format!("found `{shown}`; allowed: a number and ns, us, ms, s, m, h or d, such as 10s"),
        )
    };
    Ok(Instant::now().checked_add(Duration::from_nanos(nanos.ok_or_else(wrong)?)))
}
