//! A capture that a client reads while it goes on.

use super::super::controller::Controller;
use super::tap_points::{TapPoint, View};
use super::{LOOK, MakeTap, filter, invalid, names_at, put, until};
use ::capture::{Settings, Target, begin_to};
use api::Capture;
use api_server::{Outlet, Refusal};
use deployment::{HopNames, HopPackets, HopTap};
use engine::Tap;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The client, as a file.
struct Client(Arc<Outlet>);

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes.to_vec()) {
            true => Ok(bytes.len()),
            false => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for Client {
    /// What was sent was sent.
    fn cut(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Controller {
    /// Begins a capture.
    pub(in super::super) fn capture(
        self: &Arc<Self>,
        wanted: &Capture,
        tenant: Option<&str>,
        outlet: Outlet,
    ) -> Result<(), Refusal> {
        let filter = filter(wanted.filter.as_deref())?;
        let end = until(wanted.time.as_deref())?;
        if wanted.count == Some(0) {
            return Err(invalid("count", "found 0; allowed: 1 or more"));
        }
        if let Some(snap) = wanted.snap.filter(|snap| *snap < 14) {
            return Err(invalid(
                "snap",
                format!("found {snap}; allowed: 14, which is an Ethernet header, or more"),
            ));
        }
        let host = &self.host;
        let wiring = host.wiring();
        let view = View::new(&wiring, &self.catalog, tenant);
        let captured = view.captured(&wanted.at).map_err(|why| invalid("at", why))?;
        let places: Vec<TapPoint> = captured.iter().map(|(place, _)| place.clone()).collect();
        let permit = self.watch_permit(tenant, &places)?;
        let named = |(place, which): (TapPoint, HopPackets)| {
            Ok((names_at(host, &self.catalog, &place, &wiring)?, place, which))
        };
        let named = captured.into_iter().map(named).collect::<Result<Vec<_>, String>>();
        let named = named.map_err(Refusal::Broken)?;
        let settings = Settings {
            place: wanted.at.clone(),
            filter,
            snap_length: wanted.snap.unwrap_or(0),
            limit: 0,
            count: wanted.count.unwrap_or(0),
        };
        let outlet = Arc::new(outlet);
        let broken = |error: io::Error| Refusal::Broken(error.to_string());
        let target = Box::new(Client(outlet.clone()));
        let (recorder, capture) = begin_to(target, Path::new("the client"), settings).map_err(broken)?;
        let tap = |(names, place, which): (HopNames, TapPoint, HopPackets)| {
            let recorder = recorder.another();
            let make: MakeTap = Box::new(move || {
                Box::new(HopTap::new(names.clone(), which, recorder.another()).leaving()) as Box<dyn Tap>
            });
            (place, make)
        };
        put(host, &permit, named.into_iter().map(tap).collect())?;
        drop(recorder);
        let this = self.clone();
        let watching = move || {
            let over = || {
                end.is_some_and(|end| Instant::now() >= end)
                    || capture.is_over()
                    || permit.is_over()
                    || !outlet.is_open()
            };
            while !over() {
                let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
                std::thread::sleep(left.min(LOOK));
            }
            capture.stop();
            this.end_taps();
            // The last that was recorded is on its way, and the count of what was lost.
            capture.finish();
            drop(permit);
        };
        std::thread::Builder::new().name("watch".into()).spawn(watching).map(drop).map_err(broken)
    }
}
