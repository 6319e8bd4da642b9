//! The configuration, checked beyond what the schema can say, and the rules that it names.

use crate::rules::Rules;
use crate::rules::network::Variables;
use crate::rules::parse::Unsupported;
use crate::rules::text::{Faults, clip, say};
use alloc::string::String;
use nf_sdk::fragments::FragmentOverlap;
use nf_sdk::pieces::Overlap;
use nf_sdk::{Config, Error, Nanos};
use packet::tunnel::{Tunnel, Tunnels};

/// Longest line that the host logs whole.
pub const LONGEST_LINE: usize = 1024;
/// Longest name of a file in a fault.
const LONGEST_NAME: usize = 256;

/// The configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Copies of suspicious packets are sent.
    pub copies: bool,
    /// Drop rules drop.
    pub drops: bool,
    /// With a packet, its flow is dropped.
    pub drops_flows: bool,
    /// A packet that costs too much is dropped.
    pub drops_overload: bool,
    /// Malformed packets are dropped.
    pub drops_malformed: bool,
    /// Fragments are dropped.
    pub drops_fragments: bool,
    /// Packets that their receiver ignores are dropped.
    pub drops_ignored: bool,
    /// Packets of a connection that come by another interface than their side's are ignored.
    pub tells_sides: bool,
    /// Checksums are verified.
    pub verifies: bool,
    /// The least time to live that reaches receivers.
    pub min_ttl: u8,
    /// Which of two segments counts where they overlap.
    pub overlap: Overlap,
    /// Which of two fragments counts where they overlap.
    pub fragment_overlap: FragmentOverlap,
    /// Bytes for fragments.
    pub fragment_memory: usize,
    /// How long the fragments of a datagram are kept.
    pub fragment_timeout: Nanos,
    /// Most flows.
    pub max_flows: usize,
    /// TCP may be picked up in the middle.
    pub pick_up: bool,
    /// How far back rules look in a stream, in bytes.
    pub stream_window: usize,
    /// Bytes for windows and held segments.
    pub stream_memory: usize,
    /// Bytes for messages of applications, and for bits of flows.
    pub message_memory: usize,
    /// Most bytes of a body that are looked at.
    pub body_limit: usize,
    /// Bytes ahead of a stream that a segment may be held.
    pub reorder_limit: usize,
    /// Most counts of thresholds.
    pub max_thresholds: usize,
    /// Tunnels that are looked into.
    pub tunnels: Tunnels,
    /// Idle time of TCP, handshake incomplete.
    pub opening_timeout: Nanos,
    /// Idle time of established TCP.
    pub established_timeout: Nanos,
    /// Idle time of other flows.
    pub other_timeout: Nanos,
    /// The file of rules, as messages name it.
    pub rules_file: String,
}

impl Settings {
    /// Reads the configuration and the rules.
    ///
    /// # Errors
    /// What the host's check should have refused, and all faults of the rules, a line each.
    pub fn read(config: &Config) -> Result<(Settings, Rules), Error> {
        let number =
            |key: &str, least: u64, most: u64| config.bounded(key, least, most).map(|number| number as usize);
        let (overlap, fragment_overlap) = match config.text("overlap")? {
            "first" => (Overlap::First, FragmentOverlap::First),
            "last" => (Overlap::Last, FragmentOverlap::Last),
            "windows" => (Overlap::Before, FragmentOverlap::Around),
            _ => (Overlap::Longer, FragmentOverlap::Discard),
        };
        let file = config.file("rules")?;
        let mut rules_file = String::from(file.path);
        clip(&mut rules_file, LONGEST_NAME);
        let settings = Settings {
            copies: config.text("suspicious")? == "copies",
            drops: config.text("inline")? == "drop",
            drops_flows: config.text("drop_scope")? == "flow",
            drops_overload: config.text("overload")? == "drop",
            drops_malformed: config.text("malformed")? == "drop",
            drops_fragments: config.text("fragments")? == "drop",
            drops_ignored: config.text("ignored")? == "drop",
            tells_sides: config.text("sides")? == "apart",
            verifies: config.text("checksums")? == "verify",
            min_ttl: number("min_ttl", 0, 255)? as u8,
            overlap,
            fragment_overlap,
            fragment_memory: number("fragment_memory", 64 << 10, 256 << 20)?,
            fragment_timeout: config.duration("fragment_timeout")?,
            max_flows: number("max_flows", 1, 1_000_000)?,
            pick_up: config.boolean("pick_up")?,
            stream_window: number("stream_window", 64, 16_384)?,
            stream_memory: number("stream_memory", 64 << 10, 512 << 20)?,
            message_memory: number("message_memory", 64 << 10, 512 << 20)?,
            body_limit: number("body_limit", 0, 1 << 20)?,
            reorder_limit: number("reorder_limit", 0, 1 << 20)?,
            max_thresholds: number("max_thresholds", 8, 1_000_000)?,
            tunnels: config.tunnels(Tunnels::new(Tunnel::ALL))?,
            opening_timeout: config.duration("opening_timeout")?,
            established_timeout: config.duration("established_timeout")?,
            other_timeout: config.duration("other_timeout")?,
            rules_file,
        };
        let variables = variables(config)?;
        let unsupported =
            if config.text("unsupported")? == "skip" { Unsupported::Skip } else { Unsupported::Refuse };
        let rules = Rules::parse_with(file.contents, &variables, unsupported)
            .map_err(|faults| refusal(&settings.rules_file, &faults))?;
        Ok((settings, rules))
    }
}

/// All faults in one error, a line each.
fn refusal(file: &str, faults: &Faults) -> Error {
    Error::Refused(faults.lines(file, LONGEST_LINE).join("\n"))
}

fn variables(config: &Config) -> Result<Variables, Error> {
    let mut variables = Variables::new();
    let Some(list) = config.optional("variables")? else { return Ok(variables) };
    let list = list.list().ok_or_else(|| Error::WrongType(String::from("variables")))?;
    for item in list {
        let map = item.map().ok_or_else(|| Error::WrongType(String::from("variables")))?;
        let name = map.text("name")?.trim_start_matches('$');
        let is_word =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_word {
            let allowed = "` as a name; allowed: letters, digits and `_`";
            return Err(Error::Refused(say(&["variables: `", name, allowed])));
        }
        if variables.insert(String::from(name), String::from(map.text("value")?)).is_some() {
            return Err(Error::Refused(say(&["variables: `", name, "` twice; allowed: each name once"])));
        }
    }
    Ok(variables)
}
