//! How long packets may be that leave by a device's ports, and how often their senders are told.

use crate::settings::DeviceSettings;
use encapsulation::LayerKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use telemetry::clock::Nanos;
use virtual_switch::SwitchPort;

/// Bytes of an Ethernet header, and of a tag.
const ETHERNET: u32 = 14;
const TAG: u32 = 4;
/// Answers that a device sends in a second, and at once (RFC 1812, section 4.3.2.8; RFC 4443, section
/// 2.4(f)).
const ANSWERS: u64 = 100;
const AT_ONCE: u64 = 50;
const EACH: u64 = 1_000_000_000 / ANSWERS;

/// The limits of a device.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// By the number of the plug of a port.
    ports: Vec<Limit>,
    /// When the answers will have been paid for that were sent.
    paid: AtomicU64,
    /// Where the smallest MTU of the links is told, as [`Limit::mtu`] has it.
    least: Option<Arc<AtomicU32>>,
}

#[derive(Debug)]
struct Limit {
    /// Of the port's link; [`u32::MAX`] when it is not known.
    mtu: AtomicU32,
    /// Bytes of a frame in front of its IP packet.
    link: u32,
}

impl Limits {
    /// Of a device's ports; of those that were there before what was known.
    pub(crate) fn new(settings: &DeviceSettings, before: Option<&Limits>) -> Limits {
        let plugs = settings.ports.iter().map(|plug| usize::from(plug.0) + 1).max().unwrap_or(0);
        let known = |plug: usize| before?.ports.get(plug).map(|limit| limit.mtu.load(Ordering::Relaxed));
        let mut limits = Limits::default();
        limits.ports.extend(
            (0..plugs)
                .map(|plug| Limit { mtu: AtomicU32::new(known(plug).unwrap_or(u32::MAX)), link: ETHERNET }),
        );
        for (index, tunnels) in &settings.tunnels {
            let port = settings.ports.get(*index).and_then(|plug| limits.ports.get_mut(usize::from(plug.0)));
            let own: Vec<LayerKind> = tunnels.encapsulate.iter().flat_map(|own| own.layers()).collect();
            let layers = if own.is_empty() { &tunnels.decapsulate } else { &own };
            let tags = layers.iter().take_while(|layer| **layer == LayerKind::Vlan).count();
            port.into_iter().for_each(|limit| limit.link += TAG * tags as u32);
        }
        limits
    }

    pub(crate) fn set(&self, plug: SwitchPort, mtu: Option<u32>) {
        if let Some(limit) = self.ports.get(usize::from(plug.0)) {
            limit.mtu.store(mtu.unwrap_or(u32::MAX), Ordering::Relaxed);
            self.least.iter().for_each(|least| least.store(self.least_mtu(), Ordering::Relaxed));
        }
    }

    /// Tells the smallest MTU of the links here from now on.
    pub(crate) fn tell_least_mtu(&mut self, least: Arc<AtomicU32>) {
        least.store(self.least_mtu(), Ordering::Relaxed);
        self.least = Some(least);
    }

    fn least_mtu(&self) -> u32 {
        let known = self.ports.iter().map(|limit| limit.mtu.load(Ordering::Relaxed));
        known.min().unwrap_or(u32::MAX)
    }

    /// Longest frame that leaves by a plug.
    #[inline]
    pub(crate) fn longest(&self, plug: SwitchPort) -> u32 {
        let limit = self.ports.get(usize::from(plug.0));
        limit.map_or(u32::MAX, |limit| limit.mtu.load(Ordering::Relaxed).saturating_add(limit.link))
    }

    /// Whether one more answer may be sent, which is counted then. Of two workers that ask at once both may.
    pub(crate) fn may_answer(&self, now: Nanos) -> bool {
        let paid = self.paid.load(Ordering::Relaxed).max(now.0.saturating_sub(EACH * AT_ONCE));
        let may = paid <= now.0;
        if may {
            self.paid.store(paid + EACH, Ordering::Relaxed);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Share, Tunnels};

    #[test]
    fn senders_are_told_so_often_and_no_more() {
        let limits = Limits::default();
        let second = 1_000_000_000;
        let told =
            |from: u64| (0..1000).filter(|n| limits.may_answer(Nanos(from + n * second / 1000))).count();
        assert_eq!(told(5 * second), 150, "50 at once, and 100 in a second");
        assert_eq!(told(6 * second), 100);
        assert_eq!(told(9 * second), 150);
    }

    #[test]
    fn tags_do_not_count_and_what_is_known_stays() {
        let mut settings =
            DeviceSettings::new(Mode::Bridge, Share::Single, vec![SwitchPort(2), SwitchPort(0)], Vec::new());
        let tunnels = Tunnels {
            decapsulate: vec![LayerKind::Vlan, LayerKind::Vlan, LayerKind::Gre],
            encapsulate: None,
            next_hop: None,
        };
        settings.tunnels = [(1, Arc::new(tunnels))].into();
        let limits = Limits::new(&settings, None);
        assert_eq!(limits.longest(SwitchPort(2)), u32::MAX);
        limits.set(SwitchPort(2), Some(1500));
        limits.set(SwitchPort(0), Some(1500));
        assert_eq!((limits.longest(SwitchPort(2)), limits.longest(SwitchPort(0))), (1514, 1522));
        settings.tunnels.clear();
        let after = Limits::new(&settings, Some(&limits));
        assert_eq!((after.longest(SwitchPort(2)), after.longest(SwitchPort(0))), (1514, 1514));
        assert_eq!(after.longest(SwitchPort(9)), u32::MAX, "an opener");
    }

    #[test]
    fn the_smallest_mtu_is_told_as_it_changes() {
        let ports = vec![SwitchPort(2), SwitchPort(0)];
        let settings = DeviceSettings::new(Mode::Bridge, Share::Single, ports, Vec::new());
        let (mut limits, least) = (Limits::new(&settings, None), Arc::new(AtomicU32::new(7)));
        limits.tell_least_mtu(least.clone());
        let told = || least.load(Ordering::Relaxed);
        assert_eq!(told(), u32::MAX, "none is known");
        for (plug, mtu, expected) in [(2, Some(1500), 1500), (0, Some(1400), 1400), (0, None, 1500)] {
            limits.set(SwitchPort(plug), mtu);
            assert_eq!(told(), expected);
        }
    }
}
