//! Flows as tshark reads them: every packet's addresses, protocol, ports and length, summed here.
//!
//! tshark dissects links, tunnels that `monitor` looks into as well, IP and the heads of transports, and
//! nothing else: what is inside of an ICMP error, or of a tunnel that `monitor` does not know, is no flow.
//! Fragments are not put together.

use crate::Error;
use crate::child;
use crate::table::{Flow, Flows};
use peers::Folder;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Longest time for a capture.
const LIMIT: Duration = Duration::from_secs(600);

/// What is dissected.
const DISSECTED: &[&str] = &[
    "frame",
    "eth",
    "ethertype",
    "vlan",
    "ieee8021ad",
    "llc",
    "sll",
    "raw",
    "null",
    "loop",
    "ip",
    "ipv6",
    "ipv6.hopopts",
    "ipv6.routing",
    "ipv6.dstopts",
    "ipv6.fraghdr",
    "ah",
    "tcp",
    "udp",
    "udplite",
    "sctp",
    "dccp",
    "gre",
    "pppoes",
    "ppp",
    "mpls",
    "pwethheuristic",
    "pwethcw",
    "pwethnocw",
    "pwach",
    "vxlan",
    "vxlan_gpe",
    "geneve",
    "nsh",
    "erspan",
    "data",
];

/// Columns, in this order.
const FIELDS: [&str; 28] = [
    "frame.number",
    "frame.time_epoch",
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ip.len",
    "ip.proto",
    "ip.frag_offset",
    "ip.flags.mf",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.plen",
    "ipv6.nxt",
    "ipv6.hopopts.nxt",
    "ipv6.routing.nxt",
    "ipv6.dstopts.nxt",
    "ipv6.fraghdr.nxt",
    "ipv6.fraghdr.offset",
    "ipv6.fraghdr.more",
    "ah.next_header",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
    "sctp.dstport",
    "dccp.srcport",
    "dccp.dstport",
];

/// A capture as tshark has it.
#[derive(Debug, Default)]
pub struct Seen {
    /// Its flows.
    pub flows: Flows,
    /// The first frame of each flow (undirected) in each microsecond.
    moments: HashMap<(u64, Flow), u64>,
    /// Frames.
    pub frames: u64,
}

impl Seen {
    /// The frame of a flow that came at a time, in microseconds since 1970.
    pub fn frame_at(&self, micros: u64, flow: &Flow) -> Option<u64> {
        self.moments.get(&(micros, flow.undirected())).copied()
    }

    fn take(&mut self, line: &str) {
        let Some(packet) = Row::of(line).and_then(|mut row| row.packet()) else { return };
        self.frames += 1;
        for (flow, bytes) in packet.flows {
            self.flows.entry(flow).or_default().add(1, bytes, Some(packet.number));
            self.moments.entry((packet.micros, flow.undirected())).or_insert(packet.number);
        }
    }
}

/// A frame's columns, each with the values of all layers, outermost first.
struct Row<'a>(HashMap<&'static str, VecDeque<&'a str>>);

/// What a frame carries: each IP packet's flow and length.
struct Packet {
    number: u64,
    micros: u64,
    flows: Vec<(Flow, u64)>,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Option<Row<'a>> {
        let columns: Vec<&str> = line.split('\t').collect();
        (columns.len() == FIELDS.len()).then(|| {
            let values = |text: &'a str| text.split(',').filter(|value| !value.is_empty()).collect();
            Row(FIELDS.into_iter().zip(columns).map(|(field, text)| (field, values(text))).collect())
        })
    }

    fn next(&mut self, field: &str) -> Option<&'a str> {
        self.0.get_mut(field)?.pop_front()
    }

    fn number<T: TryFrom<u64>>(&mut self, field: &str) -> Option<T> {
        let text = self.next(field)?;
        let value = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => match text {
                "True" => Ok(1),
                "False" => Ok(0),
                text => text.parse(),
            },
        };
        T::try_from(value.ok()?).ok()
    }

    fn packet(&mut self) -> Option<Packet> {
        let number = self.number("frame.number")?;
        // A capture may leave it out.
        let micros = self.next("frame.time_epoch").and_then(micros).unwrap_or_default();
        let layers = self.next("frame.protocols").unwrap_or_default();
        let mut open: Option<(Flow, u64, bool)> = None;
        let mut flows = Vec::new();
        for layer in layers.split(':') {
            match layer {
                "ip" | "ipv6" => {
                    flows.extend(open.take().map(|(flow, bytes, _)| (flow, bytes)));
                    open = if layer == "ip" { self.ipv4() } else { self.ipv6() };
                }
                "ipv6.hopopts" | "ipv6.routing" | "ipv6.dstopts" | "ah" => {
                    let field = if layer == "ah" { "ah.next_header".into() } else { format!("{layer}.nxt") };
                    let next = self.number(&field);
                    if let (Some((flow, ..)), Some(next)) = (&mut open, next) {
                        // IPv4's protocol is the one in its header, whatever follows.
                        if flow.source.0.is_ipv6() {
                            flow.protocol = next;
                        }
                    }
                }
                "ipv6.fraghdr" => {
                    let (next, offset) =
                        (self.number("ipv6.fraghdr.nxt"), self.number("ipv6.fraghdr.offset"));
                    let more: Option<u8> = self.number("ipv6.fraghdr.more");
                    if let (Some((flow, _, is_piece)), Some(next)) = (&mut open, next) {
                        flow.protocol = next;
                        *is_piece = offset != Some(0u64) || more != Some(0);
                    }
                }
                "tcp" | "udp" | "udplite" | "sctp" | "dccp" => {
                    let fields = if layer == "udplite" { "udp" } else { layer };
                    let source = self.number(&format!("{fields}.srcport"));
                    let destination = self.number(&format!("{fields}.dstport"));
                    if let (Some((flow, _, false)), Some(source), Some(destination)) =
                        (&mut open, source, destination)
                    {
                        (flow.source.1, flow.destination.1) = (source, destination);
                    }
                }
                _ => {}
            }
        }
        flows.extend(open.map(|(flow, bytes, _)| (flow, bytes)));
        Some(Packet { number, micros, flows })
    }

    fn ends(&mut self, family: &str) -> Option<[(IpAddr, u16); 2]> {
        let source = self.next(&format!("{family}.src"))?.parse().ok()?;
        let destination = self.next(&format!("{family}.dst"))?.parse().ok()?;
        Some([(source, 0), (destination, 0)])
    }

    /// The flow, its bytes, and whether it is a fragment.
    fn ipv4(&mut self) -> Option<(Flow, u64, bool)> {
        let ends = self.ends("ip");
        let (bytes, protocol) = (self.number("ip.len"), self.number("ip.proto"));
        let offset: Option<u64> = self.number("ip.frag_offset");
        let more: Option<u64> = self.number("ip.flags.mf");
        let [source, destination] = ends?;
        let is_piece = offset != Some(0) || more != Some(0);
        Some((Flow { protocol: protocol?, source, destination }, bytes?, is_piece))
    }

    fn ipv6(&mut self) -> Option<(Flow, u64, bool)> {
        let ends = self.ends("ipv6");
        let (payload, protocol): (Option<u64>, _) = (self.number("ipv6.plen"), self.number("ipv6.nxt"));
        let [source, destination] = ends?;
        Some((Flow { protocol: protocol?, source, destination }, payload? + 40, false))
    }
}

/// Seconds with decimals in microseconds.
fn micros(text: &str) -> Option<u64> {
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    let seconds: u64 = seconds.parse().ok()?;
    let decimals: String = decimals.chars().chain("000000".chars()).take(6).collect();
    seconds.checked_mul(1_000_000)?.checked_add(decimals.parse().ok()?)
}

/// What is not to be dissected, which is a file in tshark's folder of settings.
fn disabled() -> Result<String, Error> {
    let listed = testbed::run(Command::new("tshark").args(["-G", "protocols"]), LIMIT)?;
    let names = listed.stdout.lines().filter_map(|line| line.split('\t').nth(2));
    Ok(names.filter(|name| !DISSECTED.contains(name)).map(|name| format!("{name}\n")).collect())
}

/// Reads a capture.
///
/// # Errors
/// [`Error`]: tshark failed, or did not end in time.
pub fn read(capture: &Path) -> Result<Seen, Error> {
    let folder = Folder::new()?;
    folder.write("disabled_protos", &disabled()?)?;
    let rows = folder.file("rows");
    let mut command = child::bounded("tshark");
    command.env("WIRESHARK_CONFIG_DIR", folder.path()).args(["-n", "-r"]).arg(capture);
    for preference in ["ip.defragment", "ipv6.defragment", "tcp.desegment_tcp_streams"] {
        command.args(["-o", &format!("{preference}:FALSE")]);
    }
    command.args(["-o", "tcp.analyze_sequence_numbers:FALSE"]);
    command.args(["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = File::create(&rows).map_err(|source| Error::file(&rows, source))?;
    let done = child::run_into("tshark", &mut command, output, LIMIT);
    let mut seen = Seen::default();
    let lines = BufReader::new(File::open(&rows).map_err(|source| Error::file(&rows, source))?);
    for line in lines.split(b'\n') {
        let line = line.map_err(|source| Error::file(&rows, source))?;
        seen.take(&String::from_utf8_lossy(&line));
    }
    // A capture that is cut in the middle of a packet counts up to there, for both sides.
    match done {
        Err(Error::Failed { words, .. }) if seen.frames > 0 && words.contains("cut short") => Ok(seen),
        Err(error) => Err(error),
        Ok(()) => Ok(seen),
    }
    .inspect(|_| drop(fs::remove_file(&rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[(&str, &str)]) -> String {
        let value =
            |field: &str| values.iter().find(|(name, _)| *name == field).map_or("", |(_, value)| value);
        FIELDS.map(value).join("\t")
    }

    fn flow(protocol: u8, source: &str, destination: &str) -> Flow {
        let end = |text: &str| {
            let end: std::net::SocketAddr = text.parse().expect("an end");
            (end.ip(), end.port())
        };
        Flow { protocol, source: end(source), destination: end(destination) }
    }

    #[test]
    fn layers_take_their_own_values_in_order() {
        let mut seen = Seen::default();
        seen.take(&row(&[
            ("frame.number", "7"),
            ("frame.time_epoch", "3.000010500"),
            ("frame.protocols", "eth:ethertype:ip:udp:vxlan:eth:ethertype:ipv6:ipv6.hopopts:tcp"),
            ("ip.src", "192.0.2.1"),
            ("ip.dst", "192.0.2.2"),
            ("ip.len", "150"),
            ("ip.proto", "17"),
            ("ip.frag_offset", "0"),
            ("ip.flags.mf", "0"),
            ("udp.srcport", "5000"),
            ("udp.dstport", "4789"),
            ("ipv6.src", "2001:db8::1"),
            ("ipv6.dst", "2001:db8::2"),
            ("ipv6.plen", "60"),
            ("ipv6.nxt", "0"),
            ("ipv6.hopopts.nxt", "6"),
            ("tcp.srcport", "1000"),
            ("tcp.dstport", "80"),
        ]));
        let outer = flow(17, "192.0.2.1:5000", "192.0.2.2:4789");
        let inner = flow(6, "[2001:db8::1]:1000", "[2001:db8::2]:80");
        let counts: Vec<_> =
            seen.flows.iter().map(|(flow, count)| (*flow, count.packets, count.bytes, count.frame)).collect();
        assert_eq!(counts, [(inner, 1, 100, Some(7)), (outer, 1, 150, Some(7))]);
        assert_eq!(seen.frame_at(3_000_010, &inner), Some(7));
        assert_eq!(seen.frame_at(3_000_011, &inner), None);
    }

    #[test]
    fn fragments_have_no_ports_and_what_is_not_ip_no_flow() {
        let mut seen = Seen::default();
        let piece = |offset: &str, more: &str| {
            row(&[
                ("frame.number", "1"),
                ("frame.protocols", "eth:ethertype:ip:udp:data"),
                ("ip.src", "192.0.2.1"),
                ("ip.dst", "192.0.2.2"),
                ("ip.len", "100"),
                ("ip.proto", "17"),
                ("ip.frag_offset", offset),
                ("ip.flags.mf", more),
                ("udp.srcport", "5"),
                ("udp.dstport", "6"),
            ])
        };
        seen.take(&piece("0", "1"));
        seen.take(&piece("100", "0"));
        seen.take(&row(&[("frame.number", "2"), ("frame.protocols", "eth:ethertype:data")]));
        seen.take("not a row");
        let whole = flow(17, "192.0.2.1:0", "192.0.2.2:0");
        assert_eq!(seen.flows.keys().copied().collect::<Vec<_>>(), [whole]);
        assert_eq!((seen.flows[&whole].packets, seen.frames), (2, 3));
    }
}
