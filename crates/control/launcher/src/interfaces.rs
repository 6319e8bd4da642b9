//! Veth pairs: one end in the launcher's network namespace, one in the guest's. Interfaces that are sockets
//! are none of the kernel's.

use crate::Refusal;
use crate::netlink::Netlink;
use crate::permits::parse_address;
use crate::request::{Interface, InterfaceKind};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;

/// Those that are ends of veth pairs.
pub(crate) fn veths(interfaces: &[Interface]) -> impl Iterator<Item = &Interface> {
    interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Veth)
}

/// Gives the guest whose first process is `pid` its interfaces, switched on, and its loopback.
pub(crate) fn give(pid: u32, interfaces: &[Interface]) -> Result<(), Refusal> {
    let inside = File::open(format!("/proc/{pid}/ns/net")).map_err(Refusal::of("its network namespace"))?;
    let host = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let kernel = Netlink::new().map_err(Refusal::of("interfaces: asking the kernel"))?;
    for Interface { name, outer, .. } in veths(interfaces) {
        let made = kernel.add_veth(outer, (name, mac(&host, outer), inside.as_fd()));
        made.map_err(|error| Refusal::new(format!("interfaces: `{outer}`: {error}")))?;
    }
    // The thread is in the guest's network namespace and in no other of the guest's.
    let entered = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(inside.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| error.to_string())?;
            switch_on(interfaces)
        });
        inside.join().unwrap_or_else(|_| Err("the thread ended".to_owned()))
    });
    entered.map_err(|error| Refusal::new(format!("interfaces: within the guest: {error}")))
}

/// Switches the guest's interfaces on, within its namespace.
fn switch_on(interfaces: &[Interface]) -> Result<(), String> {
    let kernel = Netlink::new().map_err(|error| error.to_string())?;
    kernel.switch_on("lo").map_err(|error| format!("`lo`: {error}"))?;
    for Interface { name, addresses, .. } in veths(interfaces) {
        for text in addresses {
            let (address, length) =
                parse_address(text).ok_or_else(|| format!("`{name}`: no address `{text}`"))?;
            let given = kernel.add_address(name, address, length);
            given.map_err(|error| format!("`{name}`: {text}: {error}"))?;
        }
        kernel.switch_on(name).map_err(|error| format!("`{name}`: {error}"))?;
    }
    Ok(())
}

/// The inner end's address: always the same for this outer end on this host, so that neighbours of a
/// container that is started again find it at once. Locally administered; the rest is FNV-1a (RFC 9923) of
/// both names.
fn mac(host: &str, outer: &str) -> [u8; 6] {
    let hash =
        host.trim().bytes().chain([0]).chain(outer.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [2, a, b, c, d, e]
}

/// Removes outer ends that are still there; with the guest's namespace they go by themselves.
pub(crate) fn remove(interfaces: &[Interface]) {
    let Ok(kernel) = Netlink::new() else { return };
    for Interface { outer, .. } in veths(interfaces) {
        // Most often it is gone already.
        let _ = kernel.remove(outer);
    }
}

#[cfg(test)]
mod tests {
    use super::mac;

    #[test]
    fn an_interface_keeps_its_address_and_shares_it_with_none() {
        assert_eq!(mac("host\n", "sfg-0"), mac("host", "sfg-0"));
        let others = [mac("host", "sfg-1"), mac("other", "sfg-0"), mac("hosts", "fg-0")];
        assert!(others.iter().all(|other| *other != mac("host", "sfg-0")), "{others:?}");
        assert!(others.iter().all(|other| other[0] == 2), "{others:?}");
    }
}
