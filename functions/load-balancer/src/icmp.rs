//! ICMP errors about connections: the packet that one carries is given the ends that its receiver knows.
//!
//! From the clients' side an error is about an answer, and goes to the server that sent it. From the servers'
//! side it is about a client's packet; the virtual address stands for its sender, which the client could not
//! know. An error neither begins nor prolongs a connection.

use crate::balancer::Balancer;
use crate::connection::Key;
use crate::metrics::Reason;
use crate::services::Running;
use crate::view::View;

/// An error from the clients' side, whose destination is a virtual address: the server that it goes to.
///
/// # Errors
/// Why it is dropped.
pub fn from_client(balancer: &mut Balancer, frame: &mut [u8], view: &mut View) -> Result<u16, Reason> {
    let mut inner = view.carried(frame)?;
    if inner.source != view.destination {
        return Err(Reason::NoConnection);
    }
    let port = inner.source_port().swap_bytes();
    let service = balancer.services.virtual_ends.find(&inner.source, inner.kind(), port);
    let service = service.ok_or(Reason::NoConnection)?;
    let ports = inner.ports.rotate_left(16);
    let key = Key { client: inner.destination, ports, service, is_v6: inner.is_v6 };
    let known = balancer.find(&key).map(|number| balancer.connections.server(number));
    let server = known.or_else(|| balancer.by_hash(&key)).ok_or(Reason::NoConnection)?;
    let services = &balancer.services;
    if services.rewrite(server).is_some_and(|server| server.is_direct) {
        return Ok(server);
    }
    let end = crate::slow::server_end(services, server);
    inner.set_end(frame.get_mut(..view.end).ok_or(Reason::Malformed)?, true, end, false);
    view.set_address(frame, false, end.0);
    view.seal(frame);
    Ok(server)
}

/// An error from the servers' side: the server that the packet was for; `None` when it is not about a packet
/// to a server's port.
///
/// # Errors
/// Why it is dropped.
pub fn from_server(balancer: &Balancer, frame: &mut [u8], view: &mut View) -> Option<Result<u16, Reason>> {
    // What is wrong is not translated.
    let mut inner = view.carried(frame).ok()?;
    let services = &balancer.services;
    let port = inner.destination_port().swap_bytes();
    let server = services.server_ends.find(&inner.destination, inner.kind(), port)?;
    if inner.source != view.destination {
        return Some(Err(Reason::NoConnection));
    }
    let service: &Running = services.rewrite(server).and_then(|server| services.get(server.service))?;
    let end = crate::slow::virtual_end(services, server)?;
    inner.set_end(frame.get_mut(..view.end)?, false, end, false);
    view.set_address(frame, true, service.words);
    view.seal(frame);
    Some(Ok(server))
}
