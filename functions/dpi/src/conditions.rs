//! What rules ask of a packet beside its payload: protocol, ends, flow, flags and the like.

use crate::header::{Address, View};
use crate::rules::buffer::App;
use crate::rules::compare::Flags;
use crate::rules::{Direction, Protocol, Rule, Rules, Scope};
use packet::protocol;

/// What rules look at beside the payload.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Headers.
    pub view: &'a View<'a>,
    /// Which end sent the packet; `None` without a flow.
    pub direction: Option<Direction>,
    /// Both sides of the flow have agreed.
    pub is_established: bool,
    /// Rules about addresses alone are applied.
    pub judges_addresses: bool,
    /// The application's protocol, once it is known; `Some(None)` when it is none that is read.
    pub app: Option<Option<App>>,
}

/// Whether everything but contents is as the rule says; `as_packet`: the packet itself is looked at. Rules
/// that many payloads name are asked this many times.
#[inline]
pub fn hold(rules: &Rules, rule: &Rule, context: &Context<'_>, as_packet: bool) -> bool {
    let view = context.view;
    let is_protocol = match rule.protocol {
        Protocol::Ip => true,
        Protocol::Tcp => view.protocol == protocol::TCP,
        Protocol::Udp => view.protocol == protocol::UDP,
        Protocol::Icmp => view.icmp.is_some(),
    };
    let flow = rule.flow;
    if !is_protocol
        || rule.is_address_only && !context.judges_addresses
        || rule.scope == Scope::Packet && !as_packet
        || flow.direction.is_some_and(|direction| context.direction != Some(direction))
        || flow.established.is_some_and(|established| context.is_established != established)
        || view.is_fragment && rule.has_content()
        || rule.asks_more && !more_holds(rule, context)
    {
        return false;
    }
    let (from, to) = ((view.source, view.source_port), (view.destination, view.destination_port));
    are_ends(rules, rule, view, from, to) || rule.is_bidirectional && are_ends(rules, rule, view, to, from)
}

/// Whether these are a rule's source and destination.
#[inline]
fn are_ends(rules: &Rules, rule: &Rule, view: &View<'_>, from: (Address, u16), to: (Address, u16)) -> bool {
    let [(source, source_ports), (destination, destination_ports)] = rule.ends;
    let [any_source, any_destination] = rule.any;
    let is_port = |ports: u32, port: u16| has_ports(view) && rules.ports(ports).contains(port);
    let is_address = |addresses: u32, address: Address| rules.addresses(addresses).contains(address.ip());
    (any_destination.1 || is_port(destination_ports, to.1))
        && (any_source.1 || is_port(source_ports, from.1))
        && (any_source.0 || is_address(source, from.0))
        && (any_destination.0 || is_address(destination, to.0))
}

/// Whether the packet has ports, as far as it is there.
fn has_ports(view: &View<'_>) -> bool {
    let is_without = view.is_fragment && view.source_port == 0 && view.destination_port == 0;
    protocol::has_ports(view.protocol) && !is_without
}

/// Whether it is a segment with such flags.
#[inline]
pub fn have(flags: Flags, view: &View<'_>) -> bool {
    view.protocol == protocol::TCP && flags.hold(view.tcp.flags)
}

/// What few rules ask for.
#[inline(never)]
fn more_holds(rule: &Rule, context: &Context<'_>) -> bool {
    let view = context.view;
    let is_app =
        |(app, is_not): &(App, bool)| context.app.is_some_and(|known| (known == Some(*app)) != *is_not);
    if !rule.apps.iter().all(is_app)
        || view.is_fragment && (rule.size.is_some() || rule.flags.is_some())
        || rule.size.is_some_and(|size| !size.holds(view.payload.len() as u32))
        || rule.flags.is_some_and(|flags| !have(flags, view))
        || rule.ttl.is_some_and(|ttl| !ttl.holds(u32::from(view.ttl)))
        || !rule.ip_protocol.iter().all(|compare| compare.holds(u32::from(view.protocol)))
    {
        return false;
    }
    if rule.icmp_type.is_none() && rule.icmp_code.is_none() {
        return true;
    }
    view.icmp.is_some_and(|(kind, code)| {
        rule.icmp_type.is_none_or(|compare| compare.holds(u32::from(kind)))
            && rule.icmp_code.is_none_or(|compare| compare.holds(u32::from(code)))
    })
}
