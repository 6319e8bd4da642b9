//! Frames to show to a function, whose checksums are left out.

use std::net::IpAddr;
use std::vec;
use std::vec::Vec;

/// An IP packet of this protocol behind an Ethernet header.
///
/// # Panics
/// When an address is none, or they are not of one family.
pub fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let ip = |text: &str| match text.parse::<IpAddr>() {
        Ok(address) => address,
        Err(error) => panic!("`{text}`: {error}"),
    };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (ip(source), ip(destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend(((20 + payload.len()) as u16).to_be_bytes());
            frame.extend([0, 7, 0, 0, 64, protocol, 0, 0]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        (source, destination) => panic!("{source} and {destination}: addresses of one family are wanted"),
    }
    frame.extend(payload);
    frame
}

/// Puts VLAN tags behind the addresses of a frame, the outermost first, all of the customers' type (0x8100).
///
/// # Panics
/// When the frame is shorter than its addresses.
pub fn tagged(frame: &[u8], vlans: &[u16]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    let mut out = addresses.to_vec();
    for vlan in vlans {
        out.extend([0x81, 0x00]);
        out.extend(vlan.to_be_bytes());
    }
    out.extend(rest);
    out
}
