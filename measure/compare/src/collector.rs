//! Flows as a collector gets them: IPFIX messages in a capture, read by a collector's library.

use crate::Error;
use crate::table::{Flow, Flows};
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::variable_versions::ipfix::lookup::{IANAIPFixField as Element, IPFixField};
use netflow_parser::{DataNumber, FieldValue, NetflowPacket, NetflowParser};
use port::pcap::{Capture, Next};
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;

fn number(value: &FieldValue) -> Option<u64> {
    Some(match value {
        FieldValue::DataNumber(DataNumber::U8(n)) => u64::from(*n),
        FieldValue::DataNumber(DataNumber::U16(n)) => u64::from(*n),
        FieldValue::DataNumber(DataNumber::U32(n)) => u64::from(*n),
        FieldValue::DataNumber(DataNumber::U64(n)) => *n,
        FieldValue::ProtocolType(protocol) => u64::from(u8::from(*protocol)),
        _ => return None,
    })
}

fn unexpected(found: impl Into<String>) -> Error {
    Error::Unexpected { program: "monitor's export", found: found.into() }
}

/// The flows of all messages; records of one flow are summed.
///
/// # Errors
/// [`Error`]: the capture cannot be read, or something in it is no IPFIX.
pub fn read(path: &Path) -> Result<Flows, Error> {
    let file = File::open(path).map_err(|source| Error::file(path, source))?;
    let mut capture = Capture::new(file).map_err(|foreign| unexpected(foreign.to_string()))?;
    let (mut parser, mut flows) = (NetflowParser::default(), Flows::new());
    loop {
        match capture.step().map_err(|fault| unexpected(fault.to_string()))? {
            Next::End => return Ok(flows),
            Next::Passed => {}
            Next::Record(_) => message(&mut parser, payload(capture.bytes())?, &mut flows)?,
        }
    }
}

/// What a frame's datagram carries.
fn payload(frame: &[u8]) -> Result<&[u8], Error> {
    let link = packet::ethernet::View::new(frame).map_err(|error| unexpected(error.to_string()))?;
    let ip = packet::ipv4::View::new(link.payload()).map_err(|error| unexpected(error.to_string()))?;
    let udp = packet::udp::View::new(ip.payload()).map_err(|error| unexpected(error.to_string()))?;
    Ok(udp.payload())
}

fn message(parser: &mut NetflowParser, bytes: &[u8], flows: &mut Flows) -> Result<(), Error> {
    let parsed = parser.parse_bytes(bytes);
    if let Some(error) = parsed.error {
        return Err(unexpected(format!("{error:?}")));
    }
    for packet in parsed.packets {
        let NetflowPacket::IPFix(message) = packet else { return Err(unexpected("another protocol")) };
        for set in message.flowsets {
            match set.body {
                FlowSetBody::Data(data) => {
                    for fields in &data.fields {
                        let (flow, packets, octets) =
                            record(fields).ok_or_else(|| unexpected(format!("the record {fields:?}")))?;
                        flows.entry(flow).or_default().add(packets, octets, None);
                    }
                }
                FlowSetBody::NoTemplate(_) => return Err(unexpected("a record before its template")),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Flow, packets and bytes.
fn record(fields: &[(IPFixField, FieldValue)]) -> Option<(Flow, u64, u64)> {
    let mut ends: [(Option<IpAddr>, u16); 2] = [(None, 0); 2];
    let (mut protocol, mut packets, mut octets) = (None, None, None);
    for (field, value) in fields {
        let address = match value {
            FieldValue::Ip4Addr(address) => Some(IpAddr::from(*address)),
            FieldValue::Ip6Addr(address) => Some(IpAddr::from(*address)),
            _ => None,
        };
        let IPFixField::IANA(element) = field else { continue };
        match element {
            Element::SourceIpv4address | Element::SourceIpv6address => ends[0].0 = address,
            Element::DestinationIpv4address | Element::DestinationIpv6address => ends[1].0 = address,
            Element::SourceTransportPort => ends[0].1 = u16::try_from(number(value)?).ok()?,
            Element::DestinationTransportPort => ends[1].1 = u16::try_from(number(value)?).ok()?,
            Element::ProtocolIdentifier => protocol = u8::try_from(number(value)?).ok(),
            Element::PacketDeltaCount => packets = number(value),
            Element::OctetDeltaCount => octets = number(value),
            _ => {}
        }
    }
    let [(source, from), (destination, to)] = ends;
    let flow = Flow { protocol: protocol?, source: (source?, from), destination: (destination?, to) };
    Some((flow, packets?, octets?))
}
