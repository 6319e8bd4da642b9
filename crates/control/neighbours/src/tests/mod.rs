//! Exchanges on a simulated clock, between devices and with frames that are made up.

mod arp;
mod askers;
mod dhcp;
mod discovery;
mod echo;
mod groups;
mod link;
mod slaac;

use crate::{Device, Settings};
use std::net::IpAddr;
use telemetry::clock::Nanos;

pub(crate) const SECOND: Nanos = Nanos::from_millis(1_000);
pub(crate) const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 3];

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn prefix(text: &str) -> crate::Prefix {
    let (address, length) = text.split_once('/').expect("a prefix");
    crate::Prefix { address: ip(address), length: length.parse().expect("a length") }
}

/// Settings of a device with these addresses; IPv6 only with one of it.
pub(crate) fn settings(mac: [u8; 6], addresses: &[&str]) -> Settings {
    let addresses: Vec<_> = addresses.iter().map(|text| prefix(text)).collect();
    Settings { ipv6: addresses.iter().any(|a| a.address.is_ipv6()), addresses, ..Settings::new(mac) }
}

/// A device and its clock.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) now: Nanos,
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Bench {
        let now = Nanos(1_700_000_000_000_000_000);
        Bench { device: Device::new(settings, 7, now).expect("allowed settings"), now }
    }

    /// One whose addresses are valid and announced.
    pub(crate) fn settled(settings: Settings) -> Bench {
        let mut bench = Bench::new(settings);
        bench.run(Nanos(20 * SECOND.0));
        bench.device.take_changes();
        bench
    }

    /// Lets time pass; what is sent meanwhile, and when after the beginning.
    pub(crate) fn run(&mut self, span: Nanos) -> Vec<(Nanos, Vec<u8>)> {
        let (start, end) = (self.now, self.now.saturating_add(span));
        let mut sent = Vec::new();
        loop {
            self.device.poll(self.now);
            while let Some(frame) = self.device.next_frame() {
                sent.push((self.now.since(start), frame));
            }
            match self.device.next_deadline() {
                Some(due) if due <= end => self.now = due.max(self.now.saturating_add(Nanos(1))),
                _ => break,
            }
        }
        self.now = end;
        sent
    }

    /// Gives a frame in, and takes what is sent at once.
    pub(crate) fn input(&mut self, frame: &[u8]) -> (crate::Input, Vec<Vec<u8>>) {
        let outcome = self.device.input(frame, self.now);
        (outcome, std::iter::from_fn(|| self.device.next_frame()).collect())
    }
}
