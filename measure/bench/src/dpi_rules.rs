//! Rules as a public set has them for the function `dpi`, and the traffic that goes with them.

use crate::{BenchError, guests};
use image::Image;
use nf_sdk::native::Runner;
use packet::{checksum, protocol};
use peers::Folder;
use peers::exchanges::Exchanges;
use peers::public_rules::{self, HTTP_PORTS};

/// Rules of the set.
pub(crate) const RULES: u32 = 2500;
/// Flows of the traffic: 55 MB.
const FLOWS: u32 = 3000;

/// Where a frame has the addresses, the IPv4 header's checksum and the protocol.
const SOURCE: usize = 26;
const DESTINATION: usize = 30;
const HEADER_SUM: usize = 24;
const PROTOCOL: usize = 23;
/// The network that clients are in, whose first byte counts passes.
const CLIENTS: u8 = 10;

/// Bytes that a frame of the traffic carries for applications, headers of IPv4 and TCP being without options.
pub(crate) fn data_length(frame: &[u8]) -> usize {
    let headers = if frame[PROTOCOL] == protocol::UDP { 42 } else { 54 };
    frame.len().saturating_sub(headers)
}

/// The traffic.
pub(crate) struct Traffic {
    /// Frames from client and server.
    pub(crate) frames: Vec<Vec<u8>>,
    /// The client's come in by 0.
    pub(crate) ingress: Vec<u16>,
    /// Flows that carry what a rule looks for.
    pub(crate) carriers: u32,
}

impl Traffic {
    /// Writes it, and reads it back.
    pub(crate) fn new(rules: &[public_rules::Rule]) -> Result<Traffic, BenchError> {
        let folder = Folder::new().map_err(BenchError::setup)?;
        let path = folder.file("rules.pcap");
        let written = Exchanges::write(&path, rules, FLOWS).map_err(BenchError::setup)?;
        let frames = peers::read_frames(&path).map_err(BenchError::setup)?;
        let ingress = frames.iter().map(|frame| u16::from(frame[SOURCE] != CLIENTS)).collect();
        Ok(Traffic { frames, ingress, carriers: written.carriers })
    }
}

/// Counts passes of the same traffic by the network that the clients are in.
pub(crate) struct Passes(u8);

impl Passes {
    pub(crate) fn new() -> Passes {
        Passes(CLIENTS)
    }

    /// Gives the clients other addresses, so that the same is said in new flows.
    pub(crate) fn advance(&mut self, frames: &mut [Vec<u8>]) {
        let before = self.0;
        self.0 += 1;
        for frame in frames {
            let client = if frame[SOURCE] == before { SOURCE } else { DESTINATION };
            let (old, new) = ([before, frame[client + 1]], [self.0, frame[client + 1]]);
            frame[client] = self.0;
            let changed = |frame: &[u8], at: usize| {
                checksum::update(u16::from_be_bytes([frame[at], frame[at + 1]]), &old, &new)
            };
            let (at, transport) = match frame[PROTOCOL] {
                protocol::UDP => (40, checksum::udp_wire(changed(frame, 40))),
                _ => (50, changed(frame, 50)),
            };
            let header = changed(frame, HEADER_SUM);
            frame[HEADER_SUM..HEADER_SUM + 2].copy_from_slice(&header.to_be_bytes());
            frame[at..at + 2].copy_from_slice(&transport.to_be_bytes());
        }
    }
}

/// The configuration of `dpi` for these rules.
pub(crate) fn configuration(image: &Image, rules: &[public_rules::Rule]) -> Result<Vec<u8>, BenchError> {
    let text = format!("rules: public.rules\nvariables: [{{name: HTTP_PORTS, value: \"{HTTP_PORTS}\"}}]");
    guests::configuration_with(image, &text, &crate::dpi_load::OneFile(public_rules::text(rules)))
}

/// The function without a sandbox.
pub(crate) fn native(config: &[u8]) -> Result<Runner<dpi::Dpi>, BenchError> {
    Runner::new(config).map_err(|error| BenchError::Setup(format!("dpi: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpi::rules::Rules;
    use dpi::rules::network::Variables;
    use dpi::rules::parse::Unsupported;

    /// How many rules of the set ask for what `dpi` does not have, by what: as its README says.
    #[test]
    fn as_many_rules_of_the_set_are_refused_as_the_readme_says() {
        let text = public_rules::text(&public_rules::rules(RULES));
        let variables = Variables::from([("HTTP_PORTS".to_owned(), HTTP_PORTS.to_owned())]);
        let rules = Rules::parse_with(text.as_bytes(), &variables, Unsupported::Skip).expect("no mistakes");
        assert_eq!(rules.list.len() + rules.skipped.total, RULES as usize);
        let readme = include_str!("../../../functions/dpi/README.md");
        let told =
            readme.split("a public set, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        assert_eq!(told, Some(rules.skipped.total), "{:?}", rules.skipped.reasons);
    }
}
