//! Veth pairs: one end in the launcher's network namespace, one in the guest's; and TAP devices, which are in
//! the guest's alone. Interfaces that are sockets are none of the kernel's.

use crate::Refusal;
use crate::netlink::Netlink;
use crate::permits::parse_address;
use crate::request::{Interface, InterfaceKind, Start};
use kernel_interface::Owner;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a queue is waited for that another process has: one that ends leaves it.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// Those that are ends of veth pairs.
pub(crate) fn veths(interfaces: &[Interface]) -> impl Iterator<Item = &Interface> {
    interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Veth)
}

/// Those that are TAP devices.
pub(crate) fn taps(interfaces: &[Interface]) -> impl Iterator<Item = &Interface> {
    interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Tap)
}

/// Those that are interfaces of the kernel's.
pub(crate) fn links(interfaces: &[Interface]) -> impl Iterator<Item = &Interface> {
    interfaces.iter().filter(|interface| interface.kind != InterfaceKind::Socket)
}

/// The network namespace of a guest whose first process is `pid`.
pub(crate) fn network(pid: u32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/ns/net"))
}

/// Does something by a thread that is in the guest's network namespace and in no other of the guest's.
fn within<T: Send>(network: &File, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, Refusal> {
    let done = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| error.to_string())?;
            work()
        });
        inside.join().unwrap_or_else(|_| Err("the thread ended".to_owned()))
    });
    done.map_err(|error| Refusal::new(format!("interfaces: within the guest: {error}")))
}

/// Gives the guest with this network namespace its interfaces, switched on, and its loopback. If that fails,
/// no outer end of it is left; what had the name of one before is another's, and stays.
///
/// The outer ends' addresses say whose they are.
pub(crate) fn give(network: &File, start: &Start, owner: Owner) -> Result<(), Refusal> {
    let interfaces = start.interfaces.as_slice();
    let host = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let kernel = Netlink::new().map_err(Refusal::of("interfaces: asking the kernel"))?;
    let address = |interface: &Interface| {
        let own = interface.mac.as_deref().and_then(parse_mac);
        own.unwrap_or_else(|| mac(&host, start.folder(), &interface.name))
    };
    let mut made = Vec::new();
    let veths = veths(interfaces).try_for_each(|interface| {
        let Interface { name, outer, .. } = interface;
        let refused = |error| Refusal::new(format!("interfaces: `{outer}`: {error}"));
        let inner = (name.as_str(), address(interface), network.as_fd());
        kernel.add_veth((outer, owner.address()), inner).map_err(refused)?;
        made.push(outer);
        keep_from_host(&kernel, outer).and_then(|()| kernel.switch_on(outer)).map_err(refused)
    });
    let given = veths.and_then(|()| {
        within(network, || {
            for interface in taps(interfaces) {
                let made = port_tap::make(&interface.name, interface.mtu, address(interface));
                made.map_err(|error| error.to_string())?;
            }
            switch_on(interfaces)
        })
    });
    if given.is_err() {
        made.into_iter().for_each(|outer| drop(kernel.remove(outer)));
    }
    given
}

/// Has the host's own protocols take nothing of what a guest sends: its packets are a port's, and what
/// listens on the host, answers there, or forwards is not to be reached past the chain. What comes in ends
/// behind the port's packet socket; a kernel without the filter for that answers nothing and takes nothing
/// from sources that it has no way to. It says nothing by itself to the guest either.
fn keep_from_host(kernel: &Netlink, outer: &str) -> io::Result<()> {
    let set = |key: &str, value: &str| {
        let (family, key) = key.split_once('/').unwrap_or_default();
        std::fs::write(format!("/proc/sys/net/{family}/conf/{outer}/{key}"), value)
    };
    let has_none = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let silent = set("ipv4/arp_ignore", "8").and_then(|()| set("ipv4/rp_filter", "1"));
    // A kernel without IPv6 has no such file.
    let silent = silent.and_then(|()| {
        set("ipv6/disable_ipv6", "1").or_else(|error| match has_none(&error) {
            true => Ok(()),
            false => Err(error),
        })
    });
    match (kernel.end_what_comes(outer), silent) {
        (Ok(()), _) | (_, Ok(())) => Ok(()),
        (Err(filter), Err(settings)) => Err(io::Error::other(format!(
            "the host's own protocols cannot be kept from it, neither by a filter ({filter}; modules sch_ingress and \
             cls_bpf) nor by its settings ({settings})"
        ))),
    }
}

/// The queues of the guest's TAP devices, by their outer names.
pub(crate) fn queues(network: &File, interfaces: &[Interface]) -> Result<Vec<(String, OwnedFd)>, Refusal> {
    let begin = Instant::now();
    let open = |interface: &Interface| -> Result<(String, OwnedFd), String> {
        loop {
            match port_tap::open_queue(&interface.name) {
                Err(port_tap::OpenError::Busy { .. }) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                other => {
                    let queue = other.map_err(|error| error.to_string())?;
                    return Ok((interface.outer.clone(), queue));
                }
            }
        }
    };
    within(network, || taps(interfaces).map(open).collect())
}

/// Removes the guest's TAP devices: a queue that was handed over would keep them, and their namespace.
pub(crate) fn remove_taps(network: &File, interfaces: &[Interface]) {
    // Most often they are there; what cannot be removed goes when the queue is closed.
    let _ = within(network, || {
        let kernel = Netlink::new().map_err(|error| error.to_string())?;
        taps(interfaces).for_each(|interface| drop(kernel.remove(&interface.name)));
        Ok(())
    });
}

/// Switches the guest's interfaces on, within its namespace.
fn switch_on(interfaces: &[Interface]) -> Result<(), String> {
    let kernel = Netlink::new().map_err(|error| error.to_string())?;
    kernel.switch_on("lo").map_err(|error| format!("`lo`: {error}"))?;
    for Interface { name, addresses, .. } in links(interfaces) {
        for text in addresses {
            let (address, length) =
                parse_address(text).ok_or_else(|| format!("`{name}`: no address `{text}`"))?;
            let given = kernel.add_address(name, address, length);
            given.map_err(|error| format!("`{name}`: {text}: {error}"))?;
        }
        kernel.switch_on(name).map_err(|error| format!("`{name}`: {error}"))?;
    }
    for Interface { name, gateways, .. } in links(interfaces) {
        for gateway in gateways {
            let routed = kernel.add_default_route(name, *gateway);
            routed.map_err(|error| format!("`{name}`: the way by {gateway}: {error}"))?;
        }
    }
    Ok(())
}

/// An Ethernet address that an interface can have.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|part| {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| u8::from_str_radix(part, 16).ok())?
    });
    let mac: Vec<u8> = bytes.by_ref().take(7).collect::<Option<_>>()?;
    let mac: [u8; 6] = mac.try_into().ok()?;
    (mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

/// The inner end's address: always the same for this guest and this interface on this host, so that
/// neighbours of a container that is started again find it at once, and of one that takes over the guest that
/// it has stood by. Locally administered; the rest is FNV-1a (RFC 9923) of the names.
fn mac(host: &str, guest: &str, interface: &str) -> [u8; 6] {
    let names = [host.trim(), guest, interface].join("\0");
    let hash = names.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
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
    use super::{mac, parse_mac};

    #[test]
    fn addresses_are_those_of_one_interface() {
        assert_eq!(parse_mac("02:00:aB:00:00:01"), Some([2, 0, 0xab, 0, 0, 1]));
        for bad in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:01",
            "01:00:00:00:00:01",
            "00:00:00:00:00:00",
            "02-00-00-00-00-01",
        ] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_interface_keeps_its_address_and_shares_it_with_none() {
        let one = mac("host", "ids", "eth0");
        assert_eq!(mac("host\n", "ids", "eth0"), one);
        let others = [
            mac("host", "ids", "eth1"),
            mac("other", "ids", "eth0"),
            mac("hosti", "ds", "eth0"),
            mac("host", "idse", "th0"),
        ];
        assert!(others.iter().all(|other| *other != one), "{others:?}");
        assert!(others.iter().all(|other| other[0] == 2), "{others:?}");
    }
}
