//! Membership in groups: IGMPv3 (RFC 3376) and MLDv2 (RFC 3810), with older queriers in their version.
//!
//! 1. The groups that are configured, and the solicited-node group of each IPv6 address, are joined: a report
//!    at once and again within a second, as often as the querier's robustness says, at first twice.
//! 2. A query is answered after a random pause within its maximum, and a tenth of a second at least; queries
//!    that come meanwhile change it only to an earlier one. One after a group and sources is answered as one
//!    after the group.
//! 3. When a query of an older version came, that version is spoken for 260 s after it: a report for each
//!    group, and none where another station's is heard first.
//! 4. A group that is wanted no more is left, told as often as joining is. At the end all are.
//!
//! All sources are wanted of each group. Reports go out from `::` and `0.0.0.0` as long as there is no valid
//! address.

mod message;

use crate::addresses::{AddressState, Origin};
use crate::counters::{Fault, Input};
use crate::device::Device;
use crate::discovery::{ALL_NODES, ALL_ROUTERS, solicited_node};
use crate::frame::{self, Way, group_mac};
use message::{Heard, ROUTERS_MLD2, ROUTERS_V3, Record, Version};
use packet::{icmpv6, ipv4, ipv6, protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use telemetry::clock::Nanos;

const SECOND: u64 = 1_000_000_000;
/// Reports of a change, if no querier says otherwise (RFC 3376 section 8.1).
const ROBUSTNESS: u8 = 2;
/// Between them at most (RFC 3376 section 8.11).
const REPEAT: Nanos = Nanos(SECOND);
/// How long an older version is spoken after its query (RFC 3376 section 8.12).
const OLDER: Nanos = Nanos(260 * SECOND);
/// A query is not answered before this.
const SOONEST: Nanos = Nanos::from_millis(100);
/// The option of RFC 2113 in front of every message of IGMP.
const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];

#[derive(Debug)]
struct Member {
    leaves: bool,
    /// Reports of the change that are left.
    reports: u8,
    /// When the next one is.
    due: Nanos,
    /// When a query after it is answered.
    answer: Option<Nanos>,
}

/// What is known of the queriers of a protocol.
#[derive(Debug)]
struct Queriers {
    /// The version that is spoken, and until when.
    older: Option<(Version, Nanos)>,
    /// When a query after all groups is answered.
    answer: Option<Nanos>,
    robustness: u8,
}

impl Queriers {
    fn version(&self, now: Nanos) -> Version {
        self.older.filter(|(_, until)| *until > now).map_or(Version::Records, |(version, _)| version)
    }
}

/// The groups of a device.
#[derive(Debug)]
pub(crate) struct Groups {
    members: BTreeMap<IpAddr, Member>,
    four: Queriers,
    six: Queriers,
    /// The addresses from which the groups that are wanted were made.
    seen: Option<u64>,
}

impl Groups {
    pub(crate) fn new() -> Groups {
        let queriers = || Queriers { older: None, answer: None, robustness: ROBUSTNESS };
        Groups { members: BTreeMap::new(), four: queriers(), six: queriers(), seen: None }
    }

    /// The groups that are joined.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.members.iter().filter(|(_, member)| !member.leaves).map(|(group, _)| *group)
    }

    /// Which groups are wanted is to be looked at anew.
    pub(crate) fn renew(&mut self) {
        self.seen = None;
    }

    fn queriers(&mut self, four: bool) -> &mut Queriers {
        if four { &mut self.four } else { &mut self.six }
    }

    /// When something is to be done; at once when other groups may be wanted.
    pub(crate) fn deadline(&self, generation: u64) -> Option<Nanos> {
        if self.seen != Some(generation) {
            return Some(Nanos(0));
        }
        let of = |member: &Member| {
            let report = (member.reports > 0).then_some(member.due);
            report.into_iter().chain(member.answer).min()
        };
        self.members.values().filter_map(of).chain(self.four.answer).chain(self.six.answer).min()
    }
}

impl Device {
    /// A message of IGMP came.
    pub(crate) fn igmp_input(&mut self, payload: &[u8], now: Nanos) -> Input {
        let heard = ipv4::View::new(payload).map_err(|_| Fault::Malformed);
        self.heard(heard.and_then(|packet| message::read_v4(&packet)), true, now)
    }

    /// A message of MLD came.
    pub(crate) fn mld_input(&mut self, packet: &ipv6::View<'_>, body: &[u8], now: Nanos) -> Input {
        self.heard(message::read_v6(packet, body), false, now)
    }

    fn heard(&mut self, heard: Result<Option<Heard>, Fault>, four: bool, now: Nanos) -> Input {
        match heard {
            Err(fault) => Input::Dropped(fault),
            Ok(None) => Input::Ignored,
            Ok(Some(Heard::Report(group))) => {
                let older = self.groups.queriers(four).version(now) < Version::Records;
                if older && let Some(member) = self.groups.members.get_mut(&group) {
                    member.answer = None;
                }
                Input::Taken
            }
            Ok(Some(Heard::Query { group, within, version, robustness })) => {
                let at = now.saturating_add(Nanos(self.rng.u64(SOONEST.0..=within.0.max(SOONEST.0))));
                let sooner = |answer: &mut Option<Nanos>| {
                    *answer = Some(answer.map_or(at, |answer| answer.min(at)));
                };
                let queriers = self.groups.queriers(four);
                if version < Version::Records {
                    queriers.older = Some((version, now.saturating_add(OLDER)));
                }
                queriers.robustness = robustness.unwrap_or(queriers.robustness);
                let one_for_each = queriers.version(now) < Version::Records;
                match group {
                    Some(group) => {
                        let member = self.groups.members.get_mut(&group);
                        if let Some(member) = member.filter(|member| !member.leaves) {
                            sooner(&mut member.answer);
                        }
                    }
                    None if one_for_each => {
                        let of = |group: &IpAddr| group.is_ipv4() == four;
                        let members = self.groups.members.iter_mut().filter(|(group, _)| of(group));
                        for (_, member) in members.filter(|(_, member)| !member.leaves) {
                            let span = within.0.max(SOONEST.0);
                            let at = now.saturating_add(Nanos(self.rng.u64(SOONEST.0..=span)));
                            member.answer = Some(member.answer.map_or(at, |answer| answer.min(at)));
                        }
                    }
                    None => sooner(&mut queriers.answer),
                }
                Input::Taken
            }
        }
    }

    /// The groups of the settings and the addresses.
    fn wanted_groups(&self) -> BTreeSet<IpAddr> {
        let configured = self.settings.multicast.iter().copied();
        let nodes = self.addresses.iter().filter(|own| own.state != AddressState::Duplicate);
        let nodes = nodes.filter_map(|own| match own.prefix.address {
            IpAddr::V6(address) => Some(IpAddr::V6(solicited_node(address))),
            IpAddr::V4(_) => None,
        });
        // What every station is in, and what does not leave it, is not told (RFC 3376 section 5, RFC 3810
        // section 6).
        let told = |group: &IpAddr| match group {
            IpAddr::V4(group) => *group != Ipv4Addr::new(224, 0, 0, 1),
            IpAddr::V6(group) => *group != ALL_NODES && group.octets()[1] & 0xf > 1,
        };
        configured.chain(nodes).filter(told).collect()
    }

    /// Does what is due. Whether all of it was done.
    pub(crate) fn poll_groups(&mut self, now: Nanos) -> bool {
        if self.groups.seen != Some(self.addresses.generation()) {
            self.groups.seen = Some(self.addresses.generation());
            let wanted = self.wanted_groups();
            self.change_groups(&wanted, now);
        }
        [true, false].into_iter().all(|four| self.report_changes(four, now) && self.answer_queries(four, now))
    }

    fn change_groups(&mut self, wanted: &BTreeSet<IpAddr>, now: Nanos) {
        let (four, six) = (self.groups.four.robustness, self.groups.six.robustness);
        let reports = |group: &IpAddr| if group.is_ipv4() { four } else { six };
        for (group, member) in &mut self.groups.members {
            if member.leaves == wanted.contains(group) {
                *member = Member { leaves: !member.leaves, reports: reports(group), due: now, answer: None };
            }
        }
        for group in wanted {
            self.groups.members.entry(*group).or_insert(Member {
                leaves: false,
                reports: reports(group),
                due: now,
                answer: None,
            });
        }
    }

    /// Reports of groups that are joined or left. Whether all that are due were sent.
    fn report_changes(&mut self, four: bool, now: Nanos) -> bool {
        let due = |(group, member): &(&IpAddr, &Member)| {
            group.is_ipv4() == four && member.reports > 0 && member.due <= now
        };
        let changes: Vec<(IpAddr, Record)> = self
            .groups
            .members
            .iter()
            .filter(due)
            .map(|(group, member)| (*group, if member.leaves { Record::Leaves } else { Record::Joins }))
            .collect();
        if changes.is_empty() {
            return true;
        }
        let version = self.groups.queriers(four).version(now);
        for frame in self.reports(&changes, version) {
            if !self.outbox.may_send(now) {
                return false;
            }
            self.outbox.put(frame);
        }
        let next = now.saturating_add(Nanos(self.rng.u64(1..=REPEAT.0)));
        for (group, _) in &changes {
            if let Some(member) = self.groups.members.get_mut(group) {
                member.reports -= 1;
                member.due = next;
            }
        }
        self.groups.members.retain(|_, member| !member.leaves || member.reports > 0);
        true
    }

    /// Answers to queries. Whether all that are due were sent.
    fn answer_queries(&mut self, four: bool, now: Nanos) -> bool {
        let queriers = self.groups.queriers(four);
        let version = queriers.version(now);
        let all = queriers.answer.is_some_and(|at| at <= now);
        if all {
            queriers.answer = None;
        }
        let asked = |member: &Member| all || member.answer.is_some_and(|at| at <= now);
        let mut answers = Vec::new();
        for (group, member) in &mut self.groups.members {
            if group.is_ipv4() == four && !member.leaves && asked(member) {
                member.answer = None;
                answers.push((*group, Record::Is));
            }
        }
        // One that the rate does not allow is asked for again by the querier.
        for frame in self.reports(&answers, version) {
            if self.outbox.may_answer(now) {
                self.outbox.put(frame);
            }
        }
        true
    }

    /// Frames that report these records in this version.
    fn reports(&self, records: &[(IpAddr, Record)], version: Version) -> Vec<Option<Vec<u8>>> {
        let mut four = Vec::new();
        let mut six = Vec::new();
        for (group, record) in records {
            match group {
                IpAddr::V4(group) => four.push((*group, *record)),
                IpAddr::V6(group) => six.push((*group, *record)),
            }
        }
        let mut frames = Vec::new();
        if version == Version::Records {
            frames.extend(message::report_v4(&four).iter().map(|message| self.igmp(ROUTERS_V3, message)));
            let messages = message::report_v6(&six);
            frames.extend(messages.iter().map(|(header, data)| self.mld(ROUTERS_MLD2, *header, data)));
            return frames;
        }
        for (group, record) in four {
            let message = message::older_v4(group, record == Record::Leaves, version);
            frames.extend(message.map(|(to, message)| self.igmp(to, &message)));
        }
        for (group, record) in six {
            let (kind, to) = match record {
                Record::Leaves => (icmpv6::kind::LISTENER_DONE, ALL_ROUTERS),
                Record::Is | Record::Joins => (icmpv6::kind::LISTENER_REPORT, group),
            };
            let header = icmpv6::Repr { kind, code: 0, rest: [0; 4] };
            frames.push(self.mld(to, header, &group.octets()));
        }
        frames
    }

    fn igmp(&self, to: Ipv4Addr, message: &[u8]) -> Option<Vec<u8>> {
        let from = match self.addresses.source_for(to.into()) {
            Some(IpAddr::V4(from)) => from,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let way = Way { from_mac: self.settings.mac, to_mac: group_mac(to.into()), from, to };
        frame::ipv4(way, (protocol::IGMP, 1, &ROUTER_ALERT), message.len(), |bytes, _| {
            bytes.copy_from_slice(message);
            Some(())
        })
    }

    fn mld(&self, to: Ipv6Addr, header: icmpv6::Repr, data: &[u8]) -> Option<Vec<u8>> {
        let own = self.addresses.iter().find(|own| own.origin == Origin::LinkLocal);
        let from = match own.filter(|own| own.state == AddressState::Valid).map(|own| own.prefix.address) {
            Some(IpAddr::V6(from)) => from,
            _ => Ipv6Addr::UNSPECIFIED,
        };
        let way = Way { from_mac: self.settings.mac, to_mac: group_mac(to.into()), from, to };
        frame::icmpv6(way, (1, true), header, data)
    }

    /// Tells that all groups are left, as far as that may be sent.
    pub(crate) fn leave_groups(&mut self, now: Nanos) {
        self.change_groups(&BTreeSet::new(), now);
        self.report_changes(true, now);
        self.report_changes(false, now);
    }
}
