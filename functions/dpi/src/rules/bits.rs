//! The options `flowbits` and `xbits`: what rules remember of a flow and of a host, for other rules.

use super::text::{quoted, say};
use alloc::string::String;
use alloc::vec::Vec;

/// Most names of bits.
pub const MAX_NAMES: usize = 4096;

/// What a bit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The flow.
    Flow,
    /// The packet's source, or its destination, for so many seconds.
    Host {
        /// The source.
        is_source: bool,
        /// How long the bit stays.
        seconds: u32,
    },
}

/// What is done with a bit, or asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It is there from now on.
    Set,
    /// It is not there any more.
    Unset,
    /// It is there if it was not.
    Toggle,
    /// One of them must be there.
    IsSet,
    /// None of them may be there.
    IsNotSet,
}

impl Act {
    /// It asks, and changes nothing.
    pub fn is_question(self) -> bool {
        matches!(self, Act::IsSet | Act::IsNotSet)
    }
}

/// An option `flowbits` or `xbits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    /// What they belong to.
    pub owner: Owner,
    /// What is done or asked.
    pub act: Act,
    /// Numbers of their names; more than one with a question alone.
    pub names: Vec<u16>,
}

/// Names of bits and their numbers.
#[derive(Debug, Default)]
pub struct Names(alloc::collections::BTreeMap<Vec<u8>, u16>);

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn number(&mut self, name: &[u8]) -> Result<u16, String> {
        let next = self.0.len();
        if let Some(number) = self.0.get(name) {
            return Ok(*number);
        }
        let is_name = !name.is_empty() && name.len() <= 128 && name.iter().all(u8::is_ascii_graphic);
        if !is_name {
            return Err(say(&[
                &quoted(name),
                " as a bit's name; allowed: 1 to 128 characters without blanks",
            ]));
        }
        if next >= MAX_NAMES {
            return Err(String::from("more than 4096 names of bits; allowed: up to 4096"));
        }
        self.0.insert(name.to_vec(), next as u16);
        Ok(next as u16)
    }
}

fn act(word: &[u8]) -> Option<Act> {
    Some(match word {
        b"set" => Act::Set,
        b"unset" => Act::Unset,
        b"toggle" => Act::Toggle,
        b"isset" => Act::IsSet,
        b"isnotset" => Act::IsNotSet,
        _ => return None,
    })
}

/// Reads `flowbits`; `None` for `noalert`.
///
/// # Errors
/// What was found and what is allowed.
pub fn flowbits(value: &[u8], names: &mut Names) -> Result<Option<Bits>, String> {
    let allowed = "; allowed: set, unset, toggle, isset, isnotset, each with `,NAME`, and noalert";
    let mut words = value.splitn(2, |byte| *byte == b',').map(<[u8]>::trim_ascii);
    let first = words.next().unwrap_or_default();
    let list = words.next();
    if first == b"noalert" && list.is_none() {
        return Ok(None);
    }
    let (Some(act), Some(list)) = (act(first), list) else { return Err(say(&[&quoted(value), allowed])) };
    let mut bits = Bits { owner: Owner::Flow, act, names: Vec::new() };
    for name in list.split(|byte| *byte == b'|') {
        bits.names.push(names.number(name.trim_ascii())?);
    }
    if bits.names.len() > 1 && !act.is_question() {
        return Err(say(&[&quoted(list), "; allowed: several names with isset and isnotset alone"]));
    }
    Ok(Some(bits))
}

/// Whether this is `xbits` of pairs of hosts, which are not kept.
pub fn is_of_pairs(value: &[u8]) -> bool {
    let mut words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    words.any(|word| word.strip_prefix(b"track").map(<[u8]>::trim_ascii) == Some(b"ip_pair"))
}

/// Reads `xbits`; `None` for `noalert`.
///
/// # Errors
/// What was found and what is allowed.
pub fn xbits(value: &[u8], names: &mut Names) -> Result<Option<Bits>, String> {
    let refuse = |word: &[u8]| {
        let allowed = "; allowed: set|unset|toggle|isset|isnotset,NAME,track ip_src|ip_dst[,expire SECONDS], and noalert";
        Err(say(&[&quoted(word), allowed]))
    };
    let words: Vec<&[u8]> = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    if words == [b"noalert"] {
        return Ok(None);
    }
    let (Some(act), Some(name), Some(track)) =
        (words.first().and_then(|word| act(word)), words.get(1), words.get(2))
    else {
        return refuse(value);
    };
    let track = track.strip_prefix(b"track").map(<[u8]>::trim_ascii);
    let is_source = match track {
        Some(b"ip_src") => true,
        Some(b"ip_dst") => false,
        _ => return refuse(words[2]),
    };
    let mut seconds = 30;
    if let Some(word) = words.get(3) {
        let digits = word.strip_prefix(b"expire").map(<[u8]>::trim_ascii).unwrap_or_default();
        let parsed = core::str::from_utf8(digits).ok().and_then(|text| text.parse::<u32>().ok());
        match parsed.filter(|seconds| (1..=31_536_000).contains(seconds)) {
            Some(parsed) => seconds = parsed,
            None => return refuse(word),
        }
    }
    if let Some(word) = words.get(4) {
        return refuse(word);
    }
    let owner = Owner::Host { is_source, seconds };
    Ok(Some(Bits { owner, act, names: Vec::from([names.number(name)?]) }))
}
