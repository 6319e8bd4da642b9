//! Rules by chance about numbers in a payload, about what other rules have seen, about how often they match,
//! and about the names that are asked for in DNS and TLS: in datagrams, for each of which the same rules have
//! to alert.

use crate::capture::{Capture, Conversation};
use crate::chance::Chance;
use crate::dialogues::{differences, seeds};
use crate::keywords::{client_hello, dns, server_hello};

const WORDS: [&str; 6] = ["LEN", "N=", "ab", "x", "aab", "end"];

fn sign(chance: &mut Chance) -> &'static str {
    chance.pick(&["<", ">", "=", "!=", "&", "^", "<=", ">=", "!<", "!&"])
}

/// How digits or bytes are read; how many of them.
fn reading(chance: &mut Chance) -> (u64, &'static str) {
    match chance.below(6) {
        0 => (1 + chance.below(3), ",string,dec"),
        1 => (1 + chance.below(4), ",string,hex"),
        2 => ([1, 2, 4][chance.below(3) as usize], ",little"),
        _ => ([1, 2, 2, 4][chance.below(4) as usize], ""),
    }
}

/// An option about numbers; `has_number`: there is one that was extracted.
fn number(chance: &mut Chance, is_behind: bool, has_number: &mut bool) -> String {
    let relative = if is_behind && !chance.one_in(3) { ",relative" } else { "" };
    let offset = chance.below(6) as i64 - if relative.is_empty() { 0 } else { 2 };
    let (bytes, how) = reading(chance);
    match chance.below(6) {
        0 | 1 => {
            let value = chance.pick(&["1", "2", "3", "10", "0x41", "97", "255", "300"]);
            let value = if *has_number && chance.one_in(2) { "num" } else { value };
            let mask = if how.is_empty() && chance.one_in(4) { ",bitmask 0xf0" } else { "" };
            format!("byte_test:{bytes},{},{value},{offset}{relative}{how}{mask}; ", sign(chance))
        }
        2 | 3 => {
            let more = match chance.below(5) {
                0 => ",multiplier 2",
                1 => ",align",
                2 => ",from_beginning",
                3 => ",post_offset 1",
                _ => "",
            };
            let then = match chance.below(3) {
                0 => format!("content:\"{}\"; distance:0; ", chance.pick(&WORDS)),
                1 => format!(
                    "content:\"{}\"; distance:0; within:{}; ",
                    chance.pick(&WORDS),
                    3 + chance.below(5)
                ),
                _ => "isdataat:1,relative; ".to_owned(),
            };
            format!("byte_jump:{bytes},{offset}{relative}{more}{how}; {then}")
        }
        4 if !*has_number => {
            *has_number = true;
            // A place of 2^31 and more is one before the payload for Suricata.
            let bytes = bytes.min(3 - u64::from(how.is_empty() || how == ",little"));
            let more = chance.pick(&["", "", ",multiplier 2", ",align 2", ",align 4"]);
            let then = match chance.below(4) {
                0 => format!("content:\"{}\"; distance:num; ", chance.pick(&WORDS)),
                1 if relative.is_empty() => format!("content:\"{}\"; offset:num; ", chance.pick(&WORDS)),
                2 => format!("content:\"{}\"; within:num; ", chance.pick(&WORDS)),
                _ => "isdataat:num; ".to_owned(),
            };
            format!("byte_extract:{bytes},{offset},num{relative}{more}{how}; {then}")
        }
        _ => format!("isdataat:{}{}{relative}; ", chance.pick(&["", "!"]), chance.below(12)),
    }
}

fn about_numbers(chance: &mut Chance, sid: u32) -> String {
    let mut options = String::new();
    let (mut is_behind, mut has_number) = (false, false);
    for place in 0..1 + chance.below(4) {
        if place == 0 && !chance.one_in(4) || chance.one_in(5) {
            options += &format!("content:\"{}\"; ", chance.pick(&WORDS));
            if chance.one_in(4) {
                options += &format!("offset:{}; ", chance.below(4));
            }
            is_behind = true;
        } else {
            let option = number(chance, is_behind, &mut has_number);
            // Behind a condition that is not relative Suricata tries the first place alone.
            is_behind = option.contains("relative") || option.contains("content");
            options += &option;
        }
    }
    format!("alert udp any any -> any any (msg:\"{sid}\"; {options}sid:{sid};)\n")
}

/// Words, digits and small numbers.
fn numbers(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + chance.below(7) {
        match chance.below(4) {
            0 => bytes.extend(
                (0..1 + chance.below(4)).map(|_| [0, 1, 2, 3, 4, 10, 0x41, 0xff][chance.below(8) as usize]),
            ),
            1 => bytes.extend((0..1 + chance.below(3)).map(|_| b"0123a9fF"[chance.below(8) as usize])),
            _ => bytes.extend(chance.pick(&WORDS).bytes()),
        }
    }
    bytes
}

#[test]
fn numbers_by_chance() {
    let mut wrong = vec![];
    for seed in seeds(700..706) {
        let mut chance = Chance(seed);
        let rules: String = (1..=200).map(|sid| about_numbers(&mut chance, sid)).collect();
        let mut capture = Capture::default();
        for n in 0..400 {
            let bytes = numbers(&mut chance);
            capture.udp(u64::from(n) * 1000, ([10, 0, 0, 1], 30_000 + n), ([192, 0, 2, 1], 7), 64, &bytes);
        }
        wrong.extend(differences(&format!("numbers by chance {seed}"), &rules, &capture));
    }
    assert!(wrong.is_empty(), "{} rules differ\n{}", wrong.len(), wrong.join("\n"));
}

fn about_what_was_seen(chance: &mut Chance, sid: u32) -> String {
    let mut options = format!("content:\"{}\"; ", chance.pick(&["ab", "aab", "x", "end"]));
    for _ in 0..1 + chance.below(2) {
        let bit = chance.pick(&["one", "two", "three"]);
        options += &match chance.below(9) {
            0 | 1 => format!("flowbits:set,{bit}; "),
            2 => format!("flowbits:unset,{bit}; "),
            3 => format!("flowbits:toggle,{bit}; "),
            4 | 5 => format!("flowbits:isset,{bit}; "),
            6 => format!("flowbits:isnotset,{bit}; "),
            7 => format!("xbits:{},{bit},track ip_src,expire 60; ", chance.pick(&["set", "unset", "toggle"])),
            _ => format!("xbits:{},{bit},track ip_src; ", chance.pick(&["isset", "isnotset"])),
        };
    }
    format!("alert udp any any -> any any (msg:\"{sid}\"; {options}sid:{sid};)\n")
}

#[test]
fn bits_by_chance() {
    let mut wrong = vec![];
    for seed in seeds(800..806) {
        let mut chance = Chance(seed);
        // Few of them: which goes first where several set and ask for the same is a matter of definition.
        let rules: String = (1..=8).map(|sid| about_what_was_seen(&mut chance, sid)).collect();
        let mut capture = Capture::default();
        for n in 0..500u64 {
            let from = ([10, 0, 0, 1 + chance.below(3) as u8], 30_000 + chance.below(40) as u16);
            let text = chance.pick(&["ab", "aab", "x", "end", "ab x", "end x", "nothing"]);
            capture.udp(n * 1000, from, ([192, 0, 2, 1], 7), 64, text.as_bytes());
        }
        wrong.extend(differences(&format!("bits by chance {seed}"), &rules, &capture));
    }
    assert!(wrong.is_empty(), "{} rules differ\n{}", wrong.len(), wrong.join("\n"));
}

fn about_frequency(chance: &mut Chance, sid: u32) -> String {
    let track = chance.pick(&["by_src", "by_dst", "by_both", "by_rule"]);
    let (count, seconds) = (1 + chance.below(5), 1 + chance.below(20));
    let often = match chance.below(4) {
        0 => format!(
            "detection_filter:track {}, count {count}, seconds {seconds}; ",
            chance.pick(&["by_src", "by_dst"])
        ),
        _ => {
            let kind = chance.pick(&["limit", "threshold", "both"]);
            format!("threshold:type {kind}, track {track}, count {count}, seconds {seconds}; ")
        }
    };
    format!(
        "alert udp any any -> any any (msg:\"{sid}\"; content:\"{}\"; {often}sid:{sid};)\n",
        chance.pick(&["ab", "x"])
    )
}

#[test]
fn frequencies_by_chance() {
    let mut wrong = vec![];
    for seed in seeds(900..906) {
        let mut chance = Chance(seed);
        let rules: String = (1..=60).map(|sid| about_frequency(&mut chance, sid)).collect();
        let mut capture = Capture::default();
        let mut time = 0;
        for n in 0..500 {
            time += chance.below(700_000) * 2 + 1;
            let from = ([10, 0, 0, 1 + chance.below(3) as u8], 30_000 + n);
            let text = chance.pick(&["ab", "x", "ab x", "nothing"]);
            capture.udp(time, from, ([192, 0, 2, 1 + chance.below(2) as u8], 7), 64, text.as_bytes());
        }
        wrong.extend(differences(&format!("frequencies by chance {seed}"), &rules, &capture));
    }
    assert!(wrong.is_empty(), "{} rules differ\n{}", wrong.len(), wrong.join("\n"));
}

const LABELS: [&str; 7] = ["www", "evil", "bad", "aab", "test", "xn--x", "com"];

fn name(chance: &mut Chance) -> String {
    let labels: Vec<String> = (0..1 + chance.below(4))
        .map(|_| {
            let label = chance.pick(&LABELS);
            if chance.one_in(5) { label.to_uppercase() } else { label.to_owned() }
        })
        .collect();
    labels.join(".")
}

fn about_names(chance: &mut Chance, sid: u32) -> String {
    let is_dns = chance.one_in(2);
    let protocol = if is_dns { chance.pick(&["dns", "udp"]) } else { chance.pick(&["tls", "tcp"]) };
    let mut options = String::from(if is_dns {
        chance.pick(&["dns.query; ", "dns_query; "])
    } else {
        chance.pick(&["tls.sni; ", "tls_sni; "])
    });
    for place in 0..1 + chance.below(2) {
        let text = if chance.one_in(2) {
            name(chance)
        } else {
            chance.pick(&["e", ".", "b.", "evil.bad", ".com", "a"]).to_owned()
        };
        options += &format!("content:{}\"{text}\"; ", if place > 0 && chance.one_in(3) { "!" } else { "" });
        if chance.one_in(2) {
            options += "nocase; ";
        }
        options += &match chance.below(7) {
            0 => "startswith; ".to_owned(),
            1 | 2 if place == 0 => "endswith; ".to_owned(),
            3 => format!("offset:{}; ", chance.below(5)),
            4 => format!("depth:{}; ", text.len() as u64 + chance.below(6)),
            5 if place > 0 => format!("distance:{}; ", chance.below(4) as i64 - 1),
            _ => String::new(),
        };
    }
    if chance.one_in(4) {
        options += &format!("bsize:{}{}; ", chance.pick(&["", "<", ">"]), 30 + chance.below(10));
    }
    if chance.one_in(4) {
        options += &format!(
            "pcre:\"/{}/{}\"; ",
            chance.pick(&["^(www|bad)\\.", "\\.com$", "a+b", "[^.]{5}"]),
            chance.pick(&["", "i"])
        );
    }
    format!("alert {protocol} any any -> any any (msg:\"{sid}\"; {options}sid:{sid};)\n")
}

#[test]
fn names_by_chance() {
    let mut wrong = vec![];
    for seed in seeds(1000..1006) {
        let mut chance = Chance(seed);
        let rules: String = (1..=150).map(|sid| about_names(&mut chance, sid)).collect();
        let mut capture = Capture::default();
        for n in 0..150 {
            let asked = name(&mut chance);
            let time = capture.frames.last().map_or(0, |(time, _)| time + 50);
            let ends = [([10, 0, 0, 1], 30_000 + n), ([192, 0, 2, 53], 53)];
            capture.udp(time, ends[0], ends[1], 64, &dns(&[&asked], false));
            capture.udp(time + 10, ends[1], ends[0], 64, &dns(&[&asked], true));
            let client = ([10, 0, 0, 2], 40_000 + n);
            let mut conversation = Conversation::new(client, ([192, 0, 2, 1], 443), &mut chance);
            conversation.open(&mut capture);
            let hello = client_hello(&name(&mut chance), 3);
            if chance.one_in(2) {
                conversation.say_in_pieces(&mut capture, 0, &hello, &mut chance);
            } else {
                conversation.say(&mut capture, 0, &hello);
            }
            conversation.say(&mut capture, 1, &server_hello(3));
            conversation.close(&mut capture);
        }
        wrong.extend(differences(&format!("names by chance {seed}"), &rules, &capture));
    }
    assert!(wrong.is_empty(), "{} rules differ\n{}", wrong.len(), wrong.join("\n"));
}
