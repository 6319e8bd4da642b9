//! Veth pairs, made by `ip` (iproute2): one end in the launcher's network namespace, one in the guest's.

use crate::Refusal;
use crate::request::Interface;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

/// Gives the guest whose first process is `pid` its interfaces, switched on, and its loopback.
pub(crate) fn give(pid: u32, interfaces: &[Interface]) -> Result<(), Refusal> {
    let inside = File::open(format!("/proc/{pid}/ns/net")).map_err(Refusal::of("its network namespace"))?;
    let host = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    for Interface { name, outer, .. } in interfaces {
        let mac = mac(&host, outer);
        let made = ip(&format!(
            "link add {outer} type veth peer name {name} address {mac} netns {pid}\nlink set {outer} up\n"
        ));
        made.map_err(|error| Refusal::new(format!("interfaces: `{outer}`: {error}")))?;
    }
    let mut lines = String::from("link set lo up\n");
    for Interface { name, addresses, .. } in interfaces {
        addresses.iter().for_each(|address| lines.push_str(&format!("address add {address} dev {name}\n")));
        lines.push_str(&format!("link set {name} up\n"));
    }
    // The program is the host's; the thread that starts it is in the guest's network namespace and in no other.
    let entered = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(inside.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| error.to_string())?;
            ip(&lines)
        });
        inside.join().unwrap_or_else(|_| Err("the thread ended".to_owned()))
    });
    entered.map_err(|error| Refusal::new(format!("interfaces: within the guest: {error}")))
}

/// The inner end's address: always the same for this outer end on this host, so that neighbours of a container that is
/// started again find it at once. Locally administered; the rest is FNV-1a (RFC 9923) of both names.
fn mac(host: &str, outer: &str) -> String {
    let hash =
        host.trim().bytes().chain([0]).chain(outer.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
}

/// Removes outer ends that are still there; with the guest's namespace they go by themselves.
pub(crate) fn remove(interfaces: &[Interface]) {
    for Interface { outer, .. } in interfaces {
        // Most often it is gone already.
        let _ = ip(&format!("link delete {outer}\n"));
    }
}

fn ip(lines: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("ip: {error}"))?;
    if let Some(mut to) = child.stdin.take() {
        to.write_all(lines.as_bytes()).map_err(|error| format!("ip: {error}"))?;
    }
    let mut said = String::new();
    if let Some(from) = child.stderr.take() {
        let _ = from.take(512).read_to_string(&mut said);
    }
    let status = child.wait().map_err(|error| format!("ip: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("ip: {}", said.replace('\n', " ").trim())) }
}

#[cfg(test)]
mod tests {
    use super::mac;

    #[test]
    fn an_interface_keeps_its_address_and_shares_it_with_none() {
        assert_eq!(mac("host\n", "sfg-0"), mac("host", "sfg-0"));
        let others = [mac("host", "sfg-1"), mac("other", "sfg-0"), mac("hosts", "fg-0")];
        assert!(others.iter().all(|other| *other != mac("host", "sfg-0")), "{others:?}");
        assert!(others.iter().all(|other| other.len() == 17 && other.starts_with("02:")), "{others:?}");
    }
}
