//! The options of a rule, in parentheses: each becomes part of a [`Draft`].

use super::bits::{self, Bits};
use super::buffer::{self, App, Buffer};
use super::bytes::{self, Number};
use super::classification::{self, Class};
use super::compare::{Compare, Flags};
use super::content::{self, Content, Relative};
use super::text::{decimal, is_edited, nearest, quoted, say};
use super::{
    DataAt, Direction, Element, FlowCondition, Protocol, Scope, Threshold, ThresholdKind, Track, VERSIONS,
    Version, lacking, regex,
};
use alloc::string::String;
use alloc::vec::Vec;

/// Most bytes between a content and the match before it, and most in which it ends.
const FARTHEST: i32 = 1 << 20;

/// What is wrong, and at which byte of the option's value; without a place, at its name.
pub type Wrong = (Option<usize>, String);

/// What the options have said so far.
#[derive(Debug, Default)]
pub struct Draft {
    pub(super) message: Option<String>,
    pub(super) sid: Option<(u32, usize)>,
    pub(super) gid: Option<u32>,
    pub(super) revision: Option<u32>,
    pub(super) category: Option<Class>,
    pub(super) priority: Option<u32>,
    pub(super) flow: Option<FlowCondition>,
    pub(super) stream: Option<Scope>,
    pub(super) size: Option<Compare>,
    pub(super) flags: Option<Flags>,
    pub(super) ttl: Option<Compare>,
    pub(super) icmp_type: Option<Compare>,
    pub(super) icmp_code: Option<Compare>,
    pub(super) ip_protocol: Vec<Compare>,
    pub(super) threshold: Option<Threshold>,
    pub(super) apps: Vec<(App, bool)>,
    pub(super) tls_version: Option<Version>,
    pub(super) bits: Vec<Bits>,
    pub(super) is_silent: bool,
    /// What is looked for.
    pub(super) elements: Vec<Wanted>,
    /// The sticky buffer, and how many there were before it.
    sticky: Option<(Buffer, usize)>,
    stickies: usize,
    /// Names of extracted numbers.
    taken: Vec<Vec<u8>>,
    /// What this function lacks for the option that was refused last.
    pub(super) missing: Option<String>,
    /// What it lacks for one before.
    lacked: Option<String>,
}

/// Something that is looked for.
#[derive(Debug)]
pub struct Wanted {
    pub(super) element: Element,
    /// The place of the option.
    pub(super) place: usize,
    /// In which buffer, and the number of its sticky buffer; `None` for the payload.
    pub(super) buffer: Option<(Buffer, usize)>,
}

/// Options that are known.
const KNOWN: [&str; 45] = [
    "msg",
    "sid",
    "rev",
    "gid",
    "classtype",
    "priority",
    "reference",
    "metadata",
    "content",
    "uricontent",
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
    "bsize",
    "urilen",
    "pcre",
    "byte_test",
    "byte_jump",
    "byte_extract",
    "flow",
    "flowbits",
    "xbits",
    "noalert",
    "alert",
    "app-layer-protocol",
    "tls.version",
    "pkt_data",
    "flags",
    "tcp.flags",
    "ttl",
    "itype",
    "icode",
    "ip_proto",
    "ipproto",
    "threshold",
    "detection_filter",
    "target",
];

fn is_known(name: &[u8]) -> bool {
    KNOWN.iter().any(|known| known.as_bytes() == name)
        || Buffer::sticky(name).is_some()
        || Buffer::modifier(name).is_some()
}

/// The option's name, when Suricata knows it and this function does not.
fn missing(name: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(name).ok()?;
    // What is one edit away from an option that is known here is a mistake.
    let is_other = || !is_edited(name, KNOWN.into_iter().chain(buffer::names()));
    (lacking::is_option(text) || lacking::is_of_family(text) && is_other()).then_some(text)
}

fn unknown(name: &[u8]) -> Wrong {
    let found = quoted(name);
    if missing(name).is_some() {
        let why = " is an option that this function does not have; allowed: those in its README.md, or \
                   `unsupported: skip`, which leaves such rules out";
        return (None, say(&[&found, why]));
    }
    let near = nearest(name, KNOWN.into_iter().chain(buffer::names()));
    let near = near.map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
    (
        None,
        say(&["unknown option ", &found, &near, "; allowed: ", &KNOWN.join(", "), ", and names of buffers"]),
    )
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
        .filter(|number| (-FARTHEST..=FARTHEST).contains(number))
        .ok_or_else(|| (Some(0), say(&[&quoted(trimmed), "; allowed: -1048576 to 1048576"])))
}

/// What is said of an option that a rule has twice.
const AGAIN: &str = "given a second time; allowed: once";

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Wrong> {
    if slot.replace(value).is_some() {
        return Err((None, String::from(AGAIN)));
    }
    Ok(())
}

impl Draft {
    /// The last content: what modifiers are about.
    fn last_content(&mut self) -> Result<&mut Content, Wrong> {
        let content = self.elements.iter_mut().rev().find_map(|wanted| match &mut wanted.element {
            Element::Content(content) => Some(content),
            _ => None,
        });
        content.ok_or_else(|| (None, String::from("no content before it; allowed: behind a content")))
    }

    /// Takes an element, in the buffer that is the current one; a relative one in that of the match before.
    fn want(&mut self, element: Element, place: usize) {
        let before = self.elements.last().and_then(|last| last.buffer);
        let buffer = if element.is_relative() && self.sticky.is_none() { before } else { self.sticky };
        self.elements.push(Wanted { element, place, buffer });
    }

    /// Puts the last content into a buffer.
    fn put_in(&mut self, name: &[u8], buffer: Buffer) -> Result<(), Wrong> {
        let sticky = self.sticky.is_some();
        self.last_content()?;
        if sticky {
            let why = " behind a sticky buffer; allowed: one of the two spellings for a content";
            return Err((None, say(&[&quoted(name), why])));
        }
        match self.elements.last_mut() {
            Some(Wanted { element: Element::Content(_), buffer: place, .. }) => *place = Some((buffer, 0)),
            _ => {
                self.missing =
                    Some(String::from("names of buffers that are not directly behind their content"));
                let why = " is not directly behind its content; allowed: nothing between them";
                return Err((None, say(&[&quoted(name), why])));
            }
        }
        Ok(())
    }

    fn modify(&mut self, name: &[u8], value: &[u8]) -> Result<(), Wrong> {
        if let Some(buffer) = Buffer::modifier(name) {
            return self.put_in(name, buffer);
        }
        if !is_known(name) {
            return Err(unknown(name));
        }
        let taken = self.taken.clone();
        let variable =
            |value: &[u8]| taken.iter().position(|name| name == value.trim_ascii()).map(|n| n as u8);
        let is_fast = name == b"fast_pattern";
        let content = self.last_content()?;
        let twice = || Err((None, String::from("given a second time for this content; allowed: once")));
        match name {
            b"nocase" => content.ignore_case(),
            b"rawbytes" => {}
            b"offset" | b"startswith"
                if content.is_absolute && (content.offset != 0 || name == b"startswith") =>
            {
                return twice();
            }
            b"depth" if content.depth.is_some() => return twice(),
            b"offset" | b"depth" | b"distance" | b"within" if variable(value).is_some() => {
                let slot = match name {
                    b"offset" => &mut content.taken.offset,
                    b"depth" => &mut content.taken.depth,
                    b"distance" => &mut content.taken.distance,
                    _ => &mut content.taken.within,
                };
                *slot = variable(value);
                match name {
                    b"offset" => content.is_absolute = true,
                    b"depth" => (content.depth, content.is_absolute) = (Some(65_535), true),
                    b"distance" => drop(content.relative.get_or_insert_default()),
                    _ => content.relative.get_or_insert_default().within = Some(65_535),
                }
            }
            b"offset" => (content.offset, content.is_absolute) = (number(value, 0, 65_535)?, true),
            b"depth" => (content.depth, content.is_absolute) = (Some(number(value, 1, 65_535)?), true),
            b"startswith" => (content.depth, content.is_absolute) = (Some(content.bytes.len() as u32), true),
            b"endswith" => content.at_end = true,
            b"distance" => {
                content.relative.get_or_insert_default().distance = signed(value)?;
            }
            b"within" => {
                let within = number(value, 1, FARTHEST.unsigned_abs())?;
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
                let chop = value.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b' '));
                if value != b"only" && !chop {
                    let allowed = "; allowed: nothing, only, or OFFSET,LENGTH";
                    return Err((Some(0), say(&[&quoted(value), allowed])));
                }
                // What must not be there can hardly be what packets are chosen by.
                content.is_fast = !content.is_negated;
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
    /// What is wrong, and where in the value; with what this function lacks, if that is it.
    pub fn option(
        &mut self,
        name: &[u8],
        value: Option<&[u8]>,
        place: usize,
        names: &mut bits::Names,
    ) -> Result<(), Wrong> {
        self.missing = None;
        let taken = match name {
            b"flowbits" | b"xbits" => self.bits(name, value, names),
            _ => self.plain(name, value, place),
        };
        let Err(wrong) = taken else { return Ok(()) };
        if self.missing.is_none() {
            self.missing = self.lacks(name, value.unwrap_or_default(), &wrong.1);
        }
        if self.lacked.is_none() {
            self.lacked = self.missing.clone();
        }
        Err(wrong)
    }

    /// What this function lacks for an option that it refuses, if Suricata takes it.
    fn lacks(&self, name: &[u8], value: &[u8], why: &str) -> Option<String> {
        let text = core::str::from_utf8(name).ok()?;
        if why == AGAIN {
            return lacking::may_repeat(name).then(|| say(&["a second ", text]));
        }
        // It may be about what was not taken: a buffer, or a number that has a name.
        let refers = name == b"bsize"
            || matches!(
                name,
                b"byte_test"
                    | b"byte_jump"
                    | b"byte_extract"
                    | b"isdataat"
                    | b"offset"
                    | b"depth"
                    | b"distance"
                    | b"within"
            ) && value.iter().any(u8::is_ascii_alphabetic);
        if let Some(lacked) = self.lacked.as_ref().filter(|_| refers) {
            return Some(lacked.clone());
        }
        lacking::takes(name, value, &self.taken).then(|| say(&["that form of ", text]))
    }

    /// An option that shares nothing with other rules.
    fn plain(&mut self, name: &[u8], value: Option<&[u8]>, place: usize) -> Result<(), Wrong> {
        let bare: [&[u8]; 7] =
            [b"nocase", b"startswith", b"endswith", b"rawbytes", b"pkt_data", b"noalert", b"alert"];
        let is_buffer = Buffer::sticky(name).is_some() || Buffer::modifier(name).is_some();
        let is_bare = bare.contains(&name) || is_buffer;
        if !is_known(name) {
            self.missing = missing(name).map(String::from);
            return Err(unknown(name));
        }
        let value = match value {
            Some(value) if is_bare && !(name == b"nocase" && value.trim_ascii().is_empty()) => {
                return Err((
                    Some(0),
                    say(&[&quoted(value), " behind an option without a value; allowed: `;`"]),
                ));
            }
            None if !is_bare && name != b"fast_pattern" => {
                return Err((None, String::from("without a value; allowed: `NAME:VALUE;`")));
            }
            value => value.unwrap_or_default(),
        };
        if let Some(buffer) = Buffer::sticky(name) {
            self.stickies += 1;
            self.sticky = Some((buffer, if buffer.is_multiple() { self.stickies } else { 0 }));
            return Ok(());
        }
        let at = |(place, text): (usize, String)| (Some(place), text);
        match name {
            b"msg" => {
                let (_, start, text) = content::unquote(value, false).map_err(at)?;
                once(&mut self.message, message(text).map_err(|(place, text)| (Some(start + place), text))?)
            }
            b"sid" => once(&mut self.sid, (number(value, 1, u32::MAX)?, place)),
            b"rev" => once(&mut self.revision, number(value, 0, u32::MAX)?),
            b"gid" => once(&mut self.gid, number(value, 0, u32::MAX)?),
            b"priority" => once(&mut self.priority, number(value, 0, u32::MAX)?),
            b"classtype" => {
                let class = classification::find(value.trim_ascii()).ok_or_else(|| {
                    let allowed = "; allowed: a letter, and up to 62 letters, digits, `-` and `_`";
                    (Some(0), say(&[&quoted(value), allowed]))
                })?;
                once(&mut self.category, class)
            }
            b"reference" | b"metadata" | b"target" => Ok(()),
            b"content" | b"uricontent" => {
                let (is_negated, start, text) = content::unquote(value, true).map_err(at)?;
                let bytes = content::bytes(text).map_err(|(place, text)| (Some(start + place), text))?;
                let content = Content::new(bytes, is_negated);
                let buffer = if name == b"content" { self.sticky } else { Some((Buffer::Uri, 0)) };
                self.elements.push(Wanted { element: Element::Content(content), place, buffer });
                Ok(())
            }
            b"pcre" => {
                let (is_negated, start, text) = content::unquote(value, true).map_err(at)?;
                let (parsed, buffer) = regex::parse(text, is_negated).map_err(|wrong| {
                    self.missing = wrong.missing.map(String::from);
                    (Some(start + wrong.place), wrong.text)
                })?;
                if let (Some(buffer), Some((sticky, _))) = (buffer, self.sticky)
                    && buffer != sticky
                {
                    let why = "a flag for another buffer than the sticky one; allowed: none, or its own";
                    return Err((Some(start), String::from(why)));
                }
                let buffer = self.sticky.or(buffer.map(|buffer| (buffer, 0)));
                self.elements.push(Wanted { element: Element::Regex(parsed), place, buffer });
                Ok(())
            }
            b"isdataat" => {
                let data = data_at(value, &self.taken)?;
                self.want(Element::DataAt(data), place);
                Ok(())
            }
            b"byte_test" => {
                let test = bytes::byte_test(value, &self.taken)
                    .map_err(|text| (dce_place(value, &mut self.missing), text))?;
                self.want(Element::Test(test), place);
                Ok(())
            }
            b"byte_jump" => {
                let jump = bytes::byte_jump(value, &self.taken)
                    .map_err(|text| (dce_place(value, &mut self.missing), text))?;
                self.want(Element::Jump(jump), place);
                Ok(())
            }
            b"byte_extract" => {
                let (extract, name) = bytes::byte_extract(value, &self.taken)
                    .map_err(|text| (dce_place(value, &mut self.missing), text))?;
                let name = name.to_vec();
                self.taken.push(name);
                self.want(Element::Extract(extract), place);
                Ok(())
            }
            b"bsize" => {
                let compare = Compare::parse(value, u32::MAX - 1).map_err(|text| at((0, text)))?;
                if self.sticky.is_none() {
                    return Err((None, String::from("no sticky buffer before it; allowed: behind one")));
                }
                self.want(Element::Length(compare), place);
                Ok(())
            }
            b"urilen" => {
                let (value, buffer) = match value.iter().position(|byte| *byte == b',') {
                    None => (value, Buffer::Uri),
                    Some(comma) => match value[comma + 1..].trim_ascii() {
                        b"raw" => (&value[..comma], Buffer::UriRaw),
                        b"norm" => (&value[..comma], Buffer::Uri),
                        other => {
                            return Err((Some(comma + 1), say(&[&quoted(other), "; allowed: raw, norm"])));
                        }
                    },
                };
                let compare = Compare::parse(value, 65_535).map_err(|text| at((0, text)))?;
                self.elements.push(Wanted {
                    element: Element::Length(compare),
                    place,
                    buffer: Some((buffer, 0)),
                });
                Ok(())
            }
            b"pkt_data" => {
                self.sticky = None;
                Ok(())
            }
            b"noalert" => {
                self.is_silent = true;
                Ok(())
            }
            b"alert" => {
                self.is_silent = false;
                Ok(())
            }
            b"app-layer-protocol" => {
                let trimmed = value.trim_ascii();
                let quoted_name = trimmed.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\""));
                let trimmed = quoted_name.unwrap_or(trimmed);
                let (is_negated, name) =
                    trimmed.strip_prefix(b"!").map_or((false, trimmed), |name| (true, name.trim_ascii()));
                let Some(app) = App::find(name) else {
                    self.missing = lacking::is_app(name).then(|| String::from("app-layer-protocol"));
                    return Err((
                        Some(0),
                        say(&[&quoted(name), "; allowed: http, dns, tls, each with `!` before it"]),
                    ));
                };
                self.apps.push((app, is_negated));
                Ok(())
            }
            b"tls.version" => {
                let name = value.trim_ascii();
                let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
                let version = VERSIONS.iter().find(|(known, _)| known.as_bytes() == name);
                let Some((_, version)) = version else {
                    return Err((Some(0), say(&[&quoted(name), "; allowed: 1.0, 1.1, 1.2, 1.3, SSLv3"])));
                };
                once(&mut self.tls_version, *version)
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
            b"flags" | b"tcp.flags" => {
                once(&mut self.flags, Flags::parse(value).map_err(|text| at((0, text)))?)
            }
            b"flow" => self.flow(value),
            b"threshold" => once(&mut self.threshold, threshold(value, false)?),
            b"detection_filter" => once(&mut self.threshold, threshold(value, true)?),
            _ => self.modify(name, value),
        }
    }

    /// Takes `flowbits` and `xbits`, which share names with other rules.
    fn bits(&mut self, name: &[u8], value: Option<&[u8]>, names: &mut bits::Names) -> Result<(), Wrong> {
        let Some(value) = value else {
            return Err((None, String::from("without a value; allowed: `NAME:VALUE;`")));
        };
        let is_host = name == b"xbits";
        let read = if is_host { bits::xbits } else { bits::flowbits };
        self.missing = (is_host && bits::is_of_pairs(value)).then(|| String::from("xbits of pairs"));
        match read(value, names).map_err(|text| (Some(0), text))? {
            Some(bits) => self.bits.push(bits),
            None => self.is_silent = true,
        }
        Ok(())
    }

    fn flow(&mut self, value: &[u8]) -> Result<(), Wrong> {
        let mut flow = FlowCondition::default();
        let (mut start, mut of_fragments) = (0, None);
        for word in value.split(|byte| *byte == b',') {
            let trimmed = word.trim_ascii();
            let conflict = match trimmed.to_ascii_lowercase().as_slice() {
                b"to_server" | b"from_client" => flow.direction.replace(Direction::ToServer).is_some(),
                b"to_client" | b"from_server" => flow.direction.replace(Direction::ToClient).is_some(),
                b"established" => flow.established.replace(true).is_some(),
                b"not_established" => flow.established.replace(false).is_some(),
                b"stateless" => flow.established == Some(true),
                b"only_stream" => self.stream.replace(Scope::OnlyStream).is_some(),
                b"no_stream" => self.stream.replace(Scope::Packet).is_some(),
                b"no_frag" | b"only_frag" => of_fragments.replace((start, trimmed)).is_some(),
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
        if let Some((start, word)) = of_fragments {
            self.missing = Some(say(&["flow:", core::str::from_utf8(word).unwrap_or_default()]));
            let why = " is about fragments, which are put together here; allowed: the other words of `flow`";
            return Err((Some(start), say(&[&quoted(word), why])));
        }
        once(&mut self.flow, flow)
    }

    /// What can be said only when all options are known.
    ///
    /// # Errors
    /// What is wrong; the place is an absolute one. With what this function lacks, if that is it.
    pub fn check(&mut self, protocol: Protocol) -> Result<(), Wrong> {
        self.missing = None;
        let checked = self.check_all(protocol);
        if checked.is_err() && self.missing.is_none() {
            // It may be about what was not taken.
            self.missing = self.lacked.clone();
        }
        checked
    }

    fn check_all(&mut self, protocol: Protocol) -> Result<(), Wrong> {
        self.check_buffers(protocol)?;
        for Wanted { element, place, .. } in &self.elements {
            let Element::Content(content) = element else { continue };
            if content.depth.is_some_and(|depth| (depth as usize) < content.bytes.len()) {
                return Err((
                    Some(*place),
                    String::from("a depth that is shorter than the content; allowed: its length on"),
                ));
            }
        }
        if !self.ip_protocol.is_empty() && protocol != Protocol::Ip {
            return Err((None, String::from("ip_proto in a rule that is not for ip; allowed: protocol ip")));
        }
        if self.stream == Some(Scope::OnlyStream) && protocol != Protocol::Tcp {
            self.missing = Some(String::from("flow:only_stream in rules that are not for tcp"));
            return Err((
                None,
                String::from("only_stream in a rule that is not for tcp; allowed: protocol tcp"),
            ));
        }
        Ok(())
    }
}

impl Draft {
    /// All buffers of a rule are parts of one message.
    fn check_buffers(&mut self, protocol: Protocol) -> Result<(), Wrong> {
        let mut app = self.tls_version.map(|_| App::Tls);
        let mut direction = self.flow.unwrap_or_default().direction;
        for Wanted { place, buffer, .. } in &self.elements {
            let Some((buffer, _)) = buffer else { continue };
            let field = buffer.field();
            if *app.get_or_insert(field.app) != field.app {
                return Err((
                    Some(*place),
                    String::from("buffers of two protocols; allowed: those of one in a rule"),
                ));
            }
            if let Some(wanted) = field.direction
                && *direction.get_or_insert(wanted) != wanted
            {
                let has_body =
                    |wanted: &Wanted| wanted.buffer.is_some_and(|(buffer, _)| buffer == Buffer::ResponseBody);
                if self.elements.iter().any(has_body) {
                    self.missing = Some(String::from("bodies of requests as file.data"));
                }
                let why = "a buffer of the other direction's messages; allowed: buffers of requests or of \
                           responses, as `flow` says";
                return Err((Some(*place), String::from(why)));
            }
        }
        if app == Some(App::Http) && !matches!(protocol, Protocol::Tcp | Protocol::Ip)
            || app.is_some() && protocol == Protocol::Icmp
        {
            self.missing = Some(String::from("buffers in rules for another protocol"));
            let why = "buffers that are not this protocol's; allowed: tcp, http, tls, and udp with dns";
            return Err((None, String::from(why)));
        }
        Ok(())
    }
}

/// The place of a number's option that is refused, and what it lacks if it is about DCE/RPC.
fn dce_place(value: &[u8], missing: &mut Option<String>) -> Option<usize> {
    let is_dce = value.split(|byte| *byte == b',').any(|word| word.trim_ascii() == b"dce");
    *missing = is_dce.then(|| String::from("dce"));
    Some(0)
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

fn data_at(value: &[u8], taken: &[Vec<u8>]) -> Result<DataAt, Wrong> {
    let mut words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let first = words.next().unwrap_or_default();
    let (is_negated, first) = first.strip_prefix(b"!").map_or((false, first), |rest| (true, rest));
    let bytes = match taken.iter().position(|name| name == first) {
        Some(place) => Number::Taken(place as u8),
        None => Number::Given(i64::from(number(first, 0, 65_535)?)),
    };
    let mut data = DataAt { bytes, is_relative: false, is_negated };
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

fn threshold(value: &[u8], is_filter: bool) -> Result<Threshold, Wrong> {
    let (mut kind, mut track, mut count, mut seconds) = (None, None, None, None);
    let mut start = 0;
    for part in value.split(|byte| *byte == b',') {
        let trimmed = part.trim_ascii();
        let split = trimmed.iter().position(u8::is_ascii_whitespace).unwrap_or(trimmed.len());
        let (name, argument) = (&trimmed[..split], trimmed[split..].trim_ascii());
        let refuse = |allowed: &str| Err((Some(start), say(&[&quoted(trimmed), "; allowed: ", allowed])));
        let repeated = match name {
            b"type" if !is_filter => kind
                .replace(match argument {
                    b"limit" => ThresholdKind::Limit,
                    b"threshold" => ThresholdKind::Threshold,
                    b"both" => ThresholdKind::Both,
                    _ => return refuse("type limit, type threshold, type both"),
                })
                .is_some(),
            b"track" => track
                .replace(match argument {
                    b"by_src" => Track::Source,
                    b"by_dst" => Track::Destination,
                    b"by_both" => Track::Pair,
                    b"by_rule" => Track::Rule,
                    _ => return refuse("track by_src, track by_dst, track by_both, track by_rule"),
                })
                .is_some(),
            b"count" => count
                .replace(number(argument, 1, u32::MAX).map_err(|(_, text)| (Some(start), text))?)
                .is_some(),
            b"seconds" => seconds
                .replace(number(argument, 1, u32::MAX).map_err(|(_, text)| (Some(start), text))?)
                .is_some(),
            _ if is_filter => return refuse("track, count, seconds"),
            _ => return refuse("type, track, count, seconds"),
        };
        if repeated {
            return refuse("each of type, track, count, seconds once");
        }
        start += part.len() + 1;
    }
    if is_filter {
        kind = Some(ThresholdKind::Beyond);
    }
    match (kind, track, count, seconds) {
        (Some(kind), Some(track), Some(count), Some(seconds)) => {
            Ok(Threshold { kind, track, count, seconds })
        }
        _ if is_filter => {
            Err((Some(0), say(&[&quoted(value), "; allowed: track, count and seconds, all three"])))
        }
        _ => Err((Some(0), say(&[&quoted(value), "; allowed: type, track, count and seconds, all four"]))),
    }
}
