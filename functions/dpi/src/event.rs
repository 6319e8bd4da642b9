//! Alerts as JSON, in the form of Suricata's EVE log.

use crate::header::View;
use crate::protocol_name;
use crate::rules::Rule;
use alloc::string::String;
use core::fmt::Write;
use nf_sdk::{Json, Nanos};

/// What an alert is about.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    /// The rule that matched.
    pub rule: &'a Rule,
    /// The packet that it matched with.
    pub view: &'a View<'a>,
    /// When that came.
    pub time: Nanos,
    /// Number of its flow, if it has one.
    pub flow: Option<u64>,
    /// From the client.
    pub is_to_server: bool,
    /// The packet is dropped.
    pub is_blocked: bool,
    /// Name of the interface that it came in by.
    pub interface: &'static str,
}

fn two(out: &mut String, number: u64) {
    out.push(char::from(b'0' + (number / 10 % 10) as u8));
    out.push(char::from(b'0' + (number % 10) as u8));
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
    two(out, year / 100);
    two(out, year);
    for (sign, number) in
        [('-', month), ('-', day), ('T', rest / 3600), (':', rest / 60 % 60), (':', rest % 60)]
    {
        out.push(sign);
        two(out, number);
    }
    out.push('.');
    for part in [micros / 10_000, micros / 100, micros] {
        two(out, part % 100);
    }
    out.push_str("+0000");
}

/// Writes an alert, one JSON object without a line end.
pub fn write(alert: &Alert<'_>, out: &mut String) {
    let (rule, view) = (alert.rule, alert.view);
    let mut text = String::new();
    write_time(&mut text, alert.time);
    let mut json = Json::new(out);
    json.object().key("timestamp").text(&text);
    if let Some(flow) = alert.flow {
        json.member("flow_id", flow);
    }
    json.key("in_iface").text(alert.interface).key("event_type").text("alert");
    if view.vlans[0].is_some() {
        json.key("vlan").array();
        for vlan in view.vlans.into_iter().flatten() {
            json.number(u64::from(vlan));
        }
        json.end_array();
    }
    let mut end = |json: &mut Json<'_>, names: [&str; 2], address: core::net::IpAddr, port: u16| {
        text.clear();
        // Writing to a string cannot fail.
        let _ = write!(text, "{address}");
        json.key(names[0]).text(&text);
        if packet::protocol::has_ports(view.protocol) && !(view.is_fragment && port == 0) {
            json.member(names[1], u64::from(port));
        }
    };
    end(&mut json, ["src_ip", "src_port"], view.source.ip(), view.source_port);
    end(&mut json, ["dest_ip", "dest_port"], view.destination.ip(), view.destination_port);
    text.clear();
    match protocol_name::of(view.protocol) {
        Some(name) => text.push_str(name),
        None => crate::rules::text::push_number(&mut text, u64::from(view.protocol)),
    }
    json.key("proto").text(&text);
    if let Some(tunnel) = view.path.tunnel() {
        json.key("tunnel").object().key("kind").text(tunnel.name()).member("id", u64::from(view.path.id()));
        json.member("depth", view.path.depth() as u64).end_object();
    }
    if let Some((kind, code)) = view.icmp {
        json.member("icmp_type", u64::from(kind)).member("icmp_code", u64::from(code));
    }
    json.key("pkt_src").text("wire/pcap").key("alert").object();
    json.key("action").text(if alert.is_blocked { "blocked" } else { "allowed" });
    json.member("gid", u64::from(rule.gid)).member("signature_id", u64::from(rule.sid));
    json.member("rev", u64::from(rule.revision)).key("signature").text(&rule.message);
    json.key("category").text(rule.category).member("severity", u64::from(rule.priority)).end_object();
    json.key("direction").text(if alert.is_to_server { "to_server" } else { "to_client" }).end_object();
}
