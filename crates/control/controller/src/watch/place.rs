//! Where taps are put, by what is said of it, and what the numbers that they see mean there.

use super::MakeTap;
use super::tap_points::{TapPoint, View};
use crate::device_status::end_in_words;
use ::capture::Recorder;
use deployment::{Catalog, HopNames, HopPackets, HopTap, Host, Plugged};
use engine::{End, FleetError, Tap};
use wiring::{Opener, Wiring};

/// A hop whose packets are captured without a daemon: a port, a function or one interface of it, a device or
/// one side of it, a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop(Vec<(TapPoint, HopPackets)>);

impl Hop {
    /// Finds what is meant by a text, in the words of [`api::Capture`].
    ///
    /// # Errors
    /// There is no such hop, in words for the operator.
    pub fn find(text: &str, wiring: &Wiring, catalog: &Catalog) -> Result<Hop, String> {
        View::new(wiring, catalog, None).captured(text).map(Hop)
    }

    /// Shows the packets of the hop to a recorder, until the host's workers end.
    ///
    /// # Errors
    /// Why that cannot be, in words for the operator.
    pub fn record(self, host: &Host, catalog: &Catalog, recorder: &Recorder) -> Result<(), String> {
        let wiring = host.wiring();
        let mut taps = Vec::new();
        for (place, which) in self.0 {
            let names = names_at(host, catalog, &place, &wiring)?;
            let recorder = recorder.another();
            let make: MakeTap = Box::new(move || {
                Box::new(HopTap::new(names.clone(), which, recorder.another())) as Box<dyn Tap>
            });
            taps.push((place, make));
        }
        put(host, taps).map_err(|error| error.to_string())
    }
}

/// The names behind a place's numbers.
///
/// # Errors
/// There is no such function, or the catalog has no image of it.
pub(super) fn names_at(
    host: &Host,
    catalog: &Catalog,
    place: &TapPoint,
    wiring: &Wiring,
) -> Result<HopNames, String> {
    match place {
        TapPoint::Port(name) => Ok(HopNames::of_port(name)),
        TapPoint::Function(name) => match wiring.instances.get(name) {
            Some(instance) => HopNames::of_function(name, &instance.image, catalog),
            None => Err(format!("there is no function `{name}`")),
        },
        TapPoint::Device(name, _) => {
            let mut names = HopNames::of_port(name);
            let plugs = host.device_place(name, None).map(|place| place.plugs).unwrap_or_default();
            for (plug, end) in plugs {
                names.interfaces.resize_with(names.interfaces.len().max(usize::from(plug) + 1), String::new);
                names.interfaces[usize::from(plug)] = match end {
                    Plugged::Port(port) => {
                        names.ports.insert(plug);
                        port
                    }
                    Plugged::Opener(Opener::Interface(end)) => end_in_words(host, catalog, &end),
                    Plugged::Opener(Opener::Service(service)) => format!("service {}", service.number),
                };
            }
            Ok(names)
        }
    }
}

/// Puts taps to ports, functions and devices, by their names, at one quiet point. Those that have gone
/// meanwhile have none.
///
/// # Errors
/// The workers have stopped.
pub(super) fn put(host: &Host, taps: Vec<(TapPoint, MakeTap)>) -> Result<(), FleetError> {
    let (mut ends, mut devices) = (Vec::new(), Vec::new());
    for (place, mut make) in taps {
        match &place {
            TapPoint::Port(name) => ends.extend(host.port(name).map(|id| (End::Port(id), make()))),
            TapPoint::Function(name) => {
                ends.extend(host.function(name).map(|id| (End::Instance(id, 0), make())));
            }
            TapPoint::Device(name, side) => {
                devices.extend(host.device_place(name, side.as_deref()).map(|place| (place, make)));
            }
        }
    }
    let put = host.fleet().change(move |change| {
        for (end, tap) in ends {
            match end {
                End::Port(id) => change.tap_port(id, tap),
                End::Instance(id, _) => change.tap_instance(id, tap),
                End::Switch(..) => {}
            }
        }
        for (place, make) in devices {
            change.tap_switch(place.id, place.plug, make);
        }
    });
    Ok(put?)
}
