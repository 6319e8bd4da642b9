//! What the function tells: a report in JSON, and a line for the log.

use crate::flow_table::{Flow, PACKET_WEIGHT};
use crate::monitor::Monitor;
use crate::totals::{Count, class_bounds};
use alloc::collections::BinaryHeap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Write;
use core::net::IpAddr;
use nf_sdk::Json;
use packet::ethernet::ethertype;
use packet::protocol;
use packet::tunnel::{Path, Tunnel};

/// A frame has at least this many bytes; what a packet weighs at least follows from it.
const LEAST_BYTES: u64 = 14 + 20;

/// Writes the report; the README has its shape.
pub(crate) fn write(monitor: &Monitor, out: &mut String) {
    let (totals, table, settings) = (monitor.totals(), monitor.table(), monitor.settings());
    let mut json = Json::new(out);
    json.object();
    json.member("since_ns", totals.since.0).member("until_ns", totals.until.0);
    count(&mut json, totals.all);
    for (name, sum) in [
        ("malformed", totals.malformed),
        ("vlan_tagged", totals.tagged),
        ("fragments", totals.fragments),
        ("snapped", totals.snapped),
        ("unsegmented", totals.unsegmented),
    ] {
        count(json.key(name).object(), sum);
        json.end_object();
    }

    json.key("ethertypes").array();
    for (number, sum) in by_bytes(totals.ethertypes.iter().map(|(number, sum)| (*number, *sum))) {
        json.object();
        if number == 0 {
            json.key("ethertype").text("802.3");
        } else {
            json.key("ethertype").text(&hexadecimal(number));
        }
        if let Some(name) = ethertype_name(number) {
            json.key("name").text(name);
        }
        count(&mut json, sum);
        json.end_object();
    }
    json.end_array();
    count(json.key("other_ethertypes").object(), totals.other_ethertypes);
    json.end_object();

    json.key("protocols").array();
    for (number, sum) in by_bytes((0..=255u8).zip(totals.protocols).filter(|(_, sum)| sum.packets > 0)) {
        protocol_of(json.object(), number);
        count(&mut json, sum);
        json.end_object();
    }
    json.end_array();

    json.key("tunnels").array();
    let tunnels = Tunnel::ALL.into_iter().zip(totals.tunnels).filter(|(_, sum)| sum.packets > 0);
    for (tunnel, sum) in tunnels {
        json.object().key("name").text(tunnel.name());
        count(&mut json, sum);
        json.end_object();
    }
    json.end_array();

    json.key("sizes").array();
    for (class, packets) in totals.sizes.iter().enumerate() {
        let (from, to) = class_bounds(class);
        json.object().member("from", from);
        if let Some(to) = to {
            json.member("to", to);
        }
        json.member("packets", *packets).end_object();
    }
    json.end_array();

    json.key("flows").object();
    json.member("tracked", table.flows().len() as u64).member("capacity", table.capacity() as u64);
    json.key("bidirectional").boolean(settings.bidirectional);
    json.key("exact").boolean(table.floor() == 0).member("replaced", table.replaced());
    json.key("untracked_at_most").object();
    at_most(&mut json, table.floor());
    json.end_object().end_object();

    if let (Some(exporter), Some(tracks)) = (monitor.exporter(), table.tracks()) {
        let ([messages, records, octets], lost) = (exporter.sent(), tracks.lost());
        json.key("ipfix").object().key("collector").text(&address(exporter.settings().collector));
        json.member("messages", messages).member("records", records).member("octets", octets);
        json.member("waiting", tracks.waiting() as u64).member("refusals", exporter.refusals());
        json.key("not_sent").object().member("flows", lost.flows).member("packets", lost.packets);
        json.member("octets", lost.octets).end_object().end_object();
    }

    for (name, measure) in MEASURES {
        json.key(name).array();
        for (entry, flow) in top(table.flows(), settings.top, measure) {
            write_flow(&mut json, flow, table.path(entry));
        }
        json.end_array();
    }
    json.end_object();
}

/// What flows are ordered by.
type Measure = fn(&Flow) -> u64;

/// The lists of the report.
const MEASURES: [(&str, Measure); 2] =
    [("top_by_bytes", |flow| flow.bytes), ("top_by_packets", |flow| flow.packets)];

/// One line for the log.
pub(crate) fn line(monitor: &Monitor) -> String {
    let (totals, table) = (monitor.totals(), monitor.table());
    let mut line = String::new();
    // Writing into a string cannot fail.
    let _ = write!(
        line,
        "{} packets, {} bytes, {} flows{}, {} malformed",
        totals.all.packets,
        totals.all.bytes,
        table.flows().len(),
        if table.floor() == 0 { "" } else { " (table full)" },
        totals.malformed.packets,
    );
    line
}

/// The `most` flows that lead by a measure, and where they are, first the greatest; equal ones in the order
/// in which they came.
pub(crate) fn top(flows: &[Flow], most: usize, measure: Measure) -> impl Iterator<Item = (usize, &Flow)> {
    let mut leaders: BinaryHeap<Reverse<(u64, Reverse<usize>)>> = BinaryHeap::with_capacity(most + 1);
    for (place, flow) in flows.iter().enumerate() {
        let standing = (measure(flow), Reverse(place));
        if leaders.len() < most {
            leaders.push(Reverse(standing));
        } else if leaders.peek().is_some_and(|last| last.0 < standing) {
            leaders.pop();
            leaders.push(Reverse(standing));
        }
    }
    // Of reversed standings, the sorted order begins with the greatest.
    leaders
        .into_sorted_vec()
        .into_iter()
        .filter_map(|Reverse((_, Reverse(place)))| Some((place, flows.get(place)?)))
}

fn write_flow(json: &mut Json<'_>, flow: &Flow, path: u64) {
    let [(source, source_port), (destination, destination_port)] = flow.id.ends();
    protocol_of(json.object(), flow.id.protocol());
    json.key("source").text(&address(source)).member("source_port", u64::from(source_port));
    json.key("destination")
        .text(&address(destination))
        .member("destination_port", u64::from(destination_port));
    if let Some(path) = Path::from_bits(path)
        && let Some(tunnel) = path.tunnel()
    {
        json.key("tunnel").text(tunnel.name()).member("tunnel_id", u64::from(path.id()));
        json.member("depth", path.depth() as u64);
    }
    count(json, Count { packets: flow.packets, bytes: flow.bytes });
    if flow.missed > 0 {
        json.key("missed_at_most").object();
        at_most(json, flow.missed);
        json.end_object();
    }
    json.end_object();
}

/// What something of this weight can have of packets and of bytes.
fn at_most(json: &mut Json<'_>, weight: u64) {
    let packets = weight / (PACKET_WEIGHT + LEAST_BYTES);
    // Each byte weighs 1, and they came in one packet at least.
    let bytes = if packets == 0 { 0 } else { weight - PACKET_WEIGHT };
    count(json, Count { packets, bytes });
}

fn count(json: &mut Json<'_>, Count { packets, bytes }: Count) {
    json.member("packets", packets).member("bytes", bytes);
}

fn protocol_of(json: &mut Json<'_>, number: u8) {
    json.member("protocol", u64::from(number));
    if let Some(name) = protocol_name(number) {
        json.key("name").text(name);
    }
}

fn by_bytes<N: Ord + Copy>(counts: impl Iterator<Item = (N, Count)>) -> Vec<(N, Count)> {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable_by_key(|(number, sum)| (Reverse(sum.bytes), *number));
    counts
}

fn address(address: IpAddr) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail. IPv6 is written as RFC 5952 says.
    let _ = write!(text, "{address}");
    text
}

fn hexadecimal(number: u16) -> String {
    let mut text = String::new();
    let _ = write!(text, "{number:#06x}");
    text
}

/// IANA, "IEEE 802 Numbers".
fn ethertype_name(number: u16) -> Option<&'static str> {
    Some(match number {
        ethertype::IPV4 => "ipv4",
        ethertype::IPV6 => "ipv6",
        ethertype::ARP => "arp",
        ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN => "vlan",
        0x8035 => "rarp",
        0x8847 => "mpls",
        0x8863 => "pppoe-discovery",
        0x8864 => "pppoe-session",
        0x888e => "802.1x",
        0x88cc => "lldp",
        0x88e5 => "macsec",
        0x88f7 => "ptp",
        _ => return None,
    })
}

/// IANA, "Assigned Internet Protocol Numbers".
fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        protocol::ICMPV4 => "icmp",
        2 => "igmp",
        4 => "ipv4",
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::DCCP => "dccp",
        41 => "ipv6",
        47 => "gre",
        protocol::ESP => "esp",
        protocol::AUTHENTICATION => "ah",
        protocol::ICMPV6 => "icmpv6",
        89 => "ospf",
        103 => "pim",
        112 => "vrrp",
        protocol::SCTP => "sctp",
        protocol::UDP_LITE => "udplite",
        _ => return None,
    })
}
