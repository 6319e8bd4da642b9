//! Any expression and any packet: refused with its column, or a filter that says of the packet what a plain
//! reading of the expression does.
//!
//! That reading has no tree: it goes through the words once, and says of each part at once whether it holds
//! and where what follows looks. The packets inside of one another are those that the harness `tunnels` holds
//! to a model of their own.

use capture::{Filter, Outcome};
use packet::tunnel::{Level, MAX_LABELS, MAX_LEVELS, Tunnel, Tunnels};
use packet::{Fragment, Transport, dissect};
use std::net::IpAddr;

/// Into how many tunnels a part looks, behind how many tags, and behind how many labels of the last one.
type Place = (usize, usize, usize);

/// What becomes of what holds for source and destination.
type End = fn(bool, bool) -> bool;

const SOURCE: End = |source, _| source;
const DESTINATION: End = |_, destination| destination;
const EITHER: End = |source, destination| source || destination;
const BOTH: End = |source, destination| source && destination;

struct Reading<'a> {
    words: &'a [&'a str],
    next: usize,
    frame: &'a [u8],
    outcome: Outcome,
    tunnels: &'a Tunnels,
    levels: &'a [Level],
    asks_outcome: bool,
}

impl<'a> Reading<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, wanted: &[&str]) -> Option<&'a str> {
        let word = self.peek().filter(|word| wanted.contains(word))?;
        self.next += 1;
        Some(word)
    }

    fn value(&mut self) -> Option<&'a str> {
        self.next += 1;
        self.words.get(self.next - 1).copied()
    }

    /// A number that may be there; `None` when it is none that is allowed.
    fn id(&mut self, most: u64) -> Option<Option<u32>> {
        if self.peek().is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit())) {
            return number(self.value()?, most).map(|id| Some(id as u32));
        }
        Some(None)
    }

    fn expression(&mut self, place: Place, depth: usize) -> Option<(bool, Place)> {
        let (mut holds, mut behind) = self.factor(place, depth)?;
        while let Some(word) = self.take(&["and", "&&", "or", "||"]) {
            let is_and = matches!(word, "and" | "&&");
            let (other, end) = self.factor(if is_and { behind } else { place }, depth)?;
            holds = if is_and { holds && other } else { holds || other };
            behind = if is_and || end == behind { end } else { place };
        }
        Some((holds, behind))
    }

    fn factor(&mut self, place: Place, depth: usize) -> Option<(bool, Place)> {
        if depth > 64 {
            return None;
        }
        if self.take(&["not", "!"]).is_some() {
            return self.factor(place, depth + 1).map(|(holds, _)| (!holds, place));
        }
        if self.take(&["("]).is_some() {
            let inside = self.expression(place, depth + 1)?;
            return self.take(&[")"]).map(|_| inside);
        }
        match self.peek()? {
            "vlan" | "vni" | "gre" | "mpls" => self.keyword(place),
            _ => self.primitive(place.0).map(|holds| (holds, place)),
        }
    }

    /// A packet that carries a tunnel, and the tunnel with its number.
    fn header(&self, level: usize) -> Option<(&'a Level, (Tunnel, u32))> {
        let level = self.levels.get(level)?;
        Some((level, self.tunnels.header(self.frame, level).ok()??))
    }

    fn keyword(&mut self, (level, tags, labels): Place) -> Option<(bool, Place)> {
        let found = self.header(level);
        let is = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
        let word = self.value()?;
        if word == "vlan" {
            let id = self.id(4095).filter(|_| tags < 2)?;
            let of_level = self.levels.get(level).map_or(&[][..], |level| level.dissection.tags.as_slice());
            let holds = of_level.get(tags).is_some_and(|tag| is(id, u32::from(tag.tci % 4096)));
            return Some((holds, (level, tags + 1, labels)));
        }
        if word == "mpls" && labels > 0 {
            let label = self.id(0xf_ffff).filter(|_| labels < MAX_LABELS)?;
            let found = self.labels(level - 1);
            let holds = found.get(labels).is_some_and(|found| is(label, *found));
            return Some((holds, (level, tags, labels + 1)));
        }
        if level == MAX_LEVELS {
            return None;
        }
        match word {
            "vni" => {
                let wanted = self.id(0xff_ffff)?;
                let holds = found.is_some_and(|(_, (tunnel, id))| {
                    matches!(tunnel, Tunnel::Vxlan | Tunnel::Geneve) && is(wanted, id)
                });
                Some((holds, (level + 1, 0, 0)))
            }
            "gre" => {
                let wanted = match self.take(&["key"]) {
                    Some(_) => Some(number(self.value()?, u64::from(u32::MAX))? as u32),
                    None => None,
                };
                let holds = found.is_some_and(|(level, (tunnel, id))| {
                    let at = level.dissection.network.map_or(0, |network| network.l4_offset);
                    let has_key = self.frame[at] & 0x20 != 0;
                    tunnel == Tunnel::Gre && wanted.is_none_or(|wanted| has_key && wanted == id)
                });
                Some((holds, (level + 1, 0, 0)))
            }
            _ => {
                let wanted = self.id(0xf_ffff)?;
                let holds = self.labels(level).first().is_some_and(|found| is(wanted, *found));
                Some((holds, (level + 1, 0, 1)))
            }
        }
    }

    /// The labels of a packet, as far as its stack goes or is there.
    fn labels(&self, level: usize) -> Vec<u32> {
        let Some(level) = self.levels.get(level) else { return vec![] };
        let (at, end) = match level.dissection.network {
            Some(network) if network.protocol == 137 && network.fragment == Fragment::Whole => {
                (network.l4_offset, network.end.min(level.limit()))
            }
            None if matches!(level.dissection.ethertype, 0x8847 | 0x8848) => {
                (level.dissection.l3_offset, level.limit())
            }
            _ => return vec![],
        };
        let (mut labels, mut rest) = (vec![], self.frame.get(at..end).unwrap_or_default());
        while let [a, b, c, _, ref behind @ ..] = *rest {
            labels.push(u32::from_be_bytes([0, a, b, c]) >> 4);
            rest = if c % 2 == 0 { behind } else { &[] };
        }
        labels
    }

    fn primitive(&mut self, depth: usize) -> Option<bool> {
        let level = self.levels.get(depth);
        let is_type = |ethertype| level.is_some_and(|level| level.dissection.ethertype == ethertype);
        let is_protocol = |family: Option<u16>, protocol: u8| {
            let network = level.and_then(|level| level.dissection.network);
            network.is_some_and(|network| network.protocol == protocol) && family.is_none_or(is_type)
        };
        if let Some(word) = self.take(&["less", "greater", "dropped", "passed", "arp", "icmp", "icmp6"]) {
            let length = self.frame.len() as u64;
            return Some(match word {
                "less" => length <= number(self.value()?, u64::from(u32::MAX))?,
                "greater" => length >= number(self.value()?, u64::from(u32::MAX))?,
                "arp" => is_type(0x0806),
                "icmp" => is_protocol(Some(0x0800), 1),
                "icmp6" => is_protocol(Some(0x86dd), 58),
                _ => {
                    self.asks_outcome = true;
                    (self.outcome == Outcome::Passed) == (word == "passed")
                }
            });
        }
        let family = self.take(&["ip", "ip6", "tcp", "udp", "ether"]);
        let ethertype = match family {
            Some("ip") => Some(0x0800),
            Some("ip6") => Some(0x86dd),
            _ => None,
        };
        let protocol = match family {
            Some("tcp") => Some(6),
            Some("udp") => Some(17),
            _ => None,
        };
        let end = self.end();
        let kind = self.take(&["host", "net", "port", "portrange", "proto"]);
        let ends = end.unwrap_or(EITHER);
        match (family, kind) {
            (Some("ip" | "ip6" | "tcp" | "udp"), None) if end.is_none() => Some(match protocol {
                Some(protocol) => is_protocol(None, protocol),
                None => ethertype.is_some_and(is_type),
            }),
            (Some("ether"), Some("proto")) if end.is_none() => {
                Some(is_type(number(self.value()?, 0xffff)? as u16))
            }
            (None | Some("ip" | "ip6"), Some("proto")) if end.is_none() => {
                let names = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmp6", 58)];
                let word = self.value()?;
                let named = names.into_iter().find(|(name, _)| *name == word).map(|(_, number)| number);
                Some(is_protocol(ethertype, named.or(number(word, 255))? as u8))
            }
            (Some("ether"), None | Some("host")) if end.is_some() || kind.is_some() => {
                let wanted = mac(self.value()?)?;
                // The frame's own are there even where what follows cannot be read.
                let outermost = (depth == 0).then_some(0);
                let at = outermost.or(level.and_then(Level::ethernet));
                let both = at.and_then(|at| self.frame.get(at..at + 12));
                Some(both.is_some_and(|both| ends(both[6..] == wanted, both[..6] == wanted)))
            }
            (None | Some("ip" | "ip6"), None | Some("host" | "net")) => {
                let (address, length) = prefix(self.value()?)?;
                let (whole, _) = bits(address);
                let of_family = ethertype.is_none_or(|family| (family == 0x0800) == (whole == 32));
                if !of_family || kind == Some("host") && length < whole {
                    return None;
                }
                let found = level.and_then(|level| self.addresses(level));
                Some(found.is_some_and(|found| {
                    let [source, destination] = found.map(|found| is_inside(found, address, length));
                    ends(source, destination)
                }))
            }
            (None | Some("tcp" | "udp"), Some(kind @ ("port" | "portrange"))) => {
                let word = self.value()?;
                let (first, last) = if kind == "port" { (word, word) } else { word.split_once('-')? };
                let (first, last) = (number(first, 0xffff)?, number(last, 0xffff)?);
                if first > last {
                    return None;
                }
                let is = |port: u16| (first..=last).contains(&u64::from(port));
                Some(level.and_then(|level| level.dissection.network).is_some_and(|network| {
                    let Transport::Ports { source, destination } = network.transport else { return false };
                    protocol.is_none_or(|protocol| protocol == network.protocol)
                        && ends(is(source), is(destination))
                }))
            }
            _ => None,
        }
    }

    fn end(&mut self) -> Option<End> {
        let is_source = self.take(&["src", "dst"])? == "src";
        let (one, other) = if is_source { (SOURCE, "dst") } else { (DESTINATION, "src") };
        let is_joined = self.words.get(self.next + 1) == Some(&other);
        let joined = match self.peek() {
            Some("or" | "||") if is_joined => EITHER,
            Some("and" | "&&") if is_joined => BOTH,
            _ => return Some(one),
        };
        self.next += 2;
        Some(joined)
    }

    /// Where a packet comes from and goes, or what an ARP packet asks for.
    fn addresses(&self, level: &Level) -> Option<[IpAddr; 2]> {
        if level.dissection.ethertype != 0x0806 {
            return level.dissection.network.map(|network| [network.source, network.destination]);
        }
        let body = self.frame.get(..level.limit())?.get(level.dissection.l3_offset..)?;
        let [0, 1, 8, 0, 6, 4, ..] = *body else { return None };
        let address = |at: usize| <[u8; 4]>::try_from(body.get(at..at + 4)?).ok().map(IpAddr::from);
        Some([address(14)?, address(24)?])
    }
}

/// A number in decimal, or in hexadecimal behind `0x`.
fn number(word: &str, most: u64) -> Option<u64> {
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |digits| (digits, 16));
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|number| is_number && *number <= most)
}

/// How many bits an address has, and which.
fn bits(address: IpAddr) -> (u32, u128) {
    match address {
        IpAddr::V4(address) => (32, u128::from(address.to_bits())),
        IpAddr::V6(address) => (128, address.to_bits()),
    }
}

fn is_inside(address: IpAddr, network: IpAddr, length: u32) -> bool {
    let ((whole, a), (other, b)) = (bits(address), bits(network));
    whole == other && (0..length).all(|bit| (a ^ b) >> (whole - 1 - bit) & 1 == 0)
}

fn prefix(word: &str) -> Option<(IpAddr, u32)> {
    let (address, length) =
        word.split_once('/').map_or((word, None), |(address, rest)| (address, Some(rest)));
    let address: IpAddr = address.parse().ok()?;
    let (whole, value) = bits(address);
    let length =
        length.map_or(Some(whole), |length| number(length, u64::from(whole)).map(|bits| bits as u32))?;
    (value.trailing_zeros() >= whole - length).then_some((address, length))
}

fn mac(word: &str) -> Option<[u8; 6]> {
    let parts = word.split(':').map(|part| {
        let is_short = part.len() <= 2 && part.chars().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(part, 16).ok().filter(|_| is_short)
    });
    parts.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Whether the expression holds for the packet, and whether it asks what became of it; `None` when it is no
/// expression.
fn read(text: &str, frame: &[u8], outcome: Outcome) -> Option<(bool, bool)> {
    let signs = ["(", ")", "!", "&&", "||"];
    let apart = signs.iter().fold(text.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
    let words: Vec<&str> = apart.split_whitespace().collect();
    let tunnels = Tunnels::new([Tunnel::Vxlan, Tunnel::Geneve, Tunnel::Mpls, Tunnel::Gre]);
    let outermost = dissect(frame).ok().map(|found| Level::outermost(found, frame.len()));
    let levels: Vec<Level> =
        std::iter::successors(outermost, |level| tunnels.inside(frame, level).ok().flatten()).collect();
    let (tunnels, levels, words) = (&tunnels, &levels[..], &words[..]);
    let mut reading = Reading { words, next: 0, frame, outcome, tunnels, levels, asks_outcome: false };
    let (holds, _) = reading.expression((0, 0, 0), 0)?;
    let is_all = reading.next == words.len() && text.chars().count() <= 4096;
    is_all.then_some((holds, reading.asks_outcome))
}

pub fn run(data: &[u8]) {
    // What follows the first zero is the packet.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let packet = data.get(end + 1..).unwrap_or_default();
    let filter = Filter::parse(text);
    for outcome in [Outcome::Passed, Outcome::Dropped] {
        let told = filter
            .as_ref()
            .ok()
            .map(|filter| (filter.matches(packet, packet.len() as u32, outcome), filter.uses_outcome()));
        assert_eq!(told, read(text, packet, outcome), "{text:?}");
    }
    if let Err(error) = filter {
        assert!((1..=text.chars().count() + 1).contains(&error.column));
    }
}
