use crate::*;

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
    let classifier = Classifier::new(vec![rule("udp", 5, 1), rule("tcp", 6, 2), rule("udp", 6, 3)]);
    assert_eq!(classifier.shadowed(), [(0, 2)]);
    let classifier = Classifier::new(vec![rule("udp", 5, 1), rule("", 1, 2)]);
    assert_eq!(classifier.shadowed(), [(1, 0)]);
}
