//! Reading an expression.

use super::{ARP, End, Expression, FilterError, Outcome, Test};
use packet::ethernet::KEPT_TAGS;
use packet::tunnel::{MAX_LABELS, MAX_LEVELS};
use std::net::IpAddr;
use yaml_document::spelling;

/// Most characters, and deepest nesting: what an expression may cost.
const LONGEST: usize = 4096;
const DEEPEST: usize = 64;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

const PRIMITIVES: &str = "ip, ip6, arp, tcp, udp, icmp, icmp6, vlan, vni, mpls, gre, ether, proto, src, dst, host, net, \
                          port, portrange, less, greater, dropped, passed, not, an address or a prefix";

pub(super) fn expression(text: &str) -> Result<Expression, FilterError> {
    if text.chars().count() > LONGEST {
        return Err(FilterError {
            column: LONGEST + 1,
            message: format!("it is too long; allowed: {LONGEST} characters"),
        });
    }
    let mut reader =
        Reader { words: words(text), next: 0, end: text.chars().count() + 1, place: Place::default() };
    let expression = reader.expression(0)?;
    match reader.peek() {
        None => Ok(expression),
        Some(_) => Err(reader.unexpected("and, or, or the end")),
    }
}

struct Word<'a> {
    column: usize,
    text: &'a str,
}

/// Words, and signs as words of their own.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    let mut skip = 0;
    for (column, (at, c)) in (1..).zip(text.char_indices()) {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let sign = match c {
            '(' | ')' | '!' => 1,
            '&' | '|' if text[at + 1..].starts_with(c) => 2,
            _ => 0,
        };
        if sign > 0 || c.is_whitespace() {
            if let Some((column, from)) = begin.take() {
                words.push(Word { column, text: &text[from..at] });
            }
        } else if begin.is_none() {
            begin = Some((column, at));
        }
        if sign > 0 {
            words.push(Word { column, text: &text[at..at + sign] });
            skip = sign - 1;
        }
    }
    if let Some((column, from)) = begin {
        words.push(Word { column, text: &text[from..] });
    }
    words
}

struct Reader<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    /// The column behind the last character.
    end: usize,
    /// What the next primitive is about.
    place: Place,
}

/// Behind how many tunnels, and then behind how many tags, a primitive looks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    level: u8,
    tags: u8,
    /// Labels that were named of the tunnel that was passed last, if it is MPLS.
    labels: u8,
}

/// What a primitive says before its value.
#[derive(Default)]
struct Qualifiers<'a> {
    family: Option<&'a str>,
    end: Option<End>,
    kind: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|word| word.text)
    }

    fn take(&mut self, wanted: &[&str]) -> Option<&'a str> {
        let word = self.peek().filter(|word| wanted.contains(word))?;
        self.next += 1;
        Some(word)
    }

    fn unexpected(&self, allowed: &str) -> FilterError {
        match self.words.get(self.next) {
            Some(word) => {
                // Of what is allowed here or else anywhere, that which is a word and no description.
                let words = allowed.split(", ").chain(PRIMITIVES.split(", "));
                let words = words.filter(|part| part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
                let meant = spelling::nearest(word.text, words);
                let meant = meant.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                FilterError {
                    column: word.column,
                    message: format!("found `{}`; allowed: {allowed}{meant}", word.text.escape_debug()),
                }
            }
            None => FilterError { column: self.end, message: format!("it ends here; allowed: {allowed}") },
        }
    }

    /// The next word, if `read` makes something of it.
    fn value<T>(&mut self, allowed: &str, read: impl FnOnce(&'a str) -> Option<T>) -> Result<T, FilterError> {
        let value = self.peek().and_then(read).ok_or_else(|| self.unexpected(allowed))?;
        self.next += 1;
        Ok(value)
    }

    fn expression(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let begin = self.place;
        let mut left = self.factor(depth)?;
        // Equal precedence, to the left: `a or b and c` is `(a or b) and c`.
        while let Some(word) = self.take(&["and", "&&", "or", "||"]) {
            let is_and = matches!(word, "and" | "&&");
            let behind_left = self.place;
            if !is_and {
                self.place = begin;
            }
            let right = self.factor(depth)?;
            if !is_and && self.place != behind_left {
                self.place = begin;
            }
            left = match (left, is_and) {
                (Expression::All(mut parts), true) => {
                    parts.push(right);
                    Expression::All(parts)
                }
                (Expression::Any(mut parts), false) => {
                    parts.push(right);
                    Expression::Any(parts)
                }
                (left, true) => Expression::All(vec![left, right]),
                (left, false) => Expression::Any(vec![left, right]),
            };
        }
        Ok(left)
    }

    fn factor(&mut self, depth: usize) -> Result<Expression, FilterError> {
        if depth > DEEPEST {
            return Err(self.unexpected(&format!("at most {DEEPEST} levels of `not` and parentheses")));
        }
        if self.take(&["not", "!"]).is_some() {
            let place = self.place;
            let inner = self.factor(depth + 1)?;
            self.place = place;
            return Ok(Expression::Not(Box::new(inner)));
        }
        if self.take(&["("]).is_some() {
            let inner = self.expression(depth + 1)?;
            return match self.take(&[")"]) {
                Some(_) => Ok(inner),
                None => Err(self.unexpected("`)`, and, or")),
            };
        }
        self.primitive()
    }

    /// A tag or a tunnel, behind which what follows looks.
    fn keyword(&mut self) -> Result<Option<Expression>, FilterError> {
        let Some(word) = self.peek().filter(|word| matches!(*word, "vlan" | "vni" | "mpls" | "gre")) else {
            return Ok(None);
        };
        let place = self.place;
        let is_next_label = word == "mpls" && place.labels > 0;
        let refused = match word {
            "vlan" if usize::from(place.tags) == KEPT_TAGS => Some(("tags", KEPT_TAGS)),
            "mpls" if usize::from(place.labels) == MAX_LABELS => Some(("labels", MAX_LABELS)),
            "vlan" => None,
            _ if !is_next_label && usize::from(place.level) == MAX_LEVELS => Some(("tunnels", MAX_LEVELS)),
            _ => None,
        };
        if let Some((what, most)) = refused {
            return Err(self.unexpected(&format!("at most {most} {what}, one inside of the other")));
        }
        self.next += 1;
        let inside = Place { level: place.level + 1, tags: 0, labels: 0 };
        let (level, test, then) = match word {
            "vlan" => {
                let id = self.id("a VLAN, 0 to 4095", 4095)?;
                let test = Test::Vlan(place.tags, id.map(|id| id as u16));
                (place.level, test, Place { tags: place.tags + 1, ..place })
            }
            "vni" => (place.level, Test::Vni(self.id("a VNI, 0 to 16777215", 0xff_ffff)?), inside),
            "gre" => {
                let key = match self.take(&["key"]) {
                    Some(_) => Some(self.value("a key, 0 to 4294967295", number)?),
                    None => None,
                };
                (place.level, Test::Gre(key), inside)
            }
            _ => {
                let label = self.id("a label, 0 to 1048575", 0xf_ffff)?;
                let test = Test::Mpls(place.labels, label);
                if is_next_label {
                    (place.level - 1, test, Place { labels: place.labels + 1, ..place })
                } else {
                    (place.level, test, Place { labels: 1, ..inside })
                }
            }
        };
        self.place = then;
        Ok(Some(Expression::Is(level, test)))
    }

    /// A number, if one comes next.
    fn id(&mut self, allowed: &str, most: u32) -> Result<Option<u32>, FilterError> {
        if !self.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            return Ok(None);
        }
        self.value(allowed, |word| number(word).filter(|id| *id <= most)).map(Some)
    }

    fn primitive(&mut self) -> Result<Expression, FilterError> {
        if let Some(keyword) = self.keyword()? {
            return Ok(keyword);
        }
        let level = self.place.level;
        let is = |test| Ok(Expression::Is(level, test));
        match self.peek() {
            Some("less") => {
                self.next += 1;
                return is(Test::AtMost(self.value("a length in bytes", number)?));
            }
            Some("greater") => {
                self.next += 1;
                return is(Test::AtLeast(self.value("a length in bytes", number)?));
            }
            Some("dropped") => {
                self.next += 1;
                return is(Test::Became(Outcome::Dropped));
            }
            Some("passed") => {
                self.next += 1;
                return is(Test::Became(Outcome::Passed));
            }
            Some("arp") => {
                self.next += 1;
                return is(Test::Ethertype(ARP));
            }
            Some("icmp") => {
                self.next += 1;
                return is(Test::Protocol(Some(IPV4), 1));
            }
            Some("icmp6") => {
                self.next += 1;
                return is(Test::Protocol(Some(IPV6), 58));
            }
            _ => {}
        }
        let said = Qualifiers {
            family: self.take(&["ip", "ip6", "tcp", "udp", "ether"]),
            end: self.end()?,
            kind: self.take(&["host", "net", "port", "portrange", "proto"]),
        };
        match (said.family, said.end, said.kind) {
            (Some("ip"), None, None) => is(Test::Ethertype(IPV4)),
            (Some("ip6"), None, None) => is(Test::Ethertype(IPV6)),
            (Some("tcp"), None, None) => is(Test::Protocol(None, 6)),
            (Some("udp"), None, None) => is(Test::Protocol(None, 17)),
            (family, None, Some("proto")) => self.protocol(family),
            (Some("ether"), end, None | Some("host")) if end.is_some() || said.kind.is_some() => {
                is(Test::Ethernet(end.unwrap_or(End::Either), self.value("an Ethernet address", mac)?))
            }
            (family @ (None | Some("ip" | "ip6")), end, None | Some("host" | "net"))
                if end.is_some()
                    || said.kind.is_some()
                    || self.peek().is_some_and(|w| prefix(w).is_some()) =>
            {
                self.network(family, end.unwrap_or(End::Either), said.kind)
            }
            (family @ (None | Some("tcp" | "udp")), end, Some(kind @ ("port" | "portrange"))) => {
                let protocol = family.map(|family| if family == "tcp" { 6 } else { 17 });
                let end = end.unwrap_or(End::Either);
                let (first, last) = if kind == "port" {
                    self.value("a port, 0 to 65535", |word| number(word).map(|port| (port, port)))?
                } else {
                    self.value("a range of ports such as 1000-2000", |word| {
                        let (first, last) = word.split_once('-')?;
                        Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
                    })?
                };
                is(Test::Ports(protocol, end, first, last))
            }
            (None, None, None) => Err(self.unexpected(PRIMITIVES)),
            (_, None, None) => Err(self.unexpected("host, net, port, portrange, proto, src, dst")),
            (family, _, kind) => {
                self.next -= 1;
                let words = [family, kind].into_iter().flatten().collect::<Vec<_>>().join(" ");
                Err(self.unexpected(&format!(
                    "`{words}` is no combination; allowed: host and net with ip and ip6, port and portrange with tcp \
                     and udp, host and proto with ether"
                )))
            }
        }
    }

    /// `src`, `dst`, and both of them with `or` or `and` between.
    fn end(&mut self) -> Result<Option<End>, FilterError> {
        let Some(first) = self.take(&["src", "dst"]) else { return Ok(None) };
        let single = if first == "src" { End::Source } else { End::Destination };
        let other = if first == "src" { "dst" } else { "src" };
        let second = self.words.get(self.next + 1).map(|word| word.text);
        let joined = match self.peek() {
            Some("or" | "||") if second == Some(other) => End::Either,
            Some("and" | "&&") if second == Some(other) => End::Both,
            _ => return Ok(Some(single)),
        };
        // `src or dst port 80`, but also `src 10.0.0.1 or dst 10.0.0.2`, which does not come here.
        self.next += 2;
        Ok(Some(joined))
    }

    fn protocol(&mut self, family: Option<&str>) -> Result<Expression, FilterError> {
        let ethertype = match family {
            Some("ether") => {
                let ethertype = self.value("an EtherType such as 0x0806", number)?;
                return Ok(Expression::Is(self.place.level, Test::Ethertype(ethertype)));
            }
            Some("ip") => Some(IPV4),
            Some("ip6") => Some(IPV6),
            None => None,
            Some(_) => return Err(self.unexpected("proto with ip, ip6 or ether")),
        };
        let protocol =
            self.value("a protocol's number, 0 to 255, or tcp, udp, icmp, icmp6", |word| match word {
                "tcp" => Some(6),
                "udp" => Some(17),
                "icmp" => Some(1),
                "icmp6" => Some(58),
                _ => number(word),
            })?;
        Ok(Expression::Is(self.place.level, Test::Protocol(ethertype, protocol)))
    }

    fn network(
        &mut self,
        family: Option<&str>,
        end: End,
        kind: Option<&str>,
    ) -> Result<Expression, FilterError> {
        let allowed = match kind {
            Some("host") => "an IP address",
            Some(_) => "a prefix such as 10.0.0.0/8",
            None => "host, net, port, portrange, an address or a prefix",
        };
        let (address, length) = self.value(allowed, |word| {
            let (address, length) = prefix(word)?;
            let fits = match family {
                Some("ip") => address.is_ipv4(),
                Some("ip6") => address.is_ipv6(),
                _ => true,
            };
            let whole = if address.is_ipv4() { 32 } else { 128 };
            (fits && (kind != Some("host") || length == whole)).then_some((address, length))
        })?;
        Ok(Expression::Is(self.place.level, Test::Network(end, address, length)))
    }
}

fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok()?,
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
        _ => return None,
    };
    T::try_from(value).ok()
}

/// An address or a prefix; no bit may be set beyond its length.
fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(number::<u8>(length)?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(whole);
    let beyond = match address {
        IpAddr::V4(ip) => u128::from(ip.to_bits().checked_shl(length.into()).unwrap_or(0)),
        IpAddr::V6(ip) => ip.to_bits().checked_shl(length.into()).unwrap_or(0),
    };
    (length <= whole && beyond == 0).then_some((address, length))
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+'))?;
    }
    parts.next().is_none().then_some(address)
}
