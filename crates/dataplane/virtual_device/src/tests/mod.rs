mod at_port;
mod cost;
mod counts;
mod modes;
mod property;

use crate::*;
use telemetry::clock::Nanos;

/// Ports have plugs from 0 on, openers from 100 on.
const OPENERS: u16 = 100;

fn port(index: usize) -> SwitchPort {
    SwitchPort(index as u16)
}

fn opener(index: usize) -> SwitchPort {
    SwitchPort(OPENERS + index as u16)
}

/// Settings with so many ports, and openers of these sides, which all receive.
fn settings(mode: Mode, share: Share, ports: usize, sides: &[Option<usize>]) -> DeviceSettings {
    let opener =
        |(index, side): (usize, &Option<usize>)| Opener { plug: opener(index), side: *side, receives: true };
    let openers = sides.iter().enumerate().map(opener).collect();
    DeviceSettings::new(mode, share, (0..ports).map(port).collect(), openers)
}

/// A frame's beginning.
fn frame(to: u8, from: u8) -> [u8; virtual_switch::HEAD] {
    let mut head = [0; virtual_switch::HEAD];
    (head[0], head[5], head[6], head[11]) = (2, to, 2, from);
    head
}

/// All plugs to which a packet goes.
fn plugs(device: &Device, way: Way) -> Vec<SwitchPort> {
    match way {
        Way::To(plug) => vec![plug],
        Way::Each(several) => {
            (0..several.count()).map(|n| device.plug(several, n).expect("a plug")).collect()
        }
        Way::Flood | Way::Filter | Way::Seen | Way::Nowhere => Vec::new(),
    }
}

/// Where one packet goes, which a worker counts.
fn one(device: &Device, from: SwitchPort, flow_hash: u32, came_by: u8, head: [u8; 16], now: u64) -> Way {
    let counts = device.counts();
    counts.enter(from, device.device_port(from).is_some(), 1, 0);
    let decided = || device.decide(from, 1, Nanos(now)).next(flow_hash, came_by, || head);
    let way = device.whole(from).unwrap_or_else(decided);
    counts.go(from, way, 1);
    way
}

/// The same, for a packet of which nothing else is known.
fn to(device: &Device, from: SwitchPort) -> Vec<SwitchPort> {
    plugs(device, one(device, from, 0, 0, [0; 16], 0))
}
