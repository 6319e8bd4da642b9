//! Which frames of a capture a router forwards, so that both firewalls can be asked about them.

use crate::Error;
use packet::{ethernet, ipv4};
use port::pcap::{Capture, LINK_TYPE_ETHERNET, Next};
use std::fs::File;
use std::io::BufReader;
use std::net::Ipv4Addr;
use std::path::Path;

/// Networks that may be the inner one: address and prefix length.
const INNER: [(Ipv4Addr, u8); 3] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];

/// The network whose addresses are inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside(Ipv4Addr, u8);

impl Inside {
    /// The private network that most frames come from; `None` where none does, or where the link is not
    /// Ethernet.
    ///
    /// # Errors
    /// [`Error`]: the capture cannot be read.
    pub fn of(capture: &Path) -> Result<Option<Inside>, Error> {
        let mut reader = Frames::open(capture)?;
        let mut counts = [0u64; INNER.len()];
        while let Some(frame) = reader.step()? {
            if !frame.is_ethernet {
                return Ok(None);
            }
            if let Some((source, _)) = forwarded(&frame) {
                for (count, (network, length)) in counts.iter_mut().zip(INNER) {
                    *count += u64::from(Inside(network, length).has(source));
                }
            }
        }
        let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
        Ok(most.filter(|(_, count)| **count > 0).map(|(at, _)| Inside(INNER[at].0, INNER[at].1)))
    }

    /// As configurations have it.
    pub fn prefix(&self) -> String {
        format!("{}/{}", self.0, self.1)
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.0.to_bits()) >> (32 - self.1) == 0
    }

    /// Whether a frame comes from inside; `None` when it is none that a router forwards between the two
    /// sides.
    pub fn side(&self, frame: &Frame<'_>) -> Option<bool> {
        let (source, destination) = forwarded(frame)?;
        (self.has(source) != self.has(destination)).then(|| self.has(source))
    }
}

/// Ends of a packet that a router forwards: whole, IPv4, not in pieces, between hosts, with hops left.
fn forwarded(frame: &Frame<'_>) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let link = ethernet::View::new(frame.bytes).ok()?;
    if !frame.is_whole || !link.tags().as_slice().is_empty() || link.ethertype() != ethernet::ethertype::IPV4
    {
        return None;
    }
    let ip = ipv4::View::new(link.payload()).ok()?;
    let is_whole = !ip.is_cut() && !ip.more_fragments() && ip.fragment_offset() == 0;
    let is_host = |address: Ipv4Addr| {
        !(address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || address.is_link_local()
            || address.octets()[0] == 0
            || address.octets()[0] >= 240)
    };
    let (source, destination) = (ip.source(), ip.destination());
    let has_hops = ip.ttl() > 1 && ip.verify_checksum();
    (is_whole && has_hops && is_host(source) && is_host(destination)).then_some((source, destination))
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// From 1.
    pub number: u64,
    /// When it came, in nanoseconds since 1970.
    pub time: u64,
    /// The capture has all of it.
    pub is_whole: bool,
    /// Of an Ethernet.
    pub is_ethernet: bool,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A capture's frames.
#[derive(Debug)]
pub struct Frames(Capture<BufReader<File>>);

impl Frames {
    /// # Errors
    /// [`Error`]: it is no capture.
    pub fn open(path: &Path) -> Result<Frames, Error> {
        let file = File::open(path).map_err(|source| Error::file(path, source))?;
        Capture::new(BufReader::new(file)).map(Frames).map_err(|foreign| unreadable(&foreign))
    }

    /// The next frame.
    ///
    /// # Errors
    /// [`Error`], where the capture breaks.
    pub fn step(&mut self) -> Result<Option<Frame<'_>>, Error> {
        loop {
            match self.0.step().map_err(|fault| unreadable(&fault))? {
                Next::End => return Ok(None),
                Next::Passed => {}
                Next::Record(record) => {
                    return Ok(Some(Frame {
                        number: self.0.records(),
                        time: record.timestamp.unwrap_or_default(),
                        is_whole: record.length == record.original_length,
                        is_ethernet: record.link_type == LINK_TYPE_ETHERNET,
                        bytes: self.0.bytes(),
                    }));
                }
            }
        }
    }
}

fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::Unexpected { program: "capture", found: why.to_string() }
}
