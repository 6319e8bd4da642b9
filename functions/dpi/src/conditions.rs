//! What rules ask of a packet beside its payload: protocol, ends, flow, flags and the like.

use crate::header::{Address, View};
use crate::rules::buffer::App;
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

/// Whether everything but contents is as the rule says; `as_packet`: the packet itself is looked at.
pub fn hold(rules: &Rules, rule: &Rule, context: &Context<'_>, as_packet: bool) -> bool {
    let view = context.view;
    let is_protocol = match rule.protocol {
        Protocol::Ip => true,
        Protocol::Tcp => view.protocol == protocol::TCP,
        Protocol::Udp => view.protocol == protocol::UDP,
        Protocol::Icmp => view.icmp.is_some(),
    };
    if !is_protocol
        || rule.is_address_only && !context.judges_addresses
        || rule.scope == Scope::Packet && !as_packet
    {
        return false;
    }
    if !rule
        .apps
        .iter()
        .all(|(app, is_not)| context.app.is_some_and(|known| (known == Some(*app)) != *is_not))
    {
        return false;
    }
    let flow = rule.flow;
    if flow.direction.is_some_and(|direction| context.direction != Some(direction))
        || flow.established.is_some_and(|established| context.is_established != established)
    {
        return false;
    }
    if view.is_fragment && (rule.has_content() || rule.size.is_some() || rule.flags.is_some()) {
        return false;
    }
    if rule.size.is_some_and(|size| !size.holds(view.payload.len() as u32))
        || rule.flags.is_some_and(|flags| !flags.hold(view.tcp.flags))
        || rule.ttl.is_some_and(|ttl| !ttl.holds(u32::from(view.ttl)))
        || !rule.ip_protocol.iter().all(|compare| compare.holds(u32::from(view.protocol)))
    {
        return false;
    }
    if rule.icmp_type.is_some() || rule.icmp_code.is_some() {
        let Some((kind, code)) = view.icmp else { return false };
        if rule.icmp_type.is_some_and(|compare| !compare.holds(u32::from(kind)))
            || rule.icmp_code.is_some_and(|compare| !compare.holds(u32::from(code)))
        {
            return false;
        }
    }
    let from = (view.source, view.source_port);
    let to = (view.destination, view.destination_port);
    let has_ports = protocol::has_ports(view.protocol) && !(view.is_fragment && from.1 == 0 && to.1 == 0);
    let is_end = |(addresses, ports): (u32, u32), (address, port): (Address, u16)| {
        let (addresses, ports) = (rules.addresses(addresses), rules.ports(ports));
        (ports.is_any() || has_ports && ports.contains(port))
            && (addresses.is_any() || addresses.contains(address.ip()))
    };
    let [source, destination] = rule.ends;
    is_end(source, from) && is_end(destination, to)
        || rule.is_bidirectional && is_end(source, to) && is_end(destination, from)
}
