//! Against a model that has no plans: every packet gets exactly one decision, and all are counted.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn mode() -> impl Strategy<Value = Mode> {
    let gap = Nanos(10_000);
    prop_oneof![
        Just(Mode::Direct),
        Just(Mode::Bridge),
        Just(Mode::Rootless),
        prop::sample::select(vec![
            Balance::RoundRobin,
            Balance::Flow,
            Balance::Flowlet { gap },
            Balance::ActiveBackup
        ])
        .prop_map(Mode::Bond),
    ]
}

/// A packet: by which plug, its flow hash, the port that it came by before, its addresses.
type Offered = (usize, u32, u8, u8, u8);

/// The plugs that may get a packet, and how many of them do; none: it is filtered or not received.
fn right(
    settings: &DeviceSettings,
    heard: &mut HashMap<u8, usize>,
    from: SwitchPort,
    (_, _, came_by, to, source): Offered,
) -> (Vec<SwitchPort>, usize) {
    let all = |plugs: Vec<SwitchPort>| (plugs.clone(), plugs.len());
    let share = |plugs: Vec<SwitchPort>| match settings.share {
        Share::Duplicate => all(plugs),
        Share::Single => all(plugs.into_iter().take(1).collect()),
        Share::Balance => (plugs.clone(), plugs.len().min(1)),
    };
    let receivers = |wanted: &dyn Fn(&Opener) -> bool| {
        let takes = |opener: &&Opener| opener.receives && wanted(opener);
        settings.openers.iter().filter(takes).map(|opener| opener.plug).collect::<Vec<_>>()
    };
    if let Some(index) = settings.ports.iter().position(|port| *port == from) {
        heard.insert(source, index);
        return share(receivers(&|opener| opener.side.is_none_or(|side| side == index)));
    }
    let Some(opener) = settings.openers.iter().find(|opener| opener.plug == from) else { return all(vec![]) };
    let ports = &settings.ports;
    let came_by = usize::from(came_by).checked_sub(1).filter(|index| *index < ports.len());
    let but_that = || all((0..ports.len()).filter(|n| Some(*n) != came_by).map(|n| ports[n]).collect());
    match (settings.mode, opener.side) {
        (Mode::Rootless, _) => share(receivers(&|other| other.plug != from)),
        (_, Some(side)) => all(ports.get(side).copied().into_iter().collect()),
        (Mode::Direct, None) => all(ports.first().copied().into_iter().collect()),
        (Mode::Bond(_), None) => (ports.clone(), ports.len().min(1)),
        (Mode::Bridge, None) if ports.len() < 2 => all(ports.clone()),
        (Mode::Bridge, None) if ports.len() == 2 => but_that(),
        (Mode::Bridge, None) => match heard.get(&to) {
            Some(index) if Some(*index) == came_by => all(vec![]),
            Some(index) => all(vec![ports[*index]]),
            None => but_that(),
        },
    }
}

proptest! {
    #[test]
    fn every_packet_gets_one_decision_and_it_is_right(
        (mode, share) in (mode(), prop::sample::select(vec![Share::Single, Share::Duplicate, Share::Balance])),
        (ports, openers) in (0usize..6, prop::collection::vec((prop::option::weighted(0.3, 0usize..6), prop::bool::weighted(0.8)), 0..6)),
        batches in prop::collection::vec(
            (0usize..13, prop::collection::vec((0u32..4, 0u8..8, 0u8..6, 0u8..6), 1..10)),
            1..20,
        ),
        changes in any::<u32>(),
    ) {
        let mut settings = settings(mode, share, ports, &[]);
        settings.openers = openers.iter().enumerate().map(|(n, (side, receives))| {
            let side = side.filter(|side| *side < ports);
            Opener { plug: opener(n), side, receives: *receives }
        }).collect();
        let mut plugged: Vec<SwitchPort> = settings.ports.clone();
        plugged.extend(settings.openers.iter().map(|opener| opener.plug));
        plugged.push(SwitchPort(50));
        let mut device = Device::new(settings.clone(), None);
        let (mut heard, mut flows) = (HashMap::new(), HashMap::new());
        let (mut sent, mut lost, mut copied) = (0, 0, 0);
        let mut entered: HashMap<SwitchPort, Entered> = HashMap::new();
        for (n, (from, packets)) in batches.into_iter().enumerate() {
            if changes >> (n % 32) & 1 == 1 {
                device = Device::new(settings.clone(), Some(&device));
            }
            let from = plugged[from % plugged.len()];
            let by = entered.entry(from).or_default();
            (by.packets, by.bytes) = (by.packets + packets.len() as u64, by.bytes + 100 * packets.len() as u64);
            let counts = device.counts();
            let is_port = device.device_port(from).is_some();
            counts.enter(from, is_port, packets.len() as u64, 100 * packets.len() as u64);
            let whole = device.whole(from);
            let mut decisions = whole.is_none().then(|| device.decide(from, packets.len(), Nanos(n as u64)));
            for (hash, came_by, to, source) in packets {
                let hash = hash << 30;
                let offered = (0, hash, came_by, to, source);
                let (allowed, count) = right(&settings, &mut heard, from, offered);
                let way = match &mut decisions {
                    Some(decisions) => decisions.next(hash, came_by, || frame(to, source)),
                    None => whole.expect("one or the other"),
                };
                counts.go(from, way, 1);
                let got = plugs(&device, way);
                prop_assert_eq!(got.len(), count, "{:?} of {:?}", way, allowed);
                prop_assert!(got.iter().all(|plug| allowed.contains(plug)), "{:?} of {:?}", got, allowed);
                prop_assert_eq!(matches!(way, Way::Each(_)), got.len() > 1);
                prop_assert!(device.only(from).is_none_or(|only| got == [only]));
                if count == allowed.len() {
                    prop_assert_eq!(&got, &allowed, "in this order");
                } else if mode != Mode::Bond(Balance::RoundRobin) {
                    // Packets of a flow do not overtake each other: they go the same way.
                    prop_assert_eq!(flows.entry((from, hash)).or_insert_with(|| got.clone()), &got);
                }
                (sent, lost, copied) =
                    (sent + 1, lost + u64::from(got.is_empty()), copied + got.len().saturating_sub(1) as u64);
            }
        }
        let counters = device.counters();
        prop_assert_eq!(counters.from_ports + counters.from_openers, sent);
        prop_assert_eq!(counters.bytes_from_ports + counters.bytes_from_openers, 100 * sent);
        entered.remove(&SwitchPort(50));
        for (plug, by) in entered {
            prop_assert_eq!(device.entered(plug), by, "{:?}", plug);
        }
        prop_assert_eq!(counters.unreceived + counters.filtered, lost);
        prop_assert_eq!(counters.copied, copied);
    }
}
