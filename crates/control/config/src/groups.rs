//! Reading security groups, and the devices that name them. What becomes of them is in
//! [`guards`](crate::guards).
//!
//! Groups without a `tenant` are the administrator's, the others a tenant's. A device names groups of the
//! administrator and of its own tenant. A rule of the administrator's names any group as the other end, a
//! tenant's rule the tenant's own alone: what is told to a tenant shows of no other group that it exists.

use crate::format::group_rule_schema;
use crate::read::Reader;
use api::DEFAULT_TENANT;
use schema::{Schema, Value};
use std::net::IpAddr;
use yaml_document::{Key, Location, Node, Position, spelling};

/// Most rules of a group, and of a list that a device's groups become together.
pub(crate) const MOST_RULES: usize = 4096;

/// A security group.
pub(crate) struct Group {
    pub(crate) tenant: String,
    pub(crate) rules: Vec<Rule>,
}

/// What a rule allows.
pub(crate) struct Rule {
    position: Position,
    /// Its number in its group.
    pub(crate) number: usize,
    /// Keys of the function's rule.
    pub(crate) keys: Vec<(&'static str, Node)>,
    pub(crate) remote: Remote,
}

/// The other end of connections.
pub(crate) enum Remote {
    Any,
    Prefix(String),
    /// Devices of this group.
    Group(String),
}

/// The groups of a device.
pub(crate) struct Guarded {
    pub(crate) groups: Vec<String>,
    pub(crate) zone: u16,
}

impl Group {
    /// Whether it is the administrator's.
    pub(crate) fn is_administrators(&self) -> bool {
        self.tenant == DEFAULT_TENANT
    }

    /// Whether a device of a tenant may name it.
    fn is_for(&self, tenant: &str) -> bool {
        self.is_administrators() || self.tenant == tenant
    }

    /// Whether its rules may name another one.
    fn may_name(&self, other: &Group) -> bool {
        self.is_administrators() || self.tenant == other.tenant
    }
}

impl Reader<'_> {
    /// Reads one group.
    pub(crate) fn group(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        // What has a fault is known all the same, so that naming it is not a second one.
        let named = node.get("tenant").and_then(Node::as_text).unwrap_or(DEFAULT_TENANT);
        let of = |rules| Group { tenant: named.to_owned(), rules };
        self.groups.insert(key.text.clone(), of(Vec::new()));
        if node.as_map().is_none() {
            place.report(&mut self.faults, || {
                format!("{}; allowed: a map with the key `rules`", node.found())
            });
            return;
        }
        if Schema::default().check_at(place, Some(node), &["tenant", "rules"], &mut self.faults).is_none() {
            return;
        }
        if let Some(given) = node.get("tenant") {
            let place = place.key("tenant", given.position);
            if given.as_text().is_none() {
                place
                    .report(&mut self.faults, || format!("{}; allowed: the name of a tenant", given.found()));
                return;
            }
            if self.known_tenant(&place, named).is_none() {
                return;
            }
        }
        let mut rules = Vec::new();
        if let Some((_, list)) = node.entry("rules") {
            let place = place.key("rules", list.position);
            let items = list.as_list().filter(|items| items.len() <= MOST_RULES);
            let Some(items) = items else {
                place.report(&mut self.faults, || {
                    let found = list.as_list().map_or(list.found(), |items| format!("found {} rules", items.len()));
                    format!("{found}; allowed: a list of at most {MOST_RULES} rules, such as `[{{direction: in}}]`")
                });
                return;
            };
            for (n, item) in items.iter().enumerate() {
                rules.extend(self.group_rule(&place.item(n, item.position), n, item));
            }
        }
        self.groups.insert(key.text.clone(), of(rules));
    }

    fn group_rule(&mut self, place: &Location<'_>, number: usize, item: &Node) -> Option<Rule> {
        let values = group_rule_schema().check_at(place, Some(item), &["from", "to"], &mut self.faults)?;
        let text = |key| values.get(key).and_then(Value::as_text).unwrap_or_default();
        let is_in = text("direction") == "in";
        let protocol = text("protocol");
        let is_number =
            protocol.parse::<u8>().is_ok() && protocol.bytes().all(|digit| digit.is_ascii_digit());
        let at = |key: &str| item.get(key).map_or(item.position, |node| node.position);
        if !is_number && !["any", "tcp", "udp", "icmp", "icmpv6"].contains(&protocol) {
            place.key("protocol", at("protocol")).report(&mut self.faults, || {
                format!(
                    "found `{}`; allowed: tcp, udp, icmp, icmpv6, any, 0 to 255",
                    spelling::shown(protocol)
                )
            });
            return None;
        }
        let with = |key: &'static str, protocols: &[&str]| {
            (values.get(key).is_some() && !protocols.contains(&protocol)).then_some(key)
        };
        let lost = with("ports", &["tcp", "udp", "6", "17"]).map(|key| (key, "tcp` or `udp")).or_else(|| {
            let protocols = ["icmp", "icmpv6", "1", "58"];
            let key = with("icmp_type", &protocols).or_else(|| with("icmp_code", &protocols))?;
            Some((key, "icmp` or `icmpv6"))
        });
        if let Some((key, protocols)) = lost {
            place.key(key, at(key)).report(&mut self.faults, || {
                format!("`{key}` says nothing here; allowed: with `protocol: {protocols}`")
            });
            return None;
        }
        let (own, other) = if is_in { ("from", "to") } else { ("to", "from") };
        if let Some(node) = item.get(other) {
            place.key(other, node.position).report(&mut self.faults, || {
                format!("`{other}` is the device itself; allowed: `{own}`, which is the other end")
            });
            return None;
        }
        let remote = match item.get(own) {
            None => Remote::Any,
            Some(node) => self.remote(&place.key(own, node.position), node)?,
        };
        let is_v6 = match protocol {
            "icmp" | "1" => Some(false),
            "icmpv6" | "58" => Some(true),
            _ => None,
        };
        if let (Some(is_v6), Remote::Prefix(prefix)) = (is_v6, &remote)
            && prefix.contains(':') != is_v6
        {
            let family = if is_v6 { "IPv6" } else { "IPv4" };
            place.key(own, at(own)).report(&mut self.faults, || {
                format!("found `{prefix}`; allowed with `protocol: {protocol}`: a prefix of {family}, which it is of")
            });
            return None;
        }
        let kept = ["direction", "protocol", "ports", "icmp_type", "icmp_code"];
        let keys = kept.into_iter().filter_map(|key| Some((key, item.get(key)?.clone())));
        Some(Rule { position: item.position, number, keys: keys.collect(), remote })
    }

    /// The other end: a prefix, or `{group: NAME}`.
    fn remote(&mut self, place: &Location<'_>, node: &Node) -> Option<Remote> {
        let group = node.as_map().filter(|entries| entries.len() == 1).and_then(|_| node.get("group"));
        if let Some(name) = group.and_then(Node::as_text) {
            return Some(Remote::Group(name.to_owned()));
        }
        if let Some(text) = node.as_text().filter(|text| is_prefix(text)) {
            return Some(Remote::Prefix(text.to_owned()));
        }
        place.report(&mut self.faults, || {
            format!(
                "{}; allowed: a prefix such as `192.0.2.0/24`, or a group, `{{group: NAME}}`",
                node.found()
            )
        });
        None
    }

    /// Reads the groups that a device names, and its zone.
    pub(crate) fn guarded(
        &mut self,
        place: &Location<'_>,
        key: &Key,
        node: &Node,
        values: &Value,
        tenant: &str,
    ) {
        let zone = values.get("zone").and_then(Value::as_integer).and_then(|zone| u16::try_from(zone).ok());
        let list = values.get("groups").and_then(Value::as_list);
        let (list, zone) = match (list, zone) {
            (Some(list), Some(zone)) => (list, zone),
            (None, None) => return,
            (there, _) => {
                let (key, missing) = if there.is_some() { ("groups", "zone") } else { ("zone", "groups") };
                let position = node.get(key).map_or(place.position(), |node| node.position);
                place.key(key, position).report(&mut self.faults, || {
                    format!("`{key}` without `{missing}`; allowed: both, such as `groups: [web], zone: 7`")
                });
                return;
            }
        };
        let items = node.get("groups").and_then(Node::as_list).unwrap_or_default();
        let section = place.key("groups", node.get("groups").map_or(place.position(), |node| node.position));
        let mut groups = Vec::new();
        for (n, (value, item)) in list.iter().zip(items).enumerate() {
            let name = value.as_text().unwrap_or_default();
            let place = section.item(n, item.position);
            let of = |group: &Group| group.is_for(tenant);
            if groups.iter().any(|known| known == name) {
                place.report(&mut self.faults, || format!("`{name}` is named twice; allowed: once"));
                continue;
            }
            if self.groups.get(name).is_some_and(of) {
                groups.push(name.to_owned());
                continue;
            }
            // A tenant's groups are not named to others.
            let known = self.groups.iter().filter(|(_, group)| of(group)).map(|(name, _)| name.as_str());
            let known: Vec<&str> = known.collect();
            place.report_not_found(&mut self.faults, &["groups"], name, || {
                let administrators = match tenant {
                    DEFAULT_TENANT => String::new(),
                    _ => format!(" or `{DEFAULT_TENANT}`"),
                };
                format!(
                    "no group of `{tenant}`{administrators} is named `{}`{}",
                    spelling::shown(name),
                    spelling::choices(name, known.iter().copied())
                )
            });
        }
        self.guarded.insert(key.text.clone(), Guarded { groups, zone });
    }

    /// Groups that rules name and that are not there or another tenant's.
    pub(crate) fn group_references(&mut self, root_place: &Location<'_>, root: &Node) {
        // Of a part the other groups are not there.
        let Some((_, node)) = root.entry("groups").filter(|_| self.whole) else { return };
        let section = root_place.key("groups", node.position);
        let mut faults = Vec::new();
        for (name, group) in &self.groups {
            for rule in &group.rules {
                let Remote::Group(named) = &rule.remote else { continue };
                let place = section.key(name, rule.position);
                let place = place.key("rules", rule.position);
                let place = place.item(rule.number, rule.position);
                if !self.groups.get(named).is_some_and(|other| group.may_name(other)) {
                    let known = self.groups.iter().filter(|(_, other)| group.may_name(other));
                    let choices =
                        spelling::choices(named, known.map(|(name, _)| name.as_str()).collect::<Vec<_>>());
                    place.report_not_found(&mut faults, &["groups"], named, || {
                        format!("no group is named `{}`{choices}", spelling::shown(named))
                    });
                }
            }
        }
        self.faults.extend(faults);
    }
}

/// Whether a text is a prefix: an address without bits behind the length.
fn is_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u32>()) else { return false };
    match address {
        IpAddr::V4(four) => length <= 32 && four.to_bits().checked_shl(length).unwrap_or(0) == 0,
        IpAddr::V6(six) => length <= 128 && six.to_bits().checked_shl(length).unwrap_or(0) == 0,
    }
}
