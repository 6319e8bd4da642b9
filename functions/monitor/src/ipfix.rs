//! Messages of the IP Flow Information Export protocol (RFC 7011): templates, records and their packing.
//!
//! The information elements are those of IANA's registry; a flow in both directions is two records.

use crate::tracks::Record;
use alloc::vec::Vec;
use core::net::IpAddr;

/// RFC 7011 section 3.1.
const VERSION: u16 = 10;
/// Bytes of a message's header.
pub(crate) const HEADER: usize = 16;
/// Bytes of a set's header.
const SET_HEADER: usize = 4;
/// RFC 7011 section 3.3.2.
const TEMPLATE_SET: u16 = 2;
const OPTIONS_TEMPLATE_SET: u16 = 3;

/// Template of IPv4 flows.
pub(crate) const IPV4_TEMPLATE: u16 = 256;
/// Template of IPv6 flows.
pub(crate) const IPV6_TEMPLATE: u16 = 257;
/// Template of the exporting process' statistics.
pub(crate) const STATISTICS_TEMPLATE: u16 = 258;

/// Number and length of an information element.
type Element = (u16, u16);

const OCTET_DELTA_COUNT: Element = (1, 8);
const PACKET_DELTA_COUNT: Element = (2, 8);
const PROTOCOL_IDENTIFIER: Element = (4, 1);
const SOURCE_TRANSPORT_PORT: Element = (7, 2);
const SOURCE_IPV4_ADDRESS: Element = (8, 4);
const INGRESS_INTERFACE: Element = (10, 4);
const DESTINATION_TRANSPORT_PORT: Element = (11, 2);
const DESTINATION_IPV4_ADDRESS: Element = (12, 4);
const SOURCE_IPV6_ADDRESS: Element = (27, 16);
const DESTINATION_IPV6_ADDRESS: Element = (28, 16);
const EXPORTED_OCTET_TOTAL_COUNT: Element = (40, 8);
const EXPORTED_MESSAGE_TOTAL_COUNT: Element = (41, 8);
const EXPORTED_FLOW_RECORD_TOTAL_COUNT: Element = (42, 8);
const VLAN_ID: Element = (58, 2);
const FLOW_END_REASON: Element = (136, 1);
const OBSERVATION_DOMAIN_ID: Element = (149, 4);
const FLOW_START_MILLISECONDS: Element = (152, 8);
const FLOW_END_MILLISECONDS: Element = (153, 8);
const NOT_SENT_FLOW_TOTAL_COUNT: Element = (166, 8);
const NOT_SENT_PACKET_TOTAL_COUNT: Element = (167, 8);
const NOT_SENT_OCTET_TOTAL_COUNT: Element = (168, 8);

/// What a flow record has, the addresses first.
const fn flow_elements(source: Element, destination: Element) -> [Element; 12] {
    [
        source,
        destination,
        SOURCE_TRANSPORT_PORT,
        DESTINATION_TRANSPORT_PORT,
        PROTOCOL_IDENTIFIER,
        FLOW_END_REASON,
        VLAN_ID,
        INGRESS_INTERFACE,
        OCTET_DELTA_COUNT,
        PACKET_DELTA_COUNT,
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
    ]
}

const IPV4_ELEMENTS: [Element; 12] = flow_elements(SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS);
const IPV6_ELEMENTS: [Element; 12] = flow_elements(SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS);
/// The first is the scope.
const STATISTICS_ELEMENTS: [Element; 7] = [
    OBSERVATION_DOMAIN_ID,
    EXPORTED_MESSAGE_TOTAL_COUNT,
    EXPORTED_FLOW_RECORD_TOTAL_COUNT,
    EXPORTED_OCTET_TOTAL_COUNT,
    NOT_SENT_FLOW_TOTAL_COUNT,
    NOT_SENT_PACKET_TOTAL_COUNT,
    NOT_SENT_OCTET_TOTAL_COUNT,
];

const fn length(elements: &[Element]) -> usize {
    let (mut sum, mut n) = (0, 0);
    while n < elements.len() {
        sum += elements[n].1 as usize;
        n += 1;
    }
    sum
}

/// Bytes of a flow's record.
pub(crate) const fn record_length(is_ipv6: bool) -> usize {
    length(if is_ipv6 { &IPV6_ELEMENTS } else { &IPV4_ELEMENTS })
}

/// Bytes of the smallest message that has a flow.
pub(crate) const LEAST_MESSAGE: usize = HEADER + SET_HEADER + record_length(true);

/// A message under construction.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// The header's room first.
    bytes: Vec<u8>,
    /// Where the last set begins, and which it is.
    set: Option<(usize, u16)>,
    /// Data records in it, and how many of them are of flows.
    records: u32,
    flows: u32,
}

impl Message {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() <= HEADER
    }

    /// Data records in it.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Flows in it.
    pub(crate) fn flows(&self) -> u32 {
        self.flows
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that it has when a record of so many is added.
    fn with(&self, set: u16, record: usize) -> usize {
        let header = if self.set.is_some_and(|(_, last)| last == set) { 0 } else { SET_HEADER };
        self.bytes.len().max(HEADER) + header + record
    }

    /// Begins a set, unless the last one goes on.
    fn begin(&mut self, set: u16) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER, 0);
        }
        if self.set.is_none_or(|(_, last)| last != set) {
            self.end();
            self.set = Some((self.bytes.len(), set));
            self.put(&set.to_be_bytes());
            self.put(&[0; 2]);
        }
    }

    /// Writes the last set's length.
    fn end(&mut self) {
        if let Some((start, _)) = self.set.take() {
            let length = (self.bytes.len() - start) as u16;
            if let Some(field) = self.bytes.get_mut(start + 2..start + 4) {
                field.copy_from_slice(&length.to_be_bytes());
            }
        }
    }

    fn elements(&mut self, elements: &[Element]) {
        for (number, length) in elements {
            self.put(&number.to_be_bytes());
            self.put(&length.to_be_bytes());
        }
    }

    /// All templates (RFC 7011 sections 3.4.1 and 3.4.2.2).
    pub(crate) fn templates(&mut self) {
        self.begin(TEMPLATE_SET);
        for (template, elements) in [(IPV4_TEMPLATE, &IPV4_ELEMENTS), (IPV6_TEMPLATE, &IPV6_ELEMENTS)] {
            self.put(&template.to_be_bytes());
            self.put(&(elements.len() as u16).to_be_bytes());
            self.elements(elements);
        }
        self.begin(OPTIONS_TEMPLATE_SET);
        self.put(&STATISTICS_TEMPLATE.to_be_bytes());
        self.put(&(STATISTICS_ELEMENTS.len() as u16).to_be_bytes());
        // One of them is the scope.
        self.put(&1u16.to_be_bytes());
        self.elements(&STATISTICS_ELEMENTS);
    }

    /// The exporting process' statistics: messages, flows and octets that were sent; flows, packets and
    /// octets that were not.
    pub(crate) fn statistics(&mut self, domain: u32, sent: [u64; 3], not_sent: [u64; 3]) {
        self.begin(STATISTICS_TEMPLATE);
        self.put(&domain.to_be_bytes());
        for number in sent.iter().chain(&not_sent) {
            self.put(&number.to_be_bytes());
        }
        self.records += 1;
    }

    /// Adds a flow; false, and nothing is changed, when the message would become longer than `limit`.
    pub(crate) fn flow(&mut self, record: &Record, limit: usize) -> bool {
        let is_ipv6 = record.id.is_ipv6();
        let template = if is_ipv6 { IPV6_TEMPLATE } else { IPV4_TEMPLATE };
        if self.with(template, record_length(is_ipv6)) > limit {
            return false;
        }
        self.begin(template);
        let ends = record.id.ends();
        for (address, _) in ends {
            match address {
                IpAddr::V4(address) => self.put(&address.octets()),
                IpAddr::V6(address) => self.put(&address.octets()),
            }
        }
        for (_, port) in ends {
            self.put(&port.to_be_bytes());
        }
        self.put(&[record.id.protocol(), record.reason as u8]);
        self.put(&record.vlan.to_be_bytes());
        // Interfaces are numbered from 1 here (RFC 2863, ifIndex).
        self.put(&(u32::from(record.interface) + 1).to_be_bytes());
        for number in [record.octets, record.packets, record.start, record.end] {
            self.put(&number.to_be_bytes());
        }
        self.records += 1;
        self.flows += 1;
        true
    }

    /// The message, complete (RFC 7011 section 3.1). `sequence` is how many data records were in those
    /// before.
    pub(crate) fn finish(mut self, seconds: u32, sequence: u32, domain: u32) -> Vec<u8> {
        self.end();
        let length = self.bytes.len() as u16;
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&VERSION.to_be_bytes());
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[4..8].copy_from_slice(&seconds.to_be_bytes());
        header[8..12].copy_from_slice(&sequence.to_be_bytes());
        header[12..].copy_from_slice(&domain.to_be_bytes());
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = header;
        }
        self.bytes
    }
}
