//! Alerts as JSON, in the form of Suricata's EVE log.

use crate::header::View;
use crate::protocol_name;
use crate::rules::Rule;
use crate::rules::text::push_number;
use alloc::string::String;
use core::fmt::Write;
use core::net::IpAddr;
use nf_sdk::{Json, Nanos};

/// What all alerts of a packet are about.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    /// The packet.
    pub view: &'a View<'a>,
    /// When that came.
    pub time: Nanos,
    /// Number of its flow, if it has one.
    pub flow: Option<u64>,
    /// From the client.
    pub is_to_server: bool,
    /// Name of the interface that it came in by.
    pub interface: &'static str,
}

/// What an alert ends with.
const TO_SERVER: &str = "},\"direction\":\"to_server\"}";
const TO_CLIENT: &str = "},\"direction\":\"to_client\"}";

/// The last two digits of a number.
fn two(number: u64) -> [u8; 2] {
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}

/// Appends a time as `2024-05-06T07:08:09.000010+0000`.
pub fn write_time(out: &mut String, time: Nanos) {
    let (seconds, micros) = (time.0 / 1_000_000_000, time.0 / 1000 % 1_000_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats every 400 years; years that begin in March end with the day that leaps.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let mut text = *b"0000-00-00T00:00:00.000000+0000";
    for (at, number) in [
        (0, year / 100),
        (2, year),
        (5, month),
        (8, day),
        (11, rest / 3600),
        (14, rest / 60 % 60),
        (17, rest % 60),
        (20, micros / 10_000),
        (22, micros / 100),
        (24, micros),
    ] {
        text[at..at + 2].copy_from_slice(&two(number));
    }
    // It is ASCII.
    out.push_str(core::str::from_utf8(&text).unwrap_or_default());
}

/// Appends an address as it is usually written.
fn push_address(out: &mut String, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (place, byte) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    out.push('.');
                }
                push_number(out, u64::from(byte));
            }
        }
        IpAddr::V6(address) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{address}");
        }
    }
}

/// What alerts say of a rule, which is the same in all of them.
pub fn of_rule(rule: &Rule) -> String {
    let mut out = String::new();
    let mut json = Json::new(&mut out);
    json.member("gid", u64::from(rule.gid)).member("signature_id", u64::from(rule.sid));
    json.member("rev", u64::from(rule.revision)).key("signature").text(&rule.message);
    json.key("category").text(rule.category).member("severity", u64::from(rule.priority));
    out.shrink_to_fit();
    out
}

/// Writes what an alert begins with, one JSON object without a line end: the same for all rules that match in
/// a packet, behind which [`write_rule`] goes on. No text in it but a rule's has anything to be escaped. A
/// sender that makes many rules match makes this what costs most, so that it is written piece by piece.
pub fn write_packet(alert: &Alert<'_>, out: &mut String) {
    let view = alert.view;
    out.push_str("{\"timestamp\":\"");
    write_time(out, alert.time);
    out.push('"');
    if let Some(flow) = alert.flow {
        member(out, ",\"flow_id\":", flow);
    }
    out.push_str(",\"in_iface\":\"");
    out.push_str(alert.interface);
    out.push_str("\",\"event_type\":\"alert\"");
    if let [Some(outer), inner] = view.vlans {
        member(out, ",\"vlan\":[", u64::from(outer));
        if let Some(inner) = inner {
            member(out, ",", u64::from(inner));
        }
        out.push(']');
    }
    let has_ports = packet::protocol::has_ports(view.protocol);
    for (names, address, port) in [
        ([",\"src_ip\":\"", "\",\"src_port\":"], view.source.ip(), view.source_port),
        ([",\"dest_ip\":\"", "\",\"dest_port\":"], view.destination.ip(), view.destination_port),
    ] {
        out.push_str(names[0]);
        push_address(out, address);
        if has_ports && !(view.is_fragment && port == 0) {
            member(out, names[1], u64::from(port));
        } else {
            out.push('"');
        }
    }
    out.push_str(",\"proto\":\"");
    match protocol_name::of(view.protocol) {
        Some(name) => out.push_str(name),
        None => push_number(out, u64::from(view.protocol)),
    }
    out.push('"');
    if let Some(tunnel) = view.path.tunnel() {
        out.push_str(",\"tunnel\":{\"kind\":\"");
        out.push_str(tunnel.name());
        member(out, "\",\"id\":", u64::from(view.path.id()));
        member(out, ",\"depth\":", view.path.depth() as u64);
        out.push('}');
    }
    if let Some((kind, code)) = view.icmp {
        member(out, ",\"icmp_type\":", u64::from(kind));
        member(out, ",\"icmp_code\":", u64::from(code));
    }
    out.push_str(",\"pkt_src\":\"wire/pcap\",\"alert\":{\"action\":\"");
}

/// Writes the rest of an alert: the rule that matched, and whether the packet is dropped.
pub fn write_rule(alert: &Alert<'_>, rule: &Rule, is_blocked: bool, out: &mut String) {
    out.push_str(if is_blocked { "blocked\"," } else { "allowed\"," });
    out.push_str(&rule.told);
    out.push_str(if alert.is_to_server { TO_SERVER } else { TO_CLIENT });
}

/// Appends what comes before a number, and the number.
fn member(out: &mut String, before: &str, number: u64) {
    out.push_str(before);
    push_number(out, number);
}
