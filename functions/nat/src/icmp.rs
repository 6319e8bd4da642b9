//! ICMP errors (RFC 5508 section 4): the packet that one carries is given back the ends that its sender
//! knows, and the checksums in it and around it follow. An error neither begins, ends nor prolongs a session
//! (REQ-6, RFC 5382 REQ-10).

use crate::binding::Target;
use crate::metrics::Reason;
use crate::session::{InsideEnds, OutsideEnds};
use crate::translator::Translator;
use crate::view::{Part, View, query};
use nf_sdk::headers::{Fragment, checksum};
use nf_sdk::wire::{Address, ICMP, Port, TCP, UDP, half, put_half, word};

/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// Bytes of a transport header in which anything is changed: up to TCP's checksum.
const CHANGED: usize = 18;

/// Reads the packet that an error carries; its offsets are those of the frame.
fn carried(frame: &[u8], outer: &View) -> Result<View, Reason> {
    let message = frame.get(outer.l4..outer.end).ok_or(Reason::Malformed)?;
    // REQ-3: an error whose checksum is wrong is dropped, and so is one about a header whose checksum is.
    if !checksum::verify(message) {
        return Err(Reason::Malformed);
    }
    let l3 = outer.l4 + HEADER;
    let inner = frame.get(l3..outer.end).ok_or(Reason::Malformed)?;
    let first = *inner.first().ok_or(Reason::Malformed)?;
    let length = usize::from(first & 15) * 4;
    let header = inner.get(..length).filter(|_| first >> 4 == 4 && length >= 20).ok_or(Reason::Malformed)?;
    if !checksum::verify(header) {
        return Err(Reason::Malformed);
    }
    let is_later = half(header, 6).is_some_and(|field| field.swap_bytes() & 0x1fff != 0);
    let protocol = header.get(9).copied().unwrap_or(0);
    let ports = word(inner, length);
    let (ports, part) = match protocol {
        _ if is_later => return Err(Reason::NoSession),
        TCP | UDP => (ports, Part::Ports),
        ICMP => {
            let identifier = half(inner, length + 4).map(u32::from);
            let part = inner.get(length).copied().and_then(query).ok_or(Reason::NoSession)?;
            (identifier.map(|identifier| identifier | identifier << 16), part)
        }
        _ => return Err(Reason::Protocol),
    };
    Ok(View {
        l3,
        l4: l3 + length,
        end: outer.end,
        source: word(header, 12).unwrap_or(0),
        destination: word(header, 16).unwrap_or(0),
        kind: u32::from(protocol) | outer.kind & !0xff,
        ports: ports.ok_or(Reason::Malformed)?,
        flags: 0,
        part,
        fragment: Fragment::Whole,
    })
}

/// Changes one end of the packet that an error carries, and the error's checksum with it.
fn change(frame: &mut [u8], outer: &View, inner: &mut View, at_source: bool, address: Address, port: Port) {
    let range = inner.l3..(inner.l4 + CHANGED).min(outer.end);
    let mut before = [0u8; 60 + CHANGED];
    let length = range.len().min(before.len());
    let Some(frame) = frame.get_mut(..outer.end) else { return };
    if let (Some(copy), Some(bytes)) = (before.get_mut(..length), frame.get(range.clone())) {
        copy.copy_from_slice(bytes);
    }
    inner.set_end(frame, at_source, address, port, false);
    let (Some(old), Some(new)) = (before.get(..length), frame.get(range)) else { return };
    let at = outer.l4 + 2;
    let sum = half(frame, at).unwrap_or(0).swap_bytes();
    let sum = checksum::update(sum, old, new);
    put_half(frame, at, sum.swap_bytes());
}

/// An error from inside, about a packet that came from outside.
///
/// # Errors
/// Why it is dropped.
pub fn outward(translator: &mut Translator, frame: &mut [u8], view: &mut View) -> Result<(), Reason> {
    let mut inner = carried(frame, view)?;
    if inner.source != view.destination {
        return Err(Reason::NoSession);
    }
    let ends = InsideEnds {
        inside: inner.destination,
        remote: inner.source,
        ports: inner.ports_of(false),
        kind: inner.kind,
        ..InsideEnds::default()
    };
    let known = translator.known_inside(&ends).map(|number| {
        let ends = translator.sessions.outside_ends(number);
        (ends.outside, ends.ports as Port)
    });
    let mapped = || translator.bindings.find(&ends).map(|mapping| translator.bindings.outside_end(mapping));
    let (address, port) = known.or_else(mapped).ok_or(Reason::NoSession)?;
    change(frame, view, &mut inner, false, address, port);
    // REQ-5: a router inside has no address that the outside could know; the mapping's stands for it.
    view.set_address(frame, true, address);
    Ok(())
}

/// An error from outside, about a packet that came from inside; where it goes. An error for an IPv6 host is
/// left as it is.
///
/// # Errors
/// Why it is dropped.
pub fn inward(translator: &mut Translator, frame: &mut [u8], view: &mut View) -> Result<Target, Reason> {
    let mut inner = carried(frame, view)?;
    if inner.source != view.destination {
        return Err(Reason::NoSession);
    }
    let ends = OutsideEnds {
        outside: inner.source,
        remote: inner.destination,
        ports: inner.ports_of(true),
        kind: inner.kind,
    };
    let number = translator.known_outside(&ends).ok_or(Reason::NoSession)?;
    let target = translator.target_of(number);
    if !target.is_v6 {
        change(frame, view, &mut inner, true, target.address[3], target.port);
        view.set_address(frame, false, target.address[3]);
    }
    Ok(target)
}
