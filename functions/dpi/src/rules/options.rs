//! The options of a rule, in parentheses: each becomes part of a [`Draft`].

use super::compare::{Compare, Flags};
use super::content::{self, Content, Relative};
use super::text::{decimal, nearest, quoted, say};
use super::{
    DataAt, Direction, Element, FlowCondition, Protocol, Scope, Threshold, ThresholdKind, classification,
    regex,
};
use alloc::string::String;
use alloc::vec::Vec;

/// What is wrong, and at which byte of the option's value; without a place, at its name.
pub type Wrong = (Option<usize>, String);

/// What the options have said so far.
#[derive(Debug, Default)]
pub struct Draft {
    pub(super) message: Option<String>,
    pub(super) sid: Option<(u32, usize)>,
    pub(super) gid: Option<u32>,
    pub(super) revision: Option<u32>,
    pub(super) category: Option<(&'static str, u8)>,
    pub(super) priority: Option<u8>,
    pub(super) flow: Option<FlowCondition>,
    pub(super) stream: Option<Scope>,
    pub(super) size: Option<Compare>,
    pub(super) flags: Option<Flags>,
    pub(super) ttl: Option<Compare>,
    pub(super) icmp_type: Option<Compare>,
    pub(super) icmp_code: Option<Compare>,
    pub(super) ip_protocol: Vec<Compare>,
    pub(super) threshold: Option<Threshold>,
    /// With the place of the option.
    pub(super) elements: Vec<(Element, usize)>,
}

/// Options that are known.
const KNOWN: [&str; 30] = [
    "msg",
    "sid",
    "rev",
    "gid",
    "classtype",
    "priority",
    "reference",
    "metadata",
    "content",
    "nocase",
    "offset",
    "depth",
    "distance",
    "within",
    "startswith",
    "endswith",
    "rawbytes",
    "fast_pattern",
    "isdataat",
    "dsize",
    "pcre",
    "flow",
    "flags",
    "ttl",
    "itype",
    "icode",
    "ip_proto",
    "ipproto",
    "threshold",
    "target",
];

/// Beginnings of options that look into an application's protocol.
const APPLICATION: [&str; 24] = [
    "http",
    "dns",
    "tls",
    "ssl",
    "ssh",
    "smb",
    "smtp",
    "ftp",
    "file",
    "ja3",
    "ja4",
    "krb5",
    "nfs",
    "snmp",
    "sip",
    "rfb",
    "mqtt",
    "quic",
    "dcerpc",
    "dce_",
    "uricontent",
    "urilen",
    "app-layer",
    "base64",
];

/// Options that keep or read state between rules or packets.
const STATEFUL: [&str; 9] =
    ["flowbits", "flowint", "xbits", "hostbits", "dataset", "datarep", "detection_filter", "lua", "iprep"];

fn unknown(name: &[u8]) -> Wrong {
    let found = quoted(name);
    let text = core::str::from_utf8(name).unwrap_or_default();
    if APPLICATION.iter().any(|start| text.starts_with(start)) {
        let why = " looks into an application's protocol (a sticky buffer, say), and only the payload is matched; \
                   allowed: content and pcre on the payload";
        return (None, say(&[&found, why]));
    }
    if STATEFUL.contains(&text) {
        return (
            None,
            say(&[&found, " is not supported; allowed: the options in README.md, threshold among them"]),
        );
    }
    let near = nearest(name, KNOWN).map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
    (None, say(&["unknown option ", &found, &near, "; allowed: ", &KNOWN.join(", ")]))
}

fn number(text: &[u8], least: u32, most: u32) -> Result<u32, Wrong> {
    let trimmed = text.trim_ascii();
    let digits = !trimmed.is_empty() && trimmed.iter().all(u8::is_ascii_digit);
    let parsed = core::str::from_utf8(trimmed).ok().and_then(|text| text.parse().ok());
    parsed.filter(|number| digits && (least..=most).contains(number)).ok_or_else(|| {
        let range = [decimal(u64::from(least)), decimal(u64::from(most))];
        (Some(0), say(&[&quoted(trimmed), "; allowed: ", &range[0], " to ", &range[1]]))
    })
}

fn signed(text: &[u8]) -> Result<i32, Wrong> {
    let trimmed = text.trim_ascii();
    let parsed = core::str::from_utf8(trimmed).ok().and_then(|text| text.parse().ok());
    parsed
        .filter(|number| (-65_535..=65_535).contains(number))
        .ok_or_else(|| (Some(0), say(&[&quoted(trimmed), "; allowed: -65535 to 65535"])))
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Wrong> {
    if slot.replace(value).is_some() {
        return Err((None, String::from("given a second time; allowed: once")));
    }
    Ok(())
}

impl Draft {
    /// The last content: what modifiers are about.
    fn last_content(&mut self) -> Result<&mut Content, Wrong> {
        match self.elements.last_mut() {
            Some((Element::Content(content), _)) => Ok(content),
            _ => Err((None, String::from("no content before it; allowed: directly behind a content"))),
        }
    }

    fn modify(&mut self, name: &[u8], value: &[u8]) -> Result<(), Wrong> {
        if !KNOWN.iter().any(|known| known.as_bytes() == name) {
            return Err(unknown(name));
        }
        let is_fast = name == b"fast_pattern";
        let content = self.last_content()?;
        let twice = || Err((None, String::from("given a second time for this content; allowed: once")));
        match name {
            b"nocase" => {
                content.nocase = true;
                content.bytes.make_ascii_lowercase();
            }
            b"rawbytes" => {}
            b"offset" | b"startswith"
                if content.is_absolute && (content.offset != 0 || name == b"startswith") =>
            {
                return twice();
            }
            b"offset" => (content.offset, content.is_absolute) = (number(value, 0, 65_535)?, true),
            b"depth" if content.depth.is_some() => return twice(),
            b"depth" => (content.depth, content.is_absolute) = (Some(number(value, 1, 65_535)?), true),
            b"startswith" => (content.depth, content.is_absolute) = (Some(content.bytes.len() as u32), true),
            b"endswith" => content.at_end = true,
            b"distance" => {
                content.relative.get_or_insert_default().distance = signed(value)?;
            }
            b"within" => {
                let within = number(value, 1, 65_535)?;
                if (within as usize) < content.bytes.len() {
                    let length = decimal(content.bytes.len() as u64);
                    let why =
                        [&quoted(value), " is shorter than the content; allowed: from ", &length, " on"];
                    return Err((Some(0), why.concat()));
                }
                let relative: &mut Relative = content.relative.get_or_insert_default();
                if relative.within.replace(within).is_some() {
                    return twice();
                }
            }
            _ if is_fast => {
                let value = value.trim_ascii();
                let chop = value.iter().all(|byte| byte.is_ascii_digit() || *byte == b',');
                if value != b"only" && !chop {
                    let allowed = "; allowed: nothing, only, or OFFSET,LENGTH";
                    return Err((Some(0), say(&[&quoted(value), allowed])));
                }
                if content.is_negated {
                    return Err((
                        None,
                        String::from("on a negated content; allowed: on one that must be there"),
                    ));
                }
                content.is_fast = true;
            }
            _ => return Err(unknown(name)),
        }
        if content.relative.is_some() && content.is_absolute {
            let why =
                "offset or depth beside distance or within; allowed: one of the two kinds for a content";
            return Err((None, String::from(why)));
        }
        Ok(())
    }

    /// Takes an option; `place` is where it begins.
    ///
    /// # Errors
    /// What is wrong, and where in the value.
    pub fn option(&mut self, name: &[u8], value: Option<&[u8]>, place: usize) -> Result<(), Wrong> {
        let bare: [&[u8]; 5] = [b"nocase", b"startswith", b"endswith", b"rawbytes", b"fast_pattern"];
        let value = match value {
            Some(value) if bare[..4].contains(&name) => {
                return Err((
                    Some(0),
                    say(&[&quoted(value), " behind an option without a value; allowed: `;`"]),
                ));
            }
            None if !bare.contains(&name) => {
                if !KNOWN.iter().any(|known| known.as_bytes() == name) {
                    return Err(unknown(name));
                }
                return Err((None, String::from("without a value; allowed: `NAME:VALUE;`")));
            }
            value => value.unwrap_or_default(),
        };
        let at = |(place, text): (usize, String)| (Some(place), text);
        match name {
            b"msg" => {
                let (_, start, text) = content::unquote(value, false).map_err(at)?;
                once(&mut self.message, message(text).map_err(|(place, text)| (Some(start + place), text))?)
            }
            b"sid" => once(&mut self.sid, (number(value, 1, u32::MAX)?, place)),
            b"rev" => once(&mut self.revision, number(value, 0, u32::MAX)?),
            b"gid" => once(&mut self.gid, number(value, 1, u32::MAX)?),
            b"priority" => once(&mut self.priority, number(value, 1, 255)? as u8),
            b"classtype" => {
                let class = classification::find(value.trim_ascii()).ok_or_else(|| {
                    let near = nearest(value.trim_ascii(), classification::names());
                    let near = near.map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
                    let allowed = "; allowed: a name of Suricata's classification.config";
                    (Some(0), say(&[&quoted(value), near.as_str(), allowed]))
                })?;
                once(&mut self.category, class)
            }
            b"reference" | b"metadata" | b"target" => Ok(()),
            b"content" => {
                let (is_negated, start, text) = content::unquote(value, true).map_err(at)?;
                let bytes = content::bytes(text).map_err(|(place, text)| (Some(start + place), text))?;
                let content = Content { bytes, is_negated, ..Content::default() };
                self.elements.push((Element::Content(content), place));
                Ok(())
            }
            b"pcre" => {
                let (is_negated, start, text) = content::unquote(value, true).map_err(at)?;
                let parsed =
                    regex::parse(text, is_negated).map_err(|(place, text)| (Some(start + place), text))?;
                self.elements.push((Element::Regex(parsed), place));
                Ok(())
            }
            b"isdataat" => {
                self.elements.push((Element::DataAt(data_at(value)?), place));
                Ok(())
            }
            b"dsize" => once(&mut self.size, Compare::parse(value, 65_535).map_err(|text| at((0, text)))?),
            b"ttl" => once(&mut self.ttl, Compare::parse(value, 255).map_err(|text| at((0, text)))?),
            b"itype" => once(&mut self.icmp_type, Compare::parse(value, 255).map_err(|text| at((0, text)))?),
            b"icode" => once(&mut self.icmp_code, Compare::parse(value, 255).map_err(|text| at((0, text)))?),
            b"ip_proto" | b"ipproto" => {
                let named = ip_protocol(value.trim_ascii()).map(Ok);
                let compare = named.unwrap_or_else(|| Compare::parse(value, 255));
                self.ip_protocol.push(compare.map_err(|text| at((0, text)))?);
                Ok(())
            }
            b"flags" => once(&mut self.flags, Flags::parse(value).map_err(|text| at((0, text)))?),
            b"flow" => self.flow(value),
            b"threshold" => once(&mut self.threshold, threshold(value)?),
            _ => self.modify(name, value),
        }
    }

    fn flow(&mut self, value: &[u8]) -> Result<(), Wrong> {
        let mut flow = FlowCondition::default();
        let mut start = 0;
        for word in value.split(|byte| *byte == b',') {
            let trimmed = word.trim_ascii();
            let conflict = match trimmed {
                b"to_server" | b"from_client" => flow.direction.replace(Direction::ToServer).is_some(),
                b"to_client" | b"from_server" => flow.direction.replace(Direction::ToClient).is_some(),
                b"established" => flow.established.replace(true).is_some(),
                b"not_established" => flow.established.replace(false).is_some(),
                b"stateless" => flow.established.is_some(),
                b"only_stream" => self.stream.replace(Scope::OnlyStream).is_some(),
                b"no_stream" => self.stream.replace(Scope::Packet).is_some(),
                _ => {
                    let allowed = "; allowed: to_server, to_client, from_server, from_client, established, \
                                   not_established, stateless, only_stream, no_stream";
                    return Err((Some(start), say(&[&quoted(trimmed), allowed])));
                }
            };
            if conflict {
                let why = " contradicts or repeats a word before it; allowed: one of a kind";
                return Err((Some(start), say(&[&quoted(trimmed), why])));
            }
            start += word.len() + 1;
        }
        once(&mut self.flow, flow)
    }

    /// What can be said only when all options are known.
    ///
    /// # Errors
    /// What is wrong; the place is an absolute one.
    pub fn check(&self, protocol: Protocol) -> Result<(), (Option<usize>, String)> {
        for (element, place) in &self.elements {
            let Element::Content(content) = element else { continue };
            if content.depth.is_some_and(|depth| (depth as usize) < content.bytes.len()) {
                return Err((
                    Some(*place),
                    String::from("a depth that is shorter than the content; allowed: its length on"),
                ));
            }
        }
        let (tcp, icmp) = (self.flags.is_some(), self.icmp_type.is_some() || self.icmp_code.is_some());
        if tcp && protocol != Protocol::Tcp {
            return Err((None, String::from("flags in a rule that is not for tcp; allowed: protocol tcp")));
        }
        if icmp && protocol != Protocol::Icmp {
            return Err((
                None,
                String::from("itype or icode in a rule that is not for icmp; allowed: protocol icmp"),
            ));
        }
        if !self.ip_protocol.is_empty() && protocol != Protocol::Ip {
            return Err((None, String::from("ip_proto in a rule that is not for ip; allowed: protocol ip")));
        }
        if self.stream == Some(Scope::OnlyStream) && protocol != Protocol::Tcp {
            return Err((
                None,
                String::from("only_stream in a rule that is not for tcp; allowed: protocol tcp"),
            ));
        }
        Ok(())
    }
}

fn message(text: &[u8]) -> Result<String, (usize, String)> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'\\' && matches!(text.get(at + 1), Some(b'"' | b'\\' | b';' | b':')) {
            at += 1;
        }
        bytes.extend(text.get(at));
        at += 1;
    }
    if bytes.len() > 512 {
        return Err((0, String::from("a msg of more than 512 bytes; allowed: up to 512")));
    }
    String::from_utf8(bytes).map_err(|_| (0, String::from("a msg that is not UTF-8; allowed: UTF-8")))
}

fn data_at(value: &[u8]) -> Result<DataAt, Wrong> {
    let mut words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let first = words.next().unwrap_or_default();
    let (is_negated, first) = first.strip_prefix(b"!").map_or((false, first), |rest| (true, rest));
    let mut data = DataAt { bytes: number(first, 0, 65_535)?, is_relative: false, is_negated };
    for word in words {
        match word {
            b"relative" => data.is_relative = true,
            b"rawbytes" => {}
            _ => return Err((Some(0), say(&[&quoted(word), "; allowed: [!]BYTES[,relative][,rawbytes]"]))),
        }
    }
    Ok(data)
}

fn ip_protocol(name: &[u8]) -> Option<Compare> {
    const NAMES: [(&[u8], u32); 13] = [
        (b"icmp", 1),
        (b"igmp", 2),
        (b"ipip", 4),
        (b"tcp", 6),
        (b"udp", 17),
        (b"ipv6", 41),
        (b"gre", 47),
        (b"esp", 50),
        (b"ah", 51),
        (b"ipv6-icmp", 58),
        (b"ospf", 89),
        (b"pim", 103),
        (b"sctp", 132),
    ];
    let (is_other, name) = name.strip_prefix(b"!").map_or((false, name), |rest| (true, rest));
    let (_, number) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(if is_other { Compare::Other(*number) } else { Compare::Equal(*number) })
}

fn threshold(value: &[u8]) -> Result<Threshold, Wrong> {
    let (mut kind, mut by_source, mut count, mut seconds) = (None, None, None, None);
    let mut start = 0;
    for part in value.split(|byte| *byte == b',') {
        let trimmed = part.trim_ascii();
        let split = trimmed.iter().position(u8::is_ascii_whitespace).unwrap_or(trimmed.len());
        let (name, argument) = (&trimmed[..split], trimmed[split..].trim_ascii());
        let refuse = |allowed: &str| Err((Some(start), say(&[&quoted(trimmed), "; allowed: ", allowed])));
        let repeated = match name {
            b"type" => kind
                .replace(match argument {
                    b"limit" => ThresholdKind::Limit,
                    b"threshold" => ThresholdKind::Threshold,
                    b"both" => ThresholdKind::Both,
                    _ => return refuse("type limit, type threshold, type both"),
                })
                .is_some(),
            b"track" => by_source
                .replace(match argument {
                    b"by_src" => true,
                    b"by_dst" => false,
                    _ => return refuse("track by_src, track by_dst"),
                })
                .is_some(),
            b"count" => count
                .replace(number(argument, 1, u32::MAX).map_err(|(_, text)| (Some(start), text))?)
                .is_some(),
            b"seconds" => seconds
                .replace(number(argument, 1, 31_536_000).map_err(|(_, text)| (Some(start), text))?)
                .is_some(),
            _ => return refuse("type, track, count, seconds"),
        };
        if repeated {
            return refuse("each of type, track, count, seconds once");
        }
        start += part.len() + 1;
    }
    match (kind, by_source, count, seconds) {
        (Some(kind), Some(by_source), Some(count), Some(seconds)) => {
            Ok(Threshold { kind, by_source, count, seconds })
        }
        _ => Err((Some(0), say(&[&quoted(value), "; allowed: type, track, count and seconds, all four"]))),
    }
}
