//! A client and a server, each a network namespace, and what may stand between them.
//!
//! 1. [`Firewalled`]: the product, with the stock firewall between two TAP devices.
//! 2. [`Bridged`]: the kernel's bridge between two veth pairs, with or without the same rules in nftables.
//! 3. [`bare`]: nothing; one veth pair joins the two.
//!
//! All offloads are on. Limits: root, or a user namespace of one's own.

mod bridged;
mod firewalled;
mod served;

pub(crate) use bridged::{Bridged, Rules};
pub(crate) use firewalled::Firewalled;
pub(crate) use served::Served;

use crate::BenchError;
use testbed::{CLIENT, Hosts, Namespace, SERVER, TestbedError};

/// A protocol and a port of a server to which connections may be opened.
pub(crate) type Allowed = (&'static str, u16);

/// Two hosts that are not joined yet, and a namespace between them that is not this process's own.
pub(crate) fn hosts() -> Result<Hosts, BenchError> {
    let made = Namespace::new().and_then(Hosts::around);
    made.map_err(|error| match error {
        TestbedError::Kernel { what, source } => BenchError::Setup(format!(
            "{what}: {source}; run as root, or by `unshare --user --map-root-user --net superfluid bench ...`"
        )),
        other => BenchError::setup(other),
    })
}

/// Two hosts that are joined by one veth pair.
pub(crate) fn bare() -> Result<Hosts, BenchError> {
    let hosts = hosts()?;
    let joined = || {
        hosts.client.join("eth0", &hosts.server, "eth0")?;
        for (host, address) in [(&hosts.client, CLIENT), (&hosts.server, SERVER)] {
            host.ip(&format!("addr add {address}/24 dev eth0"))?;
        }
        Ok(())
    };
    joined().map_err(|error: TestbedError| BenchError::setup(error))?;
    Ok(hosts)
}
