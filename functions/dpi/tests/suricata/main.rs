//! The same rules and captures, made by chance from a seed, for this function and for Suricata: the same
//! alerts.
//!
//! Rules about packets have to alert as often, with the same ends. Rules about streams have to alert for the
//! same flows and directions; how often is a matter of definition (see README.md): Suricata looks at a stream
//! in chunks when they are acknowledged, this function whenever bytes are added.

mod acceptance;
mod capture;
mod chance;
mod dialogues;
mod keywords;
mod options;
mod peers;
mod rules;

use capture::{Capture, Conversation};
use chance::Chance;
use dialogues::seeds;
use peers::{Alert, compare};
use rules::{Kind, TCP_WORDS, WORDS, generate};

/// Datagrams made of words and noise.
fn payload(chance: &mut Chance, words: &[&str], most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..chance.below(most) {
        match chance.below(4) {
            0 => bytes.extend((0..chance.below(12)).map(|_| chance.next() as u8)),
            1 => bytes.extend((0..chance.below(6)).map(|_| b'a' + chance.below(4) as u8)),
            _ => {
                let word = words[chance.below(words.len() as u64) as usize];
                // In other cases too.
                bytes.extend(
                    word.bytes().map(|byte| if chance.one_in(12) { byte.to_ascii_uppercase() } else { byte }),
                );
                if chance.one_in(2) {
                    bytes.push(b" /:\n\0"[chance.below(5) as usize]);
                }
            }
        }
    }
    bytes
}

fn hosts(chance: &mut Chance) -> ([u8; 4], [u8; 4]) {
    ([10, 0, 0, 1 + chance.below(4) as u8], [192, 0, 2, 1 + chance.below(4) as u8])
}

/// Sorted, and with the number of each.
fn exactly(mut alerts: Vec<Alert>) -> Vec<Alert> {
    alerts.sort();
    alerts
}

/// Each once.
fn once(mut alerts: Vec<Alert>) -> Vec<Alert> {
    alerts.sort();
    alerts.dedup();
    alerts
}

#[test]
fn datagrams() {
    for seed in seeds(0..12) {
        let mut chance = Chance(seed);
        let rules = generate(&mut chance, Kind::Datagram, 150);
        let mut capture = Capture::default();
        for n in 0..400u64 {
            let (a, b) = hosts(&mut chance);
            let ports = (1000 + chance.below(3) as u16, [53, 80, 5000][chance.below(3) as usize]);
            let bytes = payload(&mut chance, &WORDS, 9);
            let (from, to) = ((a, ports.0), (b, ports.1));
            let (from, to) = if chance.one_in(3) { (to, from) } else { (from, to) };
            capture.udp(n * 1000, from, to, 20 + chance.below(100) as u8, &bytes);
        }
        compare(&format!("datagrams {seed}"), &rules, &capture, exactly);
    }
}

#[test]
fn segments() {
    for seed in seeds(100..106) {
        let mut chance = Chance(seed);
        let rules = generate(&mut chance, Kind::Segment, 120);
        let mut capture = Capture::default();
        for n in 0..40 {
            let (a, b) = hosts(&mut chance);
            let mut conversation = Conversation::new((a, 2000 + n), (b, 80), &mut chance);
            conversation.open(&mut capture);
            for _ in 0..chance.below(8) {
                let side = chance.below(2) as usize;
                conversation.say(&mut capture, side, &payload(&mut chance, &TCP_WORDS, 8));
            }
            conversation.close(&mut capture);
        }
        compare(&format!("segments {seed}"), &rules, &capture, exactly);
    }
}

#[test]
fn streams() {
    for seed in seeds(200..212) {
        let mut chance = Chance(seed);
        let rules = generate(&mut chance, Kind::Stream, 150);
        let mut capture = Capture::default();
        for n in 0..60 {
            let (a, b) = hosts(&mut chance);
            let port = [80, 443, 25][chance.below(3) as usize];
            let mut conversation = Conversation::new((a, 3000 + n), (b, port), &mut chance);
            conversation.open(&mut capture);
            for _ in 0..chance.below(4) {
                let side = chance.below(2) as usize;
                let bytes = payload(&mut chance, &TCP_WORDS, 30);
                conversation.say_in_pieces(&mut capture, side, &bytes, &mut chance);
            }
            conversation.close(&mut capture);
        }
        compare(&format!("streams {seed}"), &rules, &capture, once);
    }
}

/// How far data reach, and what must not come within so many bytes, however the segments are cut.
#[test]
fn lengths() {
    for seed in seeds(500..506) {
        let mut chance = Chance(seed);
        let mut rules = String::new();
        // As many as may wait in a stream.
        for sid in 1..=32 {
            let bytes = 1 + chance.below(60);
            let also = match chance.below(5) {
                0 => format!("isdataat:{bytes},relative; "),
                1 => format!("isdataat:!{bytes},relative; "),
                2 => format!("content:!\"|0a|\"; within:{bytes}; "),
                3 => format!("isdataat:{bytes},relative; content:!\"|0a|\"; within:{bytes}; "),
                _ => format!("content:\"PASS\"; within:{}; ", bytes + 4),
            };
            let word = ["USER", "MAIL", "GETFILE"][chance.below(3) as usize];
            rules += &format!(
                "alert tcp any any -> any any (msg:\"{sid}\"; content:\"{word}\"; {also}sid:{sid};)\n"
            );
        }
        let mut capture = Capture::default();
        for n in 0..60 {
            let (a, b) = hosts(&mut chance);
            let mut conversation = Conversation::new((a, 4000 + n), (b, 21), &mut chance);
            conversation.open(&mut capture);
            for _ in 0..1 + chance.below(4) {
                let side = chance.below(2) as usize;
                let mut bytes = Vec::new();
                for _ in 0..chance.below(8) {
                    match chance.below(6) {
                        0 => bytes.push(b'\n'),
                        1 => bytes.extend(b"PASS"),
                        2 => bytes.extend(["USER", "MAIL", "GETFILE"][chance.below(3) as usize].bytes()),
                        _ => bytes.extend((0..chance.below(30)).map(|_| b'.')),
                    }
                }
                conversation.say_in_pieces(&mut capture, side, &bytes, &mut chance);
            }
            conversation.close(&mut capture);
        }
        compare(&format!("lengths {seed}"), &rules, &capture, once);
    }
}

/// What stands between two halves and hides the second one from an observer that takes it for what the
/// receiver gets.
#[test]
fn inserted_segments() {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const PSH: u8 = 8;
    const ACK: u8 = 16;
    let rules = "alert tcp any any -> any any (msg:\"m\"; content:\"malicious\"; sid:1;)\n";
    // One that acknowledges what lies before the first byte, Linux ignores, and Suricata does not.
    let cases: [(u8, [u32; 2], &[u8]); 17] = [
        // Taken by the receiver: nothing is found.
        (ACK, [104, 500], b"XXXXX"),
        (ACK, [104, 500], b""),
        (0, [104, 0], b"XXXXX"),
        (PSH, [104, 0], b"XXXXX"),
        (ACK, [104, 500 + (1 << 20)], b"XXXXX"),
        (ACK, [104, 500u32.wrapping_sub(70_000)], b"XXXXX"),
        (ACK, [70_104, 500], b"XXXXX"),
        (RST, [105, 500], b""),
        (RST, [103, 500], b""),
        (RST, [90_000, 500], b""),
        (RST | ACK, [90_000, 500], b""),
        (FIN | ACK, [150, 500], b""),
        (FIN | ACK, [90, 500], b""),
        (SYN, [5, 0], b"XXXXX"),
        (SYN, [104, 0], b""),
        (SYN | ACK, [104, 500], b"XXXXX"),
        (SYN | ACK, [9000, 1], b""),
    ];
    let mut capture = Capture::default();
    for (port, (flags, numbers, data)) in (1000..).zip(cases.into_iter().cycle().take(2 * cases.len())) {
        let ends = [([10, 0, 0, 1], port), ([192, 0, 2, 1], 21)];
        let mut time = capture.frames.last().map_or(0, |(time, _)| *time);
        let mut show = |from: usize, flags: u8, numbers: [u32; 2], data: &[u8]| {
            time += 50;
            capture.tcp(time, [ends[from], ends[1 - from]], flags, numbers, data);
        };
        show(0, SYN, [99, 0], b"");
        show(1, SYN | ACK, [499, 100], b"");
        show(0, ACK, [100, 500], b"");
        show(0, ACK | PSH, [100, 500], b"mali");
        show(0, flags, numbers, data);
        show(0, ACK | PSH, [104, 500], b"cious");
        show(1, ACK, [500, 109], b"");
        show(0, FIN | ACK, [109, 500], b"");
        show(1, FIN | ACK, [500, 110], b"");
        show(0, ACK, [110, 501], b"");
    }
    compare("inserted segments", rules, &capture, once);
}

#[test]
fn thresholds() {
    for seed in seeds(300..306) {
        let mut chance = Chance(seed);
        let rules = generate(&mut chance, Kind::Threshold, 100);
        let mut capture = Capture::default();
        let mut time = 0;
        for _ in 0..600 {
            // Never a whole number of seconds apart: what lies on an interval's very end is not specified.
            time += chance.below(900_000) * 2 + 1;
            let (a, b) = hosts(&mut chance);
            let bytes = payload(&mut chance, &WORDS[..6], 5);
            capture.udp(time, (a, 1000 + chance.below(3) as u16), (b, 53), 64, &bytes);
        }
        compare(&format!("thresholds {seed}"), &rules, &capture, exactly);
    }
}

#[test]
fn messages() {
    for seed in seeds(400..404) {
        let mut chance = Chance(seed);
        let rules = generate(&mut chance, Kind::Message, 80);
        let mut capture = Capture::default();
        for n in 0..300u64 {
            let (a, b) = hosts(&mut chance);
            let bytes = payload(&mut chance, &WORDS, 5);
            let (from, to) = if chance.one_in(2) { (a, b) } else { (b, a) };
            let kind = [0, 3, 8, 11, 13][chance.below(5) as usize];
            capture.icmp(n * 1000, from, to, [kind, chance.below(4) as u8], n as u16, &bytes);
        }
        compare(&format!("messages {seed}"), &rules, &capture, exactly);
    }
}
