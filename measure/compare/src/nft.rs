//! nft's verdicts: the kernel of a namespace of its own routes a capture's packets between two TUN devices,
//! with rules that say what the product's firewall is told.
//!
//! A packet has passed when it has come out at the other device by the time that the kernel has taken it:
//! routing is done before that, on the same thread. Packets follow each other at once, so that no timeout
//! passes.

use crate::Error;
use crate::frames::{Frames, Inside};
use crate::table::Verdicts;
use peers::{Folder, Tun};
use std::fs;
use std::path::Path;
use std::time::Duration;
use testbed::Namespace;

/// Longest time for a command.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of an Ethernet header.
const LINK_HEADER: usize = 14;

/// Connections from inside, and their answers.
const RULES: &str = "\
table ip compare {
    chain border {
        type filter hook forward priority filter; policy drop;
        ct state invalid drop
        ct state established,related accept
        iifname \"inside\" ct state new accept
    }
}
";

/// Settings of the kernel: no connection is picked up in its midst, and sequence numbers count.
const SETTINGS: [(&str, &str); 5] = [
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/netfilter/nf_conntrack_tcp_loose", "0"),
    ("net/netfilter/nf_conntrack_tcp_be_liberal", "0"),
];

/// Which frames pass from inside, and back as answers, of those that a router forwards.
///
/// # Errors
/// [`Error`]: nft or the kernel refuses something.
pub fn read(capture: &Path, inside: Inside) -> Result<Verdicts, Error> {
    let (namespace, folder) = (Namespace::new()?, Folder::new()?);
    namespace.quiet()?;
    let rules = folder.write("rules.nft", RULES)?;
    namespace.run(&format!("nft -f {}", rules.display()), LIMIT)?;
    namespace.enter(|| {
        SETTINGS.iter().try_for_each(|(name, value)| {
            let path = format!("/proc/sys/{name}");
            fs::write(&path, value).map_err(|source| Error::file(Path::new(&path), source))
        })
    })?;
    let devices = [Tun::new(&namespace, "inside")?, Tun::new(&namespace, "outside")?];
    for (table, (from, to)) in [("101", ("inside", "outside")), ("102", ("outside", "inside"))] {
        namespace.ip(&format!("link set {from} up mtu 65535"))?;
        namespace.ip(&format!("link set {to} up"))?;
        namespace.ip(&format!("route add default dev {to} table {table}"))?;
        namespace.ip(&format!("rule add iif {from} lookup {table}"))?;
    }
    let (mut frames, mut verdicts) = (Frames::open(capture)?, Verdicts::new());
    let mut buffer = vec![0; 1 << 16];
    while let Some(frame) = frames.step()? {
        let Some(is_inside) = inside.side(&frame) else { continue };
        let [from, to] = if is_inside { [&devices[0], &devices[1]] } else { [&devices[1], &devices[0]] };
        from.put(&frame.bytes[LINK_HEADER..])?;
        let passed = to.take(&mut buffer)?.is_some();
        // What the kernel answers with itself is no frame of the capture.
        while from.take(&mut buffer)?.is_some() || to.take(&mut buffer)?.is_some() {}
        verdicts.insert(frame.number, passed);
    }
    Ok(verdicts)
}
