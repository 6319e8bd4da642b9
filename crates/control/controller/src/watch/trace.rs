//! A trace: taps at all places that its packets may come to, and a thread that tells what they saw.

use super::super::controller::Controller;
use super::tap_points::{Spot, TapPoint, View};
use super::tell::Teller;
use super::way::{Following, Pick, TraceTap};
use super::{LOOK, MakeTap, filter, invalid, names_at, put, until};
use api::{Trace, TraceEnd, TraceLine};
use api_server::{Outlet, Refusal};
use deployment::InjectError;
use engine::Tap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use wiring::{Endpoint, Wiring};

/// Packets that wait to be told of.
const WAITING: usize = 1024;

/// How long packets that were picked are followed when no more are.
const GRACE: Duration = Duration::from_secs(1);

/// How often a stream says that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Where a packet is put, and its bytes.
struct Injection {
    function: String,
    interface: u16,
    place: usize,
    bytes: Vec<u8>,
}

impl Controller {
    /// Begins a trace.
    pub(in super::super) fn trace(
        self: &Arc<Self>,
        wanted: &Trace,
        tenant: Option<&str>,
        outlet: Outlet,
    ) -> Result<(), Refusal> {
        let filter = filter(wanted.filter.as_deref())?;
        let end = until(wanted.time.as_deref())?;
        let count = wanted.count.unwrap_or(api::TRACED);
        if !(1..=api::TRACED_MAX).contains(&count) {
            let message = format!("found {count}; allowed: 1 to {}", api::TRACED_MAX);
            return Err(invalid("count", message));
        }
        let heads = wanted.heads.unwrap_or(0);
        let (least, most) = api::TRACED_HEADS;
        if wanted.heads.is_some_and(|heads| !(least..=most).contains(&heads)) {
            return Err(invalid("heads", format!("found {heads}; allowed: {least} to {most}")));
        }
        let host = &self.host;
        let wiring = host.wiring();
        let view = View::new(&wiring, &self.catalog, tenant);
        let at = wanted.at.as_deref().map(|at| view.spots(at)).transpose();
        let at = at.map_err(|why| invalid("at", why))?;
        let (places, left_out) = view.reached(at.as_deref());
        let permit = self.watch_permit(tenant, &places)?;
        let injection = match &wanted.inject {
            None => None,
            Some(_) if filter.is_some() || wanted.count.is_some() => {
                return Err(invalid(
                    "inject",
                    "one packet is followed then; allowed: without `filter` and `count`",
                ));
            }
            Some(hex) => Some(injection(hex, at.as_deref(), &wiring, &places)?),
        };
        let names = places.iter().map(|place| names_at(host, &self.catalog, place, &wiring));
        let names = names.collect::<Result<Vec<_>, String>>().map_err(Refusal::Broken)?;
        let (told, ways) = sync_channel(WAITING);
        let clock = *guest_wasm::watchdog::clock();
        let count = if injection.is_some() { 1 } else { count };
        let following = Arc::new(Following::new(told, filter, count, heads as usize, clock));
        let tap = |(number, place): (usize, &TapPoint)| {
            let named = at.iter().flatten().find(|spot| spot.place == *place);
            let pick = match (&injection, named, place) {
                (Some(_), _, _) => Pick::Nothing,
                (None, Some(spot), _) => spot.interface.map_or(Pick::All, Pick::Interface),
                (None, None, TapPoint::Port(_)) if at.is_none() => Pick::All,
                _ => Pick::Nothing,
            };
            let following = following.clone();
            let make: MakeTap =
                Box::new(move || Box::new(TraceTap::new(number, pick, following.clone())) as Box<dyn Tap>);
            (place.clone(), make)
        };
        put(host, &permit, places.iter().enumerate().map(tap).collect())?;
        if let Some(Injection { function, interface, place, bytes }) = injection {
            let theirs = following.clone();
            let seen = move |pool: &_, packet: &_| theirs.inject(place, pool, packet);
            if let Err(error) = host.inject(&function, interface, &bytes, clock.now(), seen) {
                following.end();
                self.end_taps();
                return Err(match error {
                    InjectError::Absent(_) | InjectError::TooLong { .. } => {
                        invalid("inject", error.to_string())
                    }
                    InjectError::NoBuffer(_) | InjectError::QueueFull(_) | InjectError::Stopped(_) => {
                        Refusal::Busy(error.to_string())
                    }
                });
            }
        }
        let this = self.clone();
        let telling = move || {
            let mut teller = Teller::new(outlet, &places, names, heads as usize);
            let (mut end, mut alive) = (end, Instant::now() + ALIVE);
            let mut picking = true;
            while teller.is_read() && !following.is_done() && !permit.is_over() {
                match ways.recv_timeout(LOOK) {
                    Ok(ended) => {
                        teller.packet(ended);
                        alive = Instant::now() + ALIVE;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                let now = Instant::now();
                if now >= alive {
                    teller.line(&TraceLine::Alive);
                    alive = now + ALIVE;
                }
                if end.is_some_and(|end| now >= end) {
                    if !picking {
                        break;
                    }
                    following.pick_no_more();
                    (picking, end) = (false, Some(now + GRACE));
                }
            }
            following.end();
            this.end_taps();
            following.give_up();
            while let Ok(ended) = ways.try_recv() {
                teller.packet(ended);
            }
            let ended = TraceEnd {
                packets: teller.packets(),
                missed: following.missed(),
                places: places.len() as u64,
                places_left_out: left_out as u64,
            };
            teller.line(&TraceLine::Ended(ended));
            drop(permit);
        };
        let begun = std::thread::Builder::new().name("watch".into()).spawn(telling);
        begun.map(drop).map_err(|error| Refusal::Broken(error.to_string()))
    }
}

/// Where a packet that is injected at a spot goes first.
fn injection(
    hex: &str,
    at: Option<&[Spot]>,
    wiring: &Wiring,
    places: &[TapPoint],
) -> Result<Injection, Refusal> {
    let Some(bytes) = bytes_of(hex).filter(|bytes| bytes.len() >= 14) else {
        return Err(invalid("inject", "allowed: an Ethernet frame of 14 bytes or more, in hexadecimal"));
    };
    let (function, interface) = match at {
        Some([Spot { place: TapPoint::Function(name), interface: Some(interface) }]) => {
            (name.clone(), *interface)
        }
        Some([Spot { place: TapPoint::Port(name), .. }]) => {
            match wiring.peer(&Endpoint::Port(name.clone())) {
                Some(Endpoint::Interface(function, interface)) => (function.clone(), *interface),
                _ => {
                    let message = format!("`{name}` leads to no function; allowed: a function's interface");
                    return Err(invalid("at", message));
                }
            }
        }
        Some([Spot { place: TapPoint::Function(name), interface: None }]) => {
            let message = format!("found `{name}`; allowed: one of its interfaces, such as `{name}:0`");
            return Err(invalid("at", message));
        }
        Some(_) => {
            return Err(invalid("at", "it has several ends; allowed: a function's interface, or a port"));
        }
        None => {
            return Err(invalid(
                "at",
                "nothing says where the packet is put; allowed: a function's interface, or a port",
            ));
        }
    };
    let is_it = |place: &TapPoint| matches!(place, TapPoint::Function(name) if *name == function);
    let place = places.iter().position(is_it).unwrap_or(0);
    Ok(Injection { function, interface, place, bytes })
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(pair).collect()
}
