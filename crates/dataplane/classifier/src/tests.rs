use crate::*;
use proptest::prelude::*;

/// UDP from 10.1.0.1 port 1000 to 10.2.0.2, to this port.
fn udp(port: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    bytes.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 2]);
    bytes.extend([1000u16, port, 8, 0].into_iter().flat_map(u16::to_be_bytes));
    bytes
}

fn rule(filter: &str, priority: u32, class: u16) -> Rule {
    let filter = (!filter.is_empty()).then(|| Filter::parse(filter).expect("an expression"));
    Rule { filter, priority, class, observes: false }
}

fn classify(classifier: &Classifier, packet: &[u8]) -> (Option<u16>, Vec<u16>) {
    let mut seen = Vec::new();
    let taken = classifier.classify(packet, packet.len() as u32, |class| seen.push(class));
    seen.sort_unstable();
    (taken, seen)
}

#[test]
fn the_first_by_priority_takes_a_packet_and_observers_see_it_all_the_same() {
    let observer = |filter, class| Rule { observes: true, ..rule(filter, 9, class) };
    let classifier = Classifier::new(vec![
        rule("", 7, 1),
        rule("udp port 53", 1, 2),
        rule("net 10.0.0.0/8", 1, 3),
        observer("udp", 4),
        observer("port 53", 5),
        rule("tcp", 0, 6),
    ]);
    assert_eq!(classify(&classifier, &udp(53)), (Some(2), vec![4, 5]));
    assert_eq!(classify(&classifier, &udp(54)), (Some(3), vec![4]));
    assert_eq!(classify(&classifier, &[0; 60]), (Some(1), vec![]));
    assert_eq!(classify(&Classifier::default(), &udp(53)), (None, vec![]));
}

#[test]
fn rules_that_lose_packets_are_named() {
    for (rules, expected) in [
        (vec![rule("udp", 5, 1), rule("tcp", 6, 2), rule("udp", 6, 3)], vec![(0, 2)]),
        (vec![rule("udp", 5, 1), rule("", 1, 2)], vec![(1, 0)]),
        // The second loses some, the third all, and some to the second too.
        (
            vec![rule("net 10.0.0.0/8", 1, 1), rule("udp", 2, 2), rule("src 10.1.0.1", 2, 3)],
            vec![(0, 2), (0, 1), (1, 2)],
        ),
        (vec![rule("vlan 1", 1, 1), rule("vlan 2", 1, 2), rule("vlan 1 and vlan 2", 1, 3)], vec![(0, 2)]),
        (
            vec![rule("dst portrange 10-20", 1, 1), rule("dst port 20", 1, 2), rule("dst port 21", 1, 3)],
            vec![(0, 1)],
        ),
        // What excludes each other, by what follows from it.
        (
            vec![
                rule("vni 7", 1, 1),
                rule("tcp", 1, 2),
                rule("vni 8", 1, 3),
                rule("gre", 1, 4),
                rule("arp", 1, 5),
            ],
            vec![],
        ),
        (
            vec![rule("net 10.0.0.0/8", 1, 1), rule("net 2001:db8::/32", 1, 2), rule("icmp6", 1, 3)],
            vec![(1, 2)],
        ),
        // What can match nothing.
        (vec![rule("tcp", 1, 1), rule("udp and tcp", 1, 2)], vec![(1, 1)]),
        // An observer neither takes nor loses.
        (vec![Rule { observes: true, ..rule("", 0, 1) }, rule("tcp", 1, 2)], vec![]),
    ] {
        assert_eq!(Classifier::new(rules.clone()).shadowed(), expected, "{rules:?}");
    }
    // One that gets none is named once, however many there are that would take its packets.
    let all = (0..60).map(|class| rule("", 1, class)).collect();
    assert_eq!(Classifier::new(all).shadowed(), (1..60).map(|later| (0, later)).collect::<Vec<_>>());
}

#[test]
fn a_packet_of_several_parts_of_a_filter_is_seen_once() {
    let observer = Rule { observes: true, ..rule("src or dst net 10.0.0.0/8 or udp or not tcp", 1, 1) };
    assert_eq!(classify(&Classifier::new(vec![observer]), &udp(53)), (None, vec![1]));
}

/// More masks than there are tables: some are looked for in coarser ones.
#[test]
fn many_masks_are_told_apart() {
    let prefix = |length: u32| u32::from_be_bytes([10, 2, 0, 2]) & u32::MAX << (32 - length);
    let of = |length: u32, port: u16| {
        format!("dst net {}/{length} and dst port {port}", std::net::Ipv4Addr::from(prefix(length)))
    };
    let mut rules = Vec::new();
    for length in 1..=32 {
        for (place, port) in [53, 54, 55, 56].into_iter().enumerate() {
            rules.push(rule(&format!("{} and src port {port}", of(length, port)), 32 - length, 1000));
            rules.push(rule(&format!("{} and vlan {port}", of(length, port)), 32 - length, 2000));
            rules.push(rule(&of(length, port), 32 - length, (length * 4) as u16 + place as u16));
        }
    }
    let classifier = Classifier::new(rules);
    assert_eq!(classify(&classifier, &udp(55)).0, Some(32 * 4 + 2));
    let mut other = udp(54);
    other[33] = 3;
    assert_eq!(classify(&classifier, &other).0, Some(31 * 4 + 1));
}

/// The plain way: filters one after the other.
fn plainly(rules: &[Rule], packet: &[u8], length: u32) -> (Option<u16>, Vec<u16>) {
    let mut order: Vec<&Rule> = rules.iter().collect();
    order.sort_by_key(|rule| rule.priority);
    let wants = |rule: &&&Rule| {
        rule.filter.as_ref().is_none_or(|filter| filter.matches(packet, length, Outcome::Passed))
    };
    let taken = order.iter().filter(|rule| !rule.observes).find(wants).map(|rule| rule.class);
    let mut seen: Vec<u16> =
        order.iter().filter(|rule| rule.observes).filter(wants).map(|rule| rule.class).collect();
    seen.sort_unstable();
    (taken, seen)
}

/// Frames with tags, of IPv4, IPv6, ARP and MPLS, with what they carry: few values, so that filters hit.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let leaf = (any::<bool>(), 0u16..4, 0u16..4, 0u8..3).prop_map(|(tcp, from, to, address)| {
        let mut bytes = [from, to].map(u16::to_be_bytes).concat();
        bytes.extend(if tcp { [0; 16] } else { [0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] });
        ip(if tcp { 6 } else { 17 }, address, &bytes)
    });
    let packet = leaf.prop_recursive(3, 3, 1, |inner| {
        let flags = prop::sample::select(vec![8u8, 8, 0, 12]);
        (0..7, 0u32..3, 0u8..4, prop::collection::vec(0u16..3, 0..3), flags, inner).prop_map(
            |(kind, id, address, tags, flags, (inner_type, inner))| {
                let frame = frame(&tags, inner_type, &inner);
                let udp = |port: u16, header: &[u8]| {
                    let length = (8 + header.len() + frame.len()) as u16;
                    [&[4000, port, length, 0].map(u16::to_be_bytes).concat()[..], header, &frame].concat()
                };
                let network = (id << 8).to_be_bytes();
                match kind {
                    0 => ip(17, address, &udp(4789, &[&[flags, 0, 0, 0][..], &network].concat())),
                    1 => ip(17, address, &udp(6081, &[&[0, 0, 0x65, 0x58][..], &network].concat())),
                    2 => ip(47, address, &[&[0x20, 0, 0x65, 0x58][..], &id.to_be_bytes(), &frame].concat()),
                    3 => ip(47, address, &[&[0, 0][..], &inner_type.to_be_bytes(), &inner].concat()),
                    4 => ip(137, address, &[&(id << 12 | 0x140).to_be_bytes()[..], &inner].concat()),
                    5 => {
                        let labels =
                            [&(id << 12 | 0x40).to_be_bytes()[..], &[0, 0, 0x11, 0x40], &inner].concat();
                        (0x8847, labels)
                    }
                    _ => (
                        0x0806,
                        [
                            &[0, 1, 8, 0, 6, 4, 0, 1][..],
                            &[2; 6],
                            &[10, 1, 0, 1],
                            &[0; 6],
                            &[10, 2, 0, address],
                        ]
                        .concat(),
                    ),
                }
            },
        )
    });
    let change = prop::collection::vec((0usize..120, any::<u8>()), 0..3);
    (packet, prop::collection::vec(0u16..3, 0..4), prop_oneof![3 => Just(vec![]), 1 => change], 0usize..400)
        .prop_map(|((kind, packet), tags, changes, cut)| {
            let mut bytes = frame(&tags, kind, &packet);
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut.max(10));
            bytes
        })
}

fn frame(tags: &[u16], kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for tag in tags {
        bytes.extend([0x81, 0]);
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend(kind.to_be_bytes());
    bytes.extend(packet);
    bytes
}

fn ip(protocol: u8, address: u8, body: &[u8]) -> (u16, Vec<u8>) {
    if address == 2 {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend([protocol, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        bytes.extend(body);
        return (0x86dd, bytes);
    }
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + body.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 1, 0, address, 10, 2, 0, address]);
    bytes.extend(body);
    (0x0800, bytes)
}

/// Expressions, most of which are some.
fn expressions() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "ip",
        "ip6",
        "arp",
        "tcp",
        "udp",
        "icmp",
        "vlan",
        "vni",
        "mpls",
        "gre",
        "less 70",
        "greater 90",
        "net 10.0.0.0/8",
        "src net 10.1.0.0/16",
        "dst net 10.2.0.0/31",
        "net 2001:db8::/32",
        "dst 2001:db8::2",
        "net 0.0.0.0/0",
        "ether src 2:0:0:0:0:1",
        "ether dst 2:0:0:0:0:1",
        "proto 47",
        "ip proto 17",
        "portrange 1-3",
        "src and dst portrange 0-2",
        "udp port 4789",
        "src or dst net 10.1.0.0/24",
        "ether proto 0x8847",
        "proto 137",
    ]);
    let numbered = (
        prop::sample::select(vec!["vlan", "vni", "mpls", "gre key", "port", "tcp src port", "dst port"]),
        0..3,
    )
        .prop_map(|(word, number)| format!("{word} {number}"));
    let one = prop_oneof![fixed.prop_map(str::to_owned), numbered];
    one.prop_recursive(3, 12, 4, |inner| {
        let rest =
            prop::collection::vec((prop::sample::select(vec!["and", "and", "or"]), inner.clone()), 1..4);
        prop_oneof![
            1 => inner.clone().prop_map(|inner| format!("not ({inner})")),
            6 => (inner, rest).prop_map(|(first, rest)| {
                let rest = rest.into_iter().map(|(word, part)| format!(" {word} {part}"));
                format!("({first}{})", rest.collect::<String>())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn it_answers_as_the_filters_one_after_the_other(
        rules in prop::collection::vec((expressions(), 0u32..4, prop::bool::weighted(0.3)), 0..40),
        all in prop::option::weighted(0.2, 0u32..4),
        frames in prop::collection::vec(frames(), 1..12),
        longer in 0u32..40,
    ) {
        let mut list = Vec::new();
        for (class, (text, priority, observes)) in (0..).zip(rules) {
            if let Ok(filter) = Filter::parse(&text) {
                list.push(Rule { filter: Some(filter), priority, class, observes });
            }
        }
        list.extend(all.map(|priority| Rule { filter: None, priority, class: 9999, observes: false }));
        let classifier = Classifier::new(list.clone());
        for packet in frames {
            let length = packet.len() as u32 + longer;
            let mut seen = Vec::new();
            let taken = classifier.classify(&packet, length, |class| seen.push(class));
            seen.sort_unstable();
            prop_assert_eq!((taken, seen), plainly(&list, &packet, length), "{:02x?}", packet);
        }
        let pairs = classifier.shadowed();
        prop_assert!(pairs.iter().all(|(earlier, later)| list[*earlier].priority <= list[*later].priority));
        prop_assert!(pairs.starts_with(&classifier.never_taken()));
    }

    /// What is told of policies is so: a rule that is said never to take a packet takes none, because the
    /// other one wants each packet that it wants, or because there is none.
    #[test]
    fn a_rule_that_is_said_to_get_no_packet_gets_none(
        texts in prop::collection::vec((expressions(), 0u32..3), 1..6),
        joined in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>(), 0u32..3), 0..6),
        frames in prop::collection::vec(frames(), 1..40),
        longer in 0u32..40,
    ) {
        // Of parts of each other, so that many a rule is covered.
        let joined = joined.iter().map(|(one, other, is_and, priority)| {
            let word = if *is_and { "and" } else { "or" };
            (format!("({}) {word} ({})", one.get(&texts).0, other.get(&texts).0), *priority)
        });
        let rules = texts.iter().cloned().chain(joined).zip(0..).filter_map(|((text, priority), class)| {
            Some(Rule { filter: Some(Filter::parse(&text).ok()?), priority, class, observes: false })
        });
        let rules: Vec<Rule> = rules.collect();
        let classifier = Classifier::new(rules.clone());
        for packet in frames {
            let length = packet.len() as u32 + longer;
            let taken = classifier.classify(&packet, length, |_| ());
            for (first, never) in classifier.never_taken() {
                let [first, never] = [&rules[first], &rules[never]];
                prop_assert_ne!(taken, Some(never.class), "{:?}: {:02x?}", never.filter, packet);
                if never.wants(&packet, length) {
                    prop_assert!(first.class != never.class && first.wants(&packet, length), "{:?}: {:02x?}", first.filter, packet);
                }
            }
        }
    }
}

/// A thousand classes by VLAN, network, prefix and port, and a packet of each.
fn thousand(classes: u16) -> (Vec<Rule>, Vec<Vec<u8>>) {
    let rules = (0..classes).map(|class| {
        let (kind, n) = (class % 4, class / 4);
        let text = match kind {
            0 => format!("vlan {n}"),
            1 => format!("vni {}", n + 1000),
            2 if n % 2 == 0 => format!("dst net 10.{}.0.0/16", n % 256),
            2 => format!("dst net 172.16.{}.0/24", n % 256),
            _ => format!("udp dst port {}", 20_000 + n),
        };
        rule(&text, class.into(), class)
    });
    let packets = (0..classes).map(|class| {
        let (kind, n) = (class % 4, class / 4);
        let mut bytes = [4000u16, 9, 16, 0].map(u16::to_be_bytes).concat();
        bytes.extend([0; 8]);
        let plain = ip(17, 1, &bytes).1;
        match kind {
            0 => frame(&[n], 0x0800, &plain),
            1 => {
                let inner = frame(&[], 0x0800, &plain);
                let mut bytes = [4000, 4789, 16 + inner.len() as u16, 0].map(u16::to_be_bytes).concat();
                bytes.extend([8, 0, 0, 0]);
                bytes.extend((u32::from(n + 1000) << 8).to_be_bytes());
                bytes.extend(inner);
                frame(&[], 0x0800, &ip(17, 0, &bytes).1)
            }
            2 => {
                let mut packet = plain;
                packet[16..20].copy_from_slice(&if n % 2 == 0 {
                    [10, n as u8, 3, 4]
                } else {
                    [172, 16, n as u8, 7]
                });
                frame(&[], 0x0800, &packet)
            }
            _ => {
                let mut packet = plain;
                packet[22..24].copy_from_slice(&(20_000 + n).to_be_bytes());
                frame(&[], 0x0800, &packet)
            }
        }
    });
    (rules.collect(), packets.collect())
}

#[test]
fn a_thousand_classes_are_told_apart() {
    let (rules, packets) = thousand(1000);
    let classifier = Classifier::new(rules.clone());
    for packet in packets {
        assert_eq!(classify(&classifier, &packet), plainly(&rules, &packet, packet.len() as u32));
    }
}

/// `cargo test --release -p classifier -- --ignored --nocapture cost`
#[test]
#[ignore = "a measurement"]
fn cost() {
    use std::hint::black_box;
    use std::time::Instant;
    let rounds = std::env::var("ROUNDS").map_or(400, |rounds| rounds.parse().expect("a number"));
    let (rules, packets) = thousand(1000);
    // In no order, as packets come.
    let order: Vec<usize> = (0..1000).map(|n| n * 619 % 1000).collect();
    let one = |n: usize| vec![rules[n].clone()];
    let classifiers = [
        ("nothing", vec![]),
        ("one by VLAN", one(0)),
        ("one by network", one(1)),
        ("one by prefix", one(2)),
        ("one by port", one(3)),
        ("one that takes all", vec![rule("", 0, 1)]),
        ("one that takes IP", vec![rule("ip", 0, 1)]),
        ("one of each", rules[..4].to_vec()),
        ("a thousand", rules),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, rules) in classifiers.into_iter().filter(|(name, _)| name.contains(&only)) {
        let classifier = Classifier::new(rules);
        let best = (0..9)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..rounds {
                    for place in &order {
                        let packet = black_box(&packets[*place]);
                        black_box(
                            classifier.classify(packet, packet.len() as u32, |class| _ = black_box(class)),
                        );
                    }
                }
                start.elapsed().as_nanos() as f64 / (rounds * order.len()) as f64
            })
            .fold(f64::MAX, f64::min);
        println!("{name}: {best:.1} ns");
    }
}
