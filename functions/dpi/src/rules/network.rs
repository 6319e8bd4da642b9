//! Addresses and ports of a rule's header: variables, lists, negation, prefixes and ranges.

use super::ranges::Ranges;
use super::text::{nearest, quoted, say};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Largest port.
const LAST_PORT: u128 = 65_535;
/// Most elements of a set, variables written out.
const MAX_ELEMENTS: usize = 16_384;
/// How deep lists and variables nest.
const MAX_DEPTH: usize = 12;

/// What is said of a set that has more.
pub const TOO_MANY: &str = "more than 16384 elements in a set";
/// What is said of one that goes deeper.
pub const TOO_DEEP: &str = "lists and variables nest more than 12 deep";

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// A set of addresses, each family for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    v4: Ranges,
    v6: Ranges,
}

impl Addresses {
    /// Whether every address is in it.
    pub fn is_any(&self) -> bool {
        self.v4.is_all(u128::from(u32::MAX)) && self.v6.is_all(u128::MAX)
    }

    /// All of them, as their numbers and whether they are of IPv4, when there are at most so many.
    pub fn few(&self, most: usize) -> Option<Vec<(bool, u128)>> {
        let mut all = Vec::new();
        for (is_ipv4, ranges) in [(true, &self.v4), (false, &self.v6)] {
            for (first, last) in ranges.as_slice() {
                if last - first >= (most - all.len()) as u128 {
                    return None;
                }
                all.extend((*first..=*last).map(|address| (is_ipv4, address)));
            }
        }
        Some(all)
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(u128::from(address.to_bits())),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        }
    }
}

/// A set of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Ranges);

impl Ports {
    /// Whether every port is in it.
    pub fn is_any(&self) -> bool {
        self.0.is_all(LAST_PORT)
    }

    /// Whether the port is in it.
    #[inline]
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(u128::from(port))
    }

    /// First and last of each range.
    pub fn ranges(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.0.as_slice().iter().map(|(first, last)| (*first as u16, *last as u16))
    }
}

/// What is wrong, and at which byte of the text.
pub type Wrong = (usize, String);

/// Something that lists are made of.
trait Element: Sized {
    const WHAT: &'static str;
    /// Whether Suricata takes a comma before the end of a list.
    const MAY_END_WITH_COMMA: bool;
    fn any() -> Self;
    fn union(sets: Vec<Self>) -> Self;
    fn minus(&self, other: &Self) -> Self;
    fn is_empty(&self) -> bool;
    fn one(word: &[u8]) -> Option<Self>;
}

impl Element for Addresses {
    const WHAT: &'static str =
        "any, $VARIABLE, an address, PREFIX/LENGTH, FIRST-LAST, a list in brackets, each with or without `!`";
    const MAY_END_WITH_COMMA: bool = false;

    fn any() -> Addresses {
        Addresses { v4: Ranges::one(0, u128::from(u32::MAX)), v6: Ranges::one(0, u128::MAX) }
    }

    fn union(sets: Vec<Addresses>) -> Addresses {
        let (v4, v6): (Vec<Ranges>, Vec<Ranges>) = sets.into_iter().map(|set| (set.v4, set.v6)).unzip();
        Addresses { v4: Ranges::union(v4), v6: Ranges::union(v6) }
    }

    fn minus(&self, other: &Addresses) -> Addresses {
        let v4 = self.v4.minus(&other.v4, u128::from(u32::MAX));
        Addresses { v4, v6: self.v6.minus(&other.v6, u128::MAX) }
    }

    fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn one(word: &[u8]) -> Option<Addresses> {
        let word = core::str::from_utf8(word).ok()?;
        if let Some((first, last)) = word.split_once('-') {
            let (first, last): (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            return match (first, last) {
                (IpAddr::V4(a), IpAddr::V4(b)) if a <= b => {
                    Some(Addresses::v4(u128::from(a.to_bits()), u128::from(b.to_bits())))
                }
                (IpAddr::V6(a), IpAddr::V6(b)) if a <= b => Some(Addresses::v6(a.to_bits(), b.to_bits())),
                _ => None,
            };
        }
        let (address, length) = match word.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (word, None),
        };
        match address.parse().ok()? {
            IpAddr::V4(address) => {
                let mask = match length {
                    None => u32::MAX,
                    Some(mask) if mask.contains('.') => {
                        let mask = mask.parse::<Ipv4Addr>().ok()?.to_bits();
                        (mask.leading_ones() == mask.count_ones()).then_some(mask)?
                    }
                    Some(length) => match length.parse::<u32>().ok()? {
                        0 => 0,
                        length @ 1..=32 => u32::MAX << (32 - length),
                        _ => return None,
                    },
                };
                let first = address.to_bits() & mask;
                Some(Addresses::v4(u128::from(first), u128::from(first | !mask)))
            }
            IpAddr::V6(address) => {
                let mask = match length.map_or(Some(128), |length| length.parse::<u32>().ok())? {
                    0 => 0,
                    length @ 1..=128 => u128::MAX << (128 - length),
                    _ => return None,
                };
                let first = Ipv6Addr::to_bits(address) & mask;
                Some(Addresses::v6(first, first | !mask))
            }
        }
    }
}

impl Addresses {
    fn v4(first: u128, last: u128) -> Addresses {
        Addresses { v4: Ranges::one(first, last), v6: Ranges::default() }
    }

    fn v6(first: u128, last: u128) -> Addresses {
        Addresses { v4: Ranges::default(), v6: Ranges::one(first, last) }
    }
}

impl Element for Ports {
    const WHAT: &'static str =
        "any, $VARIABLE, a port from 0 to 65535, FIRST:LAST, a list in brackets, each with or without `!`";
    const MAY_END_WITH_COMMA: bool = true;

    fn any() -> Ports {
        Ports(Ranges::one(0, LAST_PORT))
    }

    fn union(sets: Vec<Ports>) -> Ports {
        Ports(Ranges::union(sets.into_iter().map(|set| set.0)))
    }

    fn minus(&self, other: &Ports) -> Ports {
        Ports(self.0.minus(&other.0, LAST_PORT))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn one(word: &[u8]) -> Option<Ports> {
        let word = core::str::from_utf8(word).ok()?;
        let (first, last) = match word.split_once(':') {
            None => (word.parse().ok()?, word.parse().ok()?),
            Some(("", "")) => return None,
            Some((first, "")) => (first.trim().parse().ok()?, u16::MAX),
            Some(("", last)) => (0, last.trim().parse().ok()?),
            Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
        };
        (first <= last).then(|| Ports(Ranges::one(u128::from(first), u128::from(last))))
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    variables: &'a Variables,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn element<E: Element>(&mut self, left: &mut usize) -> Result<(bool, E), Wrong> {
        let mut is_negated = false;
        while self.peek() == Some(b'!') {
            is_negated = !is_negated;
            self.at += 1;
        }
        let start = self.at;
        let refuse = |text: &str| Err((start, say(&[text, "; allowed: ", E::WHAT])));
        if *left == 0 {
            return Err((start, String::from(TOO_MANY)));
        }
        *left -= 1;
        if self.depth > MAX_DEPTH {
            return Err((start, String::from(TOO_DEEP)));
        }
        let set = match self.peek() {
            Some(b'[') => {
                self.at += 1;
                self.depth += 1;
                let set = self.list(left)?;
                self.depth -= 1;
                set
            }
            Some(b'$') => {
                let rest = &self.text[start + 1..];
                let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                self.at = start + 1 + length;
                let name = core::str::from_utf8(&rest[..length]).unwrap_or_default();
                let Some(value) = self.variables.get(name) else {
                    return Err((start, unknown(name, self.variables)));
                };
                let mut reader = Reader {
                    text: value.as_bytes(),
                    at: 0,
                    depth: self.depth + 1,
                    variables: self.variables,
                };
                reader.whole(left).map_err(|(_, text)| (start, say(&["in $", name, ": ", &text])))?
            }
            _ => {
                let rest = &self.text[start..];
                let length = rest.iter().take_while(|byte| !matches!(byte, b',' | b']' | b'[')).count();
                self.at = start + length;
                let word = rest[..length].trim_ascii();
                if word.eq_ignore_ascii_case(b"any") {
                    E::any()
                } else {
                    match E::one(word) {
                        Some(set) => set,
                        None if word.is_empty() => return refuse("nothing where an element should be"),
                        None => return refuse(&quoted(word)),
                    }
                }
            }
        };
        Ok((is_negated, set))
    }

    /// What follows an opening bracket, with the closing one.
    fn list<E: Element>(&mut self, left: &mut usize) -> Result<E, Wrong> {
        let (mut positive, mut negative) = (Vec::new(), Vec::new());
        loop {
            let (is_negated, set) = self.element(left)?;
            if is_negated {
                negative.push(set)
            } else {
                positive.push(set)
            }
            let at = self.at;
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    if !E::MAY_END_WITH_COMMA || self.peek() != Some(b']') {
                        continue;
                    }
                }
                Some(b']') => {}
                Some(_) => {
                    return Err((at, say(&[&quoted(&self.text[self.at..]), "; allowed here: `,` or `]`"])));
                }
                None => return Err((at, String::from("a list without its closing `]`"))),
            }
            self.at += 1;
            let all = if positive.is_empty() { E::any() } else { E::union(positive) };
            return Ok(if negative.is_empty() { all } else { all.minus(&E::union(negative)) });
        }
    }

    fn whole<E: Element>(&mut self, left: &mut usize) -> Result<E, Wrong> {
        let start = self.at;
        let (is_negated, set) = self.element::<E>(left)?;
        if self.peek().is_some() {
            return Err((
                self.at,
                say(&[&quoted(&self.text[self.at..]), " behind the end; allowed: nothing"]),
            ));
        }
        let set = if is_negated { E::any().minus(&set) } else { set };
        if set.is_empty() {
            return Err((start, String::from("matches nothing; allowed: a set with something in it")));
        }
        Ok(set)
    }
}

fn unknown(name: &str, variables: &Variables) -> String {
    let mut text = say(&["unknown variable `$", name, "`; allowed: "]);
    if variables.is_empty() {
        text.push_str("none, because the key `variables` defines none");
    }
    for (number, known) in variables.keys().take(8).enumerate() {
        text.push_str(if number == 0 { "$" } else { ", $" });
        text.push_str(known);
    }
    if let Some(near) = nearest(name.as_bytes(), variables.keys().map(String::as_str)) {
        text.push_str(&say(&[" (did you mean `$", near, "`?)"]));
    }
    text
}

fn read<E: Element>(text: &[u8], variables: &Variables) -> Result<E, Wrong> {
    let mut left = MAX_ELEMENTS;
    Reader { text, at: 0, depth: 0, variables }.whole(&mut left)
}

/// Reads a set of addresses.
///
/// # Errors
/// What is wrong, and at which byte.
pub fn addresses(text: &[u8], variables: &Variables) -> Result<Addresses, Wrong> {
    read(text, variables)
}

/// Reads a set of ports.
///
/// # Errors
/// What is wrong, and at which byte.
pub fn ports(text: &[u8], variables: &Variables) -> Result<Ports, Wrong> {
    read(text, variables)
}
