//! A packet as it is given on the command line.

use packet::checksum::Endpoints;
use packet::{ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Shortest Ethernet frame, without its checksum.
const SHORTEST: usize = 60;
/// Longest frame that is given in hexadecimal, in bytes.
const LONGEST: usize = 9216;

/// An Ethernet frame: `tcp:10.1.0.5:40000-10.2.0.1:80`, `udp:[2001:db8::1]:1-[2001:db8::2]:53`,
/// `icmp:10.1.0.5-10.2.0.1`, or `hex:` and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    /// Its bytes in hexadecimal.
    pub(crate) fn hex(&self) -> String {
        let mut hex = String::with_capacity(2 * self.0.len());
        for byte in &self.0 {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

impl FromStr for Frame {
    type Err = String;

    fn from_str(text: &str) -> Result<Frame, String> {
        let wrong = || {
            "allowed: tcp:ADDRESS:PORT-ADDRESS:PORT, the same with udp, icmp:ADDRESS-ADDRESS, or hex: and the bytes of an Ethernet frame"
                .to_owned()
        };
        let (protocol, rest) = text.split_once(':').ok_or_else(wrong)?;
        if protocol == "hex" {
            return hexadecimal(rest).map(Frame);
        }
        let (from, to) = rest.split_once('-').ok_or_else(wrong)?;
        let (from, to): (SocketAddr, SocketAddr) = match protocol {
            "tcp" | "udp" => (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?),
            "icmp" => {
                let ip = |text: &str| text.parse::<IpAddr>().map_err(|_| wrong());
                ((ip(from)?, 0).into(), (ip(to)?, 0).into())
            }
            _ => return Err(wrong()),
        };
        let endpoints = Endpoints::new(from.ip(), to.ip())
            .ok_or_else(|| format!("{} and {} are of two families; allowed: of one", from.ip(), to.ip()))?;
        made(protocol, from, to, &endpoints).map(Frame).map_err(|error| error.to_string())
    }
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| c.to_digit(16).ok_or_else(|| format!("`{}` is no hexadecimal digit", c.escape_debug())))
        .collect::<Result<_, _>>()?;
    let bytes = digits.len() / 2;
    if !digits.len().is_multiple_of(2) || !(ethernet::HEADER_LENGTH..=LONGEST).contains(&bytes) {
        return Err(format!("found {} digits; allowed: two for each of 14 to {LONGEST} bytes", digits.len()));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

fn made(
    name: &str,
    from: SocketAddr,
    to: SocketAddr,
    endpoints: &Endpoints,
) -> Result<Vec<u8>, packet::EmitError> {
    let v6 = from.is_ipv6();
    let (number, length) = match name {
        "tcp" => (protocol::TCP, tcp::HEADER_LENGTH),
        "udp" => (protocol::UDP, udp::HEADER_LENGTH),
        _ if v6 => (protocol::ICMPV6, icmpv6::HEADER_LENGTH),
        _ => (protocol::ICMPV4, icmpv4::HEADER_LENGTH),
    };
    let header = if v6 { ipv6::HEADER_LENGTH } else { ipv4::HEADER_LENGTH };
    let l4 = ethernet::HEADER_LENGTH + header;
    let mut bytes = vec![0; l4 + length];
    ethernet::Repr {
        destination: [2, 0, 0, 0, 0, 2],
        source: [2, 0, 0, 0, 0, 1],
        tags: ethernet::Tags::NONE,
        ethertype: if v6 { ethernet::ethertype::IPV6 } else { ethernet::ethertype::IPV4 },
    }
    .emit(&mut bytes)?;
    let network = &mut bytes[ethernet::HEADER_LENGTH..];
    match *endpoints {
        Endpoints::V6 { source, destination } => ipv6::Repr {
            traffic_class: 0,
            flow_label: 0,
            payload_length: length as u16,
            next_header: number,
            hop_limit: 64,
            source,
            destination,
        }
        .emit(network)?,
        Endpoints::V4 { source, destination } => ipv4::Repr {
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: number,
            source,
            destination,
            options: &[],
            payload_length: length,
        }
        .emit(network)?,
    }
    let transport = &mut bytes[l4..];
    let (source_port, destination_port) = (from.port(), to.port());
    match number {
        protocol::TCP => tcp::Repr {
            source_port,
            destination_port,
            sequence: 1,
            acknowledgment: 0,
            flags: tcp::Flags::SYN,
            window: u16::MAX,
            urgent: 0,
            options: &[],
        }
        .emit(transport, endpoints)?,
        protocol::UDP => {
            udp::Repr { source_port, destination_port, payload_length: 0 }.emit(transport, endpoints)?
        }
        // Echo requests.
        protocol::ICMPV6 => {
            icmpv6::Repr { kind: 128, code: 0, rest: [0, 1, 0, 1] }.emit(transport, endpoints)?
        }
        _ => icmpv4::Repr { kind: 8, code: 0, rest: [0, 1, 0, 1] }.emit(transport)?,
    }
    bytes.resize(bytes.len().max(SHORTEST), 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_what_they_say() {
        let words = |text: &str| {
            let frame: Frame = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            capture::words(&frame.0, frame.0.len() as u32)
        };
        assert_eq!(words("tcp:10.1.0.5:40000-10.2.0.1:80"), "10.1.0.5:40000 > 10.2.0.1:80 TCP SYN, 60 bytes");
        assert_eq!(
            words("udp:[2001:db8::1]:7-[2001:db8::2]:53"),
            "[2001:db8::1]:7 > [2001:db8::2]:53 UDP, 62 bytes"
        );
        assert_eq!(words("icmp:10.1.0.5-10.2.0.1"), "10.1.0.5 > 10.2.0.1 ICMP type 8 code 0, 60 bytes");
        let hex = "hex:02:00:00:00:00:02 020000000001 0806";
        assert_eq!(words(hex), "ARP, 14 bytes");
        assert_eq!(
            hex.parse::<Frame>().map(|frame| frame.hex()),
            Ok("0200000000020200000000010806".to_owned())
        );
        for (wrong, told) in [
            ("tcp:10.1.0.5-10.2.0.1:80", "allowed: tcp:"),
            ("sctp:10.1.0.5:1-10.2.0.1:80", "allowed: tcp:"),
            ("udp:10.1.0.5:1-[::1]:80", "two families"),
            ("hex:0", "found 1 digits"),
            ("hex:zz", "`z` is no"),
            ("", "allowed: tcp:"),
        ] {
            assert!(wrong.parse::<Frame>().is_err_and(|error| error.contains(told)), "{wrong}");
        }
    }
}
